"""One model on several engines, or in several precisions, in the same rounds: speeds, what a draft gains on
each, what a step is made of, and how often answers part.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd

from specbook.analysis import acceptance, speedup, summaries
from specbook.analysis.speedup import Answered, PairedRatios
from specbook.analysis.summaries import Speed
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.stats import equality, ratios
from specbook.stats.estimate import Estimate

TARGETS = ("load", "target", "tokens_per_s", "against", "speedup", "length")
SPEED: Speed = "output_tokens_per_s"
ARM = ["load", "domain", "target", "label"]
STEPS = (*ARM, "speed", "ttft_s", "length", "step_s")
AGREEMENT = ("load", "target", "compared", "same")
BASELINE = "baseline"
Column = tuple[str, str]
"""Target and label of an arm."""


def by_target(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """One row per load and target, all domains together (each once). Columns: TARGETS.

    tokens_per_s and `against` are without speculation, the latter over the first target in the same rounds
    (None for that one); speedup is the draft's over the target's own baseline, length its acceptance length
    in tokens/step. Each is None where nothing says it.
    """
    runs = list(runs)
    speeds, gains, lengths = summaries.throughput(runs), speedup.speedups(runs), acceptance.by_domain(runs)
    first = runs[0].point.target.name
    base, rows = speeds[speeds["method"] == BASELINE], []
    answered = speedup.answered(runs, SPEED)
    for (load, target), cell in base.groupby(["load", "target"], sort=False):
        own = gains[(gains["load"] == load) & (gains["target"] == target) & (gains["method"] != BASELINE)]
        drafted = lengths[(lengths["load"] == load) & (lengths["target"] == target)]
        other = base[(base["load"] == load) & (base["target"] == first)]
        rows.append(
            {"load": load, "target": target,
             "tokens_per_s": float(np.exp(np.log(cell["output_tokens_per_s"]).mean())),
             "against": None if target == first else _against(cell, other, answered),
             "speedup": speedup.over_domains(own) if len(own) else None,
             "length": acceptance.macro(list(drafted["length"])) if len(drafted) else None}
        )  # fmt: skip
    return summaries.frame(rows, TARGETS)


def _against(cell: pd.DataFrame, other: pd.DataFrame, answered: Answered) -> Estimate | None:
    """Speed over the other's, both measured in one round, the geometric mean of the domains."""
    parts = [
        speedup.ratio(both, SPEED, answered)
        for domain, own in cell.groupby("domain", sort=False)
        if len(both := speedup.pairs(own, other[other["domain"] == domain], SPEED))
    ]
    return PairedRatios.mean(parts).estimate() if parts else None


def steps(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """A row for each load, domain, target and arm. Columns: STEPS.

    speed is in output tokens/s over all sequences, an `Estimate` over restarts; ttft_s is a median. length is
    the tokens that a step gives a sequence, with a draft in it or not, and step_s what one takes: length over
    the decoding speed of one sequence. Chunks do not tell, since an engine may stream each token by itself.
    """
    runs = RunSet.of(runs).closed
    by_id, rows = {run.run_id: run for run in runs}, []
    for key, own in summaries.throughput(runs).groupby(ARM, sort=False):
        windows = [by_id[name] for name in own["run_id"]]
        length = tokens_a_step(windows)
        rows.append(
            {**dict(zip(ARM, key, strict=True)), "length": length,
             "speed": ratios.geometric_mean_ci(own["output_tokens_per_s"]),
             "ttft_s": float(np.median(np.concatenate([*map(summaries.first_tokens_s, windows)]))),
             "step_s": length / float(np.exp(np.log(own["decode_tokens_per_s"]).mean()))}
        )  # fmt: skip
    return summaries.frame(rows, STEPS)


def tokens_a_step(runs: Sequence[RunRecord]) -> float:
    """Tokens that a decode step gives a sequence, from counters: one, and those that were accepted.

    Steps without a draft count, and prefills do not.
    """
    counted = [run.measurement for run in runs if run.measurement and run.measurement.server]
    decoded = sum(one.server.generation_tokens - one.throughput.completed for one in counted)
    accepted = sum(one.spec_decode.num_accepted_tokens for one in counted if one.spec_decode)
    return decoded / (decoded - accepted)


def agreement(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """How many greedy answers of two arms are the same text, prompt by prompt. Columns: AGREEMENT.

    A target without speculation is `compared` with itself after another start, with its drafting arms in the
    same restart, and with the first target. same is the share of prompts, each with the mean over restarts.
    """
    asked = summaries.pooled_requests(RunSet.of(runs).closed)
    asked, rows = asked.assign(prompt=asked["domain"] + "/" + asked["prompt_id"].astype(str)), []
    for load, cell in asked.groupby("load", sort=False):
        told = cell.drop_duplicates(["prompt", "target", "label", "restart"])
        texts = told.pivot(index="prompt", columns=["target", "label", "restart"], values="text")
        for compared, one, other, later in _pairs(cell):
            if (same := _same(texts, one, other, later)) is not None:
                rows.append({"load": load, "target": one[0], "compared": compared, "same": same})
    return summaries.frame(rows, AGREEMENT)


def _pairs(cell: pd.DataFrame) -> Iterator[tuple[str, Column, Column, int]]:
    """What is compared with each target's baseline, both arms, and how many restarts lie between them."""
    arms = list(dict.fromkeys(zip(cell["target"], cell["label"], strict=True)))
    targets = list(dict.fromkeys(target for target, _ in arms))
    for target in targets:
        base = (target, BASELINE)
        yield "itself, started again", base, base, 1
        yield from ((f"with {arm[1]}", base, arm, 0) for arm in arms if arm[0] == target and arm != base)
        if target != targets[0]:
            yield targets[0], base, (targets[0], BASELINE), 0


def _same(texts: pd.DataFrame, one: Column, other: Column, later: int) -> Estimate | None:
    pairs = [(column, (*other, column[2] + later)) for column in texts if column[:2] == one]
    both = [texts[list(pair)].dropna() for pair in pairs if pair[1] in texts]
    if not both:
        return None
    equal = pd.concat([own.iloc[:, 0] == own.iloc[:, 1] for own in both], axis="columns")
    return equality.share_over_prompts(equal.astype(float).mean(axis="columns"))
