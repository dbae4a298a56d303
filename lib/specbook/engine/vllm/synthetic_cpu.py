"""Acceptance played at given rates on the CPU, which that build's own sampler cannot (vLLM 0.32).

A worker class for vLLM's flag `--worker-cls`, which puts two kernels of the rejection sampler into vLLM's own
registry of kernels; nothing of vLLM is changed. Imported by an engine only.
"""

from itertools import pairwise
from typing import Any

from vllm.triton_utils.dispatcher import register_kernels
from vllm.v1.worker.cpu_worker import CPUWorker

SAMPLER = "vllm.v1.sample.rejection_sampler"


class Worker(CPUWorker):
    """The CPU's worker, its draft tokens accepted at the rates that the server was given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        register_kernels(
            {
                f"{SAMPLER}.rejection_greedy_sample_kernel": greedy,
                f"{SAMPLER}.rejection_random_sample_kernel": sampled,
            }
        )
        super().__init__(*args, **kwargs)


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
