"""Made-up results of the experiments of drift, in the real schema; never a measurement."""

import numpy as np

from specbook import records
from specbook.config import Chapter
from specbook.config.chapter import Experiment
from specbook.records.experiment_results import (
    DriftEpisodes,
    Episode,
    FallbackArms,
    Readings,
    Requests,
    RoutedArm,
    ServerSwitch,
)
from specbook.records.run import ExperimentRecord
from synthetic import HARDWARE, ORIGIN, START

DRAFTS = 60
"""A second."""


def episode(before: list[float], after: list[float], noise: float = 0.3, seed: int = 0) -> Episode:
    """These acceptance lengths, a reading a second."""
    rng, n = np.random.default_rng(seed), len(before) + len(after)
    lengths = np.maximum(1.0, np.array([*before, *after]) + noise * rng.standard_normal(n))
    accepted = np.concatenate([[0], np.cumsum(np.rint(DRAFTS * (lengths - 1)))]).astype(int)
    readings = Readings(
        at_s=tuple(float(i) for i in range(n + 1)), num_drafts=tuple(DRAFTS * i for i in range(n + 1)),
        num_accepted_tokens=tuple(accepted.tolist()),
    )  # fmt: skip
    drift_s = (float(len(before)),) if after else ()
    return Episode(drift_s=drift_s, readings=readings, requests=requests(n, np.full(n, 0.5)))


def requests(sent: int, e2e_s: np.ndarray) -> Requests:
    n = len(e2e_s)
    return Requests(
        start_s=tuple(float(i) / 10 for i in range(n)), ttft_s=tuple((e2e_s / 10).tolist()),
        e2e_s=tuple(e2e_s.tolist()), output_tokens=(60,) * n, sent=sent,
    )  # fmt: skip


def quiet(episodes: int) -> DriftEpisodes:
    made = tuple(episode([3.5] * 120, [], seed=i) for i in range(episodes))
    return DriftEpisodes(episodes=made, weights_sha256={"target": "t", "draft": "d"})


def abrupt(episodes: int) -> DriftEpisodes:
    made = tuple(episode([3.5] * 60, [2.2] * 60, seed=100 + i) for i in range(episodes))
    return DriftEpisodes(episodes=made, weights_sha256={"target": "t", "draft": "d"})


def slow(episodes: int) -> DriftEpisodes:
    fall = list(np.linspace(3.5, 2.2, 30)) + [2.2] * 40
    made = tuple(episode([3.5] * 60, fall, seed=200 + i) for i in range(episodes))
    return DriftEpisodes(episodes=made, weights_sha256={"target": "t", "draft": "d"})


def behind(episodes: int) -> DriftEpisodes:
    """A next version under the old head: quiet, and lower."""
    made = tuple(episode([2.2] * 60, [], seed=300 + i) for i in range(episodes))
    return DriftEpisodes(episodes=made, weights_sha256={"target": "n", "draft": "d"})


def fallen_back(repeats: int, lost: int = 0) -> FallbackArms:
    """The drafting server alone is slow after the drift, and loses some."""
    arms = [
        arm(name, repeat, lost) for repeat in range(repeats) for name in ("fallback", "drafting", "plain")
    ]
    return FallbackArms(arms=tuple(arms), weights_sha256={"target": "t", "draft": "d"})


def arm(name: str, repeat: int, lost: int) -> RoutedArm:
    base = episode([3.5] * 30, [2.0] * 60, seed=repeat)
    answered = 600 - (lost if name == "drafting" else 0)
    slow_s = {"fallback": 0.8, "drafting": 1.5, "plain": 0.9}[name]
    e2e = np.random.default_rng(repeat).lognormal(np.log(slow_s), 0.3, answered)
    away = ServerSwitch(at_s=36.0, drafting=False, length=2.0, in_flight={"drafting": 8})
    back = ServerSwitch(at_s=66.0, drafting=True, length=3.2, in_flight={"plain": 8})
    return RoutedArm(
        arm=name, repeat=repeat,
        episode=base.model_copy(update={"drift_s": (30.0, 60.0), "requests": requests(600, e2e)}),
        switches=(away, back) if name == "fallback" else (), served={"drafting": answered}, broken=0,
    )  # fmt: skip


def write(plan: Chapter) -> None:
    """Append a record of each experiment of a plan."""
    for index, asked in enumerate(plan.experiments):
        records.append(
            ExperimentRecord(
                run_id=f"made-up-{index}", chapter=plan.chapter, kind="simulated", status="ok",
                started_at=START.isoformat(), experiment=asked, hardware=HARDWARE, provenance=ORIGIN,
                result=_result(asked).model_dump(mode="json"),
            )
        )  # fmt: skip


def _result(asked: Experiment) -> DriftEpisodes | FallbackArms:
    if asked.name == "fallback":
        return fallen_back(repeats=2)
    if asked.parameters["target"]["name"] == "pocket-dense-next":
        return behind(2)
    traffic = asked.parameters["traffic"]
    if len(traffic["phases"]) == 1:
        return quiet(3)
    return slow(6) if traffic.get("ramp") else abrupt(6)
