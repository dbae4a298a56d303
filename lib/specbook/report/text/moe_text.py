"""The chapter on mixtures of experts in words and tables, from `analysis.moe_tables`."""

from collections.abc import Iterable, Sequence

import pandas as pd

from specbook.analysis import answers, moe_tables, speedup
from specbook.analysis.intervals import compare
from specbook.analysis.moe_tables import NOISY, QUIET, K
from specbook.config import AnyPlan
from specbook.config.schema import Frozen
from specbook.records.experiment import ExperimentRecord
from specbook.records.experiment_results import ExpertsTouched, NoisyRouter
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report.text import ends, listed, of
from specbook.stats.estimate import Estimate

NOT_COUNTED = "**Experts touched: not measured yet.**"
NO_NOISE = "**Noise in the router: not measured yet.**"
NO_DENSE = "**The dense target beside it: not measured yet.**"
NO_PRICE = "**The price of a step: not measured yet.**"
AGAIN = "appendix_mixture_again"
"""Plan of the fastest arm once more."""
CHANCE = 0.1
"""Share of cells whose two 95 % intervals may part by luck: twice what one would."""


def results(
    kept: Iterable[tuple[ExperimentRecord, Frozen]],
) -> tuple[list[ExpertsTouched], list[NoisyRouter]]:
    """Results of both kinds of experiment, from what `experiments.replay` gives."""
    every = [result for _, result in kept]
    return (
        [one for one in every if isinstance(one, ExpertsTouched)],
        [one for one in every if isinstance(one, NoisyRouter)],
    )


def by_target(plan: AnyPlan, runs: Sequence[RunRecord]) -> tuple[RunSet, RunSet]:
    """The mixture's records, and those of the dense target that a plan's second sweep sets beside it."""
    mixture = plan.parts()[0].target.name
    return (
        RunSet(one for one in runs if one.point.target.name == mixture),
        RunSet(one for one in runs if one.point.target.name != mixture),
    )


def touched(table: pd.DataFrame) -> str:
    """How the count compares with the formula of independent routing."""
    if table.empty:
        return NOT_COUNTED
    deep = table[table[K] > 0]
    share = (deep["experts"] / deep["formula"]).groupby(deep["load"], sort=False)
    each = [f"{load}: {ends(values.tolist())} of it" for load, values in share]
    return (
        "A verification step touches, in shares of what independent routing would: " + "; ".join(each) + ". "
        "Below 1, tokens of a step agree on experts more than chance would, or some experts are favourites."
    )


def prices(table: pd.DataFrame) -> str:
    """Whether the bytes of the experts explain what a step costs."""
    if table.empty:
        return NO_PRICE
    known = table[table["bytes_price"].notna()]
    over = known[known["measured"] > known["bytes_price"]]
    if known.empty:
        return "The model's config is not here, so bytes are not counted; the price of a step is as measured."
    predicted, took = (ends(known[name].tolist()) for name in ("bytes_price", "measured"))
    cells = of(len(over), len(known), "cell")
    return (
        f"In {cells} a step costs more than its experts' bytes alone say: they "
        f"predict a break-even of {predicted} tokens a step, and the steps themselves took {took} steps of "
        "the baseline. What lies between the two is drafting, arithmetic and overhead."
    )


def beside(table: pd.DataFrame) -> str:
    """Where speculation slows the mixture down and speeds the dense target up, and where it brings more."""
    if table.empty:
        return NO_DENSE
    lost = table[table["lost"]]
    where = listed(f"{row.domain} at {row.load}" for row in lost.itertuples())
    losses = f"It loses on the mixture and wins on the dense target on {where}." if len(lost) else (
        "Nowhere does it lose on the mixture and win on the dense target, beyond both intervals."
    )  # fmt: skip
    more = of(int(table["ahead"].sum()), len(table), "combination")
    return (
        f"{losses} It brings the mixture more, beyond both intervals, in {more} of traffic and batch. "
        f"{_bases(table)}"
    )


def _bases(table: pd.DataFrame) -> str:
    """What both speed-ups are over: a target that decodes faster by itself leaves less to gain."""
    faster = (table["moe_base"] / table["dense_base"]).groupby(table["load"], sort=False)
    each = listed(f"{ends(ratios.tolist())} times at {load}" for load, ratios in faster)
    return f"Without speculation the mixture decodes, in tokens/s of the dense target's, {each}."


def again(page: Sequence[RunRecord], runs: Sequence[RunRecord]) -> str:
    """The page's fastest arm on another machine: speed-ups of every traffic, and answers that are alike."""
    if not runs or {run.hardware.id for run in runs} == {run.hardware.id for run in page}:
        return f"Not measured on another machine yet: `specbook run {AGAIN}` does that."
    gains = speedup.speedups(runs)
    gains = gains[gains["method"] != "baseline"]
    each = listed(
        f"{row.label} brings {row.estimate.format('×')} on {row.domain}, over "
        f"{row.baseline_tokens_per_s:.0f} tokens/s ({row.baseline_execution})"
        for row in gains.itertuples()
    )
    pairs = answers.pairs(runs)
    drafted = pairs[pairs["comparison"] == "speculation"]
    alike = of(int(drafted["same"].sum()), len(drafted), "answer")
    return f"At batch 1 {each}. The same as without speculation: {alike}."


