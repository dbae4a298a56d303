"""The calculator in a browser shows what the package computes: by link, by slider and by keyboard."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page

import synthetic
from specbook import config, records
from specbook.report import calculator_page
from specbook.stats import cost, theory

pytestmark = pytest.mark.browser
BOOK = Path(__file__).parents[2] / "book"
ONE = [{"batch": 4, "step_ms": 12.5, "fixed": 1.1, "draft": 0.05}]
SMALL = [
    {"batch": 1, "step_ms": 8, "fixed": 1.5, "draft": 0.2},
    {"batch": 8, "step_ms": 10, "fixed": 1.7, "draft": 0.3},
    {"batch": 32, "step_ms": 18, "fixed": 1.8, "draft": 0.5},
]
LARGE = [
    {"batch": 1, "step_ms": 30, "fixed": 1.02, "draft": 0.03},
    {"batch": 64, "step_ms": 36, "fixed": 1.3, "draft": 0.04},
    {"batch": 512, "step_ms": 80, "fixed": 4.5, "draft": 0.09},
]
CASES = [
    ([0.73, 0.521, 0.355], 3, LARGE, 1, 4.326, 0.5, 2),
    ([0.73, 0.521, 0.355], 3, LARGE, 512, 4.326, 0.5, 2),
    ([0.73, 0.521, 0.355], 1, LARGE, 64, 1.6, 1.0, 0),
    ([0.9, 0.8, 0.7, 0.6, 0.5], 5, SMALL, 1, 0.11592, 0.25, 1),
    ([0.9, 0.8, 0.7, 0.6, 0.5], 5, SMALL, 1, 0.11592, 0.25, 1),
    ([0.9, 0.8, 0.7, 0.6, 0.5], 2, SMALL, 32, 0.11592, 0.9, 7.5),
    ([0.2, 0.04], 2, SMALL, 8, 0.05, 0.01, 20),
    ([0.2, 0.04], 0, SMALL, 8, 0.05, 0.01, 20),
    ([1, 1, 1, 1], 4, LARGE, 64, 63.158, 0.33, 3.3),
    ([0.5], 1, ONE, 4, 2.35, 0.7, 0.4),
    ([0, 0], 2, ONE, 4, 2.35, 0.7, 0.4),
    ([0.94, 0.86, 0.77, 0.68, 0.59, 0.51, 0.44, 0.38], 8, LARGE, 1, 3.9, 0.6, 1.5),
]


FIELDS = ("joint", "k", "rows", "batch", "usd_per_hour", "utilisation", "input_per_output")


def settings(*case) -> dict:
    return dict(zip(FIELDS, case, strict=True))


def link(given: dict) -> str:
    """The part of the page's address that holds the settings."""
    rows = ",".join(":".join(f"{value:.12g}" for value in row.values()) for row in given["rows"])
    joint = ",".join(f"{share:.12g}" for share in given["joint"])
    return (
        f"#a={joint}&k={given['k']}&b={given['batch']}"
        f"&m={rows}&usd={given['usd_per_hour']:.12g}&u={given['utilisation']:.12g}"
        f"&io={given['input_per_output']:.12g}"
    )


