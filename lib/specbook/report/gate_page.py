"""Upgrades compared, and how often a gate is wrong, from the shipped records: for `book/compare.md`."""

from contextlib import suppress

from specbook.analysis import comparison, gate
from specbook.errors import SpecbookError
from specbook.records import selection
from specbook.report import comparison_report, executed_pages
from specbook.report.figures import speedup_figures, style
from specbook.report.tables import markdown
from specbook.stats.ratios import MIN_INTERVAL

UPGRADES = {
    "Another head": (
        "target=pocket-dense-next,draft=models/pocket-dense-next-eagle3",
        "target=pocket-dense-next,draft=models/pocket-dense-eagle3",
    ),
    "Another mode of the engine": (
        "target=pocket-dense,arm=baseline,execution=compiled",
        "target=pocket-dense,arm=baseline,execution=eager",
    ),
}
"""What changed, and the two selections."""
DRAWN = (0.0, *gate.SLOWDOWNS, 0.15, 0.2)
ALT = "Share of replays that the gate calls worse against the slowdown of B, a line for each kind of replay"
CAPTION = (
    "Replays that are called worse, against how much B was slowed down, with 95 % intervals. The value at "
    "zero is the rate of false alarms."
)
NOTHING = "No records here allow it."


def render() -> str:
    """Each upgrade compared, then the gate's replays."""
    parts = []
    for title, (a, b) in UPGRADES.items():
        parts += [f"# {title}", f"    specbook compare {a} {b}", _compared(a, b)]
    return "\n\n".join([*parts, *_replays()]) + "\n"


def _compared(a: str, b: str) -> str:
    with suppress(SpecbookError):
        both = (comparison.read(selection.read(text)) for text in (a, b))
        return comparison_report.page(comparison.compare(*both), markdown=True)
    return NOTHING


def _replays() -> list[str]:
    """The table and the figure of `gate.alarms` over every closed loop of the project."""
    title = "# False alarms and power"
    with suppress(SpecbookError):
        every = comparison.read(selection.read(""))
        alarms = gate.alarms(every.windows, slowdowns=DRAWN)
        if len(alarms):
            ax = speedup_figures.power(alarms)
            of = f"replays of {len(every.windows):,} measured windows, {MIN_INTERVAL} rounds a side"
            style.note(ax, of)
            drawn = executed_pages.figure("fig-power", ax.get_figure(), ALT, CAPTION)
            return [title, drawn, markdown(comparison_report.replays(alarms))]
    return [title, NOTHING]
