"""A campaign measures what is missing and no more, and loses nothing when something dies on the way."""

import stat
import tempfile
from datetime import datetime
from itertools import count
from types import SimpleNamespace
from typing import get_args

import pytest
from filelock import FileLock
from pydantic import Field

import factories
from factories import HARDWARE, PROVENANCE
from specbook import config as plan
from specbook import paths, records
from specbook.analysis import speedup
from specbook.bench import campaign, experiments, loadgen, measure_point, provenance
from specbook.bench import lossless_check as lossless_check
from specbook.bench.experiments.domain_drift import FallbackEpisodes
from specbook.config.schema import Domain, Frozen, Speculation, Target
from specbook.engine import fleet
from specbook.errors import ConfigError, EngineError, SpecbookError
from specbook.records import run_set
from specbook.records.run import ExperimentRecord

GROUP = {
    "target": {"name": "t", "model": "org/t", "max_model_len": 512},
    "baselines": ["compiled"],
    "domains": ["json", "code"],
    "concurrency": [1, 2],
    "num_requests": {1: 1, 2: 16},
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
        self.weights, self.build, self.prompts = {"target": "A"}, "1", "P"
        self.events, self.running, self.clock = [], None, count()
        self.at_once, self.hardware = 9, HARDWARE
        self.refuses, self.deadly, self.interrupts_at = lambda arm: False, lambda point: False, None

    def measure(self, server, point, *, hardware, together):
        assert (server.target, server.speculation) == (point.target, point.speculation)
        assert server.alive
        assert server is self.running
        if self.interrupts_at == self.measured():
            raise KeyboardInterrupt
        self.events.append(("measure", point, len(records.load())))
        if self.deadly(point):
            server.alive = False
            return measure_point.failed(point, "it crashed", hardware=hardware, together=together)
        return self.record(point, together=together)

    def record(self, point, tokens_per_s=100.0, **fields):
        tick = next(self.clock)
        body = {
            "provenance": self.today(),
            "hardware": self.hardware,
            "started_at": f"2026-01-01T00:00:{tick:02d}+00:00",
            "run_id": f"run-{tick}",
        }
        return factories.write_run(point, tokens_per_s, **body | fields)

    def today(self):
        engine = {
            "versions": {"vllm": self.build}, "prompts_sha256": self.prompts,
            "server_env": {"VLLM_NO_USAGE_STATS": "1"},
        }  # fmt: skip
        return PROVENANCE.model_copy(update={"weights_sha256": dict(self.weights), **engine})

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

        def begin(self):
            return self

        def stop(self):
            pass

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

    heldout = tmp_path / "models" / "heldout"
    heldout.mkdir(parents=True)
    for domain in get_args(Domain):
        (heldout / f"{domain}.jsonl").touch()
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(fleet, "Server", Server)
    monkeypatch.setattr(campaign, "at_once", lambda configurations: made.at_once)
    monkeypatch.setattr(paths, "machine_lock", lambda: tmp_path / "measure.lock")
    monkeypatch.setattr(campaign, "detect", lambda: HARDWARE)
    monkeypatch.setattr(campaign, "with_peaks", lambda found: found)
    monkeypatch.setattr(measure_point, "measure", made.measure)
    monkeypatch.setattr(provenance, "today", lambda *_: made.today())
    monkeypatch.setattr(provenance, "prompts_sha256", lambda _: made.prompts)
    monkeypatch.setattr(
        lossless_check, "measure_missing", lambda plan, _: made.events.append(("lossless", plan.chapter))
    )
    return made


# measuring


def test_what_a_campaign_measured_is_packed_when_it_ends(world, tmp_path):
    world.interrupts_at = 3
    with pytest.raises(KeyboardInterrupt):
        campaign.measure([a_plan()])
    assert len([*tmp_path.rglob("run-*.json")]) == 3
    world.interrupts_at = None
    campaign.measure([a_plan()])
    assert [*tmp_path.rglob("run-*")] == []
    assert len([*tmp_path.rglob("pack-*.jsonl.gz")]) == 1
    assert len(records.load()) == 8


def test_each_point_is_on_disk_before_the_next_starts(world):
    made = campaign.measure([a_plan(**NGRAM)])
    assert len(made) == 16
    assert [event[2] for event in world.events if event[0] == "measure"] == list(range(16))
    assert {r.run_id for r in records.load()} == {r.run_id for r in made}


def kinds(world):
    return [event[0] for event in world.events if event[0] in ("start", "stop")]


def test_the_servers_of_a_restart_are_up_together(world):
    campaign.measure([a_plan(**NGRAM)])
    assert [sorted(world.started()[i : i + 2]) for i in (0, 2)] == [["baseline", "ngram K=3"]] * 2
    assert kinds(world) == ["start", "start", "stop", "stop"] * 2


def test_where_one_server_fits_it_is_stopped_before_the_next(world):
    world.at_once = 1
    campaign.measure([a_plan(**NGRAM)])
    assert [sorted(world.started()[i : i + 2]) for i in (0, 2)] == [["baseline", "ngram K=3"]] * 2
    assert kinds(world) == ["start", "stop"] * 4


def test_arms_of_one_load_and_domain_are_measured_in_turns(world):
    made = campaign.measure([a_plan(**NGRAM)])
    cells = [(r.point.restart, r.point.load.concurrency, r.point.traffic.domain) for r in made]
    assert cells[::2] == cells[1::2]  # both arms, one after the other
    assert len(set(cells)) == len(cells) / 2
    assert [r.round.position for r in made] == [0, 1] * 8
    assert len({r.round.id for r in made}) == 2  # one for each restart
    assert {r.point.speculation is None for r in made[::2]} == {True, False}  # no arm always comes first


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


def test_only_points_before_a_date_are_measured_again(world):
    campaign.measure([a_plan(domains=["json"])])  # at seconds 0 to 3
    later = datetime(2026, 1, 1, 0, 0, 2)
    assert len(campaign.missing([a_plan(domains=["json"])], HARDWARE, later)) == 2
    made = campaign.measure([a_plan(domains=["json"])], later)
    assert len(made) == 2
    assert campaign.measure([a_plan(domains=["json"])], later) == []
    assert len(records.load()) == 6


def test_a_batch_that_would_be_half_empty_is_refused(world):
    few = a_plan(num_requests={1: 1, 2: 15})
    with pytest.raises(
        ConfigError, match=r"^15 requests at concurrency 2 of 01_a: .* num_requests to 2: 16 or"
    ):
        campaign.measure([few])
    assert not world.events
    for point in few.points():  # an older plan is replayed, and is no reason to refuse once it is measured
        records.append(world.record(point))
    assert campaign.measure([few]) == []
    assert len(records.replay(few, HARDWARE.id)) == 8


def test_a_cap_that_would_end_most_answers_is_refused(world):
    campaign.measure([a_plan()])  # answers of 11 tokens, of 64 allowed
    world.events.clear()
    with pytest.raises(
        ConfigError, match=r"^max_tokens 8 ends .* json: .* to 11 tokens where 64 were .* to code"
    ):
        campaign.measure([a_plan(max_tokens=8)])
    assert not world.events
    assert len(campaign.measure([a_plan(max_tokens=11), a_plan(max_tokens=8, capped=True)])) == 16


def changed(monkeypatch, commit="a" * 40, dirty=True):
    monkeypatch.setattr(provenance, "git_state", lambda: (commit, dirty))


def test_uncommitted_code_leaves_no_records(world, monkeypatch, tmp_path):
    changed(monkeypatch)
    with pytest.raises(ConfigError, match=r"differ from commit a{12}, .* or give --dirty"):
        campaign.measure([a_plan()])
    assert not world.events
    assert len(campaign.measure([a_plan(domains=["json"])], dirty=True)) == 4
    assert campaign.measure([a_plan(domains=["json"])]) == []  # nothing is missing
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "mine"))
    assert len(campaign.measure([a_plan()])) == 8
    changed(monkeypatch, dirty=False)
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    assert len(campaign.measure([a_plan()])) == 4


