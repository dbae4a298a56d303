"""The chapter on mixtures of experts in words and tables, from `analysis.moe_tables`."""

from collections.abc import Iterable, Sequence

import pandas as pd

from specbook.analysis.moe_tables import K
from specbook.config import AnyPlan
from specbook.config.schema import Frozen
from specbook.records.experiment import ExperimentRecord
from specbook.records.experiment_results import ExpertsTouched, NoisyRouter
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report import provenance_line
from specbook.stats.estimate import Estimate
from specbook.suggestions import listed

AGAIN = "appendix_mixture_again"
"""Plan of the fastest arm once more."""


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


def missing(
    dense: Sequence[RunRecord], counted: Sequence[ExpertsTouched], disturbed: Sequence[NoisyRouter]
) -> str:
    """Which parts of the chapter were not measured; nothing where all were."""
    parts = {
        "the dense target": dense, "experts touched": counted,
        "noise in the router": [one for one in disturbed if one.router_noise > 0],
    }  # fmt: skip
    lacking = [name for name, measured in parts.items() if not measured]
    return f"**Not measured yet:** {listed(lacking)}." if lacking else ""


def again(page: Sequence[RunRecord], runs: Sequence[RunRecord]) -> str:
    """Whose records of the page's fastest arm are of another machine, or what measures them."""
    if not runs or {run.hardware.id for run in runs} == {run.hardware.id for run in page}:
        return f"Not measured on another machine yet: `specbook run {AGAIN}` does that."
    return provenance_line.credit(runs)


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


def _span(estimate: Estimate | None) -> str:
    return estimate.span() if isinstance(estimate, Estimate) else ""


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
