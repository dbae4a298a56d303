"""How long a plan will take: from like points, from timed starts, and nothing where nothing is known."""

import pytest

import factories
from specbook import config as plan
from specbook.bench import campaign, dry_run, experiments, resources
from specbook.config import machines, order
from specbook.config.chapter import Experiment
from specbook.config.plan import Plan
from specbook.errors import ConfigError
from specbook.records.run import Round


def rounds(*points):
    return [dry_run.work_of(order.rounds(points, len))]


def measured(where, *, tokens_per_s=1.0, at="2026-01-01T00:01:30+00:00", round_id="restart-0"):
    own = {"together": Round(id=round_id), "started_at": at, "run_id": f"{where.key}{at[14:16]}"}
    return factories.write_run(where, tokens_per_s, **own)


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))


def test_nothing_like_it_measured_no_estimate():
    other = measured(factories.point(concurrency=8))
    found = dry_run.forecast(rounds(factories.point()), [other, factories.failed_run(factories.point())])
    assert (found.measured, found.computed, found.points) == (0, 0, 1)
    assert str(found) == "no estimate, since nothing like it was measured on this machine"


def test_the_same_point_goes_before_other_prompts():
    mine, other = factories.point(), factories.point(domain="code")  # windows of 44 tokens
    runs = [
        measured(mine, tokens_per_s=v, at=f"2026-01-01T00:0{i}:00+00:00") for i, v in enumerate((1, 2, 4))
    ]
    runs.append(measured(other, tokens_per_s=44))
    assert dry_run.forecast(rounds(mine), runs).seconds == 22
    assert dry_run.forecast(rounds(factories.point(domain="math")), runs).seconds == pytest.approx(16.5)
    assert dry_run.forecast(rounds(factories.point(factories.eagle3())), runs).measured == 0


def test_a_window_has_its_warm_up_before_it():
    load = factories.point().load.model_copy(update={"num_warmups": 4})
    warmed = factories.point().model_copy(update={"load": load})
    assert dry_run.forecast(rounds(warmed), [measured(warmed)]).seconds == 88


def test_starts_lie_before_a_rounds_first_point():
    """Two servers in 90 s; the plan starts two again."""
    base, arm = factories.point(), factories.point(factories.eagle3())
    name = "20260101T000000Z-0-ab12"
    runs = [measured(base, round_id=name), measured(arm, round_id=name, at="2026-01-01T00:02:30+00:00")]
    found = dry_run.forecast(rounds(base, arm), runs)
    assert (found.start_s, found.starts, found.seconds) == (45, 2, 90 + 88)
    assert str(found) == "about 3 min, by what like points took on this machine"


def test_what_is_not_in_the_estimate_is_said():
    known, new = factories.point(), factories.point(concurrency=8)
    found = dry_run.forecast(rounds(known, new), [measured(known)])
    assert str(found).startswith("about 1 min for 1 of them, the others being new here, without 1 starts of")


H200 = "h200:llama-3.3-70b-fp8"


def test_the_datasheet_fills_in_and_has_a_price():
    points, what = plan.load("02_eagle3", H200, "full").points()[:6], machines.read("h200")
    found = dry_run.forecast(rounds(*points), [], what)
    assert (found.measured, found.computed, found.start_s) == (0, 6, resources.START_S)
    seconds = sum(resources.seconds(what, point) for point in points) + found.starts * resources.START_S
    assert found.seconds == pytest.approx(seconds)
    assert "by the datasheet's memory: answers at their cap, no draft accepted" in str(found)
    assert "1 x H200 141 GB, about $" in str(found)


def test_what_was_measured_goes_before_the_datasheet():
    known, new = plan.load("02_eagle3", H200, "full").points()[:2]
    found = dry_run.forecast(rounds(known, new), [measured(known)], machines.read("h200"))
    assert (found.measured, found.computed) == (2, 0)  # the same load with other prompts is alike
    other = new.model_copy(update={"load": new.load.model_copy(update={"concurrency": 8})})
    found = dry_run.forecast(rounds(known, other), [measured(known)], machines.read("h200"))
    assert (found.measured, found.computed) == (1, 1)
    assert "1 of them by what like points took on this machine, 1 by the datasheet" in str(found)


def test_an_unknown_accelerator_has_no_estimate():
    what = machines.read("h200").model_copy(update={"peak": "NVIDIA H300"})
    points = plan.load("01_baseline", H200, "full").points()
    closed = [point for point in points if point.load.concurrency][:2]
    assert str(dry_run.forecast(rounds(*closed), [], what)).startswith("no estimate")


def test_records_of_this_machine_say_nothing_of_another(monkeypatch):
    """The pocket models have the same names on an H200, and take other times there."""
    monkeypatch.setattr(dry_run, "detect", lambda: factories.HARDWARE)
    monkeypatch.setattr(dry_run, "at_once", len)

    def load(hardware=None):
        assert not hardware, "these are of a processor"
        return []  # how long answers are is asked of all machines

    monkeypatch.setattr(dry_run.records, "load", load)
    sweep = plan.load("02_eagle3", "h200", "quick")
    monkeypatch.setattr(campaign, "missing", lambda plans, here, *_: sweep.points()[:2])
    _, counted, problem = dry_run.preview([sweep])
    assert "by the datasheet" in counted
    assert problem is None


