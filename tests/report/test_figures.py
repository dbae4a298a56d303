"""A figure in a page: both layouts, colours that follow the page, and points that say what they stand for."""

import itertools
import re
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from specbook.report.figures import acceptance_figures, speedup_figures, style, svg, timeline_figures
from specbook.stats.estimate import Estimate

POINT = "./g/circle[@class='sb-point']"


def estimate(value: float) -> Estimate:
    return Estimate(
        value=value, low=value - 0.1, high=value + 0.2, n=5, unit_of_n="restarts", method="student-t"
    )


@pytest.fixture
def table() -> pd.DataFrame:
    """Of `speedup.best_k`: two batches, two domains; one cell has no interval and no record."""
    rows = [
        {"load": load, "domain": domain, "arm": "EAGLE-3 K=5", "num_speculative_tokens": 5, "speedup": value,
         "low": value - 0.1, "high": value + 0.2, "estimate": estimate(value),
         "records": tuple(f"run-{i}" for i in range(7))}
        for load, domain, value in (
            ("batch 1", "json", 2.5), ("batch 1", "code", 1.5),
            ("batch 8", "json", 1.25), ("batch 8", "code", 0.8),
        )
    ]  # fmt: skip
    rows[-1] |= {"low": None, "high": None, "records": (), "estimate": None}
    return pd.DataFrame(rows)


@pytest.fixture
def figure(table):
    ax = speedup_figures.by_load(table)
    style.note(ax, "measured · some machine · pocket bfloat16 · 5 restarts an arm · 2026-01-01 to 2026-01-02")
    yield ax.get_figure()
    plt.close(ax.get_figure())


def drawings(figure) -> list[ElementTree.Element]:
    """Both layouts; that they parse shows that the markup is closed."""
    text = svg.render(figure).replace("xlink:href", "href")
    return list(ElementTree.fromstring(text.replace("&nbsp;", " ")))


def test_a_point_tells_its_place_interval_n_and_records(figure):
    for drawing in drawings(figure):
        said = [one.findtext("title") for one in drawing.findall(POINT)]
        assert said[0] == (
            "json, batch 1, EAGLE-3 K=5\n2.50× [2.40, 2.70], n=5 restarts\n"
            "records run-0, run-1, run-2, run-3, run-4 and 2 more"
        )
        assert said[-1] == "code, batch 8, EAGLE-3 K=5\n0.80× no interval"
        assert len(said) == 4


def test_what_is_pointed_at_is_what_is_drawn(figure):
    for drawing in drawings(figure):
        drawn = {(float(one.get("x")), float(one.get("y"))) for one in drawing.iter("use")}
        for circle in drawing.findall(POINT):
            x, y = float(circle.get("cx")), float(circle.get("cy"))
            assert min((x - a) ** 2 + (y - b) ** 2 for a, b in drawn) < 0.5**2


def test_the_narrow_figure_has_fewer_panels_in_a_row():
    axes = style.panels(4, share_y=True)
    for i, ax in enumerate(axes):
        ax.plot([1, 2], [1, 2], label=f"an arm of some length {i}")
    style.legend_above(axes)
    fig = axes[0].get_figure()
    size, legend = tuple(fig.get_size_inches()), fig.legends[0]
    wide, narrow = (tuple(map(float, one.get("viewBox").split()[2:])) for one in drawings(fig))
    assert wide == pytest.approx([72 * inches for inches in size])
    assert narrow[0] < 0.6 * wide[0]
    assert narrow[1] > 1.5 * wide[1]
    assert tuple(fig.get_size_inches()) == size
    assert fig.legends == [legend]
    assert [ax.get_subplotspec().get_geometry()[:2] for ax in axes] == [(1, 4)] * 4
    plt.close(fig)


def test_colours_are_variables_and_nothing_leaks(figure):
    text = svg.render(figure)
    bare = re.sub(r"var\(--sb-([0-9a-f]{6}), ?#(\1|000)\)", "", text)
    assert not re.findall(r"(?:fill|stroke)[:=]\s*\"?#[0-9a-f]{3,6}", bare)
    assert "<style" not in text
    assert ' id="figure_1"' not in text
    assert "below the line: slower" in text  # letters are text


def test_it_is_drawn_the_same_each_time_and_named(figure):
    once = svg.render(figure)
    assert svg.render(figure) == once
    named = svg.named(once, 'Speed-up by "batch"')
    assert named.count('aria-label="Speed-up by &quot;batch&quot;"') == 2
    assert svg.UNNAMED not in named


def test_values_keep_their_unit_and_gaps_are_left_out():
    row = pd.Series(
        {"metric": "ttft_s", "q": 0.99, "concurrency": 8, "value": 12.34, "low": None, "high": None}
    )
    said = style.tooltip(row, (12.34, None, None), style.Reading("{:.1f}", " ms"))
    assert said == "p99 TTFT, batch 8\n12.3 ms no interval"


