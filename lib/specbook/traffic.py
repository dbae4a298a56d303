"""Prompts: read from JSONL, put in one seeded order for every arm, handed to the load generator."""

import json
import random
from collections.abc import Sequence
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from specbook.config import Frozen, Traffic
from specbook.errors import ConfigError


class Prompt(Frozen):
    """One prompt as it stands in its file; further fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str
    prompt: str
    domain: str | None = None


def _parse(path: Path, number: int, line: str) -> Prompt:
    try:
        found = Prompt.model_validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            f'{path}, line {number}: {where} {first["msg"]}. Want {{"id": "...", "prompt": "..."}}'.replace(
                ":  ", ": "
            )
        ) from error
    if not found.prompt.strip():
        raise ConfigError(f"{path}, line {number}: the prompt is empty: write one, or remove the line")
    return found


def load_prompts(path: Path) -> list[Prompt]:
    """Every prompt of a JSONL file, in file order.

    Raises:
        ConfigError: if it is missing, empty, malformed (naming the line), or gives one id twice.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"prompts {path} cannot be read ({error}): mend `prompts` or `domain`") from error
    found = [_parse(path, i, line) for i, line in enumerate(text.split("\n"), start=1) if line.strip()]
    if not found:
        raise ConfigError(f"prompts {path} is empty: it needs at least one line")
    if len(found) != len({prompt.id for prompt in found}):
        raise ConfigError(f"prompts {path} uses an id twice: give each prompt its own")
    return found


def select(prompts: Sequence[Prompt], n: int, seed: int) -> list[Prompt]:
    """The first `n` prompts in the seed's order, starting again from the first when there are fewer."""
    order = list(prompts)
    random.Random(seed).shuffle(order)
    return [order[i % len(order)] for i in range(n)]


def write_bench_file(path: Path, prompts: Sequence[Prompt], max_tokens: int) -> Path:
    """Write vLLM's custom dataset, one line per request; line i is `prompts[i]`."""
    rows = ({"prompt": prompt.prompt, "output_tokens": max_tokens} for prompt in prompts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def measured_and_warmup(
    traffic: Traffic, num_requests: int, num_warmups: int
) -> tuple[list[Prompt], list[Prompt]]:
    """(measured, warm-up) prompts: the measured ones do not depend on how many warm-ups there are."""
    chosen = select(load_prompts(traffic.file()), num_requests + num_warmups, traffic.seed)
    return chosen[:num_requests], chosen[num_requests:]
