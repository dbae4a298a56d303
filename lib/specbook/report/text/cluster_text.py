"""Chapter 7's answer: how soon capacity came, and what updates lost."""

from specbook.analysis import scaling
from specbook.records.experiment_results import ClusterRun
from specbook.report.cluster_tables import CONTROLS, UPDATES, Named, bound_s, of_scenario
from specbook.report.text import count, ends


def answer(runs: Named) -> str:
    """Markdown: how soon capacity came, what a draft does to the queue, what updates and controls lost."""
    steps, bare, said = of_scenario(runs, "step"), of_scenario(runs, "no speculation"), []
    if steps:
        ready = [scaling.stages(run)["ready"] for run in steps]
        said.append(
            f"When the load triples, a second pod serves after {ends(ready, '{:.0f}')} s (n="
            f"{count(len(ready), 'repeat')}). The bound, with every stage at its worst, is "
            f"{bound_s(steps):.0f} s."
        )
    if steps and bare:
        with_draft, without = _ttft_s(steps), _ttft_s(bare)
        said.append(
            f"The median TTFT over that load is {with_draft} s, and {without} s without a draft "
            f"({count(len(bare), 'run')})."
        )
    updates, controls = ({name: _lost(runs, name) for name in names} for names in (UPDATES, CONTROLS))
    if sent := sum(sent for _, sent in updates.values()):
        lost = sum(lost for lost, _ in updates.values())
        said.append(
            f"Rolling updates under load lost {lost} of {sent:,} streamed requests, each counted once."
        )
    if any(sent for _, sent in controls.values()):
        each = [f"{name} ({lost} of {sent})" for name, (lost, sent) in controls.items() if lost]
        said.append(f"Requests were lost with a part of the drain taken away: {'; '.join(each) or 'none'}.")
    return "**Answer.** " + (" ".join(said) or "Not measured yet.")


def _ttft_s(runs: list[ClusterRun]) -> str:
    return ends([scaling.latency(scaling.requests(run))["ttft_p50_s"] for run in runs], "{:.1f}")


def _lost(runs: Named, scenario: str) -> tuple[int, int]:
    """Requests lost while an update was under way, and all that were sent or under way."""
    counts = [scaling.counts(scaling.during(run, ["restart", "undo"])) for run in of_scenario(runs, scenario)]
    return sum(one["lost"] for one in counts), sum(one["sent"] for one in counts)