def on(host, monkeypatch):
    there = HARDWARE.model_copy(update={"host": host and host * 12})
    monkeypatch.setattr(campaign, "detect", lambda: there)
    return there


def test_another_host_measures_again_and_the_older_records_stay(world, monkeypatch):
    wanted = a_plan(**NGRAM)
    for place, (host, made) in enumerate((("a", 16), ("b", 16), ("b", 0)), start=1):
        here = on(host, monkeypatch)
        world.hardware = here
        assert len(campaign.measure([wanted], replicate=True)) == made
        hosts = [{run.hardware.host for run in own} for own in run_set.by_host(records.load())]
        assert hosts == [{name * 12} for name in "ab"[:place][::-1]]
        assert {run.hardware.host for run in records.replay(wanted, here.id)} == {here.host}
    assert campaign.measure([wanted]) == []
    assert len(records.replay(wanted, HARDWARE.id)) == 16


def test_half_a_replication_takes_no_page(world, monkeypatch):
    first, world.hardware = a_plan(**NGRAM), on("a", monkeypatch)
    campaign.measure([first])
    world.hardware, world.interrupts_at = on("b", monkeypatch), 16 + 5
    with pytest.raises(KeyboardInterrupt):
        campaign.measure([first], replicate=True)
    assert {run.hardware.host for run in records.replay(first, HARDWARE.id)} == {"a" * 12}
    world.interrupts_at = None
    campaign.measure([first], replicate=True)
    assert {run.hardware.host for run in records.replay(first, HARDWARE.id)} == {"b" * 12}


