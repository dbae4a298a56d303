"""Acceptance from vLLM's raw counters: rate, length, per position; micro and macro averages kept apart.

Rate = accepted / drafted tokens. Length = 1 + accepted / drafts, the bonus token included, over the steps
that had a draft: where ngram finds nothing to propose, a step has none and is outside this average.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbook.analysis import summaries
from specbook.errors import RecordError
from specbook.records.experiment_results import Probed
from specbook.records.run import RunRecord, SpecDecodeCounters, setup
from specbook.records.run_set import RunSet
from specbook.stats import ratios
from specbook.stats.estimate import Estimate

FEW = 10
"""Distinct drafts that came as far as a position: of fewer, how often it was accepted is chance."""
GROUP = ["hardware", "kind", "target", "arm", "load", "domain"]
"""Records alike in these are pooled; they differ by restart."""
COLUMNS = (
    *GROUP, "method", "label", "num_speculative_tokens", "restarts", *SpecDecodeCounters.model_fields,
    "rate", "length", "length_low", "length_high", "estimate", "records", "joint", "conditional",
    "trained_depth",
)  # fmt: skip
BY_REQUEST = (
    "load", "domain", "arm", "method", "label", "num_speculative_tokens", "prompt_id", "length",
)  # fmt: skip


def check(counters: SpecDecodeCounters) -> SpecDecodeCounters:
    """The counters, if they can be true: positions never rise, and sum to the accepted tokens.

    Raises:
        RecordError: if they contradict each other.
    """
    chain = [counters.num_drafts, *counters.num_accepted_tokens_per_pos]
    if any(np.diff(chain) > 0):
        raise RecordError(f"accepted tokens rise with the position: {chain} (drafts first)")
    if sum(chain[1:]) != counters.num_accepted_tokens:
        raise RecordError(
            f"positions sum to {sum(chain[1:])}, not {counters.num_accepted_tokens} accepted tokens"
        )
    if counters.num_accepted_tokens > counters.num_draft_tokens:
        raise RecordError(
            f"{counters.num_accepted_tokens} of {counters.num_draft_tokens} draft tokens accepted"
        )
    return counters


def rate(counters: SpecDecodeCounters) -> float:
    """Accepted / drafted tokens, in [0, 1]; NaN when nothing was drafted."""
    check(counters)
    return counters.num_accepted_tokens / counters.num_draft_tokens if counters.num_draft_tokens else np.nan


def length(counters: SpecDecodeCounters) -> float:
    """Mean acceptance length in tokens/step, in [1, K + 1]; NaN when nothing was drafted."""
    check(counters)
    return 1.0 + counters.num_accepted_tokens / counters.num_drafts if counters.num_drafts else np.nan


def joint(counters: SpecDecodeCounters) -> NDArray[np.float64]:
    """[K] shares of drafts whose positions 0..i were all accepted; NaN when nothing was drafted."""
    check(counters)
    accepted = np.asarray(counters.num_accepted_tokens_per_pos, dtype=float)
    return accepted / (counters.num_drafts or np.nan)


def conditional(counters: SpecDecodeCounters) -> NDArray[np.float64]:
    """[K] joint_i / joint_{i-1}: how often a position holds once all before it held; NaN where none did."""
    held = np.asarray(check(counters).num_accepted_tokens_per_pos, dtype=float)
    before = came_so_far(counters)
    return np.divide(held, before, out=np.full_like(held, np.nan), where=before > 0)


def came_so_far(counters: SpecDecodeCounters) -> NDArray[np.int64]:
    """[K] drafts of which all positions before this one held."""
    return np.array([counters.num_drafts, *counters.num_accepted_tokens_per_pos[:-1]])


def pool(counters: Iterable[SpecDecodeCounters]) -> SpecDecodeCounters:
    """Sums of the raw counters: every figure derived from it is a micro average, over tokens.

    Raises:
        ValueError: if there are none, or their K differ (position i would mix drafts that never reached it).
    """
    rows = [check(one) for one in counters]
    if len({len(row.num_accepted_tokens_per_pos) for row in rows}) != 1:
        raise ValueError(f"need counters of one K, got {[len(r.num_accepted_tokens_per_pos) for r in rows]}")
    sums = {
        name: np.sum([getattr(row, name) for row in rows], axis=0).tolist()
        for name in SpecDecodeCounters.model_fields
    }
    return SpecDecodeCounters(**sums)


def macro(values: Sequence[float]) -> float:
    """Unweighted mean over domains or requests: each counts once, however many tokens it drafted.

    Raises:
        ValueError: if there are none.
    """
    if len(values) == 0:
        raise ValueError("need at least one value for a macro average")
    return float(np.mean(values))


def length_ci(counters: Sequence[SpecDecodeCounters], unit_of_n: str = "restarts") -> Estimate:
    """Micro-averaged acceptance length, its interval over `counters`: one per restart, domain or request.

    Over restarts the prompts stay the same, so it shows only how far the engine repeats itself; how
    acceptance varies with the prompt needs counters per request.

    Raises:
        ValueError: if one of them drafted nothing.
    """
    drafts = [check(one).num_drafts for one in counters]
    tokens = [one.num_accepted_tokens + one.num_drafts for one in counters]
    return ratios.ratio_of_sums_ci(tokens, drafts, unit_of_n=unit_of_n)


def by_domain(records: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per arm, load and domain, restarts pooled (micro): raw counters and all that follows from them.

    Columns: COLUMNS. `estimate` is the length's, records are ids, joint and conditional [K] arrays
    (conditional is NaN where fewer than FEW distinct drafts came so far), trained_depth the positions that
    the draft was trained for, or NaN. Baselines, and points where nothing was drafted, have no row.
    """
    groups: dict[tuple, list[RunRecord]] = {}
    for record in records:
        counted = record.measurement and record.measurement.spec_decode
        if counted and counted.num_drafts:
            groups.setdefault(_key(record), []).append(record)
    new = _new_answers([record for group in groups.values() for record in group])
    return summaries.frame([_row(key, group, new) for key, group in groups.items()], COLUMNS)


