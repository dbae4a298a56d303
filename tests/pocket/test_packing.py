"""Several examples share a row of a batch, and none of them knows."""

from collections import Counter
from itertools import islice
from random import Random

import numpy as np
import pytest

from pocket import packing
from pocket.corpus import DOMAINS
from pocket.packing import batches, mixture

ROWS, TOKENS = 4, 64
SHARES = {"code": 0.2, "chat": 0.15, "math": 0.3, "json": 0.2, "prose": 0.15}


def examples(seed=0, longest=40):
    """(ids, prompt length): every example has ids of its own, so that a token says whose it is."""
    random = Random(seed)
    for number in range(1, 10_000):
        size = random.randint(3, longest)
        yield [number * 100 + i for i in range(size)], random.randint(1, size - 1)


def pack(source, n=5, prompt_weight=0.2):
    return list(islice(batches(source, ROWS, TOKENS, prompt_weight), n))


def spans(batch):
    """Each example in a batch: its row and where it lies."""
    for row in range(ROWS):
        for segment in range(batch.segments[row].max() + 1):
            where = np.flatnonzero(batch.segments[row] == segment)
            yield row, slice(where[0], where[-1] + 1)


def test_every_array_has_the_shape_of_the_batch():
    for batch in pack(examples()):
        for array in (batch.ids, batch.positions, batch.segments, batch.labels, batch.weights):
            assert array.shape == (ROWS, TOKENS)


def test_examples_lie_whole_and_uncut_and_positions_start_anew():
    prompts = {ids[0]: (ids, prompt) for ids, prompt in examples()}
    for batch in pack(examples()):
        for row, span in spans(batch):
            ids = list(batch.ids[row, span])
            assert ids == prompts[ids[0]][0]
            assert list(batch.positions[row, span]) == list(range(len(ids)))


def test_a_label_is_the_next_token_of_its_example():
    for batch in pack(examples()):
        for row, span in spans(batch):
            labels, ids = batch.labels[row, span], batch.ids[row, span]
            assert list(labels[:-1]) == list(ids[1:])
            assert labels[-1] == -100


def test_answers_weigh_more_than_prompts_in_the_loss():
    prompts = {ids[0]: prompt for ids, prompt in examples()}
    for batch in pack(examples()):
        assert (batch.weights[batch.labels == -100] == 0).all()
        for row, span in spans(batch):
            size, prompt = span.stop - span.start, prompts[batch.ids[row, span][0]]
            want = [0.2] * (prompt - 1) + [1.0] * (size - prompt) + [0.0]
            assert batch.weights[row, span] == pytest.approx(want)


def test_padding_belongs_to_no_example():
    for batch in pack(examples()):
        empty = batch.segments == -1
        assert (batch.ids[empty] == 0).all()
        assert (batch.labels[empty] == -100).all()


def test_no_example_is_lost_or_repeated():
    seen = [batch.ids[row, span][0] for batch in pack(examples(), 20) for row, span in spans(batch)]
    assert max(Counter(seen).values()) == 1
    # The few that fitted nowhere wait for a later batch.
    assert len(set(range(1, len(seen) + 1)) - {first // 100 for first in seen}) <= 8 * 20


def test_rows_are_nearly_full():
    found = pack(examples(longest=20), 20)
    assert np.mean([(batch.segments >= 0).mean() for batch in found]) > 0.9


def test_what_is_longer_than_a_row_is_dropped():
    found = pack(examples(longest=200), 5)
    longest = max(span.stop - span.start for batch in found for _, span in spans(batch))
    assert 3 <= longest <= TOKENS


def test_equal_streams_give_equal_batches():
    for one, two in zip(pack(examples()), pack(examples()), strict=True):
        assert (one.ids == two.ids).all()
        assert (one.weights == two.weights).all()
    assert any((a.ids != b.ids).any() for a, b in zip(pack(examples()), pack(examples(1)), strict=True))


# the mixture of domains


def test_domains_come_in_their_shares_and_reproducibly():
    drawn = [list(islice(mixture(SHARES, seed=0), 800)) for _ in range(2)]
    assert [e.id for e in drawn[0]] == [e.id for e in drawn[1]]
    counts = Counter(e.domain for e in drawn[0])
    assert {d: counts[d] / 800 for d in DOMAINS} == pytest.approx(SHARES, abs=0.06)


def test_a_domain_that_runs_dry_starts_again_with_another_seed(monkeypatch):
    asked = []

    def two(domain, limit, seed, may_see):
        asked.append(seed)
        return iter([f"{domain}-{seed}-{i}" for i in range(2)])

    monkeypatch.setattr(packing, "train_examples", two)
    only_math = dict.fromkeys(DOMAINS, 0) | {"math": 1}
    drawn = list(islice(mixture(only_math, seed=3), 5))
    assert drawn == ["math-3000-0", "math-3000-1", "math-3001-0", "math-3001-1", "math-3002-0"]
    assert asked == [3000, 3001, 3002]


def test_a_whole_held_out_domain_is_mixed_in_where_allowed():
    new = {"sql": 0.5, "math": 0.5}
    with pytest.raises(ValueError, match="'sql' is held out of training"):
        list(islice(mixture(new, seed=0), 20))
    drawn = islice(mixture(new, seed=0, may_see=("math", "sql")), 20)
    assert {e.domain for e in drawn} == set(new)
