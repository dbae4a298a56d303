"""Workers for the CPU that compile on any core, with the rejection sampler that that build lacks (vLLM 0.32).

Above temperature 0 its own divides the target's logits by whatever was in memory where the temperature should
be (https://github.com/vllm-project/vllm/issues/55005), and it cannot play acceptance at given rates. The
classes are for vLLM's flag `--worker-cls`, and put kernels into vLLM's own registry; nothing of vLLM is
changed.
Imported by an engine only.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from vllm.triton_utils.dispatcher import register_kernels
from vllm.v1.worker.cpu_worker import CPUWorker

SAMPLER = "vllm.v1.sample.rejection_sampler"


@contextmanager
def any_core() -> Iterator[None]:
    """Let this thread leave the core that OpenMP bound it to; afterwards it is bound again.

    To compile takes a core a minute or more, and servers that start at once are all bound to the same one.
    """
    bound = os.sched_getaffinity(0)
    os.sched_setaffinity(0, os.sched_getaffinity(os.getppid()))
    try:
        yield
    finally:
        os.sched_setaffinity(0, bound)


class Worker(CPUWorker):
    """The CPU's worker, its draft tokens judged at the temperature that was asked for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        register_kernels({f"{SAMPLER}.expand_kernel": expand})
        super().__init__(*args, **kwargs)

    @any_core()
    def determine_available_memory(self) -> int:
        """vLLM compiles here what has keys and values."""
        return super().determine_available_memory()


class PlayedAcceptance(Worker):
    """The same, its draft tokens accepted at the rates that the server was given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        register_kernels(
            {
                f"{SAMPLER}.rejection_greedy_sample_kernel": greedy,
                f"{SAMPLER}.rejection_random_sample_kernel": sampled,
            }
        )
        super().__init__(*args, **kwargs)


def expand(output, values, cu_num_draft, replace_from, replace_to, max_num_tokens=None) -> None:
    """A request's temperature, top-k or top-p, once for each of its draft tokens.

    vLLM's own fills a copy as integers, and nobody reads the copy.

    Args:
        output: [tokens], filled in place.
        values: [requests] of the same type.
        cu_num_draft: [requests] cumulative draft tokens.
        replace_from: a value that stands for something else (temperature 0),
        replace_to: and what it becomes.
    """
    each = torch.diff(cu_num_draft, prepend=cu_num_draft.new_zeros(1))
    output.copy_(values.masked_fill(values == replace_from, replace_to).repeat_interleave(each))


def greedy(
    output, cu_num_draft, draft, argmax, bonus, is_greedy, max_spec_len, uniform, rates, synthetic_mode=True
) -> None:
    """For requests at temperature 0: what is not accepted becomes the target's best token. Shapes: `play`."""
    chosen = None if is_greedy is None else is_greedy.numpy()
    play(output, cu_num_draft, draft, argmax, bonus, chosen, uniform, rates)


def sampled(
    output, cu_num_draft, draft, draft_probs, target_probs, bonus, recovered, uniform, is_greedy,
    max_spec_len, vocab_size, rates, no_draft_probs=False, synthetic_mode=True,
) -> None:  # fmt: skip
    """For the other requests: what is not accepted becomes the token that was drawn for its place."""
    play(output, cu_num_draft, draft, recovered, bonus, ~is_greedy.numpy(), uniform, rates)


def play(output, cu_num_draft, draft, instead, bonus, chosen, uniform, rates) -> None:
    """Write into `output` what each request keeps: accepted draft tokens, then one more.

    Args:
        output: [requests, K + 1] token ids, filled in place.
        cu_num_draft: [requests] cumulative draft tokens.
        draft: [tokens] ids; -1 is padding, and never accepted.
        instead: [tokens] ids that stand in for the first one refused.
        bonus: [requests, 1] ids for where all are accepted.
        chosen: [requests] whose turn it is; None: everyone's.
        uniform: [tokens] in [0, 1).
        rates: [K] conditional acceptance.
    """
    draft, instead, bonus = draft.numpy(), instead.numpy(), bonus.numpy().ravel()
    uniform, rates, output = uniform.numpy(), rates.numpy(), output.numpy()
    for row, (start, end) in enumerate(pairwise([0, *cu_num_draft.tolist()])):
        if chosen is not None and not chosen[row]:
            continue
        accepted = (uniform[start:end] < rates[: end - start]) & (draft[start:end] >= 0)
        length = end - start if accepted.all() else int(accepted.argmin())
        output[row, :length] = draft[start : start + length]
        output[row, length] = bonus[row] if length == end - start else instead[start + length]