def test_rounds_of_two_hosts_join_where_neither_has_all(world, monkeypatch):
    wanted = a_plan()
    world.hardware, world.interrupts_at = on("a", monkeypatch), 3
    with pytest.raises(KeyboardInterrupt):
        campaign.measure([wanted])
    world.hardware, world.interrupts_at = on("b", monkeypatch), None
    campaign.measure([wanted])
    assert run_set.by_host(records.load()) == []
    assert {run.hardware.host for run in records.replay(wanted, HARDWARE.id)} == {"a" * 12, "b" * 12}


def test_a_machine_that_hides_its_host_cannot_replicate(world):
    with pytest.raises(ConfigError, match="which host it is"):
        campaign.measure([a_plan()], replicate=True)


def test_points_that_failed_are_measured_again(world):
    failing = ("code", 1, 0)

    def which(point):
        return point.traffic.domain, point.load.concurrency, point.restart

    world.deadly = lambda point: which(point) == failing
    campaign.measure([a_plan()])
    world.deadly = lambda point: False
    assert [which(r.point) for r in campaign.measure([a_plan()])] == [failing]


def test_other_weights_are_measured_again(world):
    campaign.measure([a_plan()])
    world.weights = {"target": "B"}
    assert len(campaign.measure([a_plan()])) == 8


def test_another_engine_or_edited_prompts_are_measured_again(world):
    for change in ({"build": "2"}, {"prompts": "Q"}):
        campaign.measure([a_plan(**NGRAM)])
        vars(world).update(change)
        half = a_plan(**NGRAM, concurrency=[1])
        assert len(campaign.measure([half])) == 8
        assert len(speedup.speedups(records.replay(half, HARDWARE.id))) == 2
        replayed = records.replay(a_plan(**NGRAM), HARDWARE.id)
        assert {r.provenance.versions["vllm"] for r in replayed} == {world.build}
        assert {r.provenance.prompts_sha256 for r in replayed} == {world.prompts}


def test_a_later_arm_is_measured_beside_its_baseline(world):
    campaign.measure([a_plan(**NGRAM)])
    more = a_plan(drafts=[{"method": "ngram"}], num_speculative_tokens=[3, 5])
    made = campaign.measure([more])
    assert {str(r.point.arm) for r in made} == {"baseline (compiled)", "ngram K=5 (compiled)"}
    assert len(made) == 16
    runs = records.replay(more, HARDWARE.id)
    of = {(str(r.point.arm), r.round.id) for r in runs}
    old, new = {r.round.id for r in records.load()} - {r.round.id for r in made}, {r.round.id for r in made}
    assert of == {("baseline (compiled)", name) for name in old | new} | {
        ("ngram K=3 (compiled)", name) for name in old
    } | {("ngram K=5 (compiled)", name) for name in new}
    assert set(speedup.speedups(runs)["n"]) == {2}
    assert campaign.measure([more]) == []


def test_an_interrupted_round_gets_a_new_baseline(world):
    world.interrupts_at = 3  # a baseline or an arm of the second turn is missing
    with pytest.raises(KeyboardInterrupt):
        campaign.measure([a_plan(**NGRAM)])
    world.interrupts_at = None
    campaign.measure([a_plan(**NGRAM)])
    runs = records.replay(a_plan(**NGRAM), HARDWARE.id)
    assert set(speedup.speedups(runs)["n"]) == {2}
    assert campaign.measure([a_plan(**NGRAM)]) == []


