"""Figures on a clock, of clusters and of drift: recordings -> Axes. Where they come from: `style.note`."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from specbook.analysis import drift, scaling
from specbook.records.experiment_results import ClusterRun, DayArms, Episode, FallbackArms
from specbook.report.figures import style
from specbook.report.figures.style import colour, look, styled

LOAD, WAITING, _, WANTED, READY = style.PALETTE[:5]
EVERY_S = 10.0
ARMS = ("fallback", "drafting", "plain")
SMOOTH_S = 5.0


@styled
def timeline(run: ClusterRun) -> list[Axes]:
    """One run in four panels: the load with what waits, both signals, pods, and the time to first token."""
    load, signals, pods, latency = axes = style.panels(4, height=2.0, columns=1)
    readings, served = scaling.timeline(run), scaling.over_time(run, EVERY_S)
    at_s, served_at_s = readings["at_s"], served["at_s"]

    load.step(served_at_s, served["arrivals_per_s"], where="mid", color=LOAD, label="arrivals, 1/s")
    load.plot(at_s, readings["waiting"], color=WAITING, linewidth=1.2, label="requests waiting")
    _tooltips(load, served, "arrivals_per_s", "arrivals {:.1f} /s")

    for name, hue, label in (("queue_wait_ms", WAITING, "queue wait"),
                             ("queue_time_p95_ms", WANTED, "p95 queue time")):  # fmt: skip
        signals.plot(at_s, readings[name] / 1e3, color=hue, linewidth=1.2, label=f"{label}, s")
        signals.axhline(scaling.TARGET_MS[name] / 1e3, color=hue, linestyle=":", linewidth=1.2)

    pods.step(at_s, readings["ready"], where="post", color=READY, label="pods ready")
    pods.step(at_s, readings["wanted"], where="post", color=WANTED, label="pods wanted", linestyle="--")
    changed = readings[readings["ready"].diff().fillna(0) != 0]
    _tooltips(pods, changed, "ready", "pods ready {:.0f}")
    pods.yaxis.get_major_locator().set_params(integer=True)

    latency.plot(served_at_s, served["ttft_s"], color=LOAD, label=f"TTFT, median of {EVERY_S:g} s")
    latency.plot(served_at_s, served["ttft_max_s"], color="#888888", linewidth=1.0, label="slowest, s")
    _tooltips(latency, served, "ttft_s", "median TTFT {:.2f} s")

    left, right = float(at_s.min()), run.ended_s + 20
    for ax in axes:
        _events(ax, run)
        ax.set_xlim(max(left, -20), min(right, float(at_s.max())))
        ax.set_ylim(bottom=0)
        ax.legend(loc="lower left", bbox_to_anchor=(-0.01, 0.97), ncols=2)
    axes[-1].set_xlabel("seconds since the load began")
    return axes


def _tooltips(ax: Axes, table: pd.DataFrame, y: str, form: str) -> None:
    drawn = table[table[y].notna()]
    texts = [
        f"{at_s:.0f} s: {form.format(value)}" for at_s, value in zip(drawn["at_s"], drawn[y], strict=True)
    ]
    ax.add_artist(style.Tooltips(drawn["at_s"], drawn[y], texts))


def _events(ax: Axes, run: ClusterRun) -> None:
    for at in run.segments_s[1:]:
        ax.axvline(at, color="black", linewidth=1.0, linestyle="--")
    for action in run.actions:
        ax.axvspan(action.began_s, action.ended_s, color="#888888", alpha=0.2, linewidth=0)
        ax.axvline(action.began_s, color="#888888", linewidth=1.0)


@styled
def slots(runs: Mapping[str, ClusterRun]) -> list[Axes]:
    """A column for each number of slots: what waits, and the time per output token, on the same clock."""
    axes = style.panels(2 * len(runs), height=2.3, columns=len(runs))
    for place, (title, run) in enumerate(runs.items()):
        readings, served = scaling.timeline(run), scaling.over_time(run, EVERY_S)
        above, below = axes[place], axes[place + len(runs)]
        above.plot(readings["at_s"], readings["waiting"], color=WAITING, label="waiting")
        above.plot(readings["at_s"], readings["running"], color=LOAD, linewidth=1.2, label="running")
        below.plot(served["at_s"], 1e3 * served["tpot_s"], color=READY, label="TPOT")
        above.set_title(title)
        below.set_xlabel("seconds")
        for ax in (above, below):
            _events(ax, run)
            ax.set_ylim(bottom=0)
            ax.set_xlim(0, run.ended_s)
    for row in (axes[: len(runs)], axes[len(runs) :]):
        top = max(ax.get_ylim()[1] for ax in row)
        for ax in row:
            ax.set_ylim(0, top)
    axes[len(runs)].set_ylabel("median TPOT, ms")
    style.finish(axes[: len(runs)], "requests")
    return axes


@styled
def episodes(shown: dict[str, Episode]) -> list[Axes]:
    """Acceptance length over time, a panel for each recording, the beginning of its drift as a line."""
    axes = style.panel_for_each(shown, share_y=True, columns=2)
    for title, ax in axes.items():
        table = drift.lengths(shown[title])
        ax.plot(table["at_s"], table["length"], color=style.PALETTE[0], linewidth=1.2, label="each reading")
        for place, at in enumerate(shown[title].drift_s):
            label = "" if place else "drift begins"
            ax.axvline(at, color="black", linewidth=1.2, linestyle="--", label=label)
        ax.set_xlabel("seconds")
    return style.finish(axes.values(), "acceptance length, tokens/step")


@style.or_words("No drift was recorded for this plan.")
def monitors(table: pd.DataFrame) -> list[Axes]:
    """`drift.compare`: false alarms a day against the median delay, a panel for each kind of drift.

    Each monitor has a line over the times that it is given.
    """
    axes, names = style.panel_for_each(table["drift"], share_y=True), sorted(set(table["monitor"]))
    for kind, ax in axes.items():
        for name, rows in table[table["drift"] == kind].groupby("monitor", sort=False):
            span = np.array([(one.value - one.low, one.high - one.value) for one in rows["estimate"]]).T
            ax.errorbar(rows["delay_s"], rows["false_alarms"], yerr=span, capsize=3, linewidth=1.0,
                        **look(name, names))  # fmt: skip
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set_xlabel("median delay, s")
    ax.set_ylim(bottom=-0.3)  # shared, so it comes after all panels are drawn; a marker at 0 is whole
    return style.finish(axes.values(), "false alarms a day", 2)


@styled
def fallback(result: FallbackArms, thresholds: Sequence[float]) -> list[Axes]:
    """The first repeat: acceptance of the drafting server with the switches, and how long requests took.

    thresholds: acceptance lengths, in tokens/step, at which it leaves speculation and returns to it.
    """
    arms = {arm.arm: arm for arm in result.arms if arm.repeat == 0}
    above, below = style.panels(2, columns=1, height=2.7)
    lengths = drift.lengths(arms["fallback"].episode)
    above.plot(lengths["at_s"], lengths["length"], color=colour("fallback", ARMS), linewidth=1.2)
    for threshold in thresholds:
        above.axhline(threshold, color="#888888", linestyle=":", linewidth=1.2)
    above.set_ylabel("acceptance length")
    for name in ARMS:
        e2e = drift.e2e_medians(arms[name].episode, SMOOTH_S)
        below.plot(e2e["at_s"], e2e["e2e_s"], color=colour(name, ARMS), label=name)
    below.set_xlabel("seconds")
    right = max(above.get_xlim()[1], below.get_xlim()[1])
    for ax in (above, below):
        for switch in arms["fallback"].switches:
            ax.axvline(switch.at_s, color="black", linewidth=1.0)
        for at in arms["fallback"].episode.drift_s:
            ax.axvline(at, color="black", linewidth=1.0, linestyle="--")
        ax.set_ylim(bottom=0)
        ax.set_xlim(0, right)
    style.finish([below], f"E2E, median of {SMOOTH_S:g} s, s")
    return [above, below]


@styled
def day(result: DayArms, thresholds: Sequence[float] = ()) -> Axes:
    """Requests in flight over a day, smoothed: a thin line a restart, a thick one the mean of an arm.

    thresholds: numbers in flight, drawn across.
    """
    (ax,) = style.panels(1, height=4.2)
    names = list(dict.fromkeys(one.arm for one in result.arms))
    at_s = np.arange(0.0, max(one.requests.sent_s[-1] for one in result.arms), 0.5)
    window = np.ones(round(SMOOTH_S / 0.5)) * 0.5 / SMOOTH_S
    for name in names:
        each = [scaling.in_flight(one, at_s) for one in result.arms if one.arm == name]
        each = [np.convolve(one, window, "same") for one in each]
        ax.plot(at_s, np.transpose(each), color=colour(name, names), linewidth=0.8, alpha=0.5)
        ax.plot(at_s, np.mean(each, axis=0), color=colour(name, names), label=name)
    for threshold in thresholds:
        ax.axhline(threshold, color="#888888", linestyle=":", linewidth=1.2)
    ax.set_xlabel("seconds")
    return style.finish([ax], "requests in flight", 2)[0]
