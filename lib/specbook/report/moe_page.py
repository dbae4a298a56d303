"""The chapter on mixtures of experts in words and tables: what is said follows its records."""

from collections.abc import Iterable, Sequence

import pandas as pd

from specbook.analysis import answers, speedup
from specbook.analysis.moe_tables import NOISY, QUIET, K
from specbook.config import AnyPlan
from specbook.config.schema import Frozen
from specbook.records.experiment import ExperimentRecord
from specbook.records.moe_results import ExpertsTouched, NoisyRouter
from specbook.records.run import RunRecord
from specbook.report.text.phrases import ends, listed, of
from specbook.stats.estimate import Estimate

NOT_COUNTED = "**Experts touched: not measured yet.**"
NO_NOISE = "**Noise in the router: not measured yet.**"
NO_DENSE = "**The dense target beside it: not measured yet.**"
NO_PRICE = "**The price of a step: not measured yet.**"
AGAIN = "appendix_mixture_again"
"""Plan of the fastest arm once more."""
CHANCE = 0.1
"""Share of cells whose two 95 % intervals may part by luck: twice what one would."""


def found(
    kept: Iterable[tuple[ExperimentRecord, Frozen]],
) -> tuple[list[ExpertsTouched], list[NoisyRouter]]:
    """Results of both kinds of experiment, from what `experiments.replay` gives."""
    results = [result for _, result in kept]
    return (
        [one for one in results if isinstance(one, ExpertsTouched)],
        [one for one in results if isinstance(one, NoisyRouter)],
    )


def by_target(plan: AnyPlan, runs: Sequence[RunRecord]) -> tuple[list[RunRecord], list[RunRecord]]:
    """The mixture's records, and those of the dense target that a plan's second sweep sets beside it."""
    mixture = plan.parts()[0].target.name
    return (
        [one for one in runs if one.point.target.name == mixture],
        [one for one in runs if one.point.target.name != mixture],
    )


