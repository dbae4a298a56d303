"""A mixture of experts in tables: experts touched, their price, noise in the router, a dense target."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, prediction, speedup, summaries
from specbook.config import AnyPlan, models
from specbook.config.schema import Frozen, Target
from specbook.records.experiment_results import ExpertsTouched, NoisyDomain, NoisyRouter
from specbook.records.run import ExperimentRecord, RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import experts, roofline
from specbook.stats.shape import TargetShape

K = "num_speculative_tokens"
TOUCHED = (
    "load", "concurrency", "domain", K, "tokens", "experts", "low", "high", "estimate", "formula",
    "bytes_price", "formula_price",
)  # fmt: skip
PRICES = ("load", "concurrency", K, "bytes_price", "formula_price", "measured")
NOISE = (
    "router_noise", "reading", "domain", "length", "length_low", "length_high", "passed", "passed_low",
    "passed_high", "looped", "experts", "experts_low", "experts_high",
    *(f"{name}_estimate" for name in ("length", "passed", "looped", "experts")),
)  # fmt: skip
BESIDE = (
    "load", "domain", "moe", "dense", "moe_arm", "dense_arm", "moe_length", "dense_length", "moe_base",
    "dense_base", "ahead", "behind",
)  # fmt: skip
ARM = ["load", "domain", "label"]
QUIET, NOISY = "head trained without noise", "head trained on with that noise"
"""The two readings of the experiment."""


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


def touched(results: Iterable[ExpertsTouched], target: Target) -> pd.DataFrame:
    """Experts of a layer that a step touches, counted and by the formula, and the bytes that follow.

    Columns: TOUCHED. `tokens`: in one step, all sequences together; `bytes_price` and `formula_price`: bytes
    read to verify over those read to decode, by count and by formula; NaN where the model's config is not
    here, or no decode step of that domain and batch was counted.
    """
    sized, rows = TargetShape.of(target, *models.stored(target)), []
    for result in results:
        decode = {(one.domain, one.concurrency): one.experts.value
                  for one in result.touched if one.num_speculative_tokens == 0}  # fmt: skip
        for one in result.touched:
            batch, k, mean = one.concurrency, one.num_speculative_tokens, one.experts
            sizes = (result.num_experts, result.num_experts_per_token, batch * (k + 1))
            base, prices = decode.get((one.domain, batch)), (np.nan,) * 2
            if sized and base:
                step = (sized.shape, batch, k, result.context, sized.widths.dtype_bytes)
                counted = roofline.verification_price(*step, counted=(base, mean.value))
                prices = counted, roofline.verification_price(*step)
            rows.append({
                "load": f"batch {batch}", "concurrency": batch, "domain": one.domain, K: k,
                "tokens": sizes[2], "experts": mean.value, "low": mean.low, "high": mean.high,
                "estimate": mean, "formula": experts.touched(*sizes),
                "bytes_price": prices[0], "formula_price": prices[1],
            })  # fmt: skip
    return summaries.frame(rows, TOUCHED)


def independent(num_experts: int, num_experts_per_token: int, most_tokens: int) -> pd.DataFrame:
    """Experts of a layer that independent routing touches, for up to `most_tokens` tokens in one step."""
    tokens = np.unique(np.geomspace(1, max(2, most_tokens), 60).round().astype(int))
    touched = [experts.touched(num_experts, num_experts_per_token, int(n)) for n in tokens]
    return pd.DataFrame({"tokens": tokens, "experts": touched})


def prices(counted: pd.DataFrame, runs: Sequence[RunRecord]) -> pd.DataFrame:
    """What a step must yield to pay: by the bytes of the experts alone, and as the steps were measured.

    Of `touched`, domains' mean; `measured` is the price of a step in steps of the best baseline, drafting
    included, the cheapest method's. Columns: PRICES; a batch and K without a measured step have no row.
    """
    costs = prediction.step_costs(runs)
    if counted.empty or costs.empty:
        return summaries.frame([], PRICES)
    key = ["load", "concurrency", K]
    measured = costs.groupby([*key, "method"])["cost"].mean().groupby(key).min().rename("measured")
    by_bytes = counted.groupby(key)[["bytes_price", "formula_price"]].mean()
    joined = by_bytes.join(measured, how="inner").reset_index()
    return joined.sort_values(["concurrency", K])[list(PRICES)]


def noise(results: Iterable[NoisyRouter]) -> pd.DataFrame:
    """One row per strength, reading and domain: acceptance length, share that passes, experts touched.

    Columns: NOISE; `length` is a micro average, its interval over prompts; NaN where nothing was drafted, no
    answer was as long as a step, or n is too small.
    """
    rows = []
    for result in results:
        reading = QUIET if result.head_noise is None else NOISY
        where = {"router_noise": result.router_noise, "reading": reading}
        rows += [where | _noisy(one) for one in result.domains]
    names = list(dict.fromkeys(row["domain"] for row in rows))
    rows.sort(key=lambda row: (row["reading"] != QUIET, names.index(row["domain"]), row["router_noise"]))
    return summaries.frame(rows, NOISE)


def _noisy(one: NoisyDomain) -> dict:
    drafted = [counters for counters in one.counters if counters.num_drafts]
    length = acceptance.length_ci(drafted, unit_of_n="prompts") if drafted else None
    estimates = {"length": length, "passed": one.passed, "looped": one.looped, "experts": one.experts}
    row: dict = {"domain": one.domain}
    for name, estimate in estimates.items():
        for key, end in ((name, "value"), (f"{name}_low", "low"), (f"{name}_high", "high")):
            value = getattr(estimate, end, None)
            row[key] = np.nan if value is None else value
        row[f"{name}_estimate"] = estimate
    return row


def fails(table: pd.DataFrame) -> pd.Series:
    """Whether each row of `noise` has noise, and answers that pass less often, beyond the intervals, or of
    which more than half loop.
    """
    quiet = table[table["router_noise"] == 0].set_index(["reading", "domain"])["passed_low"]
    low = quiet.reindex(pd.MultiIndex.from_frame(table[["reading", "domain"]])).set_axis(table.index)
    return (table["router_noise"] > 0) & (table["looped"].gt(0.5) | table["passed_high"].lt(low))


def moved_by_noise(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `noise` with noise that still pass as before (`fails`), and what the noise moved in them.

    Columns: those of `noise`, their likes without noise with `_quiet`, and beyond both intervals
    `acceptance_fell` and `experts_rose`. Rows without all four intervals are left out.
    """
    quiet = table[table["router_noise"].eq(0)]
    noisy = table[table["router_noise"].gt(0) & ~fails(table)]
    both = noisy.merge(quiet, on=["reading", "domain"], suffixes=("", "_quiet"))
    both = both.dropna(subset=["length_high", "length_low_quiet", "experts_low", "experts_high_quiet"])
    return both.assign(
        acceptance_fell=both["length_high"] < both["length_low_quiet"],
        experts_rose=both["experts_low"] > both["experts_high_quiet"],
    )


