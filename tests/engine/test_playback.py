"""A real engine plays the rates of acceptance that are set, and the experiment on it counts and compares."""

from contextlib import contextmanager

import pytest

from specbook.bench.experiments import synthetic_acceptance
from specbook.bench.experiments.synthetic_acceptance import SyntheticAcceptance

pytestmark = pytest.mark.engine


def test_rates_that_are_set_are_played_and_compared(played, monkeypatch):
    """One server stands for both: that of the draft's own rates, and that of what was counted there."""
    given = []

    @contextmanager
    def up(target, how):
        given.append((target, how.synthetic_acceptance_rates))
        played.resume()
        yield played

    monkeypatch.setattr(synthetic_acceptance, "Server", up)
    own = played.speculation.model_copy(update={"synthetic_acceptance_rates": None})
    asked = SyntheticAcceptance(
        target=played.target, speculation=own, domain="json", concurrency=(2,), turns=2,
        requests_per_sequence=2, max_tokens=60,
    )  # fmt: skip
    found = synthetic_acceptance.compare_acceptance(asked)
    played.resume()
    assert given == [(played.target, None), (played.target, found.rates)]
    (pair,) = found.pairs
    for rates in (found.rates, pair.real.rates, pair.played.rates):  # each of some 180 drafts
        set_ones = played.speculation.synthetic_acceptance_rates
        assert rates == pytest.approx(set_ones, abs=0.15)  # four standard errors
    assert len(pair.real.step_s) == len(pair.played.step_s) == 2
    assert all(len(turn) == 2 * pair.concurrency for turn in pair.real.tpot_s)
