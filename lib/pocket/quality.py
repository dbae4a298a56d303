"""How good a pocket target is, on prompts it never saw: right answers, clean stops, and no loops."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pocket.corpus import DOMAINS
from specbook.bench.greedy import Answer, answers, check, loops
from specbook.config import prompt_files
from specbook.config.schema import Frozen, Target, Traffic
from specbook.engine.server import Server
from specbook.stats import wilson
from specbook.stats.estimate import Estimate

END_ID = 2
"""`<|im_end|>`: an answer whose last token it is stopped by itself."""


class DomainQuality(Frozen):
    """Shares of the held-out greedy outputs of one domain; intervals are Wilson's, n counts prompts."""

    passed: Estimate
    """Accepted by the domain's checker."""
    stopped: Estimate
    """Ended by themselves, before the output cap."""
    looped: Estimate
    """Held one 8-gram of tokens four times or more."""
    mean_output_tokens: float


def judge(rows: Sequence[Mapping[str, Any]], outputs: Sequence[Answer]) -> DomainQuality:
    """Compare answers with what their prompts' checkers ask; rows and outputs in the same order."""
    n = len(rows)
    right = sum(check(row, output.text) for row, output in zip(rows, outputs, strict=True))
    ended = sum(bool(output.token_ids) and output.token_ids[-1] == END_ID for output in outputs)
    looped = sum(loops(output.token_ids) for output in outputs)
    return DomainQuality(
        passed=wilson(right, n), stopped=wilson(ended, n), looped=wilson(looped, n),
        mean_output_tokens=sum(len(output.token_ids) for output in outputs) / n,
    )  # fmt: skip


def measure(
    target: Target, domains: Sequence[str] = DOMAINS, max_tokens: int = 256
) -> dict[str, DomainQuality]:
    """Serve the target, let it answer every held-out prompt of these domains greedily, and judge it.

    Raises:
        EngineError: if the server does not start or stops answering.
    """
    prompts = {domain: prompt_files.for_traffic(Traffic(domain=domain)) for domain in domains}
    with Server(target) as server:
        return {
            domain: judge([p.row for p in own], answers(server, [p.prompt for p in own], max_tokens, 16))
            for domain, own in prompts.items()
        }


def save(found: Mapping[str, DomainQuality], model_folder: Path) -> None:
    """Write `quality.json` beside the weights: the card and the book read it."""
    body = {domain: quality.model_dump(mode="json") for domain, quality in found.items()}
    (model_folder / "quality.json").write_text(json.dumps(body, indent=1) + "\n")


def load(model_folder: Path) -> dict[str, DomainQuality]:
    """What `save` wrote."""
    body = json.loads((model_folder / "quality.json").read_text())
    return {domain: DomainQuality.model_validate(quality) for domain, quality in body.items()}