def test_a_loss_is_drawn_as_large_as_a_win():
    (ax,) = style.panels(1)
    style.ratio_axis(ax, [3.0, 0.9, None, float("nan")])
    low, high = ax.get_ylim()
    assert ax.get_yscale() == "log"
    assert low * high == pytest.approx(1.0)
    assert high > 3.0


def test_domains_keep_order_and_colour_and_new_ones_follow():
    assert style.ordered(["sql", "code", "json"]) == ["json", "code", "sql"]
    assert style.colour("json") != style.colour("code") != style.colour("sql")


def test_names_of_lines_that_end_together_are_apart():
    (ax,) = style.panels(1)
    ax.set(xlim=(0, 8), ylim=(0, 10))
    style.name_lines(ax, {"P-EAGLE": (8, 5.0), "EAGLE-3": (8, 5.1), "ngram": (4, 9.0)}, style.METHODS)
    heights = {text.get_text(): text.xyann[1] for text in ax.texts}
    assert heights["P-EAGLE"] == pytest.approx(0.505 - style.LABELS_APART / 2)
    assert heights["EAGLE-3"] == pytest.approx(0.505 + style.LABELS_APART / 2)
    assert heights["ngram"] == pytest.approx(0.9)
    assert ax.get_xlim()[1] > 8
    plt.close(ax.get_figure())


def test_names_of_lines_stay_below_the_title():
    (ax,) = style.panels(1)
    ax.set(xlim=(0, 8), ylim=(0, 1))
    style.name_lines(ax, {"json": (8, 0.97), "chat": (8, 0.98), "code": (8, 0.96), "prose": (8, 0.2)})
    heights = [text.xyann[1] for text in ax.texts]
    assert heights == pytest.approx([0.2, *(style.TOP - style.LABELS_APART * back for back in (2, 1, 0))])
    plt.close(ax.get_figure())


def test_the_race_shows_intervals_and_names_its_lines():
    rows = [
        {"load": "batch 1", "method": method, "num_speculative_tokens": k, "speedup": value,
         "low": value - 0.1, "high": value + 0.2, "estimate": estimate(value), "predicted": value}
        for method, value in (("EAGLE-3", 1.5), ("P-EAGLE", 2.0)) for k in (3, 8)
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    (ax,) = speedup_figures.crossover(table, table.assign(domain="json"), ("EAGLE-3", "P-EAGLE"))
    assert [text.get_text() for text in ax.texts] == ["EAGLE-3", "P-EAGLE"]
    (tooltips, _) = ax.findobj(style.Tooltips)
    assert tooltips.texts[0].endswith("1.50× [1.40, 1.70], n=5 restarts")
    plt.close(ax.get_figure())


def test_a_panel_names_only_what_was_measured_at_its_batch(table):
    named = table.assign(method="ngram", domain=["gsm-symbolic", "mt-bench", "json", "json"])
    axes = speedup_figures.by_method(named)
    below = [[label.get_text() for label in ax.get_xticklabels()] for ax in axes]
    assert below == [["gsm-\nsymbolic", "mt-bench"], ["json"]]
    plt.close(axes[0].get_figure())


@pytest.mark.parametrize(
    ("names", "slanted"), [(["json", "math", "chat", "code", "prose"], False), (["humaneval"] * 6, True)]
)
def test_names_are_slanted_only_where_they_would_touch(names, slanted):
    ax, *_ = style.panels(3, height=3.0)
    style.names_axis(ax, names)
    ax.get_figure().canvas.draw()
    ticks = ax.get_xticklabels()
    assert [tick.get_text() for tick in ticks] == names
    assert (ticks[0].get_rotation() > 0) == slanted
    if not slanted:
        boxes = [tick.get_window_extent() for tick in ticks]
        assert all(one.x1 < two.x0 for one, two in itertools.pairwise(boxes))
    plt.close(ax.get_figure())


def test_no_panel_cuts_off_a_value_of_a_later_one():
    rows = [
        {"drift": domain, "monitor": "CUSUM", "delay_s": 2.0, "false_alarms": value, "domain": domain,
         "load": "batch 1", "method": "EAGLE-3", "num_speculative_tokens": 3, "length": value,
         "length_low": value - 0.1, "length_high": value + 0.2, "estimate": estimate(value)}
        for domain, value in (("json", 1.0), ("code", 50.0))
    ]  # fmt: skip
    table = pd.DataFrame(rows)
    for draw in (timeline_figures.monitors, acceptance_figures.length_by_method):
        assert draw(table)[0].get_ylim()[1] > 50.2
    plt.close("all")


def test_the_style_does_not_leak():
    before = plt.rcParams["axes.grid"]
    style.panels(2)
    assert plt.rcParams["axes.grid"] == before
