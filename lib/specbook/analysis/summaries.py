"""Records -> tidy tables: pooled requests, throughput. Nothing is measured or drawn
here."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from specbook import records
from specbook.errors import RecordError
from specbook.records import late, select
from specbook.records.identity import setup
from specbook.records.run import RunRecord
from specbook.stats import chunks

NAMES = ["hardware", "kind", "target", "dtype", "load", "domain"]
CELL = [*NAMES, "setup"]
"""What must be equal for two arms to be compared. `setup` is the digest of all that has no column: the rest
of the target (its execution aside), of the traffic and the load, the engine's build, the target's weights
and the prompts.
"""
Speed = Literal["output_tokens_per_s", "decode_tokens_per_s"]
_kept: dict[tuple[str, str], pd.DataFrame] = {}
"""Of `_answered`, by run and the digest of its rows: a chapter asks for the same ones a dozen times."""


def frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A table of these rows; without any it still has these columns, so that what follows need not ask."""
    return pd.DataFrame(rows, columns=None if rows else list(columns))


def method(record: RunRecord) -> str:
    """The arm without its K and execution mode: `P-EAGLE`, or `baseline`."""
    drafted = record.point.speculation
    return drafted.drafting.title if drafted else "baseline"


def label(record: RunRecord) -> str:
    """The arm without its execution mode: `P-EAGLE K=5`, or `baseline`."""
    drafted = record.point.speculation
    return drafted.label if drafted else "baseline"


def _columns(record: RunRecord) -> dict[str, Any]:
    point = record.point
    return {
        "hardware": record.hardware.id, "kind": record.kind, "target": point.target.name,
        "dtype": point.target.dtype, "load": point.load.label, "domain": point.traffic.domain,
        "setup": setup(record),
        "concurrency": point.load.concurrency, "arm": point.arm, "method": method(record),
        "label": label(record),
        "num_speculative_tokens": getattr(point.speculation, "num_speculative_tokens", 0),
        "execution": point.target.execution, "restart": point.restart, "round": record.round.id,
        "run_id": record.run_id,
    }  # fmt: skip


def _answered(record: RunRecord) -> pd.DataFrame:
    """Requests that succeeded, with `tpot_s` = (E2E - TTFT) / (tokens - 1), NaN below two tokens, and the
    window's `step_s` (see `stats.chunks`).

    Not to be changed: it is kept.
    """
    assert record.measurement is not None  # `current` keeps good records only
    name = record.run_id, record.measurement.requests_sha256
    if name not in _kept:
        rows = records.requests(record)
        rows = rows.assign(late=late.first_chunks(rows))
        rows = rows[rows["error"].isna() | (rows["error"] == "")]
        later = (rows["output_tokens"] - 1).where(rows["output_tokens"] > 1)
        step = chunks.step_s(rows["itl_s"])  # the same in each row
        _kept[name] = rows.assign(tpot_s=(rows["e2e_s"] - rows["ttft_s"]) / later, step_s=step)
    return _kept[name]


def pooled_requests(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per successful request: CELL, arm, restart, run_id, REQUEST_COLUMNS, `tpot_s` (s per token) and
    `late` (see `records.late`).
    """
    good = select.current(runs)
    if not good:
        raise RecordError("there is no good record to summarise: measure the points first")
    parts, heads = [_answered(record) for record in good], pd.DataFrame([_columns(one) for one in good])
    of = np.repeat(np.arange(len(good)), [len(rows) for rows in parts])
    rows = pd.concat(parts, ignore_index=True)
    return pd.concat([rows, heads.iloc[of].reset_index(drop=True)], axis="columns")


def samples(requests: pd.DataFrame, metric: str) -> np.ndarray:
    """All values of a latency in seconds; for `itl_s`, whose cells are lists, every gap of every request."""
    if metric == "itl_s":
        return np.concatenate([np.asarray(gaps, dtype=float) for gaps in requests[metric]] or [[]])
    return requests[metric].dropna().to_numpy(dtype=float)


def throughput(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per record: CELL, arm, restart, run_id, two speeds in tokens/s, and `step_s`.

    `output_tokens_per_s` is the whole window's, over all sequences. `decode_tokens_per_s` is one
    sequence's, TTFT left out: sum(tokens - 1) / sum(E2E - TTFT) over its requests, without those whose first
    chunks came late.
    """
    return pd.DataFrame([_speeds(record) for record in select.current(runs)])


def step_s(record: RunRecord) -> float:
    """Median seconds of a step, of a record's own streams; NaN where no answer has two chunks."""
    return float(_answered(record)["step_s"].max())


def _speeds(record: RunRecord) -> dict[str, Any]:
    assert record.measurement is not None
    return {
        **_columns(record),
        "output_tokens_per_s": record.measurement.throughput.output_tokens_per_s,
        "decode_tokens_per_s": _decode_tokens_per_s(_answered(record)),
        "step_s": step_s(record),
    }


def _decode_tokens_per_s(rows: pd.DataFrame) -> float:
    tokens, ttft_s, e2e_s = (rows[name].to_numpy(float) for name in ("output_tokens", "ttft_s", "e2e_s"))
    several = (tokens > 1) & ~rows["late"].to_numpy(bool)
    decoding_s = float((e2e_s - ttft_s)[several].sum())
    return float((tokens - 1)[several].sum()) / decoding_s if decoding_s > 0 else np.nan
