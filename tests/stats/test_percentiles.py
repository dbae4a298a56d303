"""Percentiles over prompts and restarts: the rule of n, known points, and coverage by simulation."""

import math
import re

import numpy as np
import pytest

from specbook import paths
from specbook.stats import percentiles
from specbook.stats.percentiles import Requests, change, enough_for, percentile

TRIALS, RESTARTS, PROMPTS, Q = 80, 5, 50, 0.9
"""Five prompts expected beyond the percentile, as with p99 of 500, and ten times as quick."""
COVERS = 0.90
"""What the method page promises at least of 95 % intervals of a percentile."""
WORLDS = {  # spreads of the logarithm, as in the shipped records: between prompts, restarts, rest
    "answers differ": {"prompt": 0.5, "restart": 0.13, "rest": 0.08},
    "restarts differ": {"prompt": 0.05, "restart": 0.2, "rest": 0.07},
    "both": {"prompt": 0.12, "restart": 0.13, "rest": 0.08},
    "heavy tails": {"prompt": 0.4, "restart": 0.13, "rest": 0.15, "heavy": True},
}


def windows(rng, prompts, rest, restart, heavy=False, trials=1):
    """Made-up latencies [trials * RESTARTS, PROMPTS] of prompts with these logarithms [PROMPTS]."""
    shape = (trials * RESTARTS, len(prompts))
    noise = rng.standard_t(3, shape) if heavy else rng.normal(size=shape)
    return np.exp(prompts + rng.normal(0, restart, (len(noise), 1)) + rest * noise)


def requests(table) -> Requests:
    restarts, prompts = np.indices(table.shape)
    return Requests(table.ravel(), prompts.ravel(), restarts.ravel())


def typical(rng, between, spread) -> float:
    """The mean percentile of a restart, over many restarts and prompts."""
    sets = [windows(rng, rng.normal(0, between, PROMPTS), **spread, trials=100) for _ in range(100)]
    return float(np.quantile(np.concatenate(sets), Q, axis=1).mean())


@pytest.mark.parametrize("world", WORLDS)
def test_intervals_cover_as_often_as_the_method_page_says(monkeypatch, world):
    monkeypatch.setattr(percentiles, "RESAMPLES", 199)
    spread, rng = dict(WORLDS[world]), np.random.default_rng(1)
    between = spread.pop("prompt")
    truth, held = typical(rng, between, spread), np.zeros(2)
    for _ in range(TRIALS):
        prompts = rng.normal(0, between, PROMPTS)
        arm, base = (requests(windows(rng, prompts, **spread)) for _ in range(2))
        own, difference = percentile(arm, Q), change(arm, base, Q)
        held += (own.low <= truth <= own.high, difference.low <= 0 <= difference.high)
    assert (held >= COVERS * TRIALS).all()


def test_an_interval_of_the_latency_itself_covers_less(monkeypatch):
    monkeypatch.setattr(percentiles, "RESAMPLES", 199)
    spread, rng = {"rest": 0.08, "restart": 1.0}, np.random.default_rng(1)
    truth, held, negative, trials = typical(rng, 0.12, spread), np.zeros(2), 0, 4 * TRIALS
    for _ in range(trials):
        own = percentile(requests(windows(rng, rng.normal(0, 0.12, PROMPTS), **spread)), Q)
        plain = [own.value * (1 + math.log(end / own.value)) for end in (own.low, own.high)]
        held += (own.low <= truth <= own.high, plain[0] <= truth <= plain[1])
        negative += plain[0] < 0 < own.low
    assert held[0] > held[1] + 0.03 * trials
    assert negative > 0.3 * trials


@pytest.mark.parametrize("which", ["requests", "prompts", "prompts and restarts"])
def test_plainer_bootstraps_cover_less(which):
    spread, rng = dict(WORLDS["restarts differ"]), np.random.default_rng(1)
    between = spread.pop("prompt")
    truth, held, trials = typical(rng, between, spread), 0, 4 * TRIALS
    for _ in range(trials):
        table = windows(rng, rng.normal(0, between, PROMPTS), **spread)
        low, high = np.quantile(resampled(rng, table, which), [0.025, 0.975])
        held += low <= truth <= high
    assert held < COVERS * trials


