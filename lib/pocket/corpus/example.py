"""One training or test example, and the stable hash that decides which of the two it is."""

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Example:
    """A user turn, the assistant's reference answer, and what a checker needs to judge another answer."""

    id: str
    """Domain and 12 hex digits of the SHA-256 of prompt and answer."""
    domain: str
    """One of `DOMAINS` or `UNSEEN`."""
    prompt: str
    """The user's message, before the chat template."""
    answer: str
    """The reference answer, without an end-of-turn token."""
    check: dict[str, Any]
    """`kind` names the checker in `specbook.bench.greedy`; the other keys are its arguments."""

    def to_json(self) -> str:
        """The example as one line of JSON."""
        return json.dumps(asdict(self), ensure_ascii=False)


def make_example(domain: str, prompt: str, answer: str, /, **check: Any) -> Example:
    """Build an example whose id follows from its text, so that equal text always has an equal id."""
    digest = hashlib.sha256(f"{prompt}\0{answer}".encode()).hexdigest()
    return Example(f"{domain}-{digest[:12]}", domain, prompt, answer, check)


def stable_hash(text: str) -> int:
    """A non-negative integer that is the same in every process (unlike `hash`)."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def in_held_out_bucket(key: str, one_in: int) -> bool:
    """True for about one key in `one_in`; such a key never enters training."""
    return stable_hash(key) % one_in == 0
