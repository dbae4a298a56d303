"""Prompts as they stand in a JSONL file: the project's own, or those of somebody's traffic."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from specbook.config import dataset_formats
from specbook.config.schema import Frozen, Name, Traffic, digest
from specbook.errors import ConfigError
from specbook.suggestions import near

FORM = (
    'A line is {"prompt": "..."} or {"messages": [{"role": "user", "content": "..."}]}; "id" and "domain" '
    '(or "category") may stand beside it'
)


class Message(Frozen):
    """One turn of a conversation; further fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    role: str
    content: str


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

    def turns(self) -> list[dict[str, str]]:
        """What is sent, as OpenAI's chat API takes it."""
        if self.messages is None:
            return [{"role": "user", "content": self.prompt}]
        return [message.model_dump() for message in self.messages]


class _Line(Frozen):
    model_config = ConfigDict(extra="ignore", frozen=True)

    id: str | int | None = None
    prompt: str | None = None
    messages: tuple[Message, ...] | None = None
    domain: Name | None = None
    category: Name | None = None


def load(path: Path) -> list[Prompt]:
    """The distinct prompts of a JSONL file, in its order: one that is repeated counts once.

    A file of a public data set is read as it was published: see `forms`.

    Raises:
        ConfigError: if it is missing, empty, malformed (naming the line), or gives two prompts one id.
    """
    distinct: dict[str, Prompt] = {}
    for where, row in dataset_formats.rows(path, FORM):
        if (plain := dataset_formats.plain(row)) is not None:
            found = _parse(where, row, plain)
            distinct.setdefault(f"{found.domain} {found.turns()}", found)
    if not distinct:
        raise ConfigError(f"prompts {path} is empty: it needs at least one line. {FORM}")
    if len(distinct) != len({prompt.id for prompt in distinct.values()}):
        raise ConfigError(f"prompts {path} uses an id twice: give each prompt its own")
    return list(distinct.values())


def _parse(where: str, row: Any, plain: Any) -> Prompt:
    try:
        said = _Line.model_validate(plain)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the line"
        raise ConfigError(f"{where}: {name}: {first['msg']}, got {first['input']!r:.60}. {FORM}") from error
    if said.prompt is None and said.messages is None:
        raise ConfigError(f"{where}: prompt and messages are both missing. {FORM}")
    turns = _asked(said)
    if not turns or not turns[-1].content.strip():
        raise ConfigError(f"{where}: the prompt is empty: write one, or remove the line")
    domain = said.domain or said.category
    name = digest([domain, *(turn.model_dump() for turn in turns)], 12) if said.id is None else str(said.id)
    alone = len(turns) == 1 and turns[0].role == "user"
    return Prompt(
        id=name, prompt=turns[-1].content, domain=domain, messages=None if alone else turns, row=row
    )


def _asked(said: _Line) -> tuple[Message, ...]:
    """The turns up to the answer that is asked for; answers that end a conversation are what others said."""
    if said.prompt is not None:
        return (Message(role="user", content=said.prompt),)
    turns = said.messages or ()
    while turns and turns[-1].role == "assistant":
        turns = turns[:-1]
    return turns


def of(traffic: Traffic) -> list[Prompt]:
    """The prompts of one kind of traffic: of a file of your own, the lines that bear its domain, or none.

    A domain that is called as the file is (`mt-bench` of `mt-bench.jsonl`) means all of its lines.

    Raises:
        ConfigError: see `load`; or if no line is of this domain.
    """
    found = load(traffic.file())
    if traffic.prompts is None or traffic.domain == named_after(traffic.file()):
        return found
    mine = [prompt for prompt in found if prompt.domain in (None, traffic.domain)]
    if not mine:
        known = sorted({str(prompt.domain) for prompt in found})
        raise ConfigError(
            f"prompts {traffic.file()} has no domain {traffic.domain!r}{near(traffic.domain, known)}"
        )
    return mine


def domains(path: Path) -> tuple[str, ...]:
    """The domains that a file names, in its order; where it names none, the file's own name.

    Raises:
        ConfigError: see `load`; or if only some lines name one.
    """
    found = load(path)
    named = [prompt.domain for prompt in found if prompt.domain is not None]
    if named and len(named) < len(found):
        lacking = next(prompt for prompt in found if prompt.domain is None)
        raise ConfigError(
            f"prompts {path}: {lacking.prompt[:40]!r} has no domain, and others have: give every line one, "
            "or none"
        )
    return tuple(dict.fromkeys(named)) or (named_after(path),)


def named_after(path: Path) -> str:
    """The domain of a file whose lines name none, and of all lines of one whose lines do: the file's name."""
    return path.name.partition(".")[0]
