"""What a step is made of on two engines, and how often their answers part: from made-up windows."""

import pytest

import factories
from specbook.analysis import engines
from specbook.config.schema import Speculation

NGRAM = Speculation(method="ngram", num_speculative_tokens=3)
ONE, OTHER = factories.target(name="one"), factories.target(name="other", engine="llama_cpp", dtype="auto")


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))


def window(target, texts="abcd", speculation=None, restart=0, tokens_per_s=100.0, spec_decode=None):
    """A window of four prompts of 11 tokens, and what was answered to each."""
    asked = factories.rows(4, tpot_s=1 / tokens_per_s).assign(text=list(texts))
    where = factories.point(speculation, target=target, restart=restart)
    return factories.write_run(where, tokens_per_s, spec_decode=spec_decode, requests=asked)


def test_a_step_is_its_tokens_over_the_decoding_speed():
    drafted = factories.counters(per_pos=(10, 6, 4), drafts=12)  # of 44 tokens, 4 are of prefills
    runs = [window(ONE), window(ONE, speculation=NGRAM, tokens_per_s=150.0, spec_decode=drafted)]
    found = engines.steps(runs).set_index("label")
    assert list(found["length"]) == [1.0, 2.0]
    assert found.at["baseline", "step_s"] == pytest.approx(0.01, rel=0.02)
    assert found.at["ngram K=3", "step_s"] == pytest.approx(2 / 150, rel=0.02)
    assert list(found["ttft_s"]) == [0.02, 0.02]
    assert found.at["ngram K=3", "speed"].value == pytest.approx(150.0)


def shares(runs):
    found = engines.agreement(runs)
    keys = zip(found["target"], found["compared"], strict=True)
    return dict(zip(keys, [(one.value, one.n) for one in found["same"]], strict=True))


def test_which_arms_an_arm_is_compared_with():
    runs = [
        *(window(ONE, restart=restart) for restart in (0, 1)),
        window(ONE, "abcX", NGRAM, 0), window(ONE, "abcd", NGRAM, 1),
        window(OTHER, "abXX", restart=0), window(OTHER, "abXY", restart=1),
    ]  # fmt: skip
    assert shares(runs) == {
        ("one", "itself, started again"): (1.0, 4), ("one", "with ngram K=3"): (3.5 / 4, 4),
        ("other", "itself, started again"): (0.75, 4), ("other", "one"): (0.5, 4),
    }  # fmt: skip


def test_what_was_measured_once_has_no_control():
    assert shares([window(ONE), window(OTHER)]) == {("other", "one"): (1.0, 4)}
