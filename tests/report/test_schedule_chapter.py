"""The chapter on schedules: what it says without records of its own, and with made-up ones of each part."""

import re

import numpy as np
import pandas as pd
import pytest

import chapters
import synthetic
from specbook import config, records
from specbook.config import draft_schedule
from specbook.records.experiment_results import (
    Comeback,
    Counted,
    DayArm,
    DayArms,
    ObeyedSchedule,
    OpenLoopRequests,
    ScheduledBatch,
    SteadyCount,
)
from specbook.records.run import ExperimentRecord, ServerCounters, SpecDecodeCounters
from specbook.report.figures import speedup_figures

ACCEPTED, STEPS = 2, 100
PAGE = "10_schedule"


def counted(requests, k):
    """STEPS steps of so many requests that each drafted K."""
    drafts = requests * STEPS if k else 0
    held = min(k, ACCEPTED)
    server = ServerCounters(
        prompt_tokens=0, generation_tokens=requests * STEPS * (1 + held), requests_finished=0,
        prefix_cache_hits=0, preemptions=0, queue_time_s=0,
    )  # fmt: skip
    drafted = SpecDecodeCounters(
        num_drafts=drafts, num_draft_tokens=k * drafts, num_accepted_tokens=held * drafts,
        num_accepted_tokens_per_pos=tuple(drafts * (i < held) for i in range(k)),
    )  # fmt: skip
    return Counted(server=server, spec_decode=drafted)


def steady(requests, k, step_s):
    return SteadyCount(**dict(counted(requests, k)), seconds=STEPS * step_s, step_s=step_s)


def obeyed(given):
    """An engine that obeys, and whose steps take a twentieth longer where nothing is drafted."""
    rows = given["speculation"]["num_speculative_tokens_per_batch_size"]
    batches = []
    for batch in given["concurrency"]:
        k = draft_schedule.at(rows, batch)
        longer = [0.01 * (1.5 if k else 1.05) * (1 + turn / 99) for turn in range(3)]
        sides = [tuple(steady(batch, k, step_s) for step_s in longer), (steady(batch, 0, 0.01),) * 3]
        batches.append(ScheduledBatch(concurrency=batch, scheduled=sides[0], plain=sides[1]))
    one = Comeback(burst=(counted(4, 5), counted(32, 0), counted(4, 5)), alone=(counted(4, 5),) * 3)
    return ObeyedSchedule(batches=tuple(batches), comebacks=(one,) * 3)


def day(names):
    """Three days of 600 requests; the first arm takes a second for each, the second half of that."""
    made = []
    for place, name in enumerate(names):
        for restart in range(3):
            e2e_s = np.full(600, (1.0 + restart / 50) / (1 + place))
            requests = OpenLoopRequests(
                sent_s=tuple(np.arange(600) / 10), ttft_s=tuple(e2e_s / 5), e2e_s=tuple(e2e_s),
                output_tokens=(40,) * 600, outcome=("whole",) * 600, errors={},
            )  # fmt: skip
            made.append(DayArm(arm=name, restart=restart, requests=requests))
    return DayArms(arms=tuple(made))


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    return config.load(PAGE, "cpu", "full")


def write(plan, name, result):
    (asked,) = [one for one in plan.experiments if one.name == name]
    records.append(
        ExperimentRecord(
            run_id=f"made-up-{name}", chapter=PAGE, kind="simulated", status="ok", experiment=asked,
            started_at=synthetic.START.isoformat(), hardware=synthetic.HARDWARE, provenance=synthetic.ORIGIN,
            result=result.model_dump(mode="json"),
        )
    )  # fmt: skip


def test_made_up_records_are_drawn_and_nothing_is_missing(plan):
    synthetic.write(plan.sweeps[0].model_copy(update={"concurrency": (1, 32)}))
    by_name = {one.name: one.parameters for one in plan.experiments}
    write(plan, "schedule", obeyed(by_name["schedule"]))
    scheduled = plan.sweeps[0].speculations()[-1].label
    write(plan, "day", day(["baseline", scheduled]))
    said = chapters.run(PAGE)
    assert not re.search(r"Not measured yet|\bnan\b|NaN|Empty DataFrame|<NA>", said)
    assert re.search(r"batch 32, at \*\*0\.\d+× \[", said)  # that server drafts 8 whatever the rows say
    assert f"- with {scheduled} **0.50× [0.50, 0.50]** that of baseline" in said
    assert "A head loses no acceptance by a time in which nothing was drafted" in said
    assert re.search(r"\n9 +0 +– +0\.0 +1\.06× \[", said)  # batch, K, drafted, steps with a draft, a step
    assert re.search(r"\n2 to 8 +", said)


def test_a_schedule_is_made_without_records_of_its_own(tmp_path, monkeypatch):
    for shipped in (chapters.PROJECT / "results").glob("*/0[23]_*"):
        (tmp_path / shipped.parent.name).mkdir(exist_ok=True)
        (tmp_path / shipped.parent.name / shipped.name).symlink_to(shipped)
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    said = chapters.run(PAGE)
    assert "By the records, EAGLE-3 drafts " in said
    assert "**Not measured yet:** a schedule beside fixed K, what the engine drafts and a day" in said
    assert "`specbook run 10_schedule` measures it." in said
    assert "A small K is not the safe choice." in said
    assert "Traffic decides as much as batch." in said
    assert not re.search(r"\bnan\b|NaN|Empty DataFrame|<NA>", said)


def test_the_map_says_off_where_nothing_is_drafted():
    cells = [("EAGLE-3", "json", 1, 5, 2.0), ("EAGLE-3", "json", 8, 0, 1.0), ("ngram", "prose", 1, 4, 1.1)]
    table = pd.DataFrame(cells, columns=["method", "domain", "concurrency", "k", "bound"])
    head, lookup = speedup_figures.k_map(table)
    assert [text.get_text() for text in head.texts] == ["K=5\n2.00×", "off"]
    assert [text.get_text() for text in lookup.texts] == ["K=4\n1.10×"]
    strong, none = (patch.get_alpha() for patch in head.patches)
    assert strong > none == 0