def _new_answers(records: list[RunRecord]) -> dict[str, float]:
    """run_id -> share of its answers that no earlier record of its group gave, word for word.

    Restarts decode greedily: most repeat the answers of the first, and their drafts with them.
    """
    given: dict[tuple, set[tuple[str, str]]] = {}
    shares = {}
    for run in RunSet(records):
        rows, earlier = summaries.arrays(run), given.setdefault((*_key(run), setup(run)), set())
        before = len(earlier)
        earlier.update(zip(rows["prompt_id"], rows["text"], strict=True))
        shares[run.run_id] = (len(earlier) - before) / len(rows["text"]) if len(rows["text"]) else 1.0
    return shares


def by_request(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per answer of an arm with speculation: what a step of it yielded, `length`, in tokens.

    A step is a chunk of the stream; the first chunk is the prompt's own token. The last step may be cut short
    by the answer's end, and counts all the same. Columns: BY_REQUEST. Answers of one chunk have no row.
    """
    drafting = RunSet.of(runs).drafting
    if not drafting:
        return summaries.frame([], BY_REQUEST)
    rows = summaries.pooled_requests(drafting)
    steps = rows["itl_s"].map(len)
    rows = rows.assign(length=(rows["output_tokens"] - 1) / steps.where(steps > 0))
    return rows.dropna(subset="length")[list(BY_REQUEST)].reset_index(drop=True)


def tokens_a_step(requests: pd.DataFrame, key: list[str]) -> pd.Series:
    """By `key`, of rows of `summaries.pooled_requests`: the tokens after each answer's first chunk, over the
    chunks that brought them.
    """
    tokens = requests.assign(tokens=requests["output_tokens"] - 1, steps=requests["itl_s"].map(len))
    totals = tokens.groupby(key)[["tokens", "steps"]].sum()
    return totals["tokens"] / totals["steps"]


def _key(record: RunRecord) -> tuple:
    point = record.point
    k = point.speculation.num_speculative_tokens if point.speculation else 0
    names = (record.hardware.id, record.kind, point.target.name, str(point.arm), point.load.label)
    return (*names, point.traffic.domain, summaries.method(record), summaries.label(record), k)


def _row(key: tuple, records: list[RunRecord], new: dict[str, float]) -> dict:
    group = [record.measurement.spec_decode for record in records]
    distinct = sum(
        new.get(record.run_id, 1.0) * came_so_far(counters)
        for record, counters in zip(records, group, strict=True)
    )
    depths = {record.provenance.draft_trained_depth for record in records} - {None}
    pooled, interval = pool(group), length_ci(group)
    return {
        **dict(zip([*GROUP, "method", "label", "num_speculative_tokens"], key, strict=True)),
        "restarts": len(group),
        **pooled.model_dump(),
        "rate": rate(pooled),
        "length": length(pooled),
        "length_low": interval.low,
        "length_high": interval.high,
        "estimate": interval,
        "records": tuple(record.run_id for record in records),
        "joint": joint(pooled),
        "conditional": np.where(distinct < FEW, np.nan, conditional(pooled)),
        "trained_depth": max(depths, default=np.nan),
    }


def of_probe(answers: Iterable[Probed]) -> pd.DataFrame:
    """One row per domain, in the order of their first prompts.

    Columns: domain, prompts (those answered), refused, tokens_per_s (of one request at a time), rate and
    length (micro averages, over tokens), `estimate` (the length's, its interval over prompts), macro, p10 and
    p90 (of the lengths of single requests) and joint, [K]. Where nothing was drafted `estimate` is None, and
    what counters say is NaN.
    """
    groups: dict[str, list[Probed]] = {}
    for one in answers:
        groups.setdefault(one.domain, []).append(one)
    return pd.DataFrame([_probe_row(domain, group) for domain, group in groups.items()])


def _probe_row(domain: str, group: list[Probed]) -> dict:
    answered = [one for one in group if one.refused is None]
    counted = [one.spec_decode for one in answered if one.spec_decode and one.spec_decode.num_drafts]
    seconds = sum(one.e2e_s for one in answered)
    tokens = sum(one.output_tokens for one in answered)
    row = {
        "domain": domain, "prompts": len(answered), "refused": len(group) - len(answered),
        "tokens_per_s": tokens / seconds if seconds else np.nan, "estimate": None,
    }  # fmt: skip
    if not counted:
        return row
    pooled, lengths = pool(counted), [length(one) for one in counted]
    return row | {
        "rate": rate(pooled), "length": length(pooled),
        "macro": macro(lengths), "p10": float(np.quantile(lengths, 0.1)),
        "p90": float(np.quantile(lengths, 0.9)), "estimate": length_ci(counted, "prompts"),
        "joint": joint(pooled),
    }  # fmt: skip