def touched(table: pd.DataFrame) -> str:
    """How the count compares with the formula of independent routing."""
    if table.empty:
        return NOT_COUNTED
    deep = table[table[K] > 0]
    share = (deep["experts"] / deep["formula"]).groupby(deep["load"], sort=False)
    said = [f"{load}: {ends(values.tolist())} of it" for load, values in share]
    return (
        "A verification step touches, in shares of what independent routing would: " + "; ".join(said) + ". "
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
    told = f"It loses on the mixture and wins on the dense target on {where}." if len(lost) else (
        "Nowhere does it lose on the mixture and win on the dense target, beyond both intervals."
    )  # fmt: skip
    more = of(int(table["ahead"].sum()), len(table), "combination")
    return (
        f"{told} It brings the mixture more, beyond both intervals, in {more} of traffic and batch. "
        f"{_bases(table)}"
    )


def _bases(table: pd.DataFrame) -> str:
    """What both speed-ups are over: a target that decodes faster by itself leaves less to gain."""
    faster = (table["moe_base"] / table["dense_base"]).groupby(table["load"], sort=False)
    said = listed(f"{ends(ratios.tolist())} times at {load}" for load, ratios in faster)
    return f"Without speculation the mixture decodes, in tokens/s of the dense target's, {said}."


def again(page: Sequence[RunRecord], runs: Sequence[RunRecord]) -> str:
    """The page's fastest arm on another machine: speed-ups of every traffic, and answers that are alike."""
    if not runs or {run.hardware.id for run in runs} == {run.hardware.id for run in page}:
        return f"Not measured on another machine yet: `specbook run {AGAIN}` does that."
    gains = speedup.speedups(runs)
    gains = gains[gains["method"] != "baseline"]
    said = listed(
        f"{row.label} brings {row.estimate.format('×')} on {row.domain}, over "
        f"{row.baseline_tokens_per_s:.0f} tokens/s ({row.baseline_execution})"
        for row in gains.itertuples()
    )
    found = answers.pairs(runs)
    drafted = found[found["comparison"] == "speculation"]
    alike = of(int(drafted["same"].sum()), len(drafted), "answer")
    return f"At batch 1 {said}. The same as without speculation: {alike}."


def noise(table: pd.DataFrame) -> str:
    """From which strength on acceptance is lower, in both readings, and whether experts changed with it."""
    strengths = sorted(set(table["router_noise"]) - {0.0})
    if table.empty or not strengths:
        return NO_NOISE
    parts = [
        part for reading in (QUIET, NOISY) if (part := _reading(table[table["reading"] == reading], reading))
    ]
    return "\n".join([*parts, _claim(table)])


def _reading(table: pd.DataFrame, reading: str) -> str:
    lines = []
    for domain, cell in table.groupby("domain", sort=False):
        cell = cell.set_index("router_noise")
        if 0.0 not in cell.index or len(cell) < 2:
            continue
        lower = [s for s in cell.index if s > 0 and _below(cell.loc[s], cell.loc[0.0])]
        from_ = f"lower from {min(lower):g} on" if lower else "not lower beyond its interval at any strength"
        last = cell.loc[max(cell.index)]
        lines.append(
            f"{domain}: {from_} ({_span(cell.loc[0.0])} without noise, {_span(last)} at {max(cell.index):g})"
        )
    return f"- **Acceptance length, {reading}.** " + "; ".join(lines) + "." if lines else ""


def _span(row: pd.Series) -> str:
    found = row["length_estimate"]
    return found.span() if isinstance(found, Estimate) else "nothing drafted"


def _below(noisy: pd.Series, quiet: pd.Series) -> bool:
    """Whether the two intervals of the acceptance length part, the noisy one below."""
    return bool(pd.notna(noisy["length_high"]) and noisy["length_high"] < quiet["length_low"])


def _claim(table: pd.DataFrame) -> str:
    """Which explanation of a mixture's loss the noise supports: lost acceptance, or more experts to read.

    Of a target that no longer answers as before, neither says anything.
    """
    quiet, noisy = table[table["router_noise"].eq(0)], table.drop(_failing(table).index)
    both = noisy[noisy["router_noise"].gt(0)].merge(quiet, on=["reading", "domain"], suffixes=("", "_quiet"))
    both = both.dropna(subset=["length_high", "length_low_quiet", "experts_low", "experts_high_quiet"])
    if both.empty:
        return (
            "- **What the noise supports.** Nothing yet: no cell has both intervals and a target that "
            "answers as before."
        )
    fell = both["length_high"] < both["length_low_quiet"]
    rose = both["experts_low"] > both["experts_high_quiet"]
    lower, higher = (of(int(cells.sum()), len(both), "cell") for cells in (fell, rose))
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


def babble(table: pd.DataFrame) -> str:
    """Strengths at which answers fail or loop: there acceptance says nothing of a useful model."""
    if table.empty:
        return NO_NOISE
    failing = _failing(table)
    if failing.empty:
        return "At no strength do fewer answers pass beyond the interval, or more than half of them loop."
    first = failing.groupby("domain", sort=False)["router_noise"].min()
    said = listed(f"{domain} from {strength:g} on" for domain, strength in first.items())
    return f"The target itself gets worse, or loops: {said}. There an accepted draft is of no use."


def _failing(table: pd.DataFrame) -> pd.DataFrame:
    """Rows with noise whose answers pass less often, beyond the intervals, or mostly loop."""
    quiet = table[table["router_noise"] == 0].set_index(["reading", "domain"])["passed_low"]
    worse = table.apply(_fails, axis=1, quiet=quiet)
    return table[(table["router_noise"] > 0) & (table["looped"].gt(0.5) | worse)]


def _fails(row: pd.Series, quiet: pd.Series) -> bool:
    key = (row["reading"], row["domain"])
    return key in quiet.index and bool(row["passed_high"] < quiet.loc[key])


def strengths(table: pd.DataFrame) -> pd.DataFrame:
    """Table of every cell of `mixture.noise` with its interval."""

    def span(name: str) -> list[str]:
        return [one.span() if isinstance(one, Estimate) else "" for one in table[f"{name}_estimate"]]

    body = {
        "head": table["reading"].str.removeprefix("head trained "), "domain": table["domain"],
        "noise, logits": table["router_noise"].map("{:g}".format), "acceptance length": span("length"),
        "passed": span("passed"), "looped": span("looped"), "experts touched": span("experts"),
        "n": [one.counted for one in table["passed_estimate"]],
    }  # fmt: skip
    return pd.DataFrame(body).set_index(["head", "domain", "noise, logits"])


def break_even(table: pd.DataFrame) -> pd.DataFrame:
    """Table of the tokens a step must yield, by the experts' bytes and as measured, from `mixture.prices`."""
    body = {
        "load": table["load"], "K": table[K],
        "by bytes counted": table["bytes_price"].map(_two),
        "by the formula's bytes": table["formula_price"].map(_two),
        "as measured": table["measured"].map(_two),
    }  # fmt: skip
    return pd.DataFrame(body).set_index(["load", "K"])


def _two(value: float) -> str:
    return "unknown" if pd.isna(value) else f"{value:.2f}"


def side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """Table of both targets' best speed-ups, and what a step of these arms yields, from `mixture.beside`."""
    rows = [
        {
            "load": row["load"], "domain": row["domain"], "target": target, "arm": row[f"{name}_arm"],
            "speed-up": row[name].span("×"), "baseline, tokens/s": round(row[f"{name}_base"]),
            "tokens a step": _two(row[f"{name}_length"]),
        }
        for _, row in table.iterrows() for name, target in (("moe", "mixture"), ("dense", "dense"))
    ]  # fmt: skip
    return pd.DataFrame(rows).set_index(["load", "domain", "target"])