def test_a_renamed_target_is_the_same_target(world):
    campaign.measure([a_plan()])
    renamed = a_plan(target=GROUP["target"] | {"name": "other"})
    assert campaign.measure([renamed]) == []
    assert {r.point.target.name for r in records.replay(renamed, HARDWARE.id)} == {"other"}


def test_a_plan_for_another_machine_is_refused(world, tmp_path):
    (tmp_path / "params" / "cpu").mkdir(parents=True)
    (tmp_path / "params" / "cpu" / "machine.yaml").write_text("kind: cuda\nname: NVIDIA H100*\n")
    with pytest.raises(ConfigError, match=r"is for cuda NVIDIA H100\*, and this machine is cpu-test"):
        campaign.measure([a_plan()])
    assert not world.events


def test_a_shared_point_is_measured_once_by_the_first_chapter(world):
    made = campaign.measure([a_plan("01_a"), a_plan("02_b", **NGRAM)])
    assert len(made) == 16
    assert {(r.point.chapter, r.point.speculation is None) for r in made} == {("01_a", True), ("02_b", False)}
    assert len(records.replay(a_plan("02_b", **NGRAM), HARDWARE.id)) == 16
    assert [r.point.restart for r in made] == sorted(r.point.restart for r in made)  # chapters take turns


# what goes wrong


def test_a_server_that_does_not_start_fails_only_its_points(world, tmp_path):
    world.refuses = lambda arm: arm == "ngram K=3"
    made = campaign.measure([a_plan(**NGRAM)])
    bad = [record for record in made if record.status == "failed"]
    assert len(made) == 16
    assert {str(record.point.arm) for record in bad} == {"ngram K=3 (compiled)"}
    assert {record.reason for record in bad} == {"it did not start (log: ./x.log)"}
    assert str(tmp_path) not in "".join(record.model_dump_json() for record in bad)
    assert all("--speculative-config" in record.provenance.server_command for record in bad)
    assert all("VLLM_NO_USAGE_STATS" in record.provenance.server_env for record in bad)
    assert len(records.load()) == 16


def test_it_is_an_error_only_if_every_point_failed(world):
    world.refuses = lambda arm: True
    with pytest.raises(EngineError, match=r"all 8 points failed\. The last one: it did not start"):
        campaign.measure([a_plan()])
    assert len(records.load()) == 8
    assert not [event for event in world.events if event[0] == "lossless"]


def test_a_dead_engine_is_started_again(world):
    world.deadly = lambda point: (
        (point.restart, point.load.concurrency, point.traffic.domain) == (0, 1, "code")
    )
    made = campaign.measure([a_plan()])
    assert sorted(record.status for record in made) == ["failed", *["ok"] * 7]
    assert [record.reason for record in made if record.reason] == ["it crashed"]
    assert len(world.started()) == 3


def test_an_engine_that_keeps_dying_is_given_up(world):
    world.deadly = lambda point: point.restart == 0
    made = campaign.measure([a_plan()])
    assert world.measured() == fleet.MAX_DEATHS + 4
    reasons = [record.reason for record in made]
    assert reasons[:2] == ["it crashed"] * fleet.MAX_DEATHS
    assert all("kept dying" in reason for reason in reasons[2:4])
    assert reasons[4:] == [None] * 4


def test_an_interrupt_keeps_records_and_stops_the_server(world):
    world.interrupts_at = 3
    with pytest.raises(KeyboardInterrupt):
        campaign.measure([a_plan()])
    assert len(records.load()) == 3
    assert world.events[-1] == ("stop",)
    world.interrupts_at = None
    assert len(campaign.measure([a_plan()])) == 5


def test_an_interrupted_write_stops_the_server(world, monkeypatch):
    def interrupted(record):
        raise KeyboardInterrupt

    monkeypatch.setattr(records, "append", interrupted)
    with pytest.raises(KeyboardInterrupt) as held:  # its traceback keeps every frame alive
        campaign.measure([a_plan()])
    assert held.traceback
    assert world.events[-1] == ("stop",)


def test_an_unwritable_record_ends_the_campaign(world, monkeypatch):
    def full(record):
        raise SpecbookError("No space left on device")

    monkeypatch.setattr(records, "append", full)
    with pytest.raises(SpecbookError, match="No space left"):
        campaign.measure([a_plan()])
    assert world.events[-1] == ("stop",)


