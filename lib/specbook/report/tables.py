"""Tables as a page shows them: columns named with their units, values rounded, nothing computed anew."""

from collections.abc import Iterable, Sequence

import pandas as pd

from specbook.analysis import speedup, traffic
from specbook.records.lossless import LosslessRecord, fullest
from specbook.records.published import PublishedRow
from specbook.stats.equality import Divergence
from specbook.stats.estimate import Estimate
from specbook.suggestions import listed


def filled(table: pd.DataFrame) -> list[pd.DataFrame]:
    """The table, or none where it has no rows: an empty frame says nothing, and a sentence says why."""
    return [table] if len(table) else []


def markdown(table: pd.DataFrame) -> str:
    """A table of a page that is no notebook: no index, and cells as they are, words already."""
    return table.to_markdown(index=False, disable_numparse=True)


def span(ratio: Estimate | None) -> str:
    """`1.20× [1.10, 1.31]`; `-` where nothing was measured."""
    return "-" if ratio is None else ratio.span("×")


def speeds(table: pd.DataFrame) -> pd.DataFrame:
    """Table of both arms in tokens/s beside their ratio, its interval and its n, from `speedup.speedups`."""
    ratios = list(table["estimate"])
    under = table["baseline_tokens_per_s"].map("{:.0f} (".format) + table["baseline_execution"] + ")"
    columns = {
        "load": table["load"], "domain": table["domain"], "arm": table["label"],
        "speed-up": [one.span("×") for one in ratios], "baseline, tokens/s": under,
        "arm, tokens/s": table["tokens_per_s"].round(0).astype(int), "n": [one.counted for one in ratios],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "domain"])


def cases(arms: pd.DataFrame, loops: pd.DataFrame) -> pd.DataFrame:
    """Table of every arm of `prediction.bounds`, smaller K first: the speed-up, tokens/s without a draft and
    with it, the tokens of a step, and from `summaries.loops` the answers that loop.
    """
    where = ["load", "domain"]
    table = arms.merge(loops[[*where, "loops"]], on=where)
    table = table.assign(place=table.groupby(where, sort=False).ngroup())
    table = table.sort_values(["place", "method", "num_speculative_tokens"])
    before, after = (table[name].map("{:.1f}".format) for name in ("baseline_tokens_per_s", "tokens_per_s"))
    columns = {
        "load": table["load"], "domain": table["domain"], "arm": table["label"],
        "speed-up": table["estimate"].map(span), "tokens/s": before + " → " + after,
        "tokens a step": table["length"].round(2), "answers that loop, %": table["loops"].map(percent),
    }  # fmt: skip
    return pd.DataFrame(columns).set_index([*where, "arm"])


def settings(table: pd.DataFrame) -> pd.DataFrame:
    """Table of the one setting for all traffic at each load, from `speedup.best_over_domains`."""
    shown = {"above": "faster", "below": "slower", "within": "no difference shown", None: "no interval"}
    columns = {
        "load": table["load"], "fastest setting": table["arm"],
        "speed-up": [one.span("×") for one in table["estimate"]],
        "compared with none": [shown[one.side()] for one in table["estimate"]],
        "slowest kind of traffic": table["worst"].map("{:.2f}×".format),
        "fastest kind of traffic": table["best"].map("{:.2f}×".format),
        "n": [one.counted for one in table["estimate"]],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load"])


def gains(table: pd.DataFrame) -> pd.DataFrame:
    """Table of speed-ups by kind of prompts, a row for each of `traffic.best`."""
    columns = {
        "load": table["load"], "method": table["method"], "prompts": table["traffic"],
        "domains": table["domains"].map(listed), "best K": table["num_speculative_tokens"],
        "speed-up": [one.span("×") for one in table["estimate"]],
        "n": [one.counted for one in table["estimate"]],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "method", "prompts"])