def resampled(rng, table, which, draws=199):
    """The percentile of all requests, or the mean of restarts' percentiles, with `which` resampled."""
    if which == "requests":
        return np.quantile(rng.choice(table.ravel(), (draws, table.size)), Q, axis=1)
    columns = rng.integers(0, PROMPTS, (draws, 1, PROMPTS))
    rows = rng.integers(0, RESTARTS, (draws, RESTARTS, 1)) if "restarts" in which else np.arange(RESTARTS)
    return np.quantile(table[np.reshape(rows, (-1, RESTARTS, 1)), columns], Q, axis=2).mean(1)


def test_the_method_page_states_these_bounds():
    page = (paths.root() / "book" / "method.md").read_text(encoding="utf-8")
    section = page.split("## When a p99 may be quoted")[1].split("\n## ")[0]
    assert [float(number) / 100 for number in re.findall(r"(\d+) %", section)] == [0.95, COVERS]


@pytest.mark.parametrize(
    ("q", "n", "want"),
    [(0.99, 500, True), (0.99, 499, False), (0.95, 100, True), (0.95, 99, False), (0.9, 50, True),
     (0.5, 10, True), (0.5, 9, False), (0.01, 500, True), (0.99, 0, False)],
)  # fmt: skip
def test_a_percentile_needs_five_expected_prompts_beyond_it(q, n, want):
    assert enough_for(q, n) is want


@pytest.mark.parametrize(("q", "n"), [(0.0, 10), (1.0, 10), (99, 10), (0.5, -1)])
def test_enough_for_refuses_what_is_no_quantile(q, n):
    with pytest.raises(ValueError, match=r"need 0 < q < 1"):
        enough_for(q, n)


def test_known_points():
    times = np.add.outer([0.0, 10.0, 20.0], np.arange(1.0, 102.0))  # medians 51, 61, 71 in three restarts
    found = percentile(requests(times), 0.5)
    assert (found.value, found.n, found.unit_of_n) == (61.0, 101, "prompts")
    alone = math.exp(24.8 / 61)  # Student's t of 51, 61, 71
    assert found.low < 61 / alone < 61 * alone < found.high
    assert math.log(found.high / found.low) < 2 * 35 / 61


def test_asking_a_prompt_again_adds_none():
    once, again = np.ones((5, 100)), np.ones((5, 500))
    prompts = np.tile(np.arange(100), (5, 5))
    repeated = Requests(again.ravel(), prompts.ravel(), np.repeat(np.arange(5), 500))
    for found in (percentile(requests(once), 0.99), percentile(repeated, 0.99)):
        assert (found.n, found.method, found.low) == (100, "none", None)


@pytest.mark.parametrize("restarts", [1, 2])
def test_below_three_restarts_there_is_no_interval(restarts):
    assert percentile(requests(np.ones((restarts, 500))), 0.99).method == "none"


def test_prompts_are_resampled_together_in_both_arms():
    rng = np.random.default_rng(0)
    base = windows(rng, rng.normal(0, 1.0, 500), rest=0.0, restart=0.0)
    found = change(requests(base + 0.25), requests(base), 0.99)
    assert (found.value, found.low, found.high) == pytest.approx((0.25, 0.25, 0.25))


def test_arms_are_compared_within_the_restarts_they_share():
    arm = requests(np.full((4, 10), [[9.0], [2.0], [3.0], [4.0]]))
    base = Requests(np.repeat([1.0, 1.5, 1.0], 10), np.tile(np.arange(10), 3), np.repeat([1, 2, 3], 10))
    assert change(arm, base, 0.5).value == pytest.approx(np.mean([1.0, 1.5, 3.0]))
    with pytest.raises(ValueError, match="at least one restart"):
        change(arm, base._replace(restarts=np.full(30, 7)), 0.5)


def test_the_fewest_prompts_of_a_restart_count():
    found = Requests(np.ones(150), [*range(100), *range(50)], [0] * 100 + [1] * 50)
    assert percentile(found, 0.5).n == 50


@pytest.mark.parametrize("weights_per_prompt", [1, 3])
def test_a_resampled_percentile_counts_prompts_as_drawn(weights_per_prompt):
    values, prompts = np.arange(40.0), np.repeat(np.arange(20), 2)
    drawn = np.random.default_rng(0).integers(0, 3, (6, 20)) * weights_per_prompt
    want = [np.quantile(np.repeat(values, row[prompts]), 0.5, method="inverted_cdf") for row in drawn]
    assert percentiles._resampled(values, prompts, drawn.astype(float), 0.5).tolist() == want