def test_unwritable_results_are_refused_before_a_server_starts(world):
    paths.results_dir().write_text("a file")
    with pytest.raises(SpecbookError, match="is no folder: move it away"):
        campaign.measure([a_plan()])
    assert not world.events


def test_two_campaigns_at_once_are_refused(world):
    another = "another measurement runs on this machine"
    with FileLock(paths.machine_lock()), pytest.raises(SpecbookError, match=another):
        campaign.measure([a_plan()])
    assert not world.events
    assert len(campaign.measure([a_plan()])) == 8


def test_the_lock_is_the_machines_in_every_checkout(monkeypatch):
    before = paths.machine_lock()
    monkeypatch.setenv("SPECBOOK_ROOT", "elsewhere")
    monkeypatch.setenv("TMPDIR", "elsewhere")
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert paths.machine_lock() == before


def test_every_user_may_take_the_lock(world):
    campaign.measure([a_plan()])
    assert stat.S_IMODE(paths.machine_lock().stat().st_mode) == 0o666


def test_a_lock_that_cannot_be_taken_is_named(world, monkeypatch, tmp_path):
    monkeypatch.setattr(paths, "machine_lock", lambda: tmp_path)
    with pytest.raises(SpecbookError, match=f"cannot lock {tmp_path}: Is a directory"):
        campaign.measure([a_plan()])


def test_the_load_generator_ends_with_the_campaign(world, monkeypatch):
    """It would outlive it in a notebook's kernel."""
    ended = []
    monkeypatch.setattr(loadgen, "LoadGenerator", lambda: SimpleNamespace(close=lambda: ended.append(1)))
    loadgen._shared()
    campaign.measure([a_plan()])
    assert ended == [1]
    loadgen.dismiss()
    assert ended == [1]


# replaying


def test_nothing_to_replay_names_the_command_that_measures(world):
    with pytest.raises(ConfigError, match="`specbook run 01_a --hardware cpu --group full`"):
        campaign.run_or_replay(a_plan(), "records")
    assert not world.events


def test_failed_records_are_not_replayed(world):
    for point in a_plan().points():
        records.append(factories.failed_run(point))
    with pytest.raises(ConfigError, match="no record"):
        records.replay(a_plan(), HARDWARE.id)


def test_hardware_measures_then_replays(world):
    assert len(campaign.run_or_replay(a_plan(), "hardware")) == world.measured() == 8


def test_the_newest_records_replay_in_the_plans_order(world):
    points = a_plan().points()
    for speed in (1.0, 2.0):
        for point in reversed(points):
            records.append(world.record(point, speed))
    got = records.replay(a_plan(), HARDWARE.id)
    assert [record.point for record in got] == points
    assert {record.measurement.throughput.output_tokens_per_s for record in got} == {2.0}


def test_weights_are_never_mixed(world):
    points = a_plan().points()
    for point in points:
        records.append(world.record(point))
    world.weights = {"target": "B"}
    records.append(world.record(points[0]))
    assert [record.point for record in records.replay(a_plan(), HARDWARE.id)] == points[:1]


def test_drafts_of_two_trainings_are_never_mixed(world):
    eagle = {"drafts": [{"method": "eagle3", "model": "org/d"}], "num_speculative_tokens": [3]}
    baseline, *_ = a_plan(**eagle).points()
    old, new = [point for point in a_plan(**eagle).points() if point.speculation][:2]
    for point, weights in ((baseline, {}), (old, {"draft": "D1"}), (new, {"draft": "D2"})):
        world.weights = {"target": "A"} | weights
        records.append(world.record(point))
    assert [record.point for record in records.replay(a_plan(**eagle), HARDWARE.id)] == [baseline, new]


def test_the_asked_machine_comes_first_else_the_fullest(world):
    points = a_plan().points()
    other = HARDWARE.model_copy(update={"id": "cuda-other-1x"})
    for point in points[:3]:
        records.append(world.record(point, hardware=other))
    records.append(world.record(points[5]))
    here = records.replay(a_plan(), HARDWARE.id)
    assert [record.point for record in here] == [points[5]]
    elsewhere = records.replay(a_plan(), "cpu-unknown-1c")
    assert [record.hardware.id for record in elsewhere] == ["cuda-other-1x"] * 3