def contrasts(table: pd.DataFrame) -> pd.DataFrame:
    """Table of how many times the speed-up of one kind of prompts is that of the other (`traffic.best`)."""
    rows = [
        (one["load"], one["method"], one["ratio"].span("×"))
        for one in traffic.contrast(table) if one["ratio"] is not None
    ]  # fmt: skip
    columns = ["load", "method", f"{traffic.STRUCTURED} over {traffic.OPEN}"]
    return pd.DataFrame(rows, columns=columns).set_index(columns[:2])


def beside_loops(table: pd.DataFrame) -> pd.DataFrame:
    """Table of `speedup.beside_loops`: how answers end, and the decoding speed-up with and without loops."""
    columns = {
        "load": table["load"], "domain": table["domain"], "arm": table["label"],
        "answers at the cap, %": table["capped"].map(percent),
        "answers that loop, %": table["loops"].map(percent),
        "tokens in loops, %": table["loop_tokens"].map(percent),
        "speed-up, all answers": [one.span("×") for one in table["every"]],
        "without loops": ["all of them loop" if one is None else one.span("×") for one in table["without"]],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["load", "domain"])


def overview(best: pd.DataFrame) -> pd.DataFrame:
    """Table of the fastest method's speed ratio and both speeds in tokens/s, loads side by side, from
    `speedup.best_k` by load and domain. Of several methods each is named.
    """
    table, several = speedup.fastest(best), best["method"].nunique() > 1
    cells = [
        f"{row.speedup:.2f}× ({row.baseline_tokens_per_s:.0f} → {row.tokens_per_s:.0f})"
        + (f" {row.label}" if several else "")
        for row in table.itertuples()
    ]
    wide = table.assign(cell=cells).pivot(index="domain", columns="load", values="cell")
    wide = wide.fillna("not measured")
    return wide.loc[list(dict.fromkeys(table["domain"])), list(dict.fromkeys(table["load"]))].reset_index()


def latency(table: pd.DataFrame) -> pd.DataFrame:
    """Table of latencies in ms with their interval, a clock per column, p99 below the median, from
    `latency.table` by concurrency and execution. `*`: too few prompts for that percentile.
    """
    cells = [_milliseconds(row.estimate) + ("" if row.enough else " *") for row in table.itertuples()]
    wide = table.assign(
        cell=cells, clock=table["metric"].str.removesuffix("_s").str.upper() + ", ms",
        batch=table["concurrency"].map("batch {:g}".format),
        percentile=(100 * table["q"]).map("p{:g}".format),
    )  # fmt: skip
    return _by_clock(wide, ["execution", "batch", "percentile"])


def _milliseconds(estimate: Estimate) -> str:
    value, low, high = (None if x is None else _ms(x) for x in (estimate.value, estimate.low, estimate.high))
    return f"{value}" if low is None else f"{value} [{low}, {high}]"


def _ms(seconds: float) -> str:
    """Milliseconds to one decimal, or whole from ten on."""
    return f"{1e3 * seconds:.{0 if seconds >= 0.01 else 1}f}"


def acceptance(table: pd.DataFrame) -> pd.DataFrame:
    """Table of raw counters, then what follows from them (micro averages), from `acceptance.by_domain`."""
    counters = {"num_drafts": "drafts", "num_draft_tokens": "drafted", "num_accepted_tokens": "accepted"}
    columns = {
        "arm": table["arm"], "domain": table["domain"],
        **{label: table[name] for name, label in counters.items()},
        "rate": table["rate"].round(3), "length": table["length"].round(2),
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["arm", "domain"])


def poisson(table: pd.DataFrame) -> pd.DataFrame:
    """Table of the highest rate that was still served, in requests/s, from `latency.saturation`."""
    shown = table["held_per_s"].map(lambda rate: "below the lowest tried" if pd.isna(rate) else f"{rate:g}")
    columns = {"arm": table["arm"], "domain": table["domain"], "no queue up to, requests/s": shown}
    return pd.DataFrame(columns).set_index(["arm", "domain"])


