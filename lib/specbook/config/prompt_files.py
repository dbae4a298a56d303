"""Prompts as they stand in a file: the project's own, or those of somebody's traffic."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, field_validator

from specbook.config import dataset_formats
from specbook.config.dataset_formats import LeftOutError
from specbook.config.schema import Frozen, Name, Traffic, digest
from specbook.errors import ConfigError
from specbook.suggestions import near

FORM = (
    'A line is {"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}; "id" and "domain" '
    '(or "category") may stand beside it'
)
ROLES = {
    "human": "user", "gpt": "assistant", "model": "assistant", "bot": "assistant", "ai": "assistant",
    "developer": "system", "function": "tool",
}  # fmt: skip
"""Roles of logs and data sets, and what chat templates call them."""
PLAIN = {"&": " and ", "|": "/"}
"""What a category may hold in a log and not on a page, and what is written there."""


class Message(Frozen):
    """One turn of a conversation; further fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: str
    content: str | None = None
    """What it says; None only where it calls tools."""
    name: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] | None = None
    tool_call_id: str | None = None

    @field_validator("role")
    @classmethod
    def _known(cls, role: str) -> str:
        return ROLES.get(role, role)

    @field_validator("content", mode="before")
    @classmethod
    def _text(cls, content: Any) -> Any:
        """Parts of text become one, as vLLM joins them (vllm/entrypoints/chat_utils.py)."""
        if not isinstance(content, list) or not all(isinstance(part, Mapping) for part in content):
            return content
        other = next((part.get("type") for part in content if not isinstance(part.get("text"), str)), None)
        if other not in (None, "text"):
            raise LeftOutError(f"a part of its content is {other!r}, and only text is sent")
        return "\n".join(part["text"] for part in content) if all("text" in p for p in content) else content

    def sent(self) -> dict[str, Any]:
        """As OpenAI's chat API takes it."""
        return {"role": self.role, "content": self.content, **self.model_dump(mode="json", exclude_none=True)}


class Prompt(Frozen):
    """One thing to ask."""

    id: str
    prompt: str
    """What the user says; in a conversation, last."""
    domain: str | None = None
    messages: tuple[Message, ...] | None = None
    """A conversation up to the answer that is asked for; None where `prompt` is all of it."""
    row: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    """Its line as it stands in the file."""

    def turns(self) -> list[dict[str, Any]]:
        """What is sent, as OpenAI's chat API takes it."""
        if self.messages is None:
            return [{"role": "user", "content": self.prompt}]
        return [message.sent() for message in self.messages]


class _Line(Frozen):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str | int | None = None
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    domain: Name | None = None
    category: Name | None = None
    tools: Any = None
    functions: Any = None

    @field_validator("domain", "category", mode="before")
    @classmethod
    def _on_a_page(cls, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        for mark, word in PLAIN.items():
            text = text.replace(mark, word)
        return re.sub(r"\s+", " ", text).strip() or None


class Read(NamedTuple):
    """What a file gave."""

    prompts: list[Prompt]
    """Distinct, in the file's order."""
    notes: list[str]
    """How many rows are not among them or were changed, with the reason and the first of them."""


def load(path: Path) -> list[Prompt]:
    """The distinct prompts of a file, in its order: see `read`, which also says what was left out."""
    return read(path).prompts


def read(path: Path) -> Read:
    """The distinct prompts of a file, one that is repeated counted once, and a note on every other row.

    A file of a public data set is read as it was published: see `config.dataset_formats`. It is read once, as
    long as it does not change: a plan asks for it once a domain, and for each thing that it says of prompts.

    Raises:
        ConfigError: if it is missing, empty, malformed (naming the line), or gives two prompts one id.
    """
    try:
        stat = path.stat()
        version = (stat.st_mtime_ns, stat.st_size)
    except OSError:
        version = (0, 0)  # to read it says why
    prompts, notes = _read(path, version)
    return Read(list(prompts), list(notes))


@lru_cache(maxsize=16)
def _read(path: Path, version: tuple[int, int]) -> Read:
    distinct: dict[str, Prompt] = {}
    count: Counter[str] = Counter()
    first: dict[str, str] = {}

    def note(reason: str, where: str) -> None:
        count[reason] += 1
        first.setdefault(reason, where)

    for where, row in dataset_formats.rows(path, FORM):
        whole = _without_surrogates(row)
        try:
            prompt = _parse(where, whole, dataset_formats.plain(whole))
        except LeftOutError as error:
            note(f"left out: {error}", where)
            continue
        if whole is not row:
            note("used with U+FFFD in place of half a character (a lone surrogate)", where)
        if distinct.setdefault(f"{prompt.domain} {prompt.turns()}", prompt) is not prompt:
            note("counted once: they repeat an earlier prompt", where)
    notes = [f"{times} {reason} (first: {first[reason]})" for reason, times in count.items()]
    if not distinct:
        why = "; ".join(notes) or "it needs at least one line"
        raise ConfigError(f"prompts {path} is empty: {why}. {FORM}")
    if twice := [name for name, times in Counter(one.id for one in distinct.values()).items() if times > 1]:
        raise ConfigError(f"prompts {path} uses an id twice ({twice[0]}): give each prompt its own")
    return Read(list(distinct.values()), notes)


def _without_surrogates(row: Any) -> Any:
    """The row as it is, or with U+FFFD where half a character stands, which UTF-8 cannot send."""
    text = json.dumps(row, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))
    return row


