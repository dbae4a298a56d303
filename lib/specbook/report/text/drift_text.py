"""What the chapter on drift shows, a draft that its target left behind included, in words and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from specbook.analysis import drift
from specbook.analysis.versions import VERSIONS
from specbook.records.experiment import ExperimentRecord
from specbook.records.experiment_results import FallbackArms
from specbook.report.text import count

UNSEEN = (
    "No monitor finds these drifts in time at the threshold that the other drifts of their kind set, without "
    "alarming at what is as usual. A single drift has no others: record two or more."
)
NO_VERSION = "**A draft one version behind: not measured yet.**"
NO_ROLLOUT = "**The roll-out in the counters: not measured yet.**"


def compared(table: pd.DataFrame) -> pd.DataFrame:
    """Table of `drift.compare`, as a page shows it."""
    shares = zip(100 * table["found"], table["episodes"], strict=True)
    delays = zip(table["delay_s"], table["delay_p90_s"], strict=True)
    return pd.DataFrame(
        {
            "drift": table["drift"], "within, s": table["within_s"].map("{:g}".format),
            "monitor": table["monitor"], "threshold": table["threshold"].round(2),
            "found": [f"{share:.0f} % of {n}" for share, n in shares],
            "delay (p90), s": [f"{median:.1f} ({p90:.1f})" for median, p90 in delays],
            "drafts": table["delay_drafts"].round(0).astype(int),
            "false alarms a day": [one.span(digits=1) for one in table["estimate"]],
        }
    ).set_index(["drift", "within, s", "monitor"])  # fmt: skip


def _calmest(cell: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """(those with the fewest false alarms, the quickest of them)."""
    tied = cell[cell["false_alarms"] == cell["false_alarms"].min()]
    return tied, tied.loc[tied["delay_s"].idxmin()]


def served(table: pd.DataFrame) -> pd.DataFrame:
    """Table of `drift.served`, as a page shows it."""
    latencies = zip(table["e2e_p50_s"], table["e2e_p99_s"], strict=True)
    columns = {
        "sent": table["sent"], "lost": table["lost"], "broken off": table["broken"],
        "tokens/s": table["tokens_per_s"].round(0).astype(int),
        "E2E p50 (p99), s": [f"{median:.2f} ({p99:.2f})" for median, p99 in latencies],
        "TTFT p99, s": table["ttft_p99_s"].round(2), "switches": table["switches"],
        "in flight": table["in_flight"],
    }  # fmt: skip
    return pd.DataFrame({"arm": table["arm"], **columns}).set_index("arm")


def fallback(table: pd.DataFrame, result: FallbackArms) -> str:
    """Sentences on what was lost, and what falling back was worth, from `drift.served` and its `result`."""
    rows = table.set_index("arm")
    mine, repeats = rows.loc["fallback"], {arm.repeat for arm in result.arms}
    sentences = [
        f"Over {count(len(repeats), 'episode')} with fallback, {int(mine['sent'])} requests were sent and "
        f"{_none(mine['lost'])} lost or broken off, with {int(mine['in_flight'])} in flight "
        f"at {count(int(mine['switches']), 'switch', 'switches')}."
    ]
    for name in ("drafting", "plain"):
        speed, tail = (of(result, name).span(" times") for of in (drift.gain, drift.tail))
        sentences.append(
            f"Compared with the arm that is always {name}, it wrote {speed} as many tokens a second, and its "
            f"p99 of E2E was {tail} as long."
        )
    return " ".join(sentences)


def _none(number: float) -> str:
    return f"{number:.0f}" if number else "none"


def answer(table: pd.DataFrame, result: FallbackArms) -> str:
    """The chapter's answer, from both halves: what was seen, what was lost, what fallback is worth."""
    live = table[table["drift"] != "replayed"]
    return f"**Answer.** {_seen(live)} {fallback(drift.served(result), result)}"


def elsewhere(results: Mapping[str, Sequence[tuple[ExperimentRecord, Any]]], target: str) -> str:
    """Markdown: the same two halves of the answer from each other machine, with its thresholds."""
    lines = []
    for name, kept in results.items():
        fallen = [pair for pair in kept if pair[0].experiment.name == "fallback"]
        own = [pair for pair in kept if pair[0].experiment.parameters["target"]["name"] == target]
        drifts = [pair for pair in own if pair not in fallen]
        if drifts:
            table = drift.compare(drift.Recordings.of_records(drifts))
            lines.append(
                f"- **`{name}`**, {_when(drifts[-1][0])}: {_seen(table[table['drift'] != 'replayed'])}"
            )
        for record, result in fallen:
            policy = record.experiment.parameters["policy"]
            lines.append(
                f"- **`{name}`**, {_when(record)}, leaving below {policy['leave_below']} tokens a step and "
                f"returning above {policy['return_above']}: {fallback(drift.served(result), result)}"
            )
    return "\n".join(lines) or "No other machine has run these experiments."


def _when(record: ExperimentRecord) -> str:
    return record.started_at[:10] + (", with uncommitted changes" if record.provenance.git_dirty else "")


def _seen(table: pd.DataFrame) -> str:
    if table.empty:
        return UNSEEN
    _, seen = _calmest(table)
    return (
        f"The calmest monitor of the server's own counters, {seen['monitor']}, found "
        f"{100 * seen['found']:.0f} % of {count(int(seen['episodes']), seen['drift'] + ' drift')} after "
        f"{seen['delay_s']:.1f} s at the median, each at the threshold of the others, with "
        f"{seen['estimate'].span(digits=1)} false alarms a day over {seen['estimate'].counted} without drift."
    )


def versions(lengths: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    """Table of tokens a step and the speed-up, version beside version.

    Made from `versions.lengths` and `versions.gains`.
    """
    keys = ["load", "domain"]
    cells = {f"{name}, tokens a step": _of(lengths, name)["length"].map("{:.2f}".format) for name in VERSIONS}
    for name in VERSIONS if len(gains) else ():
        cells[f"{name}, speed-up"] = _of(gains, name)["estimate"].map(lambda one: one.span("×"))
    order = lengths[keys].drop_duplicates()
    return pd.DataFrame(cells).reindex(pd.MultiIndex.from_frame(order)).fillna("–")


def _of(table: pd.DataFrame, version: str) -> pd.DataFrame:
    return table[table["version"] == version].set_index(["load", "domain"])


def rollout_monitors(table: pd.DataFrame) -> pd.DataFrame:
    """Table of `drift.rollouts`, as a page shows it."""
    none = table["fired"] == 0
    return pd.DataFrame(
        {
            "monitor": table["monitor"], "threshold": table["threshold"].round(2),
            "roll-outs": table["rollouts"], "fired": table["fired"],
            "delay, s": table["delay_s"].map("{:.1f}".format).mask(none, "–"),
            "delay, drafts": table["delay_drafts"].map("{:.0f}".format).mask(none, "–"),
        }
    ).set_index("monitor")  # fmt: skip