def prices(table: pd.DataFrame) -> pd.DataFrame:
    """Table of a step's fixed part and of what each draft token adds, drafted and checked, in steps of the
    best baseline, from `prediction.prices`.

    From one K alone the two cannot be told apart, `–`, and their sum is all there is.
    """
    columns = {
        "method": table["method"], "batch": table["concurrency"],
        "fixed part": table["fixed_cost"], "each draft token": table["draft_cost"],
        "K": table["num_speculative_tokens"], "break-even length at K": table["break_even_length"],
    }  # fmt: skip
    measured = pd.DataFrame(columns).set_index(["method", "batch"]).dropna(axis="columns", how="all").round(2)
    return measured.astype(object).where(measured.notna(), "–")


def crossovers(table: pd.DataFrame) -> pd.DataFrame:
    """Table of the K from which on drafting in parallel is faster, from `prediction.crossovers`."""
    shown = {
        name: [_crossing(row, row[name]) for _, row in table.iterrows()] for name in ("measured", "predicted")
    }
    return table[["load", "domain"]].assign(**shown).set_index(["load", "domain"])


def _crossing(row: pd.Series, k: float) -> str:
    if pd.isna(k):
        return f"never up to {row['largest']}"
    return f"from {row['smallest']}" if k <= row["smallest"] else f"from {k:.1f}"


def bounds(table: pd.DataFrame) -> pd.DataFrame:
    """Table of a step's tokens and price, the bound they set, and what arrived, from `prediction.bounds`."""
    names = {"length": "tokens a step", "cost": "price of a step", "bound": "bound", "speedup": "speed-up"}
    columns = {label: table[name].astype(float).round(2) for name, label in names.items()}
    names = {"share": "of the bound", "decoding": "decoding alone"}
    shares = {
        label: (100 * table[name].astype(float)).map("{:.0f} %".format) for name, label in names.items()
    }
    head = {"load": table["load"], "domain": table["domain"], "arm": table["label"]}
    return pd.DataFrame({**head, **columns, **shares}).set_index(["load", "domain"])


def options(table: pd.DataFrame) -> pd.DataFrame:
    """Table of a step's time with an option over the same step's without, from `analysis.steps.options`."""
    columns = {
        "arm": table["arm"], "option": table["option"],
        "step time, over that without": [one.span("×") for one in table["estimate"]],
        "tokens a step": table["length"].round(2), "n": [one.counted for one in table["estimate"]],
    }  # fmt: skip
    return pd.DataFrame(columns).set_index(["arm", "option"])


def tails(table: pd.DataFrame) -> pd.DataFrame:
    """Table of each arm's p99 in ms and how it changed, domains pooled, from `latency.changes`; `*`: not to
    be quoted.
    """
    p99 = table[table["q"] == 0.99]
    cells = [
        f"{_ms(row.arm_s)} ({1e3 * row.value:+.0f})" + ("" if row.enough else " *")
        for row in p99.itertuples()
    ]
    wide = p99.assign(cell=cells, clock=p99["metric"].str.removesuffix("_s").str.upper() + " p99, ms")
    return _by_clock(wide, ["load", "label"])


