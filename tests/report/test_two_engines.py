"""Two engines side by side: nothing where nothing is measured, verdicts where intervals give them."""

import dataclasses

import pytest

import synthetic
from specbook import config
from specbook.report import engines_page
from specbook.report.engines_page import HARDWARE, PLAN

SLOW = synthetic.USUAL
FAST = dataclasses.replace(
    SLOW, step_s={batch: step_s / 2 for batch, step_s in SLOW.step_s.items()},
    acceptance=dict.fromkeys(("mt-bench", "humaneval"), 0.05),
)  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def measure(**worlds):
    """Write records of the plan, each target in the world that is given for its engine."""
    written = set()  # a sweep may share its baselines with one before it
    for sweep in config.load(PLAN, HARDWARE, "full").sweeps:
        world = worlds[sweep.target.engine]
        synthetic.write(sweep, world=dataclasses.replace(world, failed=either(written, world)))
        written |= {point.key for point in sweep.points()}


def either(written, world):
    return lambda point: point.key in written or world.failed(point)


def rows(page, *words):
    return [line for line in page.splitlines() if all(f"| {word} " in line for word in words)]


def test_without_records_it_says_what_measures_them():
    assert engines_page.side_by_side() == f"{engines_page.NOTHING}\n"
    assert "`specbook run appendix_engines` measures it" in engines_page.NOTHING
    assert engines_page.faster_baseline() == []


def test_a_faster_engine_that_gains_less_is_told_so():
    measure(vllm=SLOW, llama_cpp=FAST)
    page = engines_page.side_by_side()
    first, wide, narrow = rows(page, "batch 1")[:3]
    assert "| vLLM (float32)" in first
    assert ", faster |" not in first
    assert "| more " not in first
    for line, name in ((wide, "llama.cpp (float32)"), (narrow, "llama.cpp (Q4_1)")):
        assert f"| {name}" in line
        assert ", faster |" in line
    for draft in ("ngram K=5", "EAGLE-3 K=2"):
        own, *others = rows(page, "batch 1", draft)[:3]
        assert "| less " not in own
        assert ["| less " in line for line in others] == [True, True]
    assert len(rows(page, "batch 8", "mt-bench")) == 9  # three targets without a draft and with either
    assert len(rows(page, "batch 32", "mt-bench")) == 9
    assert page.count("itself, started again") == 9
    assert page.startswith("Without speculation llama.cpp (float32) serves smollm2-135m at 1.")
    assert "simulated · cpu-simulated-2c" in page


@pytest.mark.parametrize(("drafted", "tables"), [(True, 1), (False, 3)])
def test_a_campaign_cut_short_is_drawn_so_far(drafted, tables):
    lacking = dataclasses.replace(SLOW, failed=lambda point: (point.speculation is None) == drafted)
    measure(vllm=lacking, llama_cpp=lacking)
    page = engines_page.side_by_side()
    assert sum(line.startswith("| load") for line in page.splitlines()) == tables
    assert "nan" not in page.lower()
    assert engines_page.faster_baseline() == []


def test_the_front_page_names_a_faster_engine():
    measure(vllm=SLOW, llama_cpp=FAST)
    (said,) = engines_page.faster_baseline()
    assert "Without speculation llama.cpp (float32) serves smollm2-135m at 1." in said
    assert said.endswith("(batch 32) the speed of vLLM (float32).")
    assert "Q4_1" not in said


def test_the_front_page_is_silent_where_the_first_is_faster():
    measure(vllm=FAST, llama_cpp=SLOW)
    page = engines_page.side_by_side()
    assert page.startswith("Without speculation llama.cpp (float32) serves smollm2-135m at 0.")
    assert ", slower |" in page
    assert "| more " in page
    assert engines_page.faster_baseline() == []