def computed(given: dict) -> dict[str, float | None]:
    """What follows from the settings, by the package's arithmetic and the names in arithmetic.js."""
    row = next(row for row in given["rows"] if row["batch"] == given["batch"])
    length = theory.acceptance_length(given["joint"], given["k"])

    def prices(one: dict) -> tuple[float, float]:
        return one["draft"], one["fixed"]

    speedups = [theory.speedup(length, given["k"], *prices(one)) for one in given["rows"]]
    ratio, plain = theory.speedup(length, given["k"], *prices(row)), 1000 * given["batch"] / row["step_ms"]
    paid, paid_plain = (
        cost.usd_per_million_tokens(speed, given["usd_per_hour"], given["utilisation"])
        for speed in (plain * ratio, plain)
    )
    batches = [one["batch"] for one in given["rows"]]
    return {
        "acceptance_length": length, "break_even_length": theory.step_cost(given["k"], *prices(row)),
        "speedup": ratio, "best_k": theory.best_k_of(given["joint"], *prices(row)),
        "break_even_batch": theory.break_even_batch(batches, speedups),
        "tpot_ms": row["step_ms"] / ratio, "baseline_tpot_ms": row["step_ms"],
        "tokens_per_s": plain * ratio, "baseline_tokens_per_s": plain, "usd_per_million": paid,
        "baseline_usd_per_million": paid_plain, "saving": 1 - paid / paid_plain,
    }  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page as a file, with scripts and style beside it, and no theme around it."""
    folder = tmp_path_factory.mktemp("page")
    shutil.copytree(BOOK / "_static", folder / "_static")
    plan = config.load("02_eagle3", "cpu", "quick", num_speculative_tokens=[1, 5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_RESULTS", str(folder / "results"))
        synthetic.write(plan)
        given = calculator_page.render(records.replay(plan))
    form = (BOOK / "_parts" / "calculator.html").read_text()
    page = folder / "book" / "page.html"
    page.parent.mkdir()
    page.write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Calculator</title>'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="../_static/tools.css"></head>'
        f'<body class="bd-article">{form}{given}</body></html>'
    )
    return page.as_uri()


@pytest.fixture
def visit(context: BrowserContext, address: str) -> Iterator[Callable[..., Page]]:
    """Opens the page at a link; at the end no script has failed and nothing beyond the page was asked for."""
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda one: None if one.url.startswith("file:") else problems.append(one.url))

    def at(part: str = "") -> Page:
        opened.goto(address + part)
        return opened

    yield at
    opened.close()
    assert not problems


@pytest.fixture
def page(visit: Callable[..., Page]) -> Page:
    return visit()


def shown(page: Page) -> dict[str, float]:
    """The numbers behind what the page shows, by the names of `computed`."""
    return page.evaluate(
        "Object.fromEntries(Array.from(document.querySelectorAll('output[data-value]'),"
        " node => [node.id.replace('out-', ''), Number(node.dataset.value)]))"
    )


def settings_of(page: Page) -> dict:
    return page.evaluate("specbook.fromLink(location.hash)")


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_the_page_computes_what_the_package_computes(visit, case):
    wanted = settings(*case)
    page = visit(link(wanted))
    want = computed(wanted)
    got = page.evaluate("specbook.compute(specbook.fromLink(location.hash))")
    again = page.evaluate("specbook.fromLink(specbook.link(specbook.fromLink(location.hash)))")
    assert link(again) == link(wanted)
    assert got.pop("break_even_batch") == pytest.approx(want.pop("break_even_batch"))
    assert got == pytest.approx(want, rel=1e-9)
    assert page.is_hidden("#calculator-notice")
    assert page.inner_text("#out-speedup") == f"{want['speedup']:.2f}×"
    assert shown(page)["usd_per_million"] == pytest.approx(want["usd_per_million"])
    for api in json.loads(page.inner_text("#calculator-data"))["apis"][:3]:
        own = page.evaluate(
            "([api, io]) => specbook.apiUsdPerMillion(api, io)", [api, wanted["input_per_output"]]
        )
        assert own == pytest.approx(
            cost.api_usd_per_million_output(api["input_usd"], api["output_usd"], wanted["input_per_output"])
        )


def test_every_slider_moves_the_result_by_keyboard(page):
    for name in ("k", "place", "fixed", "draft", "utilisation"):
        page.focus(f"[name={name}]")
        before = shown(page)
        page.keyboard.press("ArrowLeft")
        after = shown(page)
        assert after != before, name
        want = computed(settings_of(page))
        assert after["usd_per_million"] == pytest.approx(want["usd_per_million"]), name


def test_picking_a_head_a_machine_and_a_price_fills_the_fields(page):
    page.select_option("[name=head]", label="EAGLE-3, Llama-3.1-8B on MT-Bench")
    assert settings_of(page)["joint"] == [0.73, 0.521, 0.355]
    page.select_option("[name=price]", label="p5.4xlarge on demand, $4.326/h")
    assert page.input_value("[name=usd_per_hour]") == "4.326"
    page.fill("[name=usd_per_hour]", "5")
    assert page.input_value("[name=price]") == "own"
    assert settings_of(page)["usd_per_hour"] == 5


def test_pasted_percentages_are_shares(page):
    page.fill("[name=joint]", "73 %, 52.1 %, 35.5 %")
    assert settings_of(page)["joint"] == pytest.approx([0.73, 0.521, 0.355])


def test_sliding_a_position_never_makes_acceptance_rise(page):
    page.click("details summary >> nth=0")
    slider = page.locator("#positions input").nth(1)
    slider.focus()
    for key in ("Home", "End", "ArrowLeft"):
        page.keyboard.press(key)
        joint = settings_of(page)["joint"]
        assert joint == sorted(joint, reverse=True)
    assert joint[1] == pytest.approx(0.99 * joint[0], abs=1e-3)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("joint", "0.4 0.5", "rises from 0.4 to 0.5 at position 2: joint acceptance cannot rise"),
        ("joint", "often", "position 1 is NaN"),
        ("usd_per_hour", "-1", "usd_per_hour is -1"),
        ("usd_per_hour", "", "usd_per_hour is NaN"),
        ("step_ms", "0", "row of batch"),
    ],
)
def test_impossible_input_is_named_and_the_last_result_stays(page, field, value, message):
    before = shown(page)
    page.fill(f"[name={field}]", value)
    assert message in page.inner_text("#calculator-notice")
    assert shown(page) == before


def test_a_field_may_be_broken_and_mended(page):
    page.fill("[name=joint]", "0.4 0.5")
    page.fill("[name=joint]", "0.4 0.3")
    assert page.is_hidden("#calculator-notice")
    assert settings_of(page)["joint"] == [0.4, 0.3]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("a=0.9,0.8", "a=0.8,0.9", "rises from 0.8 to 0.9 at position 2"),
        ("k=5", "k=50", "k is 50"),
        ("u=0.25", "u=2", "utilisation is 2: it lies in (0, 1]"),
        ("b=1", "b=3", "batch 3 has no row"),
        ("m=1:8", "m=x:8", '"m" holds "x"'),
        ("m=1:8:1.5:0.2", "m=1:8:1.5", "a row is batch:step:fixed part:draft token"),
        ("m=1:8", "m=100:8", "batches are at least 1, and rise"),
        ("k=5", "k=two", '"k" holds "two"'),
        ("u=0.25", "u=0", "utilisation is 0: it lies in (0, 1]"),
        ("usd=0.11592", "usd=-1", "usd_per_hour is -1"),
        ("usd=0.11592", "usd=nan", '"usd" holds "nan"'),
        ("&usd=0.11592", "", '"usd" is missing'),
    ],
)
def test_a_link_with_nonsense_says_so_and_starts_afresh(visit, old, new, message):
    address = link(settings(*CASES[3]))
    assert old in address
    page = visit(address.replace(old, new))
    said = page.inner_text("#calculator-notice")
    assert said.startswith("This link cannot be used:")
    assert message in said
    start = json.loads(page.inner_text("#calculator-data"))["start"]
    assert shown(page)["speedup"] == pytest.approx(computed(start)["speedup"])


def test_a_link_shared_by_one_reader_is_another_readers_page(page, browser):
    page.select_option("[name=head]", label="MTP, Qwen3.8-27B on GSM8K")
    page.focus("[name=k]")
    page.keyboard.press("End")
    other = browser.new_page()
    other.goto(page.url)
    assert shown(other) == shown(page)
    assert other.input_value("[name=head]") == page.input_value("[name=head]")
    other.close()


def test_charts_say_their_values_and_losses_are_marked(visit):
    wanted = settings(*CASES[6])
    page = visit(link(wanted))
    dots = page.eval_on_selector_all("#chart-k circle", "all => all.map(one => one.textContent)")
    assert len(dots) == len(wanted["joint"]) + 1
    assert dots[0] == "K = 0: 1.00×"
    assert page.locator("#chart-k circle.sb-loss").count() == 2
    assert "sb-worse" in page.get_attribute("#results", "class")
    bars = page.eval_on_selector_all("#chart-usd rect", "all => all.map(one => one.textContent)")
    assert any("published, 2026-" in bar and "github.com" in bar for bar in bars)


def test_a_bill_says_whose_models_it_compares(visit):
    labels = "all => all.map(one => one.textContent)"
    page = visit()
    assert page.inner_text("#usd-compared").startswith(
        "The first two bars are pocket-dense (10 M parameters)."
    )
    bars = page.eval_on_selector_all("#chart-usd text:not(.sb-value)", labels)
    assert [bar for bar in bars[2:] if not bar.endswith(", another model")] == []
    page = visit(link(settings(*CASES[3])))  # a reader's own step prices
    assert page.inner_text("#usd-compared").startswith("The first two bars are your model.")
    bars = page.eval_on_selector_all("#chart-usd text:not(.sb-value)", labels)
    assert {"GPT-5.4, another model", "Together Llama-3.3-70B"} <= set(bars)


def test_it_fits_a_phone_and_every_field_has_its_name(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.querySelector('#chart-k svg').clientWidth < 390")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for name in page.eval_on_selector_all("#calculator-form [name]", "all => all.map(one => one.name)"):
        assert page.locator(f"[name={name}]").evaluate(
            "node => node.labels.length === 1 && node.labels[0].textContent.trim().length > 3"
        ), name


def test_without_a_script_the_page_says_where_the_arithmetic_is(browser, address):
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(address)
    assert "needs a script" in opened.inner_text("noscript")
    context.close()
