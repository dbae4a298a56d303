"""Two selections of records, cell by cell: is B slower than A, and is it the draft, the step or the prefill?

A side is the closed loops of one selection. Both sides were asked the same prompts, which are held fixed:
intervals cover restarts. Restarts of shared rounds are pairs. Where too few are shared, the sides are two
samples, and the interval is wider.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from specbook import paths
from specbook.analysis import acceptance, summaries
from specbook.config.schema import digest
from specbook.errors import ConfigError, RecordError
from specbook.records.run import RunRecord, SpecDecodeCounters
from specbook.records.selection import Selection, facts
from specbook.stats import ratios
from specbook.stats.estimate import Estimate
from specbook.stats.ratios import MIN_INTERVAL
from specbook.suggestions import listed

CELL = ("kind", "hardware", "target", "dtype", "execution", "arm", "draft", "load", "domain")
"""What both sides of a cell share, less what they were chosen to differ by."""
METRICS = ("tokens_per_s", "length", "step_s", "ttft_s")
"""Output tokens/s over all sequences; acceptance length; median seconds of a step, and to the first token."""
MAY_DIFFER = (
    "hardware", "host", "engine", "build", "options", "target", "target_sha256", "draft", "draft_sha256",
)  # fmt: skip
TOLERANCE = 0.05
Verdict = Literal["better", "not worse", "worse", "cannot tell"]


class Side(NamedTuple):
    """One selection, and its closed loops, a row each.

    Columns: CELL, restart, round, METRICS, `asked` (digest of prompts and requests), `disturbed`,
    `spec_decode` (counters, or None) and `facts`. A Poisson load has no row: its tokens/s are its own rate.
    """

    selection: Selection
    windows: pd.DataFrame


def read(selection: Selection) -> Side:
    """The windows of a selection. Raises ConfigError if it has none."""
    runs = selection.runs().closed
    if not runs:
        raise ConfigError(f"{selection.text}: only Poisson loads, whose tokens/s are their own rate")
    with paths.results_of(selection.folder):
        table = summaries.throughput(runs).drop(columns="arm")
        ttft_s = [float(pd.Series(summaries.first_tokens_s(run)).median()) for run in runs]
    known = [facts(run) for run in runs]
    counted = [run.measurement.spec_decode for run in runs if run.measurement]
    named = table.rename(columns={"label": "arm", "output_tokens_per_s": "tokens_per_s"})
    return Side(selection, named.assign(
        ttft_s=ttft_s, length=[acceptance.length(one) if one else np.nan for one in counted],
        asked=[_asked(run) for run in runs], disturbed=[run.disturbed for run in runs],
        spec_decode=counted, facts=known, draft=[one["draft"] for one in known],
    ))  # fmt: skip


def _asked(run: RunRecord) -> str:
    point, prompts = run.point, run.provenance.prompts_sha256
    if run.lacks:  # its cap is not known, and time may have bounded its requests
        return digest([point.load.label, prompts], 8)
    how = point.traffic.model_dump(mode="json", exclude={"prompts"})
    return digest([how, point.load.model_dump(mode="json"), prompts], 8)


class Samples(NamedTuple):
    """Mean logarithms of METRICS by restart, on both sides."""

    a: pd.DataFrame
    b: pd.DataFrame
    paired: bool

    @classmethod
    def of(cls, a: pd.DataFrame, b: pd.DataFrame) -> "Samples":
        """Samples of the windows of one cell: of shared rounds alone, where these are enough."""
        shared = set(a["round"]) & set(b["round"])
        both = [own[own["round"].isin(shared)] for own in (a, b)]
        paired = min(own["restart"].nunique() for own in both) >= MIN_INTERVAL
        return cls(*map(_logs, both if paired else (a, b)), paired)

    @classmethod
    def mean(cls, cells: Sequence["Samples"]) -> "Samples":
        """Over cells, in the restarts that have all of them; cells that lack a metric do not count for it."""
        return cls(*(_mean([cell[i] for cell in cells]) for i in (0, 1)), all(cell.paired for cell in cells))

    def values(self, metric: str) -> tuple[pd.Series, pd.Series]:
        """Both sides' restarts; of pairs, those that are whole."""
        a, b = (own[metric].dropna() for own in (self.a, self.b))
        both = a.index.intersection(b.index)
        return (a[both], b[both]) if self.paired else (a, b)

    def ratio(self, metric: str, level: float = 0.95) -> Estimate | None:
        """B over A with its interval; None where a side has no value."""
        a, b = self.values(metric)
        interval = ratios.ratio_ci if self.paired else ratios.independent_ratio_ci
        return interval(np.exp(b), np.exp(a), level) if len(a) and len(b) else None

    def summary(self, tolerance: float, level: float) -> dict[str, Any]:
        """METRICS (each B over A), `paired`, `restarts_a`, `restarts_b`, `verdict` on tokens/s, `sd` (see
        `ratios.power`), and `needed`: restarts a side that would see a slowdown of `tolerance`."""
        a, b = self.values("tokens_per_s")
        sd = float((b - a).std() if self.paired else np.sqrt((a.var() + b.var()) / 2))
        found = {metric: self.ratio(metric, level) for metric in METRICS}
        return {
            **found, "paired": self.paired, "restarts_a": len(a), "restarts_b": len(b), "sd": sd,
            "verdict": verdict(found["tokens_per_s"], tolerance),
            "needed": ratios.restarts_for(tolerance, sd, self.paired) if np.isfinite(sd) else None,
        }  # fmt: skip


