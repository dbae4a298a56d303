"""Figures of drift: recordings -> Axes. Where their numbers come from: `style.note`."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from specbook.analysis import drift
from specbook.analysis.versions import VERSIONS
from specbook.records.drift_results import Arm, Episode, FallenBack
from specbook.report.figures import style
from specbook.report.figures.style import colour, marker, styled
from specbook.report.figures.tooltips import Reading
from specbook.stats.fallback import Policy

ARMS = ("fallback", "drafting", "plain")
SMOOTH_S = 5.0
NOTHING = "No drift was recorded for this plan."
NO_VERSIONS = "A draft one version behind: not measured yet."
LENGTH = ("length", "length_low", "length_high")


@styled
def episodes(shown: dict[str, Episode]) -> list[Axes]:
    """Acceptance length over time, a panel for each recording, the beginning of its drift as a line."""
    axes = style.panels(len(shown), share_y=True, columns=2)
    for ax, (title, episode) in zip(axes, shown.items(), strict=True):
        seen = drift.lengths(episode)
        ax.plot(seen["at_s"], seen["length"], color=style.PALETTE[0], linewidth=1.2, label="each reading")
        for place, at in enumerate(episode.drift_s):
            ax.axvline(
                at, color="black", linewidth=1.2, linestyle="--", label="" if place else "drift begins"
            )
        ax.set_title(title)
        ax.set_xlabel("seconds")
    axes[0].set_ylabel("acceptance length, tokens/step")
    style.legend_above(axes)
    return axes


@style.or_words(NOTHING)
@styled
def monitors(table: pd.DataFrame) -> list[Axes]:
    """Plot of false alarms a day against the median delay, a panel for each kind of drift.

    Each monitor has a line over the times that it is given. Made from `drift.compare`.
    """
    kinds, names = list(dict.fromkeys(table["drift"])), list(dict.fromkeys(sorted(table["monitor"])))
    axes = style.panels(len(kinds), share_y=True)
    for ax, kind in zip(axes, kinds, strict=True):
        for name, rows in table[table["drift"] == kind].groupby("monitor", sort=False):
            span = np.array([(one.value - one.low, one.high - one.value) for one in rows["estimate"]]).T
            look = {"color": colour(name, names), "marker": marker(name, names), "label": name}
            ax.errorbar(rows["delay_s"], rows["false_alarms"], yerr=span, capsize=3, linewidth=1.0, **look)
        ax.set_yscale("symlog", linthresh=1.0)
        ax.set_ylim(bottom=0)
        ax.set_title(kind)
        ax.set_xlabel("median delay, s")
    axes[0].set_ylabel("false alarms a day")
    style.legend_above(axes, columns=2)
    return axes


@styled
def fallback(result: FallenBack, policy: Policy) -> list[Axes]:
    """The first repeat: acceptance of the drafting server with the switches, and how long requests took."""
    arms = {arm.arm: arm for arm in result.arms if arm.repeat == 0}
    above, below = style.panels(2, columns=1, height=2.7)
    seen = drift.lengths(arms["fallback"].episode)
    above.plot(seen["at_s"], seen["length"], color=colour("fallback", ARMS), linewidth=1.2)
    for threshold in (policy.leave_below, policy.return_above):
        above.axhline(threshold, color="#777777", linestyle=":", linewidth=1.2)
    above.set_ylabel("acceptance length")
    for name in ARMS:
        at, took = _medians(arms[name])
        below.plot(at, took, color=colour(name, ARMS), label=name)
    below.set_ylabel(f"E2E, median of {SMOOTH_S:g} s, s")
    below.set_xlabel("seconds")
    for ax in (above, below):
        _switches(ax, arms["fallback"])
    style.legend_above([below])
    return [above, below]


def _switches(ax: Axes, arm: Arm) -> None:
    for switch in arm.switches:
        ax.axvline(switch.at_s, color="black", linewidth=1.0)
    for at in arm.episode.drift_s:
        ax.axvline(at, color="black", linewidth=1.0, linestyle="--")
    ax.set_ylim(bottom=0)


def _medians(arm: Arm) -> tuple[Sequence[float], Sequence[float]]:
    """Medians of E2E of requests by when they were sent."""
    sent, took = np.array(arm.episode.requests.start_s), np.array(arm.episode.requests.e2e_s)
    bins = (sent // SMOOTH_S).astype(int)
    places = sorted(set(bins.tolist()))
    return [(b + 0.5) * SMOOTH_S for b in places], [float(np.median(took[bins == b])) for b in places]


@style.or_words(NO_VERSIONS)
@styled
def versions(table: pd.DataFrame) -> list[Axes]:
    """Plot of acceptance length by domain, a panel a load, a colour for each version (`versions.lengths`)."""
    loads, domains = list(dict.fromkeys(table["load"])), style.ordered(table["domain"])
    axes = style.panels(len(loads), height=3.8, share_y=True)
    for ax, load in zip(axes, loads, strict=True):
        for place, version in enumerate(VERSIONS):
            cell = table[(table["load"] == load) & (table["version"] == version)]
            there = cell.assign(place=cell["domain"].map(domains.index) + 0.2 * (place - 1))
            look = {"color": colour(version, VERSIONS), "marker": marker(version, VERSIONS), "label": version}
            style.with_interval(
                ax, there, "place", LENGTH, Reading("{:.2f}", " tokens/step"), linestyle="none", **look
            )
        ax.set_xticks(range(len(domains)), domains)
        ax.set_ylim(bottom=0.9)
        ax.grid(axis="x", visible=False)
        ax.set_title(load)
    axes[0].set_ylabel("tokens per step")
    style.legend_above(axes)
    return axes
