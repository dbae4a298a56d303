"""A campaign measures what is missing and no more, and loses nothing when something dies on the way."""

import fcntl
from datetime import datetime
from itertools import count

import pytest

import factories
from factories import HARDWARE, PROVENANCE
from specbook import bench, campaign, lossless_check, paths, plan, provenance, records
from specbook.engine import fleet
from specbook.errors import ConfigError, EngineError, SpecbookError

GROUP = {
    "target": {"name": "t", "model": "org/t", "max_model_len": 512},
    "baselines": ["compiled"],
    "domains": ["json", "code"],
    "concurrency": [1, 2],
    "num_requests": {1: 1, 2: 2},
    "max_tokens": 64,
    "restarts": 2,
}
NGRAM = {"drafts": [{"method": "ngram"}], "num_speculative_tokens": [3]}


def a_plan(chapter="01_a", **changes):
    body = {"full": GROUP | changes}
    return plan.build(chapter, body, hardware="cpu", group="full", overrides={})


class World:
    """A machine on which servers start and points are measured in no time."""

    def __init__(self):
        self.weights = {"target": "A"}
        self.events, self.running, self.clock = [], None, count()
        self.at_once = 9
        self.refuses, self.deadly, self.interrupts_at = lambda arm: False, lambda point: False, None

    def measure(self, server, point, *, hardware):
        assert (server.target, server.speculation) == (point.target, point.speculation)
        assert server.alive
        assert server is self.running
        if self.interrupts_at == self.measured():
            raise KeyboardInterrupt
        self.events.append(("measure", point, len(records.load())))
        if self.deadly(point):
            server.alive = False
            return bench.failed(point, "it crashed", hardware=hardware)
        return self.record(point)

    def record(self, point, tokens_per_s=100.0, **fields):
        tick = next(self.clock)
        body = {
            "provenance": PROVENANCE.model_copy(update={"weights_sha256": dict(self.weights)}),
            "started_at": f"2026-01-01T00:00:{tick:02d}+00:00",
            "run_id": f"run-{tick}",
        }
        return factories.write_run(point, tokens_per_s, **body | fields)

    def measured(self):
        return sum(event[0] == "measure" for event in self.events)

    def started(self):
        return [event[1] for event in self.events if event[0] == "start"]


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World()

    class Server:
        def __init__(self, target, speculation):
            self.target, self.speculation, self.alive = target, speculation, True

        def __enter__(self):
            arm = self.speculation.label if self.speculation else "baseline"
            made.events.append(("start", arm))
            if made.refuses(arm):
                raise EngineError(f"it did not start (log: {tmp_path}/x.log)")
            return self

        def __exit__(self, *_):
            made.events.append(("stop",))

        def is_alive(self):
            return self.alive

        def resume(self):
            assert made.running is None
            made.running = self

        def pause(self):
            made.running = None

    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(fleet, "VllmServer", Server)
    monkeypatch.setattr(campaign, "at_once", lambda configurations: made.at_once)
    monkeypatch.setattr(campaign, "detect", lambda: HARDWARE)
    monkeypatch.setattr(campaign, "with_peaks", lambda found: found)
    monkeypatch.setattr(bench, "measure", made.measure)
    monkeypatch.setattr(provenance, "weights_sha256", lambda target, speculation: dict(made.weights))
    monkeypatch.setattr(
        lossless_check, "measure_missing", lambda plan, _: made.events.append(("lossless", plan.chapter))
    )
    return made


# measuring


def test_each_point_is_on_disk_before_the_next_starts(world):
    made = campaign.measure([a_plan(**NGRAM)])
    assert len(made) == 16
    assert [event[2] for event in world.events if event[0] == "measure"] == list(range(16))
    assert {r.run_id for r in records.load()} == {r.run_id for r in made}


def kinds(world):
    return [event[0] for event in world.events if event[0] in ("start", "stop")]


def test_one_server_for_each_arm_and_restart_and_those_of_a_restart_are_up_together(world):
    campaign.measure([a_plan(**NGRAM)])
    assert world.started() == ["baseline", "ngram K=3", "ngram K=3", "baseline"]
    assert kinds(world) == ["start", "start", "stop", "stop"] * 2


