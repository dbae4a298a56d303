"""Do answers stay the same? Each arm's texts against the same round's baseline, beside two controls; their
lengths; and whether sampled answers come from the target's own distribution.

Speed records hold every answer, so losslessness is seen where speed is claimed: at each load and domain.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Literal

import pandas as pd
from scipy.stats import ks_2samp

from specbook.analysis import summaries
from specbook.analysis.summaries import CELL
from specbook.records.experiment_results import BASELINE, SampledAnswers, SampledArm
from specbook.records.run import RunRecord
from specbook.stats import equality
from specbook.stats.equality import two_sample

Comparison = Literal["speculation", "restart", "mode"]
"""`speculation`: an arm against the baseline of its round and execution mode. `restart`: a baseline against
itself after another start of the server. `mode`: a baseline against the one of its round in another mode.
"""
ROUND = "round"
"""The column of `summaries.pooled_requests` that names what was measured together."""


def pairs(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Answers to the same request side by side; greedy decoding only.

    Columns: CELL, prompt (numbers what was asked: in which cell, which prompt), arm and label (of what was
        compared with the baseline), comparison (a `Comparison`), and same (character for character). Loads
        without speculation have no rows.

    Raises:
        RecordError: if no record decodes greedily.
    """
    pooled = summaries.pooled_requests([run for run in runs if run.point.traffic.temperature == 0])
    asked = pooled.assign(
        prompt=pooled.groupby([*CELL, "prompt_id"], sort=False).ngroup(),
        time=pooled.groupby([*CELL, "arm", ROUND, "prompt_id"], sort=False).cumcount(),
    )
    drafted = asked[asked["method"] != "baseline"]
    base = asked[(asked["method"] == "baseline") & asked["load"].isin(drafted["load"])]
    reference = base[base["execution"].isin(drafted["execution"])]
    compared = pd.concat([
        _side_by_side("speculation", drafted, reference, [ROUND, "execution"]),
        _side_by_side("restart", reference, reference, ["execution"]).query(f"{ROUND} < {ROUND}_base"),
        _side_by_side("mode", base, reference, [ROUND]).query("execution != execution_base"),
    ])  # fmt: skip
    compared["same"] = compared["text"] == compared["text_base"]
    return compared[[*CELL, "prompt", "arm", "label", "comparison", "same"]]


def _side_by_side(name: Comparison, arms: pd.DataFrame, base: pd.DataFrame, on: list[str]) -> pd.DataFrame:
    same = ["prompt", "time", *on]
    base = base[["prompt", "time", ROUND, "execution", "text"]]
    renamed = base.rename(columns={column: f"{column}_base" for column in base if column not in same})
    return arms.merge(renamed, on=same).assign(comparison=name)


def shares(compared: pd.DataFrame, by: tuple[str, ...] = ("load",)) -> pd.DataFrame:
    """Table of how many answers in `pairs` are the same. Add "domain" to `by` for a row per domain.

    Columns: `by`, comparison, arm, label, pairs (how many), and `estimate`: the mean over prompts of the
        share of a prompt's pairs that are the same, with its interval; its n counts prompts.
    """
    group, rows = [*by, "comparison", "arm", "label"], []
    for key, part in compared.groupby(group, sort=False):
        estimate = equality.share_over_prompts(part.groupby("prompt")["same"].mean())
        rows.append({**dict(zip(group, key, strict=True)), "pairs": len(part), "estimate": estimate})
    return pd.DataFrame(rows, columns=[*group, "pairs", "estimate"])


def length_distances(requests: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Lengths of answers in two arms, a row per domain that both have; of `summaries.pooled_requests`.

    Columns: domain, `first` and `second` (mean tokens in each arm), and `distance`: the largest between their
    distribution curves, in [0, 1] (Kolmogorov-Smirnov).
    """
    rows = []
    for domain, cell in requests.groupby("domain", sort=False):
        pair = [cell.loc[cell["arm"] == arm, "output_tokens"] for arm in arms]
        if len(pair) == 2 and all(map(len, pair)):
            rows.append((domain, pair[0].mean(), pair[1].mean(), ks_2samp(*pair).statistic))
    return pd.DataFrame(rows, columns=["domain", "first", "second", "distance"])


def sampled(result: SampledAnswers) -> pd.DataFrame:
    """Each arm beside the baseline of its restart: a row for each arm and temperature, in the record's order.

    Columns: arm, temperature, answers (of both sides), accepted (draft tokens; 0 without speculation),
    p_value (all restarts in one test: answers change sides within their prompt and restart), by_restart
    (tuple of p-values).
    """
    base = {one.restart: one for one in result.arms if one.arm == BASELINE}
    groups: dict[tuple[str, float], list[SampledArm]] = {}
    for one in result.arms:
        if one.arm != BASELINE:
            groups.setdefault((one.arm, one.temperature), []).append(one)
    rows = []
    for (arm, temperature), ours in groups.items():
        sides = [base[one.restart].answers for one in ours], [one.answers for one in ours]
        pooled = two_sample(*(list(chain.from_iterable(side)) for side in sides))
        each = [two_sample(*pair).p_value for pair in zip(*sides, strict=True)]
        rows.append({
            "arm": arm, "temperature": temperature, "answers": pooled.num_answers,
            "accepted": sum(one.spec_decode.num_accepted_tokens for one in ours if one.spec_decode),
            "p_value": pooled.p_value, "by_restart": tuple(each),
        })  # fmt: skip
    return pd.DataFrame(rows)
