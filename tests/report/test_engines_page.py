"""The matrix of methods and engines: a cell says measured, published or neither, and counts what says so."""

import pytest

from factories import eagle3, point, write_run
from specbook.records import published
from specbook.records.published import PublishedRow
from specbook.report import engines_page


def row(system: str, draft: str, metric: str = "speedup_vs_no_spec", value: str = "1.5") -> PublishedRow:
    return PublishedRow(
        system=system, target_model="m", draft=draft, hardware="h", dataset="d", batch_or_concurrency="1",
        num_speculative_tokens="3", metric=metric, value=value, status="reported", notes="",
        source="https://example.org/a (2026-01-02)",
    )  # fmt: skip


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A baseline and an EAGLE-3 window of vLLM."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    return [write_run(point(speculation), 2.0) for speculation in (None, eagle3())]


def cells(runs, rows):
    return engines_page.matrix(runs, rows).set_index("method")


def test_a_cell_counts_windows_and_published_rows(runs):
    found = cells(runs, [row("SGLang", "x-EAGLE3"), row("vLLM 0.13.0", "x-EAGLE-3"), row("SGLang", "none")])
    assert found.at["EAGLE-3", "vLLM"] == "measured (1), published (1)"
    assert found.at["EAGLE-3", "SGLang"] == found.at["no speculation", "SGLang"] == "published (1)"
    assert found.at["no speculation", "vLLM"] == "measured (1)"


def test_a_cell_without_either_says_why(runs):
    found = cells(runs, [])
    assert found.at["suffix", "llama.cpp"] == "not offered"
    assert found.at["EAGLE-3", "llama.cpp"] == found.at["suffix", "vLLM"] == "not measured"
    assert found.at["no speculation", "TensorRT-LLM"] == "not measured"


@pytest.mark.parametrize(
    ("draft", "title"),
    [
        ("amazon/GPT-OSS-20B-P-EAGLE", "P-EAGLE"), ("lmsys/Qwen3-235B-A22B-EAGLE3", "EAGLE-3"),
        ("yuhuili/EAGLE-LLaMA3", "EAGLE"), ("ngram", "ngram"), ("Qwama-0.5B draft model", "draft model"),
        ("none", "no speculation"), ("Llama-3.2-1B", None),
    ],
)  # fmt: skip
def test_a_drafts_name_tells_its_method(draft, title):
    assert engines_page.method_of(row("vLLM", draft)) == title


@pytest.mark.parametrize(
    ("system", "engine"),
    [
        ("vLLM 0.13.0", "vLLM"),
        ("TensorRT-LLM+Dynamo", "TensorRT-LLM"),
        ("NxD Inference/vLLM 0.9.1", "vLLM over NxD Inference"),
        ("vLLM-Neuron", None),
    ],
)
def test_a_system_is_one_engine_of_any_release(runs, system, engine):
    found = cells([], [row(system, "EAGLE"), row(system, "EAGLE-3")])
    counted = [name for name in found if found[name].str.contains("published").any()]
    assert counted == ([engine] if engine else [])


def test_published_speedups_keep_their_span_and_date():
    rows = [row("SGLang", "EAGLE3", value=value) for value in ("1.4", "2.25", "10-60")]
    (found,) = engines_page.published_speedups([*rows, row("SGLang", "EAGLE3", "output_tok_s")]).to_dict(
        "records"
    )
    assert (found["numbers"], found["values"], found["date"]) == ("3", "1.4 to 2.25", "2026-01-02")
    assert found["source"] == "[example.org](https://example.org/a)"
    (alone,) = engines_page.published_speedups(rows[2:]).to_dict("records")
    assert alone["values"] == "10-60"


def test_every_published_speedup_has_a_date_and_source():
    shown = engines_page.published_speedups(published.load())
    assert {"SGLang", "TensorRT-LLM", "vLLM"} <= set(shown["engine"])
    assert not (shown["date"] == "not stated").any()
    assert shown["source"].str.contains("http").all()


def test_without_records_and_rows_it_says_so(runs):
    assert engines_page.sections([], []).count(engines_page.NONE) == 2
    assert f"Windows of 1 machine, measured from {runs[0].started_at[:10]}" in engines_page.sections(runs, [])
