"""Figures of a server without speculation: tables -> Axes. Where their numbers come from: `style.sign`."""

import pandas as pd
from matplotlib.axes import Axes

from specbook.report.figures import style
from specbook.report.figures.style import colour, marker, ordered, styled
from specbook.report.figures.tooltips import Reading
from specbook.stats import ratios

METRICS = {
    "ttft_s": "TTFT: first token", "tpot_s": "TPOT: per token", "itl_s": "ITL: between chunks",
    "e2e_s": "E2E: whole answer",
}  # fmt: skip

ENDS = ("value", "low", "high")
NO_ARRIVALS = "No Poisson arrivals are in these records."
UNKNOWN = "not split: a peak of this machine, or a size of the model, is unknown"


@styled
def throughput(table: pd.DataFrame) -> list[Axes]:
    """Plot of output tokens/s by batch, a panel per domain, with intervals, from `summaries.throughput`."""
    domains = ordered(table["domain"])
    arms = list(dict.fromkeys(table["arm"]))
    axes = style.panels(len(domains), share_y=True)
    for ax, domain in zip(axes, domains, strict=True):
        for arm in arms:
            cell = table[(table["domain"] == domain) & (table["arm"] == arm)]
            means = cell.groupby("concurrency").apply(_mean)
            means = means.set_axis(["value", "low", "high", "estimate", "records"], axis=1).reset_index()
            means = means.assign(arm=arm, domain=domain)
            look = {"color": colour(arm, arms), "marker": marker(arm, arms), "label": arm}
            style.with_interval(ax, means, "concurrency", ENDS, Reading("{:.0f}", " tokens/s"), **look)
        style.batches(ax, table["concurrency"].dropna(), "batch")
        ax.set_title(domain)
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("output tokens/s, all sequences")
    style.legend_above(axes)
    return axes


def _mean(rows: pd.DataFrame) -> pd.Series:
    found = ratios.geometric_mean_ci(rows["output_tokens_per_s"])
    return pd.Series([found.value, found.low, found.high, found, tuple(rows["run_id"])])


@styled
def latency(table: pd.DataFrame) -> list[Axes]:
    """Plot of latencies in ms with intervals, hollow where prompts are too few.

    Made from `latency.table` by concurrency and arm.
    """
    arms = list(dict.fromkeys(table["arm"]))
    axes = style.panels(len(METRICS))
    for ax, (metric, title) in zip(axes, METRICS.items(), strict=True):
        for arm in arms:
            for q, line in ((0.5, "-"), (0.99, "--")):
                cell = table[(table["metric"] == metric) & (table["arm"] == arm) & (table["q"] == q)]
                _percentile(ax, cell, line, colour(arm, arms), f"{arm} p{100 * q:g}")
        style.batches(ax, table["concurrency"], "batch")
        ax.set_title(title)
        ax.set_ylim(bottom=0)
    axes[0].set_ylabel("ms")
    style.legend_above(axes)
    return axes


def _percentile(ax: Axes, cell: pd.DataFrame, line: str, hue: str, label: str) -> None:
    ms = cell.assign(**{name: 1e3 * cell[name].astype(float) for name in ENDS})
    ax.plot(ms["concurrency"], ms["value"], line, color=hue, label=label)
    style.marked(ax, ms, "concurrency", ENDS, Reading("{:.1f}", " ms"), color=hue, marker="o")


