"""What a figure's points say when a reader points at them: where they lie, value, interval, n and records."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

FEW = 5
"""Records named one by one; of more, the count is said."""


class Reading(NamedTuple):
    """How a value is written: its digits, and what stands once behind it."""

    digits: str = "{:.3g}"
    unit: str = ""


class Point(NamedTuple):
    """A place in the figure, in shares of its width and height from the lower left, and what it says."""

    x: float
    y: float
    text: str


class Told(Artist):
    """Draws nothing: remembers what points at data coordinates say, until the figure is laid out."""

    def __init__(self, xs: Iterable[float], ys: Iterable[float], texts: Iterable[str]) -> None:
        super().__init__()
        self.places = [(float(x), float(y)) for x, y in zip(xs, ys, strict=True)]
        self.texts = list(texts)


def tell(ax: Axes, table: pd.DataFrame, x: str, ends: Sequence[str], reading: Reading) -> None:
    """Each row of the table says its value at (`x`, `ends[0]`), where there is one; `ends`: value, low, high.

    What else is said is in the row's columns: domain, load (or concurrency, or rate_per_s), arm, metric and
    q, `estimate` (for its n) and `records`.
    """
    known = table[table[ends[0]].notna()]
    texts = [say(row, [row[name] for name in ends], reading) for _, row in known.iterrows()]
    ax.add_artist(Told(known[x], known[ends[0]], texts))


def say(row: pd.Series, ends: Sequence[float | None], reading: Reading) -> str:
    """Three lines: where, the value with its interval and n, and the records behind it."""
    value, *interval = (None if pd.isna(end) else reading.digits.format(end) for end in ends)
    span = "no interval" if None in interval else f"[{', '.join(map(str, interval))}]"
    estimate, ids = row.get("estimate"), row.get("records")
    n = f", n={estimate.counted}" if estimate is not None else ""
    return "\n".join([_where(row), f"{value}{reading.unit} {span}{n}", *([_records(ids)] if ids else [])])


def _where(row: pd.Series) -> str:
    load = row.get("load")
    if load is None and row.get("rate_per_s") is not None:
        load = f"{row['rate_per_s']:g} requests/s"
    if load is None and row.get("concurrency") is not None:
        load = f"batch {row['concurrency']:g}"
    clock = f"p{100 * row['q']:g} {row['metric'].removesuffix('_s').upper()}" if "q" in row else None
    return ", ".join(str(part) for part in (clock, row.get("domain"), load, row.get("arm")) if part)


def _records(ids: Sequence[Any]) -> str:
    more = f" and {len(ids) - FEW} more" if len(ids) > FEW else ""
    return f"record{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids[:FEW]))}{more}"


def of(fig: Figure) -> list[Point]:
    """All that was told in the figure, where its present layout puts it."""
    width, height = fig.bbox.size
    found = []
    for told in fig.findobj(Told):
        for place, text in zip(told.places, told.texts, strict=True):
            x, y = told.axes.transData.transform(place)
            found.append(Point(float(x / width), float(y / height), text))
    return found
