"""Tables as a page shows them: columns named with their units, values rounded, nothing computed anew."""

from collections.abc import Iterable

import pandas as pd

from specbook.estimate import Estimate
from specbook.lossless import largest_margin
from specbook.lossless_record import LosslessRecord, fullest


def speeds(table: pd.DataFrame) -> pd.DataFrame:
    """Of `comparisons.speedups`: both arms in tokens/s beside their ratio, its interval and its n."""
    ratio, n = zip(*(estimate.format("×").rsplit(", n=", 1) for estimate in table["estimate"]), strict=True)
    mode = table["baseline"].str.removeprefix("baseline ")
    columns = {
        "load": table["load"], "domain": table["domain"],
        "arm": table["arm"].str.split(" (", regex=False).str[0], "speed-up": ratio,
        "baseline, tokens/s": table["baseline_tokens_per_s"].map("{:.0f} ".format) + mode,
        "arm, tokens/s": table["tokens_per_s"].round(0).astype(int), "n": n,
    }  # fmt: skip
    return _indexed(columns, ["load", "domain"])


def overview(table: pd.DataFrame) -> pd.DataFrame:
    """Of `comparisons.speedups`, one arm per load and domain: ratios and both speeds, loads side by side."""
    cells = [
        f"{row.speedup:.2f}× ({row.baseline_tokens_per_s:.0f} → {row.tokens_per_s:.0f})"
        for row in table.itertuples()
    ]
    wide = table.assign(cell=cells).pivot(index="domain", columns="load", values="cell")
    return wide.loc[list(dict.fromkeys(table["domain"])), list(dict.fromkeys(table["load"]))]


def medians(table: pd.DataFrame) -> pd.DataFrame:
    """Of `summaries.medians` by concurrency and arm: milliseconds and their interval, a clock per column."""
    return _clocks(table.assign(cell=[_milliseconds(estimate) for estimate in table["estimate"]])).T


def _milliseconds(estimate: Estimate) -> str:
    value, low, high = (
        None if x is None else _ms(x, 0.01) for x in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value}" if low is None else f"{value} [{low}, {high}]"


def _ms(seconds: float, whole_from_s: float) -> str:
    """Milliseconds to one decimal, or whole from `whole_from_s` on."""
    return f"{1e3 * seconds:.{0 if seconds >= whole_from_s else 1}f}"


def latency(table: pd.DataFrame) -> pd.DataFrame:
    """Of `summaries.latency_table` by concurrency and arm: milliseconds; `*`: too few samples."""
    marks = table["enough"].map({True: "", False: " *"})
    return _clocks(table.assign(cell=[_ms(value, 0.1) for value in table["value"]] + marks))


def _clocks(table: pd.DataFrame) -> pd.DataFrame:
    """`cell` by clock and percentile (rows), mode and batch (columns)."""
    names = table["metric"].str.removesuffix("_s").str.upper() + table["q"].map(
        lambda q: f" p{100 * q:g}, ms"
    )
    mode = table["arm"].str.removeprefix("baseline ").str.strip("()")
    batch = table["concurrency"].map(lambda c: f"batch {c:g}")
    wide = table.assign(clock=names, mode=mode, batch=batch)
    columns = list(dict.fromkeys(zip(mode, batch, strict=True)))
    wide = wide.pivot(index="clock", columns=["mode", "batch"], values="cell")
    return wide.loc[list(dict.fromkeys(names)), columns].rename_axis(index=None, columns=[None, None])


def acceptance(table: pd.DataFrame) -> pd.DataFrame:
    """Of `acceptance.by_domain`: raw counters first, then what follows from them (micro averages)."""
    counters = {"num_drafts": "drafts", "num_draft_tokens": "drafted", "num_accepted_tokens": "accepted"}
    return _indexed(
        {
            "arm": table["arm"], "domain": table["domain"],
            **{label: table[name] for name, label in counters.items()},
            "rate": table["rate"].round(3), "length": table["length"].round(2),
        },
        ["arm", "domain"],
    )  # fmt: skip


def poisson(table: pd.DataFrame) -> pd.DataFrame:
    """Of `serving.saturation`: the highest rate that was still served."""
    shown = table["held_per_s"].map(lambda rate: "below the lowest tried" if pd.isna(rate) else f"{rate:g}")
    return _indexed(
        {"arm": table["arm"], "domain": table["domain"], "served to, requests/s": shown}, ["arm", "domain"]
    )


def prices(table: pd.DataFrame) -> pd.DataFrame:
    """Of `predict.prices`: what verifying and drafting cost, in steps of the best baseline."""
    renamed = table.rename(columns={
        "concurrency": "batch", "verify_cost": "verification", "draft_cost": "each draft token",
        "num_speculative_tokens": "K", "break_even_length": "break-even length at K",
    })  # fmt: skip
    return renamed.set_index(["method", "batch"]).round(2)


def lossless(checks: Iterable[LosslessRecord]) -> pd.DataFrame:
    """A row per precision: prompts answered alike with speculation and in the control, the largest margin
    (logits) where they part, and the chance p of speculation parting so much more often by luck.
    """
    rows = []
    for check in fullest(checks):
        test = check.comparison()
        rows.append(
            {
                "precision": check.target.dtype, "arm": check.speculation.label,
                "equal": f"{check.equality.equal} of {check.equality.n}",
                "margin": _margin(largest_margin(check.divergences)),
                "control equal": f"{check.control.equal} of {check.control.n}",
                "control margin": _margin(largest_margin(check.control_divergences)),
                "p": f"{test.p_value:.2g}",
            }
        )  # fmt: skip
    return pd.DataFrame(rows).set_index("precision") if rows else pd.DataFrame({"no lossless check": []})


def accuracy(checks: Iterable[LosslessRecord]) -> pd.DataFrame:
    """A row per precision and domain: the share of right answers in both arms, with Wilson's interval."""
    rows = [
        {"precision": check.target.dtype, "domain": domain,
         "without speculation": _share(check.accuracy["baseline"][domain]),
         "with speculation": _share(check.accuracy["speculation"][domain])}
        for check in fullest(checks)
        for domain in check.accuracy["baseline"]
    ]  # fmt: skip
    return (
        pd.DataFrame(rows).set_index(["precision", "domain"])
        if rows
        else pd.DataFrame({"no task accuracy": []})
    )


def _share(estimate: Estimate) -> str:
    return estimate.format()


def _margin(margin: float | None) -> str:
    return "-" if margin is None else f"{margin:.3g}"


def _indexed(columns: dict[str, object], index: list[str]) -> pd.DataFrame:
    return pd.DataFrame(columns).set_index(index)
