"""A comparison of two selections in a sentence: which is slower, by how much, and by which part."""

from specbook.analysis.comparison import Comparison
from specbook.analysis.intervals import side
from specbook.records.run import LACKED
from specbook.report.text import count, percent
from specbook.stats.estimate import Estimate
from specbook.suggestions import listed

PARTS = {"length": "acceptance length", "step_s": "time of a step", "ttft_s": "time to first token"}


def summary(result: Comparison) -> str:
    """Whether B is slower, by how much, and by which part; what of the machine may be the cause."""
    whole, margin = result.overall, percent(result.tolerance)
    one = whole["tokens_per_s"]
    span = one.span(digits=3) if one else "no restart has every cell"
    needed = f"; {whole['needed']} restarts a side would see it" if whole["needed"] else ""
    opening = {
        "better": f"B is faster by {_share(one)}",
        "worse": f"B is slower by {_share(one)}",
        "not worse": f"B is not slower by more than {margin} (B/A {span})",
        "cannot tell": f"Whether B is slower by {margin} cannot be told (B/A {span}{needed})",
    }[whole["verdict"]]
    parts = [_moved(name, result) for name in PARTS if result.overall[name]]
    worse = int((result.cells["verdict"] == "worse").sum())
    over = f"over {count(len(result.cells), 'cell')}, {worse} of them worse, on these prompts"
    return " ".join([f"{opening}, {over}: {'; '.join(parts)}.", *_machine(result)])


def _share(ratio: Estimate | None) -> str:
    """`7.0 % [4.1, 9.8]` of a ratio of 0.93, or of 1.07."""
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    ends = sorted(100 * abs(end - 1) for end in (ratio.low, ratio.high))
    return f"{percent(abs(ratio.value - 1), 1)} [{ends[0]:.1f}, {ends[1]:.1f}]"


def _moved(name: str, result: Comparison) -> str:
    ratio = result.overall[name]
    moved = {"below": "fell", "above": "rose"}.get(side(ratio) or "")
    if moved is None:
        return f"the {PARTS[name]} is not shown to change (B/A {ratio.span(digits=3)})"
    where = result.position if (name, moved) == ("length", "fell") else None
    return f"the {PARTS[name]} {moved} by {_share(ratio)}" + (f", most at position {where}" if where else "")


def _machine(result: Comparison) -> list[str]:
    sentences = []
    if {"host", "hardware"} & result.differs.keys():
        sentences.append("The host differs or is unknown: it may be the machine. Measure both in one round.")
    elif not result.overall["paired"]:
        sentences.append("They share no rounds, so drift in the machine's speed is in the ratio.")
    if (result.a.windows["kind"] == "imported").any():
        sentences.append(f"What is imported has {LACKED}.")
    both = {"A": result.a.windows["disturbed"], "B": result.b.windows["disturbed"]}
    busy = [f"{own.sum()} of {len(own)} windows of {name}" for name, own in both.items() if own.any()]
    if busy:
        sentences.append(f"Other programs took more than a tenth of the cores in {listed(busy)}.")
    return sentences
