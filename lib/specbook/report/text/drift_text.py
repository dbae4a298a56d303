"""What the chapter on drift shows, a draft that its target left behind included, in words and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from specbook.analysis import acceptance, drift, traffic
from specbook.analysis.versions import BEFORE, BEHIND, RETRAINED, VERSIONS
from specbook.records.experiment import ExperimentRecord
from specbook.records.experiment_results import FallbackArms
from specbook.report.text import count, listed

UNSEEN = (
    "No monitor finds these drifts in time at the threshold that the other drifts of their kind set, without "
    "alarming at what is as usual. A single drift has no others: record two or more."
)
NO_VERSION = "**A draft one version behind: not measured yet.**"
NO_ROLLOUT = "**The roll-out in the counters: not measured yet.**"
COUNTERS = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")


def averages(table: pd.DataFrame) -> pd.DataFrame:
    """Table of the acceptance length over drafts (micro) and over answers (macro).

    Made from `acceptance.averages` at one load. Below each arm's trained domains, these together: over all
    their drafts, and each domain counted once.
    """
    rows = []
    for arm, cell in table.groupby("arm", sort=False):
        each = [(one.domain, one.rate, one.length, one.macro, count(one.answers, "answer"))
                for one in cell.itertuples()]  # fmt: skip
        some = cell[cell["domain"].isin(traffic.TRAINED)]
        if len(some) > 1:
            drafts, drafted, accepted = (some[name].sum() for name in COUNTERS)
            macro, domains = acceptance.macro(list(some["length"])), count(len(some), "domain")
            each.append(("trained on, together", accepted / drafted, 1 + accepted / drafts, macro, domains))
        rows += [
            {"arm": arm, "domain": domain, "rate, micro": f"{rate:.3f}", "length, micro": f"{micro:.2f}",
             "length, macro": f"{macro:.2f}", "macro over": over}
            for domain, rate, micro, macro, over in each
        ]  # fmt: skip
    return pd.DataFrame(rows).set_index(["arm", "domain"])


def domains(table: pd.DataFrame) -> str:
    """List of each arm's longest and shortest acceptance length, and of those on the other traffic.

    Made from `acceptance.by_domain` at one load.
    """
    if table.empty:
        return "Nothing was drafted in these records."
    return "\n".join(_domains(str(arm), cell) for arm, cell in table.groupby("arm", sort=False))


def _domains(arm: str, cell: pd.DataFrame) -> str:
    length = cell.set_index("domain")["length"]
    known = length[length.index.isin(traffic.TRAINED)]
    parts = []
    if len(known) > 1:
        parts.append(
            f"{known.max():.2f} tokens a step on {known.idxmax()} and {known.min():.2f} on {known.idxmin()}, "
            "the ends of what it was trained for"
        )
    if traffic.UNSEEN in length:
        parts.append(f"{length[traffic.UNSEEN]:.2f} on {traffic.UNSEEN}, which nobody trained for")
    if traffic.MIXED in length:
        parts.append(f"{length[traffic.MIXED]:.2f} on the mixed stream")
    alone = f"{length.iloc[0]:.2f} tokens a step on {length.index[0]} alone"
    return f"- **{arm}**: {'; '.join(parts) or alone}."


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


def best(table: pd.DataFrame) -> str:
    """List of the monitors with the fewest false alarms in each kind of drift, and the quickest's delay.

    Made from `drift.compare`.
    """
    if table.empty:
        return UNSEEN
    lines = [_best(str(kind), cell) for kind, cell in table.groupby("drift", sort=False)]
    recorded = table["estimate"].iloc[0].counted
    return "\n".join([f"Fewest false alarms, by {recorded} of recordings without drift:\n", *lines])


def _calmest(cell: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """(those with the fewest false alarms, the quickest of them)."""
    tied = cell[cell["false_alarms"] == cell["false_alarms"].min()]
    return tied, tied.loc[tied["delay_s"].idxmin()]


def _best(kind: str, cell: pd.DataFrame) -> str:
    tied, first = _calmest(cell)
    monitors = list(dict.fromkeys(tied["monitor"]))
    quickest = f", of which {first['monitor']} is the quickest" if len(monitors) > 1 else ""
    return (
        f"- **{kind} drift**, {first['estimate'].span(digits=1)} a day: {listed(monitors)}{quickest}, with a "
        f"median delay of {first['delay_s']:.1f} s or {first['delay_drafts']:.0f} drafts over "
        f"{count(int(first['episodes']), 'episode')}."
    )


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
            f"Beside the arm that is always {name} it wrote {speed} the tokens a second, and its p99 of E2E "
            f"was {tail} as long."
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


def version_costs(table: pd.DataFrame) -> str:
    """List of what the new version cost at each load, and what retraining brought back.

    Made from `versions.lengths`.
    """
    if table.empty:
        return NO_VERSION
    return "\n".join(_version_cost(str(load), cell) for load, cell in table.groupby("load", sort=False))


def _version_cost(load: str, cell: pd.DataFrame) -> str:
    wide = cell.pivot(index="domain", columns="version", values="length")
    mean, fall = wide.mean(), wide[BEFORE] - wide[BEHIND]
    worst = fall.idxmax()
    lost = (
        f"It lost most on {worst} ({wide[BEFORE][worst]:.2f} to {wide[BEHIND][worst]:.2f}, and "
        f"{wide[RETRAINED][worst]:.2f} once retrained)"
        if fall[worst] > 0
        else "It lost on none of them"
    )
    return (
        f"- **{load}**, {count(len(wide), 'domain')} (macro): {mean[BEFORE]:.2f} tokens a step on the "
        f"target it was trained for, {mean[BEHIND]:.2f} on the next version, and {mean[RETRAINED]:.2f} with "
        f"the head retrained. {lost}."
    )


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


def rollout(table: pd.DataFrame) -> str:
    """Sentences on which monitors saw the new version in the counters, from `drift.rollouts`."""
    if table.empty:
        return NO_ROLLOUT
    saw = table[table["fired"] == table["rollouts"]]
    of = count(int(table["rollouts"].iloc[0]), "roll-out")
    if saw.empty:
        most = table.loc[table["fired"].idxmax()]
        some = f"{most['monitor']} in {most['fired']} of them" if most["fired"] else "none in any"
        return f"No monitor fired in all of {of}: {some}. Set as they are, they do not see this version."
    first = saw.loc[saw["delay_s"].idxmin()]
    return (
        f"In all of {of} fired: {listed(saw['monitor'])}. The quickest, {first['monitor']}, did so after "
        f"{first['delay_s']:.1f} s or {first['delay_drafts']:.0f} drafts at the median."
    )