def test_where_one_server_fits_it_is_stopped_before_the_next(world):
    world.at_once = 1
    campaign.measure([a_plan(**NGRAM)])
    assert world.started() == ["baseline", "ngram K=3", "ngram K=3", "baseline"]
    assert kinds(world) == ["start", "stop"] * 4


def test_arms_of_one_load_and_domain_are_measured_in_turns(world):
    made = campaign.measure([a_plan(**NGRAM)])
    cells = [(r.point.restart, r.point.load.concurrency, r.point.traffic.domain) for r in made]
    assert cells[::2] == cells[1::2]  # both arms, one after the other
    assert len(set(cells)) == len(cells) / 2
    first = [r.point.speculation is None for r in made[::2]]
    assert first == [True, False] * 2 + [False, True] * 2  # no arm always comes first


def test_the_lossless_check_comes_last(world):
    campaign.measure([a_plan()])
    assert world.events[-1] == ("lossless", "01_a")


def test_a_second_run_measures_only_what_is_missing(world):
    campaign.measure([a_plan(domains=["json"])])
    assert world.measured() == 4
    made = campaign.measure([a_plan()])
    assert {record.point.traffic.domain for record in made} == {"code"}
    world.events.clear()
    assert campaign.measure([a_plan()]) == []
    assert not world.started()


def test_points_from_before_a_date_are_measured_again_and_those_after_are_not(world):
    campaign.measure([a_plan(domains=["json"])])  # at seconds 0 to 3
    later = datetime(2026, 1, 1, 0, 0, 2)
    assert len(campaign.missing([a_plan(domains=["json"])], HARDWARE, later)) == 2
    made = campaign.measure([a_plan(domains=["json"])], later)
    assert len(made) == 2
    assert campaign.measure([a_plan(domains=["json"])], later) == []
    assert len(records.load()) == 6


def test_points_that_failed_are_measured_again(world):
    world.deadly = lambda point: point.traffic.domain == "code" and point.restart == 0
    campaign.measure([a_plan()])
    world.deadly = lambda point: False
    made = campaign.measure([a_plan()])
    assert [(r.point.traffic.domain, r.point.restart) for r in made] == [("code", 0)] * 2


def test_other_weights_are_measured_again(world):
    campaign.measure([a_plan()])
    world.weights = {"target": "B"}
    assert len(campaign.measure([a_plan()])) == 8


def test_a_point_that_chapters_share_is_measured_once_and_by_the_first(world):
    made = campaign.measure([a_plan("01_a"), a_plan("02_b", **NGRAM)])
    assert len(made) == 16
    assert {(r.point.chapter, r.point.speculation is None) for r in made} == {("01_a", True), ("02_b", False)}
    assert len(campaign.replay(a_plan("02_b", **NGRAM), HARDWARE)) == 16
    assert [r.point.restart for r in made] == sorted(r.point.restart for r in made)  # chapters take turns


# what goes wrong


def test_a_server_that_does_not_start_fails_its_points_with_the_reason_and_the_rest_go_on(world, tmp_path):
    world.refuses = lambda arm: arm == "ngram K=3"
    made = campaign.measure([a_plan(**NGRAM)])
    bad = [record for record in made if record.status == "failed"]
    assert len(made) == 16
    assert {record.point.arm for record in bad} == {"ngram K=3 (compiled)"}
    assert {record.reason for record in bad} == {"it did not start (log: ./x.log)"}
    assert str(tmp_path) not in "".join(record.model_dump_json() for record in bad)
    assert len(records.load()) == 16


def test_it_is_an_error_only_if_every_point_failed(world):
    world.refuses = lambda arm: True
    with pytest.raises(EngineError, match=r"all 8 points failed\. The last one: it did not start"):
        campaign.measure([a_plan()])
    assert len(records.load()) == 8
    assert not [event for event in world.events if event[0] == "lossless"]


def test_an_engine_that_dies_is_started_again_for_the_points_after(world):
    world.deadly = lambda point: (
        (point.restart, point.load.concurrency, point.traffic.domain) == (0, 1, "code")
    )
    made = campaign.measure([a_plan()])
    assert [record.status for record in made] == ["ok", "failed", "ok", "ok", *["ok"] * 4]
    assert made[1].reason == "it crashed"
    assert len(world.started()) == 3