@styled
def step_time(table: pd.DataFrame) -> Axes:
    """Plot of the measured step in ms, split into what the roofline accounts for and overhead.

    Made from `steps.decode_steps`.
    """
    (ax,) = style.panels(1)
    names = [f"{row.execution}\nbatch {row.concurrency}" for row in table.itertuples()]
    known = table["least_s"].notna()
    least = 1e3 * table["least_s"].astype(float).fillna(0.0)
    hues = table["bound"].map({"memory": "#0072B2", "compute": "#009E73"}).fillna("#cccccc")
    for bound in ("memory", "compute"):
        chosen = (table["bound"] == bound).to_numpy()
        label = {
            "memory": "reading memory, at peak",
            "compute": "arithmetic, at peak",
        }
        if chosen.any():
            places = [i for i, is_bound in enumerate(chosen) if is_bound]
            ax.bar(places, least[chosen], color=hues[chosen], label=f"least possible: {label[bound]}")
    rest = 1e3 * table["step_s"] - least
    ax.bar(range(len(table)), rest, bottom=least, color="#d9d9d9", hatch="//", edgecolor="#888888",
           label="overhead: the rest" if known.all() else UNKNOWN)  # fmt: skip
    ax.set_xticks(range(len(table)), names, fontsize=8 if len(names) > 4 else 10)
    ax.set_ylabel("decode step, ms")
    ax.grid(axis="x", visible=False)
    ax.set_ylim(0, 1e3 * table["step_s"].max() * 1.3)
    style.legend_above([ax], 1)
    return ax


@styled
@style.or_words(NO_ARRIVALS)
def poisson(table: pd.DataFrame) -> list[Axes]:
    """Plot of served rate, latency and queue wait against the rate of arrivals.

    Made from `arrivals.poisson`, one arm.
    """
    axes = style.panels(3)
    for domain in ordered(table["domain"]):
        cell = table[table["domain"] == domain].sort_values("rate_per_s")
        look = {"color": colour(domain), "label": domain}
        axes[0].plot(cell["rate_per_s"], cell["served_per_s"], marker=marker(domain), **look)
        for name, line in (("e2e_p50", "-"), ("e2e_p99", "--")):
            axes[1].plot(cell["rate_per_s"], cell[f"{name}_s"], line, color=look["color"])
            columns = (f"{name}_s", f"{name}_low_s", f"{name}_high_s")
            shown = cell.assign(enough=cell[f"{name}_enough"], estimate=cell[f"{name}_estimate"])
            hue = look["color"]
            style.marked(
                axes[1], shown, "rate_per_s", columns, Reading("{:.2f}", " s"), color=hue, marker="o"
            )
        axes[2].plot(cell["rate_per_s"], cell["queue_wait_s"], marker=marker(domain), **look)
    rates = table["rate_per_s"]
    axes[0].plot([rates.min(), rates.max()], [rates.min(), rates.max()], ":", color="black", label="keeps up")
    axes[0].set_yscale("log", base=2)
    labels = ("served, requests/s", "E2E, s (solid p50, dashed p99)", "mean queue wait, s")
    for ax, label in zip(axes, labels, strict=True):
        style.batches(ax, rates, "arrivals, requests/s")
        ax.set_title(label)
    axes[0].set_yticks(sorted(set(rates)), [f"{rate:g}" for rate in sorted(set(rates))])
    for ax in axes[1:]:
        ax.set_ylim(bottom=0)
    style.legend_above(axes, 5)
    return axes


@styled
def utilisation(table: pd.DataFrame) -> Axes:
    """Plot of how busy the processor (or the GPU) was, mean over domains and restarts.

    Made from `steps.utilisation`.
    """
    (ax,) = style.panels(1, height=3.2)
    gpu = table["gpu_utilisation"].notna().any()
    share = table["gpu_utilisation"] if gpu else table["engine_cpu_cores"] / table["cores"]
    table = table.assign(
        busy=100 * share.astype(float), client=100 * table["client_cpu_cores"].astype(float) / table["cores"]
    )
    arms = list(dict.fromkeys(table["arm"]))
    for arm in arms:
        mean = table[table["arm"] == arm].groupby("concurrency")[["busy", "client"]].mean().reset_index()
        ax.plot(
            mean["concurrency"],
            mean["busy"],
            marker=marker(arm, arms),
            color=colour(arm, arms),
            label=f"engine, {arm}",
        )
        if not gpu:
            ax.plot(
                mean["concurrency"],
                mean["client"],
                ":",
                color=colour(arm, arms),
                label=f"load generator, {arm}",
            )
    style.batches(ax, table["concurrency"])
    ax.set_ylim(0, 105)
    ax.set_ylabel("% of the GPU's time" if gpu else "% of all cores")
    style.legend_above([ax], 2)
    return ax
