"""The break-even page: it says what its records say, whose they are, and what has none."""

import pandas as pd
import pytest

import factories
import synthetic
from specbook import config, records
from specbook.analysis import break_even
from specbook.config import Plan
from specbook.records.experiment_results import AcceptanceComparison, Pair, TimedArm
from specbook.records.run import ExperimentRecord, Hardware
from specbook.report import break_even_page

H100 = Hardware(
    id="cuda-nvidia-h100-1x", kind="cuda", cpu_model="test", physical_cores=8, logical_cores=16,
    memory_bytes=2**37, gpu_name="NVIDIA H100 80GB HBM3", gpu_count=1, gpu_memory_bytes=84_943_715_696,
)  # fmt: skip


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def sweep(hardware="cpu") -> Plan:
    return config.load(break_even_page.PLAN, hardware, "full").parts()[0]


def played(tail: float) -> None:
    """Records of both experiments: a step is as long as a real one, the slowest request `tail` of as late."""
    chapter = config.load(break_even_page.PLAN, "cpu", "full")
    for index, asked in enumerate(chapter.experiments):
        turns = tuple(0.01 + 0.0001 * i for i in range(6))
        real = TimedArm(rates=(0.8, 0.6), length=(2.4,) * 6, step_s=turns, tpot_s=((1.0, 1.0, 2.0),) * 6)
        other = real.model_copy(update={"tpot_s": ((1.0, 1.0, 1.0 + tail),) * 6})
        result = AcceptanceComparison(rates=(0.8, 0.6), pairs=(Pair(concurrency=1, real=real, played=other),))
        records.append(
            ExperimentRecord(
                run_id=f"simulated-{index}", chapter=chapter.chapter, kind="simulated", status="ok",
                started_at="2026-01-01T00:00:00+00:00", experiment=asked, hardware=factories.HARDWARE,
                provenance=factories.PROVENANCE, result=result.model_dump(mode="json"),
            )
        )  # fmt: skip


def on_h100(monkeypatch, gpu_utilisation=0.5) -> None:
    """Records of two batches of a shape on an H100, with and without a draft."""
    monkeypatch.setattr(factories, "HARDWARE", H100)
    for where in sweep("h100:qwen3-32b-fp8").points():
        if where.load.concurrency in (1, 8) and (where.speculation is None or "K=1 " in str(where.arm)):
            counted = factories.counters((90,)) if where.speculation else None
            run = factories.write_run(where, 100.0 if counted else 50.0, spec_decode=counted)
            used = run.measurement.utilisation.model_copy(update={"gpu_utilisation": gpu_utilisation})
            measured = run.measurement.model_copy(update={"utilisation": used})
            records.append(run.model_copy(update={"measurement": measured}))


def test_without_records_the_page_says_what_measures_them():
    page = break_even_page.render()
    assert page.count("**Not measured yet.**") == 2
    assert "`specbook run appendix_break_even` measures it" in page
    assert "|" not in page
    assert "- H100 80 GB: `h100:qwen3-32b-fp8`" in page
    assert "gpt-oss" not in page  # its head's shape is not known


def test_a_map_says_the_break_even_length_and_its_records():
    synthetic.write(sweep())
    page = break_even_page.render()
    assert "# pocket-dense on " in page
    assert "simulated and synthetic-acceptance · " in page  # the baselines' kind, and the arms'
    assert "random weights: only times mean anything" in page
    rows = [line for line in page.splitlines() if line.startswith("| ") and "EAGLE-3" in line]
    assert len(rows) == 3 * 3  # batches and K


def test_baselines_alone_are_no_map():
    where = next(point for point in sweep().points() if point.speculation is None)
    records.append(factories.write_run(where, 50.0))
    page = break_even_page.render()
    assert "# pocket-dense on " not in page
    assert page.count("**Not measured yet.**") == 2


@pytest.mark.parametrize(("verify", "hopeless"), [(4.0, True), (1.0, False)])
def test_what_no_acceptance_makes_good_is_said(verify, hopeless):
    prices = (dict.fromkeys((1, 8, 32), price) for price in (verify, 0.01))
    synthetic.write(sweep(), world=synthetic.World(**dict(zip(("verify", "draft"), prices, strict=True))))
    said = "a median step costs more than K + 1 plain ones, so nothing pays there" in break_even_page.render()
    assert said is hopeless


@pytest.mark.parametrize(("steps", "said"), [((20.8, 27.4, 23.9), True), ((20.8, 24.0, 23.9), False)])
def test_a_step_that_gets_shorter_with_the_batch_is_said(steps, said):
    rows = [(n, ms / 1e3) for n, ms in zip((1, 32, 64), steps, strict=True) for _ in (3, 7)]
    found = break_even_page.dips(pd.DataFrame(rows, columns=["concurrency", "step_s"]))
    assert ("longer at batch 32 (27.4 ms) than at batch 64 (23.9 ms), so" in found) is said
    assert bool(found) is said


def test_a_measured_model_is_missing_only_elsewhere(monkeypatch):
    on_h100(monkeypatch)
    page = break_even_page.render()
    assert "# qwen3-32b-fp8 on cuda-nvidia-h100-1x" in page
    h100, h200 = (
        next(line for line in page.splitlines() if line.startswith(f"- {name}")) for name in ("H100", "H200")
    )
    assert "qwen3-32b-fp8" not in h100
    assert "qwen3-32b-fp8" in h200


def test_a_map_of_a_gpu_says_how_busy_it_was(monkeypatch):
    on_h100(monkeypatch)
    assert "| 50%, 50% " in break_even_page.render()


def test_shapes_of_two_machines_are_not_mixed(monkeypatch):
    on_h100(monkeypatch)
    monkeypatch.setattr(factories, "HARDWARE", H100.model_copy(update={"id": "cuda-other-1x"}))
    where = sweep("h100:qwen3-32b-fp8").points()[0]
    records.append(factories.write_run(where, 1.0))
    assert {run.hardware.id for run in break_even.of_shapes()} == {H100.id}


def test_the_front_page_has_what_shapes_gain_on_a_gpu(monkeypatch):
    assert break_even_page.front() == []
    synthetic.write(sweep())  # random weights on a processor are no answer for it
    assert break_even_page.front() == []
    on_h100(monkeypatch)
    _, table, credit = break_even_page.front()
    (row,) = [line for line in table.splitlines() if "qwen3-32b-fp8" in line]
    assert "| EAGLE-3 K=1 | 1.90" in row
    assert row.count("2.00×") == 2
    assert "no interval" in credit
    assert "no interval" not in table


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        (0.0, "is 0.56 of the real ones'. Played requests lie closer together than real ones"),
        (1.0, "is 1.00 of the real ones'. Nor do played requests lie closer together"),
    ],
)
def test_what_is_believed_follows_the_ratios(tail, said):
    played(tail)
    page = break_even_page.render()
    assert "A played step takes 1.00 of a real draft's; the interval includes 1 in all 2 rows" in page
    assert said in page