def noise(table: pd.DataFrame) -> str:
    """From which strength on acceptance is lower, in both readings, and whether experts changed with it.

    Made from `moe_tables.noise`.
    """
    if not (table["router_noise"] > 0).any():
        return NO_NOISE
    readings = [_reading(table[table["reading"] == reading], reading) for reading in (QUIET, NOISY)]
    return "\n".join([*filter(None, readings), _claim(table)])


def _reading(table: pd.DataFrame, reading: str) -> str:
    lines = []
    for domain, cell in table.groupby("domain", sort=False):
        estimates = zip(cell["router_noise"], cell["length_estimate"], strict=True)
        lengths = {s: one if isinstance(one, Estimate) else None for s, one in estimates}
        if 0.0 not in lengths or len(lengths) < 2:
            continue
        quiet, most = lengths[0.0], max(lengths)
        lower = [s for s, one in lengths.items() if one and quiet and compare(one, quiet) == "below"]
        from_ = f"lower from {min(lower):g} on" if lower else "not lower beyond its interval at any strength"
        lines.append(
            f"{domain}: {from_} ({_span(quiet) or 'nothing drafted'} without noise, "
            f"{_span(lengths[most]) or 'nothing drafted'} at {most:g})"
        )
    return f"- **Acceptance length, {reading}.** " + "; ".join(lines) + "." if lines else ""


def _span(estimate: Estimate | None) -> str:
    return estimate.span() if isinstance(estimate, Estimate) else ""


def _claim(table: pd.DataFrame) -> str:
    """Which explanation of a mixture's loss the noise supports: lost acceptance, or more experts to read.

    Of a target that no longer answers as before, neither says anything.
    """
    moved = moe_tables.moved_by_noise(table)
    if moved.empty:
        return (
            "- **What the noise supports.** Nothing yet: no cell has both intervals and a target that "
            "answers as before."
        )
    fell, rose = moved["acceptance_fell"], moved["experts_rose"]
    lower, higher = (of(int(cells.sum()), len(moved), "cell") for cells in (fell, rose))
    supported = {
        (True, True): "both explanations have their part",
        (True, False): "this supports the claim that the draft loses its target, not that more is read",
        (False, True): "this supports the claim that more experts are read, not that the draft is lost",
        (False, False): "neither explanation shows",
    }[bool(fell.mean() > CHANCE), bool(rose.mean() > CHANCE)]
    return (
        "- **What the noise supports.** Where the target still answers as before, acceptance falls beyond "
        f"its interval in {lower}, experts touched rise beyond theirs in {higher}: {supported}."
    )


def failing(table: pd.DataFrame) -> str:
    """Strengths at which answers fail or loop: there acceptance says nothing of a useful model.

    Made from `moe_tables.noise`.
    """
    if table.empty:
        return NO_NOISE
    worse = table[moe_tables.fails(table)]
    if worse.empty:
        return "At no strength do fewer answers pass beyond the interval, or more than half of them loop."
    first = worse.groupby("domain", sort=False)["router_noise"].min()
    each = listed(f"{domain} from {strength:g} on" for domain, strength in first.items())
    return f"The target itself gets worse, or loops: {each}. There an accepted draft is of no use."


def strengths(table: pd.DataFrame) -> pd.DataFrame:
    """Table of every cell of `moe_tables.noise` with its interval."""
    spans = {
        label: table[f"{name}_estimate"].map(_span)
        for name, label in (("length", "acceptance length"), ("passed", "passed"), ("looped", "looped"),
                            ("experts", "experts touched"))
    }  # fmt: skip
    body = {
        "head": table["reading"].str.removeprefix("head trained "), "domain": table["domain"],
        "noise, logits": table["router_noise"].map("{:g}".format), **spans,
        "n": [one.counted for one in table["passed_estimate"]],
    }  # fmt: skip
    return pd.DataFrame(body).set_index(["head", "domain", "noise, logits"])


def break_even(table: pd.DataFrame) -> pd.DataFrame:
    """Table of the tokens a step must yield: by the experts' bytes, and as measured (`moe_tables.prices`)."""
    names = {
        "bytes_price": "by bytes counted", "formula_price": "by the formula's bytes",
        "measured": "as measured",
    }  # fmt: skip
    columns = {label: table[name].map(_two) for name, label in names.items()}
    return pd.DataFrame({"load": table["load"], "K": table[K], **columns}).set_index(["load", "K"])


def _two(value: float) -> str:
    return "unknown" if pd.isna(value) else f"{value:.2f}"


def side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """Table of both targets' best speed-ups, and what a step of their arms yields, of `moe_tables.beside`."""
    rows = [
        {
            "load": row["load"], "domain": row["domain"], "target": target, "arm": row[f"{name}_arm"],
            "speed-up": row[name].span("×"), "baseline, tokens/s": round(row[f"{name}_base"]),
            "tokens a step": _two(row[f"{name}_length"]),
        }
        for _, row in table.iterrows() for name, target in (("moe", "mixture"), ("dense", "dense"))
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index(["load", "domain", "target"])