def _logs(own: pd.DataFrame) -> pd.DataFrame:
    return np.log(own[list(METRICS)].astype(float)).groupby(own["restart"]).mean()


def _mean(cells: Sequence[pd.DataFrame]) -> pd.DataFrame:
    by_restart = pd.concat(cells, keys=range(len(cells))).groupby(level=1)
    return by_restart.mean()[by_restart.size() == len(cells)]


def verdict(ratio: Estimate | None, tolerance: float) -> Verdict:
    """What the interval of a ratio shows, of which more is better."""
    if ratio is None:
        return "cannot tell"
    if ratio.side() == "above":
        return "better"
    if ratio.side(1 - tolerance) == "above":
        return "not worse"
    return "worse" if ratio.side() == "below" else "cannot tell"


class Comparison(NamedTuple):
    """What was found of B over A."""

    a: Side
    """With the windows of common cells alone, as `b`."""
    b: Side
    tolerance: float
    cells: pd.DataFrame
    """A row per cell: its names, and `Samples.summary`."""
    overall: dict[str, Any]
    """The summary of the geometric mean over cells."""
    position: int | None
    """Draft position, from 1, at which acceptance fell most; None where it fell at none."""
    differs: dict[str, tuple[str, str]]
    """Fact, beside those that were chosen -> its values in A and in B."""
    left_out: dict[str, int]
    """Why -> cells of one side that were compared with nothing, where there are any."""


def compare(a: Side, b: Side, tolerance: float = TOLERANCE, level: float = 0.95) -> Comparison:
    """B against A, in every cell that both have, with intervals of this `level`.

    `tolerance` is the share of A's speed that B may lack and be called `not worse`, above 0.

    Raises:
        ConfigError: if they share records, have no common cell, were asked other prompts, or have too few
            restarts.
        RecordError: if a side has an arm of a round twice.
    """
    if twice := len(a.windows.merge(b.windows, on=["run_id", "round"])):
        raise ConfigError(f"{twice} records are in both A and B: choose sides that share none")
    wanted = a.selection.wanted, b.selection.wanted
    chosen = {key for key in wanted[0].keys() & wanted[1].keys() if wanted[0][key] != wanted[1][key]}
    if "arm" in chosen:  # a baseline has no draft, and another arm may have another
        chosen.add("draft")
    by = [name for name in CELL if name not in chosen]
    both, left_out = _common(a.windows, b.windows, by)
    samples = {cell: Samples.of(*own) for cell, own in both.items()}
    rows = [
        dict(zip(by, cell, strict=False)) | own.summary(tolerance, level) for cell, own in samples.items()
    ]
    overall = Samples.mean(list(samples.values())).summary(tolerance, level)
    own_a, own_b = (pd.concat([pair[i] for pair in both.values()]) for i in (0, 1))
    return Comparison(
        a._replace(windows=own_a), b._replace(windows=own_b), tolerance,
        pd.DataFrame(rows, dtype=object), overall,
        fallen_position(own_a["spec_decode"], own_b["spec_decode"]),
        _differences(own_a, own_b, overall["paired"]), left_out,
    )  # fmt: skip


