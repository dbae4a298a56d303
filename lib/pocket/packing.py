"""Examples into fixed-shape training batches: several to a row, none seeing another."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from transformers import PreTrainedTokenizerBase

from pocket.corpus import DOMAINS, Example, train_examples
from pocket.tokenizer import encode_example


@dataclass(frozen=True)
class Batch:
    """`rows x row_tokens` tokens. Every array has that shape."""

    ids: np.ndarray
    """Token ids, int64; 0 (the pad token) where a row is not full."""
    positions: np.ndarray
    """Position within the example, int64, from 0."""
    segments: np.ndarray
    """Which example of the row a token belongs to, int64; -1 where padded."""
    labels: np.ndarray
    """The next token of the same example, int64; -100 (ignored) at its end and where padded."""
    weights: np.ndarray
    """Weight of each label in the loss, float32: answers 1, prompts less, as half of a prompt is chance."""


def mixture(shares: dict[str, float], seed: int, may_see: Sequence[str] = DOMAINS) -> Iterator[Example]:
    """An endless stream of training examples, each domain in its share of *examples*.

    One that is finite starts again when it runs dry, with new cuts, wordings and order. `may_see`: see
    `corpus.train_examples`.
    """
    random = Random(seed)
    rounds = dict.fromkeys(shares, 0)
    streams: dict[str, Iterator[Example]] = {domain: iter(()) for domain in shares}
    while True:
        domain = random.choices(list(shares), list(shares.values()))[0]
        example = next(streams[domain], None)
        if example is None:
            streams[domain] = train_examples(domain, 1_000_000, seed * 1000 + rounds[domain], may_see)
            rounds[domain] += 1
            example = next(streams[domain])
        yield example


def encoded(
    examples: Iterable[Example], tokenizer: PreTrainedTokenizerBase
) -> Iterator[tuple[list[int], int]]:
    """Each example's token ids, and how many of them are the prompt."""
    return (encode_example(tokenizer, example) for example in examples)


def batches(
    samples: Iterator[tuple[list[int], int]], rows: int, row_tokens: int, prompt_weight: float
) -> Iterator[Batch]:
    """Fill rows first-fit; a sample that fits nowhere opens the next batch; too long ones are dropped.

    Args:
        samples: token ids of prompt and answer, and how many of them are the prompt (see `encoded`).
        rows: of a batch.
        row_tokens: tokens in a row.
        prompt_weight: weight of a prompt's token in the loss.
    """
    held: list[tuple[list[int], int]] = []
    while True:
        filled: list[list[tuple[list[int], int]]] = [[] for _ in range(rows)]
        room = [row_tokens] * rows
        misses = 0
        while misses < 8:  # eight in a row that fit nowhere: the batch is as full as it gets
            ids, prompt = held.pop() if held and misses == 0 else next(samples)
            if len(ids) > row_tokens:
                continue
            row = next((i for i in range(rows) if room[i] >= len(ids)), None)
            if row is None:
                held.append((ids, prompt))
                misses += 1
            else:
                filled[row].append((ids, prompt))
                room[row] -= len(ids)
        yield _to_batch(filled, row_tokens, prompt_weight)


def _to_batch(filled: list[list[tuple[list[int], int]]], row_tokens: int, prompt_weight: float) -> Batch:
    shape = (len(filled), row_tokens)
    ids, positions = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    segments, labels = np.full(shape, -1, np.int64), np.full(shape, -100, np.int64)
    weights = np.zeros(shape, np.float32)
    for row, examples in enumerate(filled):
        start = 0
        for segment, (tokens, prompt) in enumerate(examples):
            end = start + len(tokens)
            ids[row, start:end] = tokens
            positions[row, start:end] = np.arange(len(tokens))
            segments[row, start:end] = segment
            labels[row, start : end - 1] = tokens[1:]
            weights[row, start : start + prompt - 1] = prompt_weight
            weights[row, start + prompt - 1 : end - 1] = 1.0
            start = end
    return Batch(ids, positions, segments, labels, weights)