def _by_clock(table: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    """The column `cell`, a column per `clock`; rows and columns stay in their order, unnamed."""
    rows = list(table[index].drop_duplicates().itertuples(index=False, name=None))
    wide = table.pivot(index=index, columns="clock", values="cell")
    return wide.loc[rows, list(dict.fromkeys(table["clock"]))].rename_axis(
        index=[None] * len(index), columns=None
    )


def published(rows: Iterable[PublishedRow]) -> pd.DataFrame:
    """Numbers that others published, as they gave them; where each comes from is on the published page."""
    columns = {
        "target": "target_model", "draft": "draft", "traffic": "dataset", "batch": "batch_or_concurrency",
        "K": "num_speculative_tokens", "metric": "metric", "published": "value",
    }  # fmt: skip
    cells = [{label: getattr(row, name) for label, name in columns.items()} for row in rows]
    table = pd.DataFrame(cells, columns=list(columns)).replace({"n/s": "–", "-": "–"}).set_index("target")
    return table.assign(metric=table["metric"].str.replace("_", " "))  # a name may break where it is wide


AGAIN, MODE = "restarted", "other mode"
COMPARED = {"speculation": "with speculation", "restart": f"control: {AGAIN}", "mode": f"control: {MODE}"}


def answers(table: pd.DataFrame) -> pd.DataFrame:
    """Table of identical answers in % by load (and domain), speculation beside both controls, from
    `answers.shares`. Of several arms with speculation, the one that parts most often is shown and named.
    """
    index = [name for name in ("load", "domain") if name in table]
    rows = []
    for key, group in table.groupby(index, sort=False):
        cells = {COMPARED[name]: _least(part) for name, part in group.groupby("comparison", sort=False)}
        head = {**dict(zip(index, key, strict=True)), "prompts": group["estimate"].iloc[0].n}
        rows.append(head | dict.fromkeys(COMPARED.values(), "not measured") | cells)
    return pd.DataFrame(rows, columns=[*index, "prompts", *COMPARED.values()]).set_index(index)


def _least(group: pd.DataFrame) -> str:
    row = min(group.itertuples(), key=lambda row: row.estimate.value)
    differ = len({estimate.value for estimate in group["estimate"]}) > 1
    value, low, high = map(percent, (row.estimate.value, row.estimate.low, row.estimate.high))
    return f"{value} % [{low}, {high}]" + (f", {row.label}" if differ else "")


def percent(share: float) -> str:
    """`97.7`; 100 only where nothing is missing."""
    return "100" if share == 1 else f"{min(100 * share, 99.9):.1f}"


def same(checks: Iterable[LosslessRecord]) -> list[pd.DataFrame]:
    """Table, in a list, of answers that are the baseline's with speculation and in controls, by the fullest
    check of each precision; the largest margin (logits) where they part, `p_value`, and the machine. None
    without a check.
    """
    rows = [
        {"precision": check.target.dtype, "arm": arm, "the same": f"{same.equal} of {same.n}",
         "largest margin": _margin(parted), "p": p, "machine": machine}
        for check in fullest(checks)
        for arm, same, parted, p, machine in (
            (_drafted(check), check.equality, check.divergences, f"{check.p_value():.2g}", check.hardware.id),
            (f"control: {MODE}", check.control, check.control_divergences, "", ""),
            (f"control: {AGAIN}", check.repeat, check.repeat_divergences, "", ""),
        )
        if same is not None
    ]  # fmt: skip
    return [pd.DataFrame(rows).set_index(["precision", "arm"])] if rows else []


def _drafted(check: LosslessRecord) -> str:
    """The arm, and that its code was not its commit's where it was not."""
    dirty = any(origin.git_dirty for origin in check.provenance.values())
    return check.speculation.label + " (uncommitted changes)" * dirty


def right(checks: Iterable[LosslessRecord]) -> list[pd.DataFrame]:
    """Table, in a list, of the share of right answers in both arms, with Wilson's interval, by the fullest
    check of each precision. No table without a check, or without prompts that say what is right.
    """
    rows = [
        {"precision": check.target.dtype, "domain": domain,
         "without speculation": check.accuracy["baseline"][domain].format(),
         "with speculation": check.accuracy["speculation"][domain].format()}
        for check in fullest(checks)
        for domain in check.accuracy["baseline"]
    ]  # fmt: skip
    return [pd.DataFrame(rows).set_index(["precision", "domain"])] if rows else []


def _margin(parted: Sequence[Divergence]) -> str:
    """The largest, and of how many where not all were rated."""
    rated = [abs(fork.margin_logits) for fork in parted if fork.margin_logits is not None]
    some = f" ({len(rated)} of {len(parted)} rated)" if len(rated) < len(parted) else ""
    return (f"{max(rated):.3g}" if rated else "-") + some