def test_an_engine_that_keeps_dying_is_given_up(world):
    world.deadly = lambda point: point.restart == 0
    made = campaign.measure([a_plan()])
    assert world.measured() == fleet.MAX_DEATHS + 4
    reasons = [record.reason for record in made]
    assert reasons[:2] == ["it crashed"] * fleet.MAX_DEATHS
    assert all("kept dying" in reason for reason in reasons[2:4])
    assert reasons[4:] == [None] * 4


def test_an_interrupt_keeps_what_was_measured_and_stops_the_server(world):
    world.interrupts_at = 3
    with pytest.raises(KeyboardInterrupt):
        campaign.measure([a_plan()])
    assert len(records.load()) == 3
    assert world.events[-1] == ("stop",)
    world.interrupts_at = None
    assert len(campaign.measure([a_plan()])) == 5


def test_an_interrupt_while_a_record_is_written_stops_the_server(world, monkeypatch):
    def interrupted(record):
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "append", interrupted)
    with pytest.raises(KeyboardInterrupt) as held:  # its traceback keeps every frame alive
        campaign.measure([a_plan()])
    assert held.traceback
    assert world.events[-1] == ("stop",)


def test_a_record_that_cannot_be_written_ends_the_campaign_and_its_server(world, monkeypatch):
    def full(record):
        raise SpecbookError("No space left on device")

    monkeypatch.setattr(records, "append", full)
    with pytest.raises(SpecbookError, match="No space left"):
        campaign.measure([a_plan()])
    assert world.events[-1] == ("stop",)


def test_two_campaigns_at_once_are_refused(world):
    paths.build_dir().mkdir(parents=True)
    with (paths.build_dir() / "measure.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(SpecbookError, match="another measurement runs on this machine"):
            campaign.measure([a_plan()])
    assert not world.events
    assert len(campaign.measure([a_plan()])) == 8


# replaying


def test_nothing_to_replay_names_the_command_that_measures(world):
    with pytest.raises(ConfigError, match="`specbook run 01_a --hardware cpu --group full`"):
        campaign.run_or_replay(a_plan(), "records")
    assert not world.events


def test_failed_records_are_not_replayed(world):
    for point in a_plan().points():
        records.append(factories.failed_run(point))
    with pytest.raises(ConfigError, match="no record"):
        campaign.replay(a_plan(), HARDWARE)


def test_hardware_measures_then_replays(world):
    assert len(campaign.run_or_replay(a_plan(), "hardware")) == world.measured() == 8


def test_the_newest_record_of_a_point_is_replayed_in_the_plans_order(world):
    points = a_plan().points()
    for speed in (1.0, 2.0):
        for point in reversed(points):
            records.append(world.record(point, speed))
    got = campaign.replay(a_plan(), HARDWARE)
    assert [record.point for record in got] == points
    assert {record.measurement.throughput.output_tokens_per_s for record in got} == {2.0}


def test_weights_are_never_mixed(world):
    points = a_plan().points()
    for point in points:
        records.append(world.record(point))
    world.weights = {"target": "B"}
    records.append(world.record(points[0]))
    assert [record.point for record in campaign.replay(a_plan(), HARDWARE)] == points[:1]


def test_drafts_of_two_trainings_are_never_mixed_but_the_baseline_stays(world):
    eagle = {"drafts": [{"method": "eagle3", "model": "org/d"}], "num_speculative_tokens": [3]}
    baseline, *_ = a_plan(**eagle).points()
    old, new = [point for point in a_plan(**eagle).points() if point.speculation][:2]
    for point, weights in ((baseline, {}), (old, {"draft": "D1"}), (new, {"draft": "D2"})):
        world.weights = {"target": "A"} | weights
        records.append(world.record(point))
    assert [record.point for record in campaign.replay(a_plan(**eagle), HARDWARE)] == [baseline, new]


def test_this_machines_records_come_first_else_those_of_the_machine_with_most(world):
    points = a_plan().points()
    other = HARDWARE.model_copy(update={"id": "cuda-other-1x"})
    for point in points[:3]:
        records.append(world.record(point, hardware=other))
    records.append(world.record(points[5]))
    here = campaign.replay(a_plan(), HARDWARE)
    assert [record.point for record in here] == [points[5]]
    elsewhere = campaign.replay(a_plan(), HARDWARE.model_copy(update={"id": "cpu-unknown-1c"}))
    assert [record.hardware.id for record in elsewhere] == ["cuda-other-1x"] * 3
