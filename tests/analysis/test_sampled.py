"""Sampled answers of every arm against the baseline of their restart."""

import numpy as np

from specbook.analysis import answers
from specbook.records.experiment_results import SampledAnswers


def _arm(arm, restart, rates, seed, temperature=0.7):
    rng = np.random.default_rng([seed, restart])
    answers = [[tuple(int(token) for token in rng.random(4) < rate) for _ in range(40)] for rate in rates]
    return {"arm": arm, "restart": restart, "temperature": temperature, "answers": answers}


def _result():
    arms = []
    for restart in (0, 1):
        shift = 0.1 * restart  # restarts need not be alike: only arms of one restart are compared
        same = (0.3 + shift, 0.6 + shift)
        arms += [
            _arm("baseline", restart, same, 1),
            _arm("baseline, restarted", restart, same, 2),
            _arm("baseline, restarted", restart, (0.5, 0.9), 3, 0.9),
            _arm("EAGLE-3 K=3", restart, same, 4),
            _arm("wrong sampler", restart, (0.7, 0.2), 5),
        ]
    return SampledAnswers.model_validate({"prompt_ids": ["a", "b"], "arms": arms})


def test_each_arm_has_its_row():
    table = answers.sampled(_result()).set_index(["arm", "temperature"])
    assert list(table.index) == [
        ("baseline, restarted", 0.7), ("baseline, restarted", 0.9), ("EAGLE-3 K=3", 0.7),
        ("wrong sampler", 0.7),
    ]  # fmt: skip
    assert set(table["answers"]) == {2 * 2 * 2 * 40}
    assert all(len(p) == 2 for p in table["by_restart"])


def test_wrong_arms_are_rejected_and_right_ones_not():
    p = answers.sampled(_result()).set_index(["arm", "temperature"])["p_value"]
    assert p["wrong sampler", 0.7] == p["baseline, restarted", 0.9] == 0.001
    assert min(p["EAGLE-3 K=3", 0.7], p["baseline, restarted", 0.7]) > 0.05
