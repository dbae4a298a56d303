"""Tables of open loops, on a cluster and over a day: what became of requests, the stages of a reaction,
latency over time, and each arm beside another.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from specbook.analysis import acceptance, summaries
from specbook.records.experiment_results import BASELINE, ActionOutcome, ClusterRun, DayArm, DayArms
from specbook.stats import ratios
from specbook.stats.percentiles import enough_for

TARGET_MS = {"queue_wait_ms": 500.0, "queue_time_p95_ms": 2000.0}
"""What the shipped autoscaler holds each signal to; a test compares."""
STAGES = ("signal", "decision", "pod", "scheduled", "started", "ready", "calm")
LAG_S = 15.0
"""What deploy/README.md reckons with for a balancer; a test compares."""
SEEN_S = 5.0
"""Within which the timeline sees that a pod is deleted."""
OUTCOMES = ("whole", "truncated", "refused")
MEASURES = (
    "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s", "e2e_p50_s", "e2e_p99_s", "e2e_mean_s",
    "in_flight", "tokens_per_s",
)  # fmt: skip
DAYS = ("arm", "restart", *MEASURES, "sent", "lost", "length")
BESIDE = ("arm", *MEASURES)


def timeline(run: ClusterRun) -> pd.DataFrame:
    """One row per reading: `at_s` and the columns of `Timeline`, NaN where a reading has no value."""
    return pd.DataFrame({name: pd.Series(values, dtype=float) for name, values in run.timeline})


def requests(run: ClusterRun | DayArm) -> pd.DataFrame:
    """One row per request that was sent, with `tpot_s` of whole answers of two tokens or more."""
    rows = pd.DataFrame(run.requests.model_dump(exclude={"errors"}))
    later = (rows["output_tokens"] - 1).where((rows["output_tokens"] > 1) & (rows["outcome"] == "whole"))
    ttft = pd.to_numeric(rows["ttft_s"])
    return rows.assign(ttft_s=ttft, tpot_s=(rows["e2e_s"] - ttft) / later)


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """Requests sent, whole, truncated and refused, and `lost`, the sum of the last two."""
    outcomes = {name: int((rows["outcome"] == name).sum()) for name in OUTCOMES}
    return {"sent": len(rows), **outcomes, "lost": outcomes["truncated"] + outcomes["refused"]}


def during(run: ClusterRun, actions: Iterable[str]) -> pd.DataFrame:
    """The requests that were sent or under way while one of these actions was, to its last consequence.

    A rollout is done for Kubernetes when the new pods serve. The old ones end after that, and a balancer may
    send to them for LAG_S more.
    """
    rows = requests(run)
    ends = rows["sent_s"] + rows["e2e_s"]
    hit = np.zeros(len(rows), dtype=bool)
    for one in run.actions:
        if one.action in set(actions):
            hit |= ((rows["sent_s"] <= _over_s(run, one)) & (ends >= one.began_s)).to_numpy()
    return rows[hit]


def _over_s(run: ClusterRun, action: ActionOutcome) -> float:
    """When the pods that an action ended are gone, and no balancer sends to them any more."""
    ended = [
        pod for pod in run.pods if action.began_s <= (pod.deleted_s or -np.inf) <= action.ended_s + SEEN_S
    ]
    gone_s = [np.inf if pod.gone_s is None else pod.gone_s for pod in ended]
    return max([action.ended_s, *gone_s]) + LAG_S


def stages(run: ClusterRun) -> dict[str, float]:
    """Seconds from the start of the load's second segment to each of STAGES; NaN for one that did not come.

    `signal`: a signal is first read above its target. `decision`: the autoscaler first asks for more pods.
    `pod`, `scheduled`, `started`, `ready`: of the first pod that is created after it. `calm`: after the last
    new pod was ready, no request waits for five readings in a row.
    """
    readings, step_s = timeline(run), run.segments_s[1]
    after = readings[readings["at_s"] >= step_s]
    above = np.logical_or.reduce([after[name] > limit for name, limit in TARGET_MS.items()])
    before = readings.loc[readings["at_s"] < step_s, "desired"].max()
    times = {"signal": _first(after, above), "decision": _first(after, after["desired"] > before)}
    new = [pod for pod in run.pods if pod.created_s >= step_s - 1]
    for stage in ("pod", "scheduled", "started", "ready"):
        name = "created_s" if stage == "pod" else f"{stage}_s"
        moments_s = [getattr(pod, name) for pod in new if getattr(pod, name) is not None]
        times[stage] = min(moments_s, default=np.nan)
    last = max((pod.ready_s for pod in new if pod.ready_s is not None), default=np.nan)
    calm = after["waiting"].rolling(5).max() == 0
    times["calm"] = _first(after, calm & (after["at_s"] >= last))
    return {name: round(times[name] - step_s, 1) for name in STAGES}


def _first(rows: pd.DataFrame, holds: Any) -> float:
    return float(rows.loc[np.asarray(holds, dtype=bool), "at_s"].min())


def latency(rows: pd.DataFrame) -> dict[str, float]:
    """Percentiles in seconds of whole answers; NaN where requests are too few for one."""
    whole = rows[rows["outcome"] == "whole"]
    quantiles = {}
    for metric in ("ttft_s", "tpot_s", "e2e_s"):
        values = whole[metric].dropna()
        for q in (0.5, 0.99):
            name = f"{metric.removesuffix('_s')}_p{100 * q:g}_s"
            quantiles[name] = float(values.quantile(q)) if enough_for(q, len(values)) else np.nan
    return quantiles


def over_time(run: ClusterRun, width_s: float = 10.0) -> pd.DataFrame:
    """Arrivals a second and the medians and the largest of TTFT and TPOT, by when requests were sent."""
    rows = requests(run)
    place = (rows["sent_s"] // width_s).astype(int)
    groups = rows.groupby(place)
    table = pd.DataFrame({
        "arrivals_per_s": groups.size() / width_s, "ttft_s": groups["ttft_s"].median(),
        "ttft_max_s": groups["ttft_s"].max(), "tpot_s": groups["tpot_s"].median(),
        "lost": groups["outcome"].apply(lambda kind: int((kind != "whole").sum())),
    })  # fmt: skip
    return table.assign(at_s=(table.index + 0.5) * width_s).reset_index(drop=True)


def pod_seconds(run: ClusterRun) -> float:
    """Seconds of ready pods while requests were sent: the integral of `ready` over the load."""
    readings = timeline(run)
    readings = readings[(readings["at_s"] >= 0) & (readings["at_s"] <= run.ended_s)].dropna(subset=["ready"])
    return float(np.trapezoid(readings["ready"], readings["at_s"]))


def most_ready(run: ClusterRun) -> int:
    """The largest number of pods that were ready at once."""
    return int(timeline(run)["ready"].max())


def ready_at_end(run: ClusterRun) -> int:
    """Pods that were ready at the last reading."""
    return int(timeline(run)["ready"].dropna().iloc[-1])


def cut_before_ready(run: ClusterRun) -> int:
    """Pods that were deleted before they ever served."""
    return sum(
        pod.deleted_s is not None and (pod.ready_s is None or pod.ready_s > pod.deleted_s)
        for pod in run.pods
    )  # fmt: skip


def accepted_per_draft(run: ClusterRun) -> float:
    """Mean of accepted tokens per draft over the run; NaN without drafts."""
    counted = run.spec_decode or {}
    drafts = counted.get("num_drafts", 0)
    return counted["num_accepted_tokens"] / drafts if drafts else np.nan


def flaps(run: ClusterRun, begin_s: float, end_s: float) -> int:
    """Changes of the wanted number of pods between two times."""
    readings = timeline(run)
    inside = readings[(readings["at_s"] >= begin_s) & (readings["at_s"] <= end_s)]["wanted"].dropna()
    return int((inside.diff().fillna(0) != 0).sum())


def cold_start_s(run: ClusterRun) -> list[float]:
    """Seconds from container start to ready, of each pod that started while it was watched."""
    return [
        round(pod.ready_s - pod.started_s, 1)
        for pod in run.pods
        if pod.ready_s is not None and pod.started_s is not None and pod.created_s > 0 and not pod.restarts
    ]


def days(result: DayArms) -> pd.DataFrame:
    """One row per arm and restart, in the order of the record.

    Columns: arm, restart, MEASURES, sent and lost (requests), length (tokens a draft; NaN without). Times are
    of whole answers; a percentile of too few is NaN (`latency`). `in_flight` is the mean over the
    day, from the first arrival to the last byte.
    """
    table = []
    for one in result.arms:
        rows = requests(one)
        span_s = (rows["sent_s"] + rows["e2e_s"]).max() - rows["sent_s"].min()
        counted = counts(rows)
        table.append({
            "arm": one.arm, "restart": one.restart, **latency(rows),
            "e2e_mean_s": rows.loc[rows["outcome"] == "whole", "e2e_s"].mean(),
            "in_flight": rows["e2e_s"].sum() / span_s, "tokens_per_s": rows["output_tokens"].sum() / span_s,
            "sent": counted["sent"], "lost": counted["lost"],
            "length": acceptance.length(one.spec_decode) if one.spec_decode else np.nan,
        })  # fmt: skip
    return summaries.frame(table, DAYS)


def beside(table: pd.DataFrame, base: str = BASELINE) -> pd.DataFrame:
    """Every other arm of `days` over `base`: for each of MEASURES the `Estimate` of the ratio, over restarts.

    None where a percentile stands on too few requests, or the arms share no restart.
    """
    both = table.merge(table[table["arm"] == base], on="restart", suffixes=("", "_base"))
    rows = []
    for arm, own in both[both["arm"] != base].groupby("arm", sort=False):
        pairs = {name: own[[name, f"{name}_base"]].dropna().T.to_numpy(float) for name in MEASURES}
        found = {name: ratios.ratio_ci(*pair) if pair.size else None for name, pair in pairs.items()}
        rows.append({"arm": arm, **found})
    return summaries.frame(rows, BESIDE)


def in_flight(one: DayArm, at_s: ArrayLike) -> NDArray[np.int64]:
    """Requests that were sent and not yet answered at each of these times, [n]."""
    sent_s = np.array(one.requests.sent_s)
    ends_s = np.sort(sent_s + one.requests.e2e_s)
    return np.searchsorted(np.sort(sent_s), at_s, "right") - np.searchsorted(ends_s, at_s, "right")
