"""Records -> tidy tables: pooled requests, latency percentiles, throughput. Nothing is measured or drawn
here."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd

from specbook import ratios, records, stats
from specbook.errors import RecordError
from specbook.records import RunRecord

NAMES = ["hardware", "kind", "target", "dtype", "load", "domain"]
CELL = [*NAMES, "setup"]
"""What must be equal for two arms to be compared. `setup` is the digest of all that has no column: the rest
of the target (its execution aside), of the traffic and the load, and the target's weights.
"""
LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")
Speed = Literal["output_tokens_per_s", "decode_tokens_per_s"]


def method(record: RunRecord) -> str:
    """The arm without its K and execution mode: `P-EAGLE`, or `baseline`."""
    drafted = record.point.speculation
    return drafted.label.rsplit(" K=", 1)[0] if drafted else "baseline"


def latest(runs: Iterable[RunRecord]) -> list[RunRecord]:
    """Good records; of a point measured again (same machine, configuration and kind) only the last one."""
    ordered = sorted((r for r in runs if r.status == "ok"), key=lambda r: r.started_at)
    return list({(r.hardware.id, r.kind, r.key): r for r in ordered}.values())


def _setup(record: RunRecord) -> str:
    point = record.point
    body = [
        point.target.model_dump(mode="json", exclude={"execution"}),
        point.traffic.model_dump(mode="json"),
        point.load.model_dump(mode="json"),
        record.provenance.weights_sha256.get("target"),
    ]
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:8]


def _columns(record: RunRecord) -> dict[str, Any]:
    point = record.point
    return {
        "hardware": record.hardware.id, "kind": record.kind, "target": point.target.name,
        "dtype": point.target.dtype, "load": point.load.label, "domain": point.traffic.domain,
        "setup": _setup(record),
        "concurrency": point.load.concurrency, "arm": point.arm, "method": method(record),
        "num_speculative_tokens": point.speculation.num_speculative_tokens if point.speculation else 0,
        "execution": point.target.execution, "restart": point.restart,
    }  # fmt: skip


def _answered(record: RunRecord) -> pd.DataFrame:
    """Requests that succeeded, with `tpot_s` = (E2E - TTFT) / (tokens - 1); NaN below two tokens."""
    rows = records.requests(record)
    rows = rows[rows["error"].isna() | (rows["error"] == "")]
    later = (rows["output_tokens"] - 1).where(rows["output_tokens"] > 1)
    return rows.assign(tpot_s=(rows["e2e_s"] - rows["ttft_s"]) / later)


def pooled_requests(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per successful request: CELL, arm, restart, REQUEST_COLUMNS and `tpot_s` (seconds/token)."""
    parts = [_answered(record).assign(**_columns(record)) for record in latest(runs)]
    if not parts:
        raise RecordError("there is no good record to summarise: measure the points first")
    return pd.concat(parts, ignore_index=True)


def samples(requests: pd.DataFrame, metric: str) -> np.ndarray:
    """All values of a latency in seconds; for `itl_s`, whose cells are lists, every gap of every request."""
    if metric == "itl_s":
        return np.concatenate([np.asarray(gaps, dtype=float) for gaps in requests[metric]] or [[]])
    return requests[metric].dropna().to_numpy(dtype=float)


def latency_table(
    runs: Iterable[RunRecord], qs: tuple[float, ...] = (0.5, 0.99), by: tuple[str, ...] = (*CELL, "arm")
) -> pd.DataFrame:
    """Percentiles of TTFT, TPOT, ITL and E2E in seconds, restarts pooled.

    Columns: `by`, metric, q, and those of `estimate.Quantile`; where `enough` is False the percentile stands
    on too few samples and is to be marked. n counts requests, for ITL gaps. Leave "domain" and "setup" out of
    `by` to pool domains.
    """
    pooled = pooled_requests(runs)
    rows = []
    for key, group in pooled.groupby(list(by), sort=False):
        for metric in LATENCIES:
            values = samples(group, metric)
            for q in qs if len(values) else ():
                found = stats.quantile(values, q)
                rows.append(
                    {**dict(zip(by, key, strict=True)), "metric": metric, "q": q, **found.model_dump()}
                )
    return pd.DataFrame(rows)


def medians(runs: Iterable[RunRecord], by: tuple[str, ...] = (*CELL, "arm")) -> pd.DataFrame:
    """Median TTFT, TPOT, ITL and E2E in seconds, with the doubt that restarts leave.

    Columns: `by`, metric, q (0.5), and `estimate`: the geometric mean of each restart's own median, and its
    interval over restarts. Requests of one restart share its machine's mood, so they are no sample of it.
    """
    rows = []
    for key, group in pooled_requests(runs).groupby(list(by), sort=False):
        for metric in LATENCIES:
            restarts = [samples(part, metric) for _, part in group.groupby("restart")]
            found = ratios.geometric_mean_ci([np.median(values) for values in restarts if len(values)])
            rows.append({**dict(zip(by, key, strict=True)), "metric": metric, "q": 0.5, "estimate": found})
    return pd.DataFrame(rows)


def throughput(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per record: CELL, arm, restart, and two speeds in tokens/s.

    `output_tokens_per_s` is the whole window's, over all sequences. `decode_tokens_per_s` is one
    sequence's, TTFT left out: sum(tokens - 1) / sum(E2E - TTFT) over its requests.
    """
    return pd.DataFrame([_speeds(record) for record in latest(runs)])


def _speeds(record: RunRecord) -> dict[str, Any]:
    assert record.measurement is not None  # `latest` keeps good records only
    rows = _answered(record)
    rows = rows[rows["output_tokens"] > 1]
    decoding_s = float((rows["e2e_s"] - rows["ttft_s"]).sum())
    decoded = float((rows["output_tokens"] - 1).sum())
    return {
        **_columns(record),
        "output_tokens_per_s": record.measurement.throughput.output_tokens_per_s,
        "decode_tokens_per_s": decoded / decoding_s if decoding_s > 0 else np.nan,
    }