def beside(moe: Sequence[RunRecord], dense: Sequence[RunRecord]) -> pd.DataFrame:
    """Each target's fastest arm, by load and domain, of those arms that both were measured with there.

    Columns: BESIDE; `moe` and `dense` are the `Estimate`s of the speed-ups over each target's own best
    baseline, the lengths are the arms' own, in tokens/step, the bases those baselines, in tokens/s. `ahead`
    and `behind`: the mixture gains more or less, beyond the intervals.
    """
    if not (moe and dense):
        return summaries.frame([], BESIDE)
    cells = _arms(moe).merge(_arms(dense), on=ARM, suffixes=("_moe", "_dense")).groupby(ARM[:2], sort=False)
    return summaries.frame([_fastest(where, cell) for where, cell in cells], BESIDE)


def _arms(runs: Sequence[RunRecord]) -> pd.DataFrame:
    """Speed-ups with speculation, and the acceptance lengths beside them."""
    return speedup.speedups(runs).merge(acceptance.by_domain(runs)[[*ARM, "length"]], on=ARM)


def _fastest(where: tuple[str, str], cell: pd.DataFrame) -> dict:
    best = {name: cell.loc[cell[f"speedup_{name}"].idxmax()] for name in ("moe", "dense")}
    moe, dense = (row[f"estimate_{name}"] for name, row in best.items())
    side = moe.beside(dense)
    return {
        "load": where[0], "domain": where[1], "moe": moe, "dense": dense,
        **{f"{name}_arm": row["label"] for name, row in best.items()},
        **{f"{name}_length": row[f"length_{name}"] for name, row in best.items()},
        **{f"{name}_base": row[f"baseline_tokens_per_s_{name}"] for name, row in best.items()},
        "ahead": side == "above", "behind": side == "below",
    }  # fmt: skip
