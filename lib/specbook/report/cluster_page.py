"""Chapter 7: runs on a cluster in tables, by scenario; its answer: when capacity came and what was lost."""

from collections.abc import Mapping, Sequence
from textwrap import shorten

import numpy as np
import pandas as pd

from specbook.analysis import scaling
from specbook.bench.cluster_scenario import Scenario
from specbook.deploy.checks import reaction_bound_s
from specbook.records.experiment_results import ClusterRun
from specbook.records.run import ExperimentRecord
from specbook.report.text import count, ends

CONTROLS = (
    "no preStop", "late balancer", "late balancer, no preStop", "no shutdown timeout", "short grace",
)  # fmt: skip
"""A drain without one of its parts; a late balancer with all of them beside."""
UPDATES = ("rollout", "rollout during scale-out")
SHORT = 56
"""Characters of kubectl's last words that a table has room for."""
Named = Mapping[tuple[str, int], ClusterRun]
SCRAPE_S, WINDOW_S, RULE_S, ADAPTER_S, SYNC_S = 10, 25, 10, 0, 15
"""Periods of the shipped rules and of the autoscaler; the adapter of `make cluster` keeps nothing back."""
WHAT = {
    "signal": "a signal is above its target", "decision": "the autoscaler asks for more pods",
    "pod": "the first new pod exists", "scheduled": "it has a node", "started": "its container runs",
    "ready": "the first new pod serves", "calm": "all new pods serve, and nothing waits",
}  # fmt: skip


def named(kept: Sequence[tuple[ExperimentRecord, ClusterRun]]) -> Named:
    """Runs by scenario and repeat."""
    asked = [Scenario.model_validate(record.experiment.parameters) for record, _ in kept]
    return {(one.scenario, one.repeat): run for one, (_, run) in zip(asked, kept, strict=True)}


def of_scenario(runs: Named, scenario: str) -> list[ClusterRun]:
    """The repeats of one scenario."""
    return [run for (name, _), run in runs.items() if name == scenario]


def bound_s(runs: Sequence[ClusterRun]) -> float:
    """The latest that a new pod serves, by the sum of deploy/README.md, with the slowest start seen."""
    cold = max((s for run in runs for s in scaling.cold_start_s(run)), default=np.nan)
    return reaction_bound_s(SCRAPE_S, WINDOW_S, RULE_S, ADAPTER_S, SYNC_S, cold)


def stages(runs: Sequence[ClusterRun]) -> pd.DataFrame:
    """A row for each stage of the reaction: seconds after the load's step, a column for each repeat."""
    columns = {f"repeat {i + 1}": scaling.stages(run) for i, run in enumerate(runs)}
    return pd.DataFrame(columns).rename(index=WHAT).rename_axis("seconds from the step until")


def accounts(runs: Named, scenarios: Sequence[str], last_words: bool = False) -> pd.DataFrame:
    """A row for each action of each run: the requests under way meanwhile, and what became of them.

    `last_words`: with kubectl's last words in place of the repeat and of the ways to be lost.
    """
    rows = [
        {"scenario": name, "repeat": repeat + 1, "action": action.action,
         "took, s": f"{action.ended_s - action.began_s:.0f}",
         **scaling.counts(scaling.during(run, [action.action])),
         "ended with": shorten(action.outcome, SHORT, placeholder=" ...")}
        for (name, repeat), run in runs.items()
        for action in (run.actions if name in scenarios else ())
    ]  # fmt: skip
    names = ["scenario", "action"] if last_words else ["scenario", "repeat", "action"]
    outcomes = ["lost", "ended with"] if last_words else [*scaling.OUTCOMES, "lost"]
    return pd.DataFrame(rows, columns=[*names, "took, s", "sent", *outcomes]).set_index(names)


def pods(runs: Named, scenarios: Sequence[str]) -> pd.DataFrame:
    """A column for each run: how many pods it took, how steady their number was, and what clients saw."""
    columns = {}
    for (name, repeat), run in runs.items():
        if name in scenarios:
            rows = scaling.requests(run)
            clocks, counted = scaling.latency(rows), scaling.counts(rows)
            columns[name, repeat + 1] = {
                "pods at most": f"{scaling.most_ready(run)}",
                "pods at the end": f"{scaling.ready_at_end(run)}",
                "changes of the pods wanted": f"{scaling.flaps(run, 0, run.ended_s)}",
                "pods deleted before they served": f"{scaling.cut_before_ready(run)}",
                "pods that serve, mean": f"{scaling.pod_seconds(run) / run.ended_s:.2f}",
                "accepted tokens per draft": _or(scaling.accepted_per_draft(run), "no drafts"),
                "TTFT p50, s": _or(clocks["ttft_p50_s"], "too few requests"),
                "TTFT p99, s": _or(clocks["ttft_p99_s"], "too few requests"),
                "TPOT p50, ms": f"{1e3 * clocks['tpot_p50_s']:.1f}",
                "requests lost": f"{counted['lost']} of {counted['sent']:,}",
            }  # fmt: skip
    return pd.DataFrame(columns).rename_axis(columns=["scenario", "repeat"]) if columns else pd.DataFrame()


def _or(value: float, missing: str) -> str:
    return missing if np.isnan(value) else f"{value:.2f}"


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
