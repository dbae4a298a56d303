"""Figures of runs on a cluster: load, signals, pods and latency on one clock."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from specbook.analysis import scaling
from specbook.records.cluster_run import ClusterRun
from specbook.report.figures import style, tooltips
from specbook.report.figures.style import styled

LOAD, WAITING, SIGNAL, WANTED, READY, MEDIAN, SLOWEST = style.PALETTE[:7]
EVERY_S = 10.0


@styled
def timeline(run: ClusterRun) -> list[Axes]:
    """One run in four panels: the load with what waits, both signals, pods, and the time to first token."""
    axes = style.panels(4, height=2.0, columns=1)
    seen, served = scaling.timeline(run), scaling.over_time(run, EVERY_S)
    _load(axes[0], seen, served)
    _signals(axes[1], seen)
    _pods(axes[2], seen)
    _latency(axes[3], served)
    left, right = float(seen["at_s"].min()), run.ended_s + 20
    for ax in axes:
        _events(ax, run)
        ax.set_xlim(max(left, -20), min(right, float(seen["at_s"].max())))
        ax.set_ylim(bottom=0)
        ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.97), ncols=2)
    axes[-1].set_xlabel("seconds since the load began")
    return axes


def _load(ax: Axes, seen: pd.DataFrame, served: pd.DataFrame) -> None:
    ax.step(served["at_s"], served["arrivals_per_s"], where="mid", color=LOAD, label="arrivals, 1/s")
    ax.plot(seen["at_s"], seen["waiting"], color=WAITING, linewidth=1.2, label="requests waiting")
    _tell(ax, served, "arrivals_per_s", "arrivals", "{:.1f}", " /s")


def _signals(ax: Axes, seen: pd.DataFrame) -> None:
    for name, colour, label in (("queue_wait_ms", WAITING, "queue wait"),
                                ("queue_time_p95_ms", WANTED, "p95 queue time")):  # fmt: skip
        ax.plot(seen["at_s"], seen[name] / 1e3, color=colour, linewidth=1.2, label=f"{label}, s")
        ax.axhline(scaling.TARGET_MS[name] / 1e3, color=colour, linestyle=":", linewidth=1.2)


def _pods(ax: Axes, seen: pd.DataFrame) -> None:
    ax.step(seen["at_s"], seen["wanted"], where="post", color=WANTED, label="pods wanted", linestyle="--")
    ax.step(seen["at_s"], seen["ready"], where="post", color=READY, label="pods ready")
    changed = seen[seen["ready"].diff().fillna(0) != 0]
    _tell(ax, changed, "ready", "pods ready", "{:.0f}", "")
    ax.yaxis.get_major_locator().set_params(integer=True)


def _latency(ax: Axes, served: pd.DataFrame) -> None:
    ax.plot(served["at_s"], served["ttft_s"], color=LOAD, label=f"TTFT, median of {EVERY_S:g} s")
    ax.plot(served["at_s"], served["ttft_max_s"], color="#777777", linewidth=1.0, label="slowest, s")
    _tell(ax, served, "ttft_s", "median TTFT", "{:.2f}", " s")


def _tell(ax: Axes, table: pd.DataFrame, y: str, what: str, digits: str, unit: str) -> None:
    known = table[table[y].notna()]
    texts = [f"{row['at_s']:.0f} s: {what} {digits.format(row[y])}{unit}" for _, row in known.iterrows()]
    ax.add_artist(tooltips.Told(known["at_s"], known[y], texts))


def _events(ax: Axes, run: ClusterRun) -> None:
    for at in run.segments_s[1:]:
        ax.axvline(at, color="black", linewidth=1.0, linestyle="--")
    for action in run.actions:
        ax.axvspan(action.began_s, action.ended_s, color="#777777", alpha=0.12, linewidth=0)


@styled
def slots(runs: Mapping[str, ClusterRun]) -> list[Axes]:
    """A column for each number of slots: what waits, and the time per output token, on the same clock."""
    axes = style.panels(2 * len(runs), height=2.3, columns=len(runs))
    for place, (title, run) in enumerate(runs.items()):
        seen, rows = scaling.timeline(run), scaling.requests(run)
        above, below = axes[place], axes[place + len(runs)]
        above.plot(seen["at_s"], seen["waiting"], color=WAITING, label="waiting")
        above.plot(seen["at_s"], seen["running"], color=LOAD, linewidth=1.2, label="running")
        medians = rows.groupby(rows["sent_s"] // EVERY_S)["tpot_s"].median()
        below.plot((medians.index + 0.5) * EVERY_S, 1e3 * medians, color=READY, label="TPOT")
        above.set_title(title)
        below.set_xlabel("seconds")
        for ax in (above, below):
            _events(ax, run)
            ax.set_ylim(bottom=0)
            ax.set_xlim(0, run.ended_s)
    _same_height(axes[: len(runs)])
    _same_height(axes[len(runs) :])
    axes[0].set_ylabel("requests")
    axes[len(runs)].set_ylabel("median TPOT, ms")
    style.legend_above(axes[: len(runs)])
    return axes


def _same_height(axes: Sequence[Axes]) -> None:
    top = max(ax.get_ylim()[1] for ax in axes)
    for ax in axes:
        ax.set_ylim(0, top)