# experiments


def traffic(**more) -> dict:
    return {"phases": [["json"], ["code"]], "num_requests": 8, "concurrency": 1, "max_tokens": 128} | more


def asked(name: str, **more) -> Experiment:
    given = {"target": factories.target(), "speculation": factories.eagle3()}
    given = {role: one.model_dump(mode="json") for role, one in given.items()}
    return Experiment(name=name, parameters={**given, "traffic": traffic(), **more})


NOISE = next(
    one for one in plan.load("05_moe", "cpu", "quick").experiments if one.name == "router_noise"
).parameters
POLICY = {
    "leave_below": 2, "return_above": 3, "window_s": 5, "min_drafts": 10, "cool_down_s": 5, "trial_every": 2,
}  # fmt: skip


def test_an_experiment_takes_its_windows_and_starts():
    """Four requests of 11 tokens in a window; a plain server writes 1 token a second, a drafting one more."""
    drafts = factories.eagle3()
    runs = [
        measured(factories.point(drafts, domain="json"), tokens_per_s=4, round_id="20260101T000000Z-0-ab"),
        measured(factories.point(drafts, domain="code"), tokens_per_s=2, round_id="20260101T000000Z-0-ab"),
        measured(factories.point(domain="json")),
    ]
    window_s, start_s = 11 + 22, 90
    drift = experiments.work(asked("drift", episodes=3))
    found = dry_run.forecast([drift], runs)
    assert (found.starts, found.points, found.measured) == (1, 6, 6)
    assert found.seconds == 3 * window_s + start_s
    both = experiments.work(asked("fallback", repeats=2, policy=POLICY))
    found = dry_run.forecast([both], runs)
    assert (found.starts, found.points) == (2, 2 * 3 * 2)
    assert found.seconds == 2 * (2 * window_s + 2 * 44) + 2 * start_s


def test_what_an_experiment_does_not_say_is_not_made_up():
    silent = Experiment(name="router_noise", parameters={**NOISE})
    assert experiments.work(silent) is None
    with pytest.raises(ConfigError, match=r"no experiment 'drfit' .did you mean 'drift'"):
        experiments.work(asked("drfit"))
    told = dry_run._experiments([silent, asked("drift", episodes=1)], [], dry_run.ANY)
    assert told.startswith(
        "2 experiments to run; an estimate of 1 of them, by the 2 parts of their windows: "
    )
    assert "no estimate, since nothing like it was measured" in told
    assert dry_run._experiments([silent], [], dry_run.ANY) == "1 experiments to run"


def test_a_models_next_version_takes_as_long(tmp_path):
    old, new, other = (tmp_path / name for name in ("old", "new", "other"))
    for folder, text in ((old, "{}"), (new, "{}"), (other, '{"layers": 2}')):
        folder.mkdir()
        (folder / "config.json").write_text(text)
    run = measured(factories.point(factories.eagle3(), target=factories.target(model=str(old))))
    again = {"speculation": factories.eagle3(model="models/again")}
    like = factories.point(again["speculation"], target=factories.target(model=str(new)))
    assert dry_run.forecast(rounds(like), [run]).seconds == 44
    unlike = factories.point(again["speculation"], target=factories.target(model=str(other)))
    deeper = factories.point(factories.eagle3(8), target=factories.target(model=str(new)))
    assert dry_run.forecast(rounds(unlike, deeper), [run]).measured == 0


def test_the_shipped_drift_plan_is_estimated_whole():
    chapter = plan.load("04_domain_drift", "cpu", "full")
    works = [experiments.work(one) for one in chapter.experiments]
    assert None not in works
    sent = sum(point.load.num_requests for work in works for point in work.points)
    assert 10_000 < sent < 60_000


def test_a_preview_counts_points_checks_and_says_the_estimate(monkeypatch):
    monkeypatch.setattr(dry_run, "detect", lambda: factories.HARDWARE)
    monkeypatch.setattr(dry_run, "at_once", len)
    monkeypatch.setattr(campaign, "missing", lambda plans, here, *_: [point])
    monkeypatch.setattr(experiments, "missing", lambda plan, here, since: [])
    monkeypatch.setattr(dry_run.lossless_check, "missing", lambda sweep, here: ["one"])
    point = factories.point(concurrency=8)
    sweep = Plan(
        chapter="test", hardware="cpu", group="quick", target=factories.target(), baselines=("compiled",),
        domains=("json",), concurrency=(1,), num_requests={1: 4}, max_tokens=8, restarts=2,
    )  # fmt: skip
    lines, counted, problem = dry_run.preview([sweep])
    assert len(lines) == 1
    assert "set num_requests to 8: 64 or more" in problem
    assert counted == (
        "1 points to measure, 1 on disk or shared between chapters; no estimate, since nothing like it was "
        "measured on this machine; and 1 lossless checks of four servers each"
    )
