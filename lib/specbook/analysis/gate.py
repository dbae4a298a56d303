"""A gate on a comparison: its thresholds, and by replays of records how often it is wrong.

An A/A replay compares rounds of one arm with other rounds of it: what is called worse there is a false alarm.
The same replays, B slowed down, say how often a slowdown is seen.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from specbook.analysis import comparison, summaries
from specbook.analysis.comparison import CELL, METRICS, TOLERANCE, Comparison, Side, Verdict
from specbook.config.schema import Frozen
from specbook.stats import ratios, wilson
from specbook.stats.estimate import Estimate
from specbook.stats.ratios import MIN_INTERVAL

SLOWDOWNS = (0.02, 0.05, 0.1)
SPLITS = 20
"""Random splits of the rounds of one cell."""
ALARMS = ("rounds", "over", "slowdown", "replays", "estimate")
FALLING = ("step_s", "ttft_s")
"""Metrics of which less is better."""
_SHARE = Field(default=None, gt=0, lt=1)


class Thresholds(Frozen):
    """Share by which B may be worse than A, for each metric; None: it is not checked."""

    tokens_per_s: float | None = Field(default=TOLERANCE, gt=0, lt=1)
    length: float | None = _SHARE
    step_s: float | None = _SHARE
    ttft_s: float | None = _SHARE
    by_cell: bool = False
    """Whether each cell is checked, beside their geometric mean."""
    cannot_tell: Literal["pass", "fail"] = "pass"
    """What becomes of a check that the records do not decide."""


class Check(NamedTuple):
    """One threshold, and what the records say to it."""

    name: str
    ratio: Estimate
    """B over A."""
    verdict: Verdict
    passed: bool


def check(a: Side, b: Side, asked: Thresholds) -> tuple[Comparison, list[Check]]:
    """The comparison, and its checks; at their level (Bonferroni's) all have one false alarm in 40 together.

    Raises:
        ConfigError, RecordError: as `comparison.compare`.
    """
    shares = {name: share for name in METRICS if (share := getattr(asked, name)) is not None}
    tolerance = asked.tokens_per_s or TOLERANCE
    cells = len(comparison.compare(a, b).cells) if asked.by_cell else 0
    compared = comparison.compare(a, b, tolerance, 1 - 0.05 / max(1, len(shares) * (1 + cells)))
    names = [name for name in CELL if name in compared.cells]
    each = compared.cells.to_dict("records") if asked.by_cell else []
    rows = {"all cells": compared.overall} | {
        ", ".join(filter(None, (row[name] for name in names))): row for row in each
    }
    return compared, [
        _check(f"{name}: {cell}", row[name], share, name in FALLING, asked.cannot_tell == "pass")
        for name, share in shares.items() for cell, row in rows.items() if row[name] is not None
    ]  # fmt: skip


def _check(name: str, ratio: Estimate, share: float, falling: bool, lenient: bool) -> Check:
    verdict = comparison.verdict(ratio.through(lambda value: 1 / value) if falling else ratio, share)
    return Check(name, ratio, verdict, verdict in ("better", "not worse") or (lenient and verdict != "worse"))


def plan(a: Side, b: Side | None = None, wanted: float = 0.8) -> pd.DataFrame:
    """Restarts a side that see each of SLOWDOWNS with the power `wanted`, by the spread of these records.

    Columns: slowdown, together (the mean of all cells), median_cell and hardest_cell; MOST_RESTARTS + 1 where
    even those are too few. Without B as for one that varies as A does, in rounds of its own.
    """
    again = a._replace(windows=a.windows.assign(round=a.windows["round"] + " again"))
    compared = comparison.compare(a, b or again)
    spreads = [(row["sd"], row["paired"]) for row in (compared.overall, *compared.cells.to_dict("records"))]
    rows = []
    for slowdown in SLOWDOWNS:
        beyond = ratios.MOST_RESTARTS + 1
        all_of_them, *each = (
            (np.isfinite(sd) and ratios.restarts_for(slowdown, sd, paired, wanted)) or beyond
            for sd, paired in spreads
        )
        row = {"slowdown": slowdown, "together": all_of_them, "median_cell": int(np.median(each))}
        rows.append(row | {"hardest_cell": max(each)})
    return pd.DataFrame(rows)


def alarms(windows: pd.DataFrame, slowdowns: Sequence[float] = (0.0, *SLOWDOWNS)) -> pd.DataFrame:
    """How often rounds of one arm are called worse than others of it, as measured and slowed down.

    Of `windows` of a `Side` of any records. Columns ALARMS: `rounds` of one session (a day and a host, as far
    as it is known) or of two; `over` a cell or all of an arm together; the slowdown of B, 0 for false alarms;
    replays; and the share called worse, whose n is cells or arms; or pairs of sessions, whose cells are wrong
    together. What has too few rounds has no replay.
    """
    replays = pd.DataFrame(_replays(windows), columns=["rounds", "over", "unit", "ratio"])
    rows = []
    for (rounds, over), own in replays.groupby(["rounds", "over"]):
        for slowdown in slowdowns:
            slower = (ratio.through(lambda value, s=slowdown: value * (1 - s)) for ratio in own["ratio"])
            worse = [float(comparison.verdict(ratio, TOLERANCE) == "worse") for ratio in slower]
            shares = pd.Series(worse, own.index).groupby(own["unit"]).mean()
            unit = "pairs" if rounds == "of two sessions" else "cells" if over == "a cell" else "arms"
            share = wilson(shares.sum(), len(shares), unit_of_n=unit)
            rows.append(dict(zip(ALARMS, (rounds, over, slowdown, len(own), share), strict=True)))
    return summaries.frame(rows, ALARMS)


def _replays(windows: pd.DataFrame) -> Iterator[tuple[str, str, str, Estimate]]:
    """Whose rounds, over what, what makes a replay independent of others, and B over A."""
    facts = pd.DataFrame(list(windows["facts"]), index=windows.index)
    table = windows.assign(
        session=facts["host"] + facts["date"],
        setup=facts[["options", "build", "target_sha256", "draft_sha256"]].agg(" ".join, axis=1),
    )
    for over, every in (("a cell", table), ("all cells", _together(table))):
        for cell, rows in every.sort_values("round").groupby([*CELL, "asked", "setup"]):
            sessions = {name: own["tokens_per_s"].to_numpy() for name, own in rows.groupby("session")}
            for own in sessions.values():
                yield from (("of one session", over, str(cell), ratio) for ratio in _splits(own))
            full = [name for name, own in sessions.items() if len(own) >= MIN_INTERVAL]
            for one, other in combinations(full, 2):
                sides = (sessions[name][:MIN_INTERVAL] for name in (other, one))
                yield "of two sessions", over, f"{one} {other}", ratios.independent_ratio_ci(*sides)


def _together(table: pd.DataFrame) -> pd.DataFrame:
    """Geometric means over an arm's cells, for each of its rounds that has all of them."""
    arm = [name for name in (*CELL, "setup", "session") if name not in ("load", "domain")]
    rows = table.assign(log=np.log(table["tokens_per_s"].astype(float))).groupby([*arm, "round"]).agg(
        log=("log", "mean"), cells=("log", "size"), asked=("asked", lambda each: " ".join(sorted(each))),
    ).reset_index()  # fmt: skip
    most = rows.groupby(arm)["cells"].transform("max")
    full = rows[(rows["cells"] == most) & (most > 1)]
    return full.assign(tokens_per_s=np.exp(full["log"]), load="all", domain="all")


def _splits(speeds: np.ndarray) -> Iterator[Estimate]:
    rng, n = np.random.default_rng(0), MIN_INTERVAL
    for _ in range(SPLITS if len(speeds) >= 2 * n else 0):
        drawn = rng.permutation(speeds)
        yield ratios.independent_ratio_ci(drawn[:n], drawn[n : 2 * n])
