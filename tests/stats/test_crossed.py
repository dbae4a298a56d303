"""The interval of a speed-up over restarts and prompts: known points, and coverage by simulation."""

import re

import numpy as np
import pytest

from specbook import paths
from specbook.stats.ratios import crossed_ci, leave_one_out, ratio_ci

TRIALS, ERROR = 500, 0.01
"""`ERROR`: standard error of a simulated coverage."""
COVERS, NEVER_MORE = 0.93, 0.98
RARE = 0.85
"""What the method page promises of 95 % intervals; `RARE`: less where a sample may lack all loops."""
WORLDS = {  # spread of log tokens, and of the log speed-up; share of answers that loop to the cap
    "answers alike": (0.22, 0.10, 0.0),
    "speed-ups differ": (0.22, 0.28, 0.0),
    "heavy tails": (1.0, 0.25, 0.0),
    "loops": (0.3, 0.20, 0.3),
}
CAP, LOOP_GAIN = 192, 0.8
"""Tokens of an answer that loops (others: 22), and how much higher its log speed-up is: as in `code`."""


def answers(rng, world, restarts, prompts, drift=0.08):
    """Tokens [prompts], and each arm's seconds [restarts, prompts], of a batch of 1."""
    spread, differ, loops = world
    looped, z = rng.random(prompts) < loops, rng.normal(size=prompts)
    tokens = np.where(looped, CAP, np.exp(np.log(22) + spread * z))
    gain = 0.1 + LOOP_GAIN * looped + differ * (0.5 * z + 0.87 * rng.normal(size=prompts))
    restart = drift * rng.normal(size=(2, restarts, 1))
    noise = 0.03 * rng.normal(size=(2, restarts, prompts))
    base, arm = tokens * np.exp(restart + noise)
    return tokens, arm / np.exp(gain), base


def truth(world) -> float:
    _, arm, base = answers(np.random.default_rng(0), world, 1, 1_000_000, drift=0.0)
    return float(base.sum() / arm.sum())


def interval(tokens, arm, base):
    """The interval of the package."""
    written = np.broadcast_to(tokens, arm.shape)
    changes = leave_one_out(written, arm) - leave_one_out(written, base)
    return crossed_ci(base.sum(axis=1) / arm.sum(axis=1), [changes])


def coverage(world, restarts, prompts, how=interval) -> float:
    rng, true, hits = np.random.default_rng(restarts * prompts), truth(world), 0
    for _ in range(TRIALS):
        found = how(*answers(rng, world, restarts, prompts))
        hits += found.low <= true <= found.high
    return hits / TRIALS


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("prompts", [12, 32, 64])
@pytest.mark.parametrize("restarts", [3, 5])
def test_it_covers_as_often_as_the_method_page_says(world, prompts, restarts):
    assert COVERS - ERROR <= coverage(WORLDS[world], restarts, prompts) <= NEVER_MORE + ERROR


@pytest.mark.parametrize("world", ["speed-ups differ", "heavy tails", "loops"])
def test_an_interval_over_restarts_alone_covers_far_less(world):
    alone = coverage(WORLDS[world], 5, 12, lambda _, arm, base: ratio_ci(base.sum(axis=1), arm.sum(axis=1)))
    assert alone < 0.8


def test_rare_loops_are_unknown_to_twelve_prompts():
    world = (0.3, 0.20, 0.14)
    assert coverage(world, 5, 12) < RARE
    assert coverage(world, 5, 32) >= COVERS


def test_the_method_page_states_these_bounds():
    page = (paths.root() / "book" / "method.md").read_text(encoding="utf-8")
    section = page.split("### Restarts and prompts")[1].split("\n## ")[0]
    said = [float(number) / 100 for number in re.findall(r"(\d+) %", section)]
    assert said == [0.95, COVERS, NEVER_MORE, RARE]


def test_leaving_a_prompt_out_changes_the_log_of_the_speed():
    tokens, seconds = np.array([[10.0, 20.0, 30.0]]), np.array([[1.0, 1.0, 2.0]])
    want = np.log([50 / 3, 40 / 3, 30 / 2]) - np.log(60 / 4)
    assert leave_one_out(tokens, seconds) == pytest.approx(want)
    assert leave_one_out([[5.0]], [[1.0]]).tolist() == [0.0]


def test_both_sources_are_added_in_squares():
    changes = np.array([-0.1, 0.0, 0.1])  # jackknife: sqrt(2/3 * 0.02), t(0.975, 2) = 4.303
    found = crossed_ci(np.exp([0.9, 1.0, 1.1]), [changes])
    half = np.hypot(0.2484, 4.3027 * np.sqrt(2 / 3 * 0.02))
    assert np.log([found.low, found.high]) == pytest.approx([1 - half, 1 + half], abs=1e-4)
    assert (found.n, found.prompts, found.method) == (3, 3, "prompts-and-restarts")
    assert found.counted == "3 restarts × 3 prompts"


def test_equal_prompts_leave_the_interval_of_restarts():
    by_restart = [1.84, 1.85, 1.93]
    crossed, alone = crossed_ci(by_restart, [np.zeros(12)]), ratio_ci(by_restart, np.ones(3))
    assert (crossed.low, crossed.high) == pytest.approx((alone.low, alone.high))


def test_domains_are_strata_whose_means_do_not_count():
    within = np.array([-0.1, 0.1, 0.0])
    apart = crossed_ci([2.0] * 3, [within, within + 5.0])
    assert apart.high == pytest.approx(crossed_ci([2.0] * 3, [within, within]).high)
    assert apart.prompts == 6


@pytest.mark.parametrize(("restarts", "prompts"), [(2, 12), (3, 2), (1, 1)])
def test_too_few_of_either_give_no_interval(restarts, prompts):
    found = crossed_ci(np.linspace(2.0, 2.4, restarts), [np.zeros(prompts)])
    assert (found.low, found.high, found.method) == (None, None, "none")
