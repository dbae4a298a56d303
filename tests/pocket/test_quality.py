"""A pocket target is judged on what it answers: right, stopped, looped."""

import pytest

from pocket import quality
from pocket.catalogue import DENSE
from pocket.corpus import DOMAINS, held_out
from pocket.tokenizer import END
from specbook.bench.greedy import Answer
from specbook.config.schema import Target

ROW = {"check": {"kind": "math_exact", "answer": 4}}


def answer(text="#### 4", token_ids=(7, 2)):
    return Answer(prompt_token_ids=(1,), token_ids=token_ids, text=text)


def test_right_answers_stops_and_loops_are_counted_apart():
    outputs = [
        answer(),
        answer("#### 5"),
        answer(token_ids=(7, 8)),
        answer(token_ids=(1, 2, 3, 4) * 20),
        answer("", ()),
    ]
    found = quality.judge([ROW] * 5, outputs)
    assert found.passed.value == pytest.approx(3 / 5)
    assert found.stopped.value == pytest.approx(2 / 5)
    assert found.looped.value == pytest.approx(1 / 5)
    assert found.mean_output_tokens == pytest.approx((2 + 2 + 2 + 80 + 0) / 5)
    assert found.passed.format() == "0.60 [0.23, 0.88], n=5 prompts"


def test_an_answer_too_few_is_an_error():
    with pytest.raises(ValueError, match="shorter"):
        quality.judge([ROW] * 2, [answer()])


def test_the_end_token_is_the_tokenizers(pocket_tokenizer):
    assert pocket_tokenizer.convert_tokens_to_ids(END) == quality.END_ID


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Every held-out prompt answered with its own reference answer."""
    from pocket import corpus

    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    corpus.write_held_out(tmp_path / "models" / "heldout")
    reference = {e.prompt: e.answer for domain in DOMAINS for e in held_out(domain)}

    class Server:
        def __init__(self, target: Target):
            assert target == DENSE

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    def answers(server, prompts, max_tokens, concurrency):
        return [answer(reference[prompt]) for prompt in prompts]

    monkeypatch.setattr(quality, "Server", Server)
    monkeypatch.setattr(quality, "answers", answers)
    return quality.measure(DENSE)


def test_reference_answers_pass_in_every_domain(judged):
    assert set(judged) == set(DOMAINS)
    assert {domain: found.passed.value for domain, found in judged.items()} == dict.fromkeys(DOMAINS, 1.0)


def test_quality_comes_back_as_it_went(judged, tmp_path):
    quality.save(judged, tmp_path)
    assert quality.load(tmp_path) == judged
