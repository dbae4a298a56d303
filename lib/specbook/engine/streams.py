"""A reader of streamed chat answers: bytes go in as the network cuts them, pieces of the answer come out.

One for all who read a stream, since servers and the gateways before them differ: in what they leave out (the
last event, the usage, the space after `data:`), in what they add (comments, events without a choice, a
model's reasoning), and in how they report an error once the status line is sent.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

LINE = re.compile(rb"\r\n|\n|\r(?=[^\n])")
"""A carriage return at the very end may be half of a line's end: it waits for what follows."""
BROKEN = ("abort", "aborted", "cancelled", "canceled", "error")
"""Finish reasons of an answer that the server did not finish."""
QUOTED = 80
"""Characters of something unreadable that a message shows."""


@dataclass(frozen=True)
class Piece:
    """What one event adds to an answer."""

    text: str = ""
    """Text of the answer itself."""
    reasoning: str = ""
    """What a reasoning model says before its answer."""
    calls: str = ""
    """Names and arguments of tools that it calls."""

    @property
    def has_token(self) -> bool:
        """Whether the model has said anything in it."""
        return bool(self.text or self.reasoning or self.calls)


class StreamReader:
    """Reads one answer: `feed` it what comes, `end` it, then ask for its `problem`.

    An event ends with its JSON, so that a server that separates events by single lines, or forgets the last
    blank line, is read as soon as one that does not. An answer that comes as one JSON document is read too.
    """

    def __init__(self) -> None:
        self.done = False
        """Whether the event has come after which none follows."""
        self.finish_reason: str | None = None
        self.output_tokens: int | None = None
        """As the server counts them; None where it has not said."""
        self.in_one_piece = False
        """Whether the answer came as one message, in spite of having been asked for as a stream."""
        self.error: str | None = None
        """What the server says went wrong, or which event is none."""
        self.error_type = "unknown"
        self._rest = b""
        self._name, self._data, self._unread = "", "", ""
        self._document = self._said = self._usage_alone = False

    def feed(self, data: bytes) -> list[Piece]:
        """Pieces that are whole with these bytes."""
        *lines, self._rest = LINE.split(self._rest + data)
        return [piece for line in lines for piece in self._line(line.decode("utf-8", "replace"))]

    def end(self) -> list[Piece]:
        """Pieces that were only waiting for a line's end, once no more bytes come."""
        lines, self._rest = (self._rest, b""), b""
        return [piece for line in lines for piece in self._line(line.decode("utf-8", "replace").strip("\r"))]

    def problem(self) -> str | None:
        """Why what has come is no whole answer; None if it is one."""
        if self.error:
            return f"broke off: {self.error}"
        if self.finish_reason in BROKEN:
            return f"broke off: its finish reason is {self.finish_reason}"
        if self.done or self.finish_reason or self.in_one_piece or self._usage_alone:
            return None
        if self._unread:
            return f"answered no chat, but {self._unread[:QUOTED]!r}: is it an OpenAI-compatible server?"
        return "stopped answering in the middle: neither a finish reason nor a last event has come"

    def _line(self, line: str) -> Iterator[Piece]:
        line = line.removeprefix("\ufeff")
        field, _, value = line.partition(":")
        if self._document or line.lstrip().startswith("{"):
            self._document = True
            yield from self._more(line)
        elif not line:
            self._end_of_event()
        elif field == "data":
            yield from self._more(value.removeprefix(" "))
        elif field == "event":
            self._name = value.strip()
        elif field not in ("", "id", "retry"):
            self._unread = self._unread or line

    def _more(self, text: str) -> Iterator[Piece]:
        self._data = f"{self._data}\n{text}" if self._data else text
        data = self._data.strip()
        if data.strip('"') == "[DONE]":
            self.done = True
        elif data and not data.startswith(":"):  # else a keep-alive in an event's clothes
            event = _parsed(data) if data.endswith("}") else None
            if event is None:
                return
            yield from self._event(event)
        self._name, self._data, self._document = "", "", False

    def _end_of_event(self) -> None:
        """A blank line: what is no JSON by now will be none."""
        if self._data.strip() not in ("", "null") and _parsed(self._data) is None:
            self.error = self.error or f"an event is no JSON: {self._data[:QUOTED]!r}"
        self._name, self._data = "", ""

    def _event(self, event: Any) -> Iterator[Piece]:
        if not isinstance(event, Mapping):
            return
        if error := _error(event, self._name):
            self.error, self.error_type = error
            return
        choices = [one for one in _list(event.get("choices")) if isinstance(one, Mapping)]
        counts = [tokens for one in (event, *choices) if (tokens := _output_tokens(one.get("usage")))]
        if counts:
            self.output_tokens = max(self.output_tokens or 0, *counts)
            self._usage_alone = self._said and not choices  # what OpenAI's API sends last
        for choice in choices:
            reason = choice.get("finish_reason")
            self.finish_reason = str(reason) if reason else self.finish_reason
            self.in_one_piece = self.in_one_piece or ("message" in choice and "delta" not in choice)
            piece = _piece(next((choice[name] for name in ("delta", "message") if name in choice), choice))
            self._said = self._said or piece.has_token
            yield piece


def _parsed(data: str) -> Any | None:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _error(event: Mapping[str, Any], name: str) -> tuple[str, str] | None:
    """Message and type of an error in an event of this name; None where there is none."""
    error: Any = event.get("error")
    if not error and (event.get("object") == "error" or name == "error"):
        error = event
    if not error and "choices" not in event:
        error = event.get("detail")
    if not error:
        return None
    if isinstance(error, bool | int | float):
        error = event
    if not isinstance(error, Mapping):
        return str(error), "unknown"
    message = next(
        (error[key] for key in ("message", "detail", "type", "code") if error.get(key)), dict(error)
    )
    return str(message), str(error.get("type") or "unknown")


def _output_tokens(usage: Any) -> int | None:
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return int(tokens) if isinstance(tokens, int | float) and not isinstance(tokens, bool) else None


def _piece(delta: Any) -> Piece:
    """The piece in a delta, a message, or a choice of the older completions; empty where it is null."""
    if not isinstance(delta, Mapping):
        return Piece()
    content = delta.get("content")
    text = _text(content, "text") or _text(delta.get("text"), "text") or _text(delta.get("refusal"), "text")
    thought = delta.get("reasoning_content") or delta.get("reasoning")
    calls = [*_list(delta.get("tool_calls")), {"function": delta.get("function_call")}]
    return Piece(text, _text(thought, "text") or _text(content, "thinking"), _calls(calls))


def _text(content: Any, key: str) -> str:
    """A string as it stands; of a list of parts, what they have under `key`."""
    if isinstance(content, str):
        return content if key == "text" else ""
    parts = [part.get(key) for part in _list(content) if isinstance(part, Mapping)]
    return "".join(_text(part, "text") for part in parts)


def _calls(calls: list[Any]) -> str:
    asked = [call.get("function") for call in calls if isinstance(call, Mapping)]
    parts = [one.get(key) for one in asked if isinstance(one, Mapping) for key in ("name", "arguments")]
    return "".join(part if isinstance(part, str) else json.dumps(part) for part in parts if part)
