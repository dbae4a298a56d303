"""How long a plan will take: from like points, from timed starts, and nothing where nothing is known."""

import pytest

import factories
from specbook.measure import campaign, experiments, forecast, preview
from specbook.plan import order
from specbook.plan.plan import Plan
from specbook.records.run import Round


def rounds(*points):
    return list(order.rounds(points, len))


def measured(where, *, tokens_per_s=1.0, at="2026-01-01T00:01:30+00:00", round_id="restart-0"):
    own = {"together": Round(id=round_id), "started_at": at, "run_id": f"{where.key}{at[14:16]}"}
    return factories.write_run(where, tokens_per_s, **own)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))


def test_where_nothing_like_it_was_measured_there_is_no_estimate():
    other = measured(factories.point(concurrency=8))
    found = forecast.forecast(rounds(factories.point()), [other, factories.failed_run(factories.point())])
    assert (found.known, found.points) == (0, 1)
    assert str(found) == "no estimate, since nothing like it was measured on this machine"


def test_the_median_of_the_same_point_goes_before_other_prompts():
    mine, other = factories.point(), factories.point(domain="code")  # windows of 44 tokens
    runs = [
        measured(mine, tokens_per_s=v, at=f"2026-01-01T00:0{i}:00+00:00") for i, v in enumerate((1, 2, 4))
    ]
    runs.append(measured(other, tokens_per_s=44))
    assert forecast.forecast(rounds(mine), runs).seconds == 22
    assert forecast.forecast(rounds(factories.point(domain="math")), runs).seconds == pytest.approx(16.5)
    assert forecast.forecast(rounds(factories.point(factories.eagle3())), runs).known == 0


def test_a_window_has_its_warm_up_before_it():
    load = factories.point().load.model_copy(update={"num_warmups": 4})
    warmed = factories.point().model_copy(update={"load": load})
    assert forecast.forecast(rounds(warmed), [measured(warmed)]).seconds == 88


def test_starts_are_those_between_a_rounds_stamp_and_its_first_point():
    """Two servers in 90 s; the plan starts two again."""
    base, arm = factories.point(), factories.point(factories.eagle3())
    name = "20260101T000000Z-0-ab12"
    runs = [measured(base, round_id=name), measured(arm, round_id=name, at="2026-01-01T00:02:30+00:00")]
    found = forecast.forecast(rounds(base, arm), runs)
    assert (found.start_s, found.starts, found.seconds) == (45, 2, 90 + 88)
    assert str(found) == "about 3 min, by what like points took on this machine"


def test_what_is_not_in_the_estimate_is_said():
    known, new = factories.point(), factories.point(concurrency=8)
    found = forecast.forecast(rounds(known, new), [measured(known)])
    assert str(found).startswith("about 1 min for 1 of them, the others being new here, without 1 starts of")


def test_a_preview_counts_points_checks_and_says_the_estimate(monkeypatch):
    monkeypatch.setattr(preview, "detect", lambda: factories.HARDWARE)
    monkeypatch.setattr(preview, "at_once", len)
    monkeypatch.setattr(campaign, "missing", lambda plans, here, since: [point])
    monkeypatch.setattr(experiments, "missing", lambda plan, here, since: [])
    monkeypatch.setattr(preview.lossless_check, "missing", lambda sweep, here: ["one"])
    point = factories.point()
    plan = Plan(
        chapter="test", hardware="cpu", group="quick", target=factories.target(), baselines=("compiled",),
        domains=("json",), concurrency=(1,), num_requests={1: 4}, max_tokens=8, restarts=2,
    )  # fmt: skip
    lines, counted = preview.preview([plan])
    assert len(lines) == 1
    assert counted == (
        "1 points to measure, 1 on disk or shared between chapters; no estimate, since nothing like it was "
        "measured on this machine; and 1 lossless checks of four servers each"
    )