def test_experiments_are_of_the_sweeps_machine_if_it_has_any(world, coin):
    both = a_chapter({"name": "coin", "parameters": {"throws": 6}}, sweeps=[{}])
    (thrown,) = (r for r in campaign.measure([both]) if isinstance(r, ExperimentRecord))
    other = HARDWARE.model_copy(update={"id": "cuda-other-1x"})
    later = {"run_id": "again", "hardware": other, "started_at": "2126-02-01T00:00:00+00:00"}
    records.append(thrown.model_copy(update=later))
    sweeps = records.replay(both).machine
    assert sweeps == HARDWARE.id
    for here, shown in ((sweeps, thrown.run_id), ("cpu-none-1c", "again"), (None, "again")):
        assert [record.run_id for record, _ in experiments.replay(both, here)] == [shown]


# chapters of several parts, or of none


class Coin(Frozen):
    throws: int = Field(ge=1)


class Heads(Frozen):
    heads: int


@pytest.fixture
def coin(monkeypatch):
    """An experiment that a plan may name, and how often it ran."""
    ran = []
    monkeypatch.setattr(experiments, "_REGISTRY", {})
    monkeypatch.setattr(provenance, "of_code", lambda: PROVENANCE)

    @experiments.register("coin", Coin, Heads)
    def run(parameters: Coin) -> Heads:
        ran.append(parameters.throws)
        if parameters.throws == 13:
            raise EngineError("it rolled under the table")
        if parameters.throws == 17:
            raise KeyError("tails")
        return Heads(heads=parameters.throws // 2)

    return ran


def a_chapter(*experiments, sweeps=(), name="09_c"):
    body = {"full": {"sweeps": [GROUP | sweep for sweep in sweeps], "experiments": [*experiments]}}
    return plan.build(name, body, hardware="cpu", group="full", overrides={})


def test_a_chapter_of_two_targets_is_two_sweeps(world):
    second = {"target": GROUP["target"] | {"model": "org/u", "name": "u"}, "domains": ["json"]}
    two = a_chapter(sweeps=[{}, second])
    assert len(campaign.measure([two])) == 8 + 4
    runs = records.replay(two, HARDWARE.id)
    assert [record.point for record in runs] == two.points()
    assert {record.point.target.name for record in runs} == {"t", "u"}
    assert [event[0] for event in world.events[-2:]] == ["lossless", "lossless"]


def test_an_experiment_is_run_once_and_read_back(world, coin):
    asked = a_chapter({"name": "coin", "parameters": {"throws": 6}})
    (record,) = campaign.measure([asked])
    assert (record.title, record.status) == ("coin (throws=6)", "ok")
    assert campaign.measure([asked]) == []
    assert coin == [6]
    ((kept, result),) = experiments.replay(asked, HARDWARE.id)
    assert (kept, result) == (record, Heads(heads=3))
    assert not records.replay(asked)  # no sweep, so no runs, and that is no error
    assert all(problem is None for _, problem in records.validate_all())
    later = datetime(2126, 1, 1)
    assert len(campaign.measure([asked], later)) == 1


@pytest.mark.usefixtures("world", "coin")
@pytest.mark.parametrize(("last", "machine"), [("2126", "cpu-first-2c"), ("2127", "cpu-second-2c")])
def test_the_machine_that_ran_experiments_last_is_replayed(last, machine):
    asked = a_chapter({"name": "coin", "parameters": {"throws": 6}})
    (record,) = campaign.measure([asked])
    for name, day in (("first", "2126-02-01"), ("second", f"{last}-01-01")):
        there = HARDWARE.model_copy(update={"id": f"cpu-{name}-2c"})
        records.append(
            record.model_copy(
                update={"run_id": name, "hardware": there, "started_at": f"{day}T00:00:00+00:00"}
            )
        )
    ((kept, _),) = experiments.replay(asked, "cpu-third-2c")
    assert kept.hardware.id == machine


@pytest.fixture
def days(monkeypatch):
    """Each experiment starts on a day of its own."""
    clock = (datetime(2126, 1, 1 + day) for day in count())
    monkeypatch.setattr(experiments, "datetime", SimpleNamespace(now=lambda zone: next(clock)))


class Serving(Frozen):
    target: Target
    speculation: Speculation | None = None


@pytest.mark.usefixtures("world", "coin", "days")
def test_an_experiment_of_other_weights_is_run_again(monkeypatch):
    weights, roles = {"target": "A", "draft": "D"}, {None: ["target"]}
    monkeypatch.setattr(
        provenance, "weights_sha256", lambda _, how: {role: weights[role] for role in roles.get(how, weights)}
    )
    experiments.register("serving", Serving, Heads)(lambda parameters: Heads(heads=1))
    head = {"method": "eagle3", "model": "models/h", "num_speculative_tokens": 3}
    alone, drafted = (
        {"name": "serving", "parameters": {"target": GROUP["target"], **more}}
        for more in ({}, {"speculation": head})
    )
    both = a_chapter(alone, drafted)
    assert len(campaign.measure([both])) == 2
    assert campaign.measure([both]) == []
    weights["draft"] = "E"
    (again,) = campaign.measure([both])
    assert again.provenance.weights_sha256 == {"target": "A", "draft": "E"}
    weights["target"] = "B"
    (newest,) = campaign.measure([a_chapter(alone)])
    assert [record for record, _ in experiments.replay(both, HARDWARE.id, partial=True)] == [newest]


@pytest.mark.usefixtures("world", "coin", "days")
def test_a_fallback_names_the_second_servers_draft(monkeypatch):
    weights = {"org/t": "T", "models/a": "A", "models/b": "B"}
    monkeypatch.setattr(provenance, "model_sha256", lambda model, revision: weights[model])
    experiments.register("fallback", FallbackEpisodes, Heads)(lambda parameters: Heads(heads=1))
    first, second = ({"method": "eagle3", "model": f"models/{x}", "num_speculative_tokens": 3} for x in "ab")
    asked = {
        "target": GROUP["target"], "speculation": first, "instead": second, "repeats": 1,
        "policy": {"leave_below": 2, "return_above": 3, "window_s": 4, "min_drafts": 30, "cool_down_s": 4,
                   "trial_every": 10},
        "traffic": {"phases": [["json"]], "num_requests": 100, "concurrency": 8, "max_tokens": 96},
    }  # fmt: skip
    wanted = a_chapter({"name": "fallback", "parameters": asked})
    (record,) = campaign.measure([wanted])
    assert record.provenance.weights_sha256 == {"target": "T", "draft": "A", "instead": "B"}
    assert campaign.measure([wanted]) == []
    weights["models/b"] = "trained again"
    (again,) = campaign.measure([wanted])
    assert again.provenance.weights_sha256["instead"] == "trained again"
    assert [kept for kept, _ in experiments.replay(wanted, HARDWARE.id)] == [again]


def test_an_experiment_that_fails_is_a_record_and_is_run_again(world, coin):
    asked = a_chapter({"name": "coin", "parameters": {"throws": 13}})
    for _ in range(2):
        (record,) = campaign.measure([asked])
        assert (record.status, record.reason) == ("failed", "it rolled under the table")
    with pytest.raises(ConfigError, match=r"no record of coin .*`specbook run 09_c"):
        experiments.replay(asked, HARDWARE.id)


def test_a_fault_in_one_experiment_spares_the_others(world, coin):
    asked = [{"name": "coin", "parameters": {"throws": throws}} for throws in (17, 6)]
    broken, fine = campaign.measure([a_chapter(*asked)])
    assert (broken.status, broken.reason) == ("failed", "KeyError('tails')")
    assert fine.status == "ok"


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"name": "coim"}, r"no experiment 'coim' \(did you mean 'coin'\?\)"),
        ({"name": "coin", "parameters": {"throw": 2}}, r"coin: throw: .*did you mean 'throws'"),
        ({"name": "coin", "parameters": {"throws": 0}}, "throws: .* got 0"),
    ],
)
def test_an_impossible_experiment_stops_the_campaign_first(world, coin, asked, message):
    with pytest.raises(ConfigError, match=message):
        campaign.measure([a_plan(), a_chapter(asked)])
    assert not world.events


def test_a_chapter_that_measures_nothing_is_measured_at_once(world):
    price = {"of": ["01_a"], "usd_per_hour": 1, "utilisation": 0.5, "utilisation_range": [0.1, 1]}
    body = {"experiment": "cost", "full": price | {"slos": {"server": {"ttft_s": 1, "tpot_s": 0.1}}}}
    nothing = plan.build("08_cost", body, hardware="cpu", group="full", overrides={})
    assert campaign.measure([nothing]) == []
    assert not records.replay(nothing)