def _common(a: pd.DataFrame, b: pd.DataFrame, by: list[str]) -> tuple[dict[tuple, tuple], dict[str, int]]:
    """(cell, asked) -> the rows of both sides; and why how many cells are left out."""
    groups = [dict(list(own.groupby([*by, "asked"], sort=False))) for own in (a, b)]
    for side, group in zip("AB", groups, strict=True):
        for cell, rows in group.items():
            if rows.duplicated(["restart", "round"]).any():
                raise RecordError(
                    f"{side} has {', '.join(cell[:-1])} twice in a round: choose by a further key"
                )
    both = {cell: (groups[0][cell], groups[1][cell]) for cell in groups[0] if cell in groups[1]}
    in_a, in_b, compared = ({cell[:-1] for cell in group} for group in (*groups, both))
    if not in_a & in_b:
        raise ConfigError(f"A and B have no common cell: {_apart(a, b, by)}")
    if not both:
        raise ConfigError(
            f"A and B were asked other prompts in all {len(in_a & in_b)} common cells: use one plan"
        )
    restarts = {cell: min(own["restart"].nunique() for own in pair) for cell, pair in both.items()}
    if (most := max(restarts.values())) < MIN_INTERVAL:
        raise ConfigError(
            f"restarts that both sides have: {most}. To fix: measure {MIN_INTERVAL} or more of each"
        )
    # One cell without an interval would leave the mean of all without one.
    few = {cell for cell, n in restarts.items() if n < MIN_INTERVAL}
    both = {cell: pair for cell, pair in both.items() if cell not in few}
    lacking = {
        "of A alone": in_a - in_b,
        "of B alone": in_b - in_a,
        "asked otherwise": (in_a & in_b) - compared,
        f"of fewer than {MIN_INTERVAL} restarts": few,
    }
    return both, {why: len(cells) for why, cells in lacking.items() if cells}


def _apart(a: pd.DataFrame, b: pd.DataFrame, by: Iterable[str]) -> str:
    for name in by:
        if not set(a[name]) & set(b[name]):
            values = (_known(own[name]) for own in (a, b))
            return "{0} is {1} in A and {2} in B; give `{0}=...` of each to compare".format(name, *values)
    return f"no combination of {', '.join(by)} is in both"


def fallen_position(
    a: Iterable[SpecDecodeCounters | None], b: Iterable[SpecDecodeCounters | None]
) -> int | None:
    """Position, from 1, whose acceptance (given those before it) fell by most standard errors from A to B."""
    (came_a, held_a), (came_b, held_b) = (_by_position(list(filter(None, own))) for own in (a, b))
    share = (held_a + held_b) / (came_a + came_b)
    error = np.sqrt(share * (1 - share) * (1 / came_a + 1 / came_b))
    fell = ((held_a / came_a - held_b / came_b) / error).dropna()
    return int(fell.idxmax()) + 1 if len(fell) and fell.max() > 0 else None


def _by_position(counters: Sequence[SpecDecodeCounters]) -> tuple[pd.Series, pd.Series]:
    """Drafts that came so far as each position, and those of which it was accepted; K may differ."""
    accepted = [one.num_accepted_tokens_per_pos for one in counters]
    return pd.DataFrame(map(acceptance.came_so_far, counters)).sum(), pd.DataFrame(accepted).sum()


def _differences(a: pd.DataFrame, b: pd.DataFrame, paired: bool) -> dict[str, tuple[str, str]]:
    values = {key: [{one[key] for one in own["facts"]} for own in (a, b)] for key in MAY_DIFFER}
    if not paired and values["host"] == [{""}, {""}]:
        values["host"] = [{""}, {"unknown, perhaps another"}]
    return {key: (_known(own), _known(other)) for key, (own, other) in values.items() if own != other}


def _known(values: Iterable[str]) -> str:
    return listed(value[:48] or "unknown" for value in sorted(values))