def _parse(where: str, row: Any, plain: Any) -> Prompt:
    try:
        line = _Line.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the line"
        raise ConfigError(f"{where}: {name}: {first['msg']}, got {first['input']!r:.60}. {FORM}") from error
    if line.prompt is None and line.messages is None:
        raise ConfigError(f"{where}: prompt and messages are both missing. {FORM}")
    if line.tools or line.functions:
        raise LeftOutError("it has `tools`, which are not sent: put them into a system message")
    if mute := next(
        (one.role for one in line.messages or () if one.content is None and not one.tool_calls), None
    ):
        raise ConfigError(
            f"{where}: a message of {mute!r} has no content and no tool_calls: write one. {FORM}"
        )
    turns = line.messages or ()
    if line.prompt is not None:
        turns = (Message(role="user", content=line.prompt),)
    while turns and turns[-1].role == "assistant":  # answers that end a conversation are of others
        turns = turns[:-1]
    if not turns or not (turns[-1].content or "").strip():
        raise ConfigError(f"{where}: the prompt is empty: write one, or remove the line")
    domain = line.domain or line.category
    name = digest([domain, *(turn.sent() for turn in turns)], 12) if line.id is None else str(line.id)
    alone = len(turns) == 1 and turns[0].role == "user"
    return Prompt(
        id=name, prompt=turns[-1].content or "", domain=domain, messages=None if alone else turns, row=row
    )


def for_traffic(traffic: Traffic) -> list[Prompt]:
    """The prompts of one kind of traffic: of a file of your own, the lines that bear its domain, or none.

    A domain that is called as the file is (`mt-bench` of `mt-bench.jsonl`) means all of its lines.

    Raises:
        ConfigError: see `load`; or if no line is of this domain.
    """
    prompts = load(traffic.file())
    if traffic.prompts is None or traffic.domain == named_after(traffic.file()):
        return prompts
    mine = [prompt for prompt in prompts if prompt.domain in (None, traffic.domain)]
    if not mine:
        known = sorted({str(prompt.domain) for prompt in prompts})
        raise ConfigError(
            f"prompts {traffic.file()} has no domain {traffic.domain!r}{near(traffic.domain, known)}"
        )
    return mine


def domains(path: Path) -> tuple[str, ...]:
    """The domains that a file names, in its order; where it names none, the file's own name.

    Raises:
        ConfigError: see `load`; or if only some lines name one.
    """
    prompts = load(path)
    named = [prompt.domain for prompt in prompts if prompt.domain is not None]
    if named and len(named) < len(prompts):
        lacking = next(prompt for prompt in prompts if prompt.domain is None)
        raise ConfigError(
            f"prompts {path}: {lacking.prompt[:40]!r} has no domain, and others have: give every line one, "
            "or none"
        )
    return tuple(dict.fromkeys(named)) or (named_after(path),)


def named_after(path: Path) -> str:
    """The domain of a file whose lines name none, and of all lines of one whose lines do: the file's name."""
    return path.name.partition(".")[0]
