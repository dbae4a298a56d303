"""A ratio of two arms' speeds as a sample of restarts and of prompts."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from specbook.analysis import summaries
from specbook.analysis.summaries import Speed
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet, once_a_run
from specbook.stats import ratios
from specbook.stats.estimate import Estimate

Answered = Mapping[str, pd.DataFrame]
"""run_id -> the tokens and seconds of each (domain, prompt): of `answered`."""


class PairedRatios(NamedTuple):
    """An arm's speed over another's, measured in the same rounds."""

    by_restart: pd.Series
    """restart -> ratio, the geometric mean over its rounds."""
    by_prompt: pd.Series
    """(domain, prompt) -> change of the log ratio without that prompt; see `ratios.leave_one_out`."""

    @classmethod
    def mean(cls, parts: Sequence["PairedRatios"]) -> "PairedRatios":
        """Geometric mean over domains; restarts that lack one of them are another mix, and left out."""
        both = pd.concat([part.by_restart for part in parts], axis=1, join="inner")
        changes = pd.concat([part.by_prompt for part in parts]) / len(parts)
        return cls(np.exp(np.log(both).mean(axis=1)), changes)

    def over(self, other: "PairedRatios") -> "PairedRatios":
        """This ratio over the other, in the restarts that both have."""
        both = self.by_restart.index.intersection(other.by_restart.index)
        changes = self.by_prompt.sub(other.by_prompt, fill_value=0.0)
        return PairedRatios(self.by_restart[both] / other.by_restart[both], changes)

    def estimate(self) -> Estimate:
        """The geometric mean over restarts, with an interval that covers restarts and prompts."""
        changes, of = self.by_prompt.to_numpy(), self.by_prompt.index.codes[0]
        domains = [changes[of == domain] for domain in dict.fromkeys(of.tolist())]
        return ratios.crossed_ci(self.by_restart, domains)


def answered(runs: Iterable[RunRecord], speed: Speed) -> Answered:
    """run_id -> the tokens and seconds that each (domain, prompt) adds to `speed`.

    Only requests of the steady window count where a record has one. Seconds are E2E, or for the decoding
    speeds those after the first token: see `summaries.throughput`.
    """
    return {run.run_id: _sums(run, speed) for run in RunSet.of(runs)}


@once_a_run
def _sums(run: RunRecord, speed: Speed) -> pd.DataFrame:
    rows, decode = summaries.arrays(run), speed != "output_tokens_per_s"
    tokens, e2e_s, ttft_s = (rows[name].astype(float) for name in ("output_tokens", "e2e_s", "ttft_s"))
    kept = rows["inside"] & ~(rows["loops"] & (speed == "decode_tokens_per_s_without_loops"))
    if decode:
        kept &= ~rows["late"] & (tokens > 1)
    prompts, names = pd.factorize(rows["prompt_id"][kept], sort=True)
    parts = {"tokens": tokens - decode, "seconds": e2e_s - decode * ttft_s}
    sums = {name: np.bincount(prompts, part[kept]) for name, part in parts.items()}
    return pd.DataFrame(sums, _prompts(run.point.traffic.domain, tuple(names)))


@lru_cache(maxsize=256)  # one object, which pandas then knows to be equal: windows repeat their prompts
def _prompts(domain: str, names: tuple[str, ...]) -> pd.MultiIndex:
    return pd.MultiIndex.from_product([[domain], names], names=["domain", "prompt_id"])


def by_prompt(arm: Sequence[pd.DataFrame], base: Sequence[pd.DataFrame] = ()) -> pd.Series:
    """`PairedRatios.by_prompt` of two arms' windows, `answered` of each; or of one arm's own speed."""
    indices = [window.index for window in (*arm, *base)]
    prompts = indices[0]
    if not all(one.equals(prompts) for one in indices):  # then what any of them has
        prompts = pd.MultiIndex.from_tuples(sorted(set().union(*indices)), names=prompts.names)
    sides = [ratios.leave_one_out(*_arrays(windows, prompts)) for windows in (arm, base) if windows]
    return pd.Series(sides[0] - sum(sides[1:]), index=prompts)


def _arrays(windows: Sequence[pd.DataFrame], prompts: pd.Index) -> np.ndarray:
    """[2, windows, prompts]: tokens, and seconds; 0 where a window lacks a prompt."""
    if all(window.index.is_(prompts) for window in windows):
        return np.stack([window.to_numpy().T for window in windows], axis=1)
    place = {name: number for number, name in enumerate(prompts)}  # pandas would take milliseconds a window
    sums = np.zeros((2, len(windows), len(prompts)))
    for number, window in enumerate(windows):
        sums[:, number, [place[name] for name in window.index]] = window.to_numpy().T
    return sums
