"""`specbook import` and `export`: files of other tools as they wrote them, and what is none of theirs."""

import glob
import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from specbook import paths, records
from specbook.analysis import acceptance, summaries
from specbook.cli.main import app
from specbook.records.run import LACKED
from two_sides import side

README = (Path(__file__).parents[1] / "README.md").read_text()
DATA = Path(__file__).parent / "data/imported"
PLAIN = sorted(DATA.glob("vllm-baseline-*.json"))
SWEEP = DATA / "vllm-eagle3-summary.json"
BEFORE, AFTER = (sorted(DATA.glob(f"guidellm-{arm}-*.json")) for arm in ("baseline", "eagle3"))
EAGLE3 = {"method": "eagle3", "model": "models/pocket-dense-eagle3", "num_speculative_tokens": 3}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "results"


@pytest.fixture
def edited(tmp_path):
    """Writes a file, as another tool or another version of it would have."""

    def write(body):
        path = tmp_path / f"edited-{len(list(tmp_path.iterdir()))}.json"
        path.write_text(body if isinstance(body, str) else json.dumps(body))
        return path

    return write


def invoke(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def take(*files, name="theirs", **options):
    result = invoke("import", *files, "--name", name, *(part for pair in options.items() for part in pair))
    assert result.exit_code == 0, result.output
    return records.load("imported", [name])


def complaint(*arguments):
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    (line,) = result.stderr.splitlines()
    return line


# what their files say


def test_a_file_of_vllm_is_a_record_of_its_window():
    runs = take(*PLAIN)
    said = [json.loads(path.read_text()) for path in PLAIN]
    assert [run.point.restart for run in runs] == [0, 1, 2]
    assert {run.kind for run in runs} == {"imported"}
    for run, file in zip(runs, said, strict=True):
        assert run.measurement.throughput.output_tokens_per_s == file["output_throughput"]
        assert (run.point.load.concurrency, run.point.speculation) == (file["max_concurrency"], None)
        rows = records.requests(run)
        assert list(rows["output_tokens"]) == file["output_lens"]
        assert 1e3 * rows["ttft_s"].mean() == pytest.approx(file["mean_ttft_ms"])


def test_a_sweep_says_how_it_drafted():
    runs = take(SWEEP)
    assert {run.point.speculation.label for run in runs} == {"EAGLE-3 K=3"}
    for run, file in zip(runs, json.loads(SWEEP.read_text()), strict=True):
        length = acceptance.length(run.measurement.spec_decode)
        assert length == pytest.approx(file["spec_decode_acceptance_length"])


def test_appended_results_are_a_record_each(edited):
    lines = [json.dumps(json.loads(path.read_text())) for path in PLAIN]
    assert len(take(edited("\n".join(lines)))) == 3


def test_a_report_of_guidellm_is_a_record_of_each_benchmark():
    runs = take(*BEFORE)
    assert [run.point.restart for run in runs] == [0, 1, 2]
    for run, path in zip(runs, BEFORE, strict=True):
        (one,) = json.loads(path.read_text())["benchmarks"]
        rows = pd.DataFrame(summaries.arrays(run))
        theirs = one["metrics"]["time_to_first_token_ms"]["successful"]
        assert 1e3 * rows["ttft_s"].mean() == pytest.approx(theirs["mean"])
        assert run.point.load.concurrency == one["config"]["strategy"]["streams"]
        assert set(run.provenance.versions) == {"guidellm"}


def test_what_failed_is_counted_and_no_answer(edited):
    report = json.loads(BEFORE[0].read_text())
    (one,) = report["benchmarks"]
    broken = one["requests"]["successful"].pop()
    one["metrics"]["request_totals"]["successful"] -= 1
    broken["info"]["error"] = "reset"
    one["requests"]["errored"].append(broken | {"time_to_first_token_ms": None, "output_tokens": None})
    (run,) = take(edited(report))
    assert run.measurement.throughput.failed == 1
    assert len(pd.DataFrame(summaries.arrays(run))) == len(records.requests(run)) - 1
    assert [problem for _, problem in records.validate_all() if problem] == []


def test_imported_records_pass_the_check_and_pandas_reads_them(results):
    take(*PLAIN, SWEEP, *BEFORE)
    assert [problem for _, problem in records.validate_all() if problem] == []
    runs = [json.loads(file.read_text()) for file in results.glob("imported/theirs/*.json")]
    rows = pd.concat([pd.read_parquet(file) for file in results.glob("imported/theirs/*.parquet")])
    assert rows["output_tokens"].sum() == sum(
        run["measurement"]["throughput"]["output_tokens"] for run in runs
    )


def test_a_second_import_goes_on_counting():
    take(*PLAIN[:2])
    assert sorted(run.point.restart for run in take(PLAIN[2])) == [0, 1, 2]
    line = complaint("import", PLAIN[2], "--name", "theirs")
    assert "it is imported already, as " in line
    assert line.endswith("To fix: another --name")


def test_arrivals_that_no_load_describes_are_left_out(edited):
    report = json.loads(BEFORE[0].read_text())
    steady = json.loads(json.dumps(report["benchmarks"][0]))
    steady["config"]["strategy"] = {"type_": "constant", "rate": 2.0}
    report["benchmarks"].append(steady)
    result = invoke("import", edited(report), "--name", "theirs")
    assert "1 record imported" in result.stdout
    assert "neither a closed loop nor Poisson" in result.stderr
    report["benchmarks"].pop(0)
    assert "neither a closed loop nor Poisson" in complaint("import", edited(report), "--name", "other")


def test_poisson_arrivals_have_their_rate(edited):
    file = json.loads(PLAIN[0].read_text()) | {"request_rate": 2.5}
    (run,) = take(edited(file))
    assert run.point.load.label == "Poisson 2.5/s"


# what they lack


def test_import_and_compare_say_what_is_lacking():
    assert LACKED in invoke("import", *BEFORE, "--name", "before").stdout
    take(*AFTER, name="after")
    said = invoke("compare", "chapter=before", "chapter=after")
    assert said.exit_code == 0, said.output
    assert LACKED in said.stdout
    assert "it may be the machine" in said.stdout
    body = json.loads(invoke("compare", "chapter=before", "chapter=after", "--json").stdout)
    assert (body["overall"]["paired"], body["overall"]["restarts_a"]) == (False, 3)


def test_arms_of_a_sweep_are_compared():
    take(*PLAIN, SWEEP)
    sides = "arm=baseline,draft=", f"arm=EAGLE-3 K=3,draft={EAGLE3['model']}"
    said = invoke("compare", *sides)
    assert said.exit_code == 0, said.output
    assert "3, 3 unpaired" in said.stdout


def test_who_drafted_may_be_told(edited):
    file = json.loads(SWEEP.read_text())[0]
    del file["speculative_config"]
    path = edited(file)
    line = complaint("import", path, "--name", "theirs")
    assert line.endswith("does not say of which method. To fix: --speculative-config")
    (run,) = take(path, **{"--speculative-config": json.dumps(EAGLE3)})
    assert run.point.speculation.label == "EAGLE-3 K=3"
    assert "eagel3" in complaint(
        "import", path, "--name", "b", "--speculative-config", '{"method": "eagel3"}'
    )


def test_the_readmes_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(paths.root())
    lines = re.findall(r"^\.venv/bin/specbook (import .*|compare chapter.*|export .*)$", README, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["import", "import", "compare", "export"]
    for line in lines:
        words = [w.replace("reports", f"{tmp_path}/reports") for w in shlex.split(line, comments=True)]
        files = [sorted(glob.glob(word)) or [word] for word in words]
        assert invoke(*(file for found in files for file in found)).exit_code == 0
    assert len(list((tmp_path / "reports").iterdir())) == 3


# what is none of theirs


def without(body, *path):
    *parts, last = path
    for part in parts:
        body = body[part]
    del body[last]


def empty(report):
    report["benchmarks"][0]["requests"]["successful"] = []


ANSWERED = "benchmarks", 0, "requests", "successful"
BAD = {
    "no JSON": (PLAIN[0], lambda file: "{", "is of no known version (Expecting property name"),
    "another tool's": (PLAIN[0], lambda file: {"foo": 1}, "no tool has keys ['foo']. To fix: write it with"),
    "another vLLM": (PLAIN[0], lambda file: without(file, "latencies"), "of no known version ('latencies')"),
    "no time": (PLAIN[0], lambda file: file["itls"][0].append(None), "(a time that is no number). To fix"),
    "no text": (PLAIN[0], lambda file: file.update(generated_texts=[3] * 8), "of no known version"),
    "without details": (PLAIN[0], lambda file: without(file, "start_times"), "with --save-detailed"),
    "without an answer": (PLAIN[0], lambda file: file.update(completed=0), "has no answered requests"),
    "an older report": (
        BEFORE[0], lambda file: file["metadata"].update(version=1), "its report has version 1. To fix"
    ),
    "a sample": (BEFORE[0], lambda file: without(file, *ANSWERED, 0), "without a sample size"),
    "no requests": (BEFORE[0], empty, "requests were left out of it. To fix"),
    "no benchmarks": (BEFORE[0], lambda file: file.update(benchmarks=[]), "it has no requests. To fix"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "break_it", "words"), BAD.values(), ids=BAD)
def test_a_file_that_is_none_leaves_nothing_behind(edited, results, source, break_it, words):
    body = json.loads(source.read_text())
    path = edited(break_it(body) or body)
    line = complaint("import", PLAIN[0], path, "--name", "theirs")
    assert str(path) in line
    assert words in line
    assert not results.exists()


def test_a_file_that_is_not_there_and_a_name_that_is_none():
    assert "nowhere.json: No such file" in complaint("import", "nowhere.json", "--name", "theirs")
    assert "--name '../out' is no folder's name. To fix" in complaint("import", PLAIN[0], "--name", "../out")


# what leaves


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_has_a_row_for_each_record(tmp_path, ending):
    take(*PLAIN, SWEEP)
    out = tmp_path / f"out.{ending}"
    assert invoke("export", "chapter=theirs", out).stdout == f"6 records exported to {out}\n"
    rows = pd.read_csv(out) if ending == "csv" else pd.read_parquet(out)
    runs = records.load("imported", ["theirs"])
    assert list(rows["run_id"]) == [run.run_id for run in runs]
    assert set(rows["lacks"]) == {LACKED}
    want = summaries.throughput(runs)["output_tokens_per_s"]
    np.testing.assert_allclose(rows["output_tokens_per_s"], want)
    assert rows["length"].dropna().between(1, 4).sum() == 3


def test_a_benchmark_report_says_what_its_record_says(tmp_path):
    (run,) = take(BEFORE[0])
    assert invoke("export", "chapter=theirs", tmp_path / "reports").exit_code == 0
    (path,) = (tmp_path / "reports").iterdir()
    report = json.loads(path.read_text())
    assert (report["version"], report["run"]["uid"], report["scenario"]["stack"]) == ("0.2", run.run_id, [])
    assert report["run"]["description"].endswith(f"imported, with {LACKED}")
    found = report["results"]["request_performance"]["aggregate"]
    rows, got = pd.DataFrame(summaries.arrays(run)), run.measurement.throughput
    assert found["requests"]["total"] == got.completed
    assert found["latency"]["time_to_first_token"]["mean"] == pytest.approx(rows["ttft_s"].mean())
    assert found["latency"]["time_per_output_token"]["units"] == "s/token"
    assert "p99" not in found["latency"]["request_latency"]
    want = got.output_tokens / got.duration_s
    assert found["throughput"]["output_token_rate"] == {"units": "tokens/s", "mean": pytest.approx(want)}
    assert report["scenario"]["load"]["standardized"]["tool"] == "guidellm"


def test_a_measured_record_names_its_server(tmp_path):
    side("A")
    assert invoke("export", "domain=json", tmp_path / "reports").exit_code == 0
    report = json.loads(next((tmp_path / "reports").iterdir()).read_text())
    (server,) = report["scenario"]["stack"]
    assert server["standardized"]["model"] == {"name": "pocket"}
    assert server["standardized"]["accelerator"]["count"] == 1
    assert report["results"]["observability"]["spec_decode"]["num_drafts"] == 100


def test_another_ending_and_no_record_are_refused(tmp_path):
    take(BEFORE[0])
    line = complaint("export", "chapter=theirs", tmp_path / "out.xlsx")
    assert "no form '.xlsx'. To fix: .csv, .parquet, or a folder for reports" in line
    assert "no good record has chapter=ours" in complaint("export", "chapter=ours", tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
