"""Said once: JSON documents that repeat each other, as lines in which what repeats stands once.

A line is a document, or a value that later lines use: `{"once": NAME, "is": VALUE}`. Where it stood, there is
`{"once": NAME}`. It works on any JSON, so a record may gain fields without a change here.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

LONG = 40
"""Characters of JSON: what is shorter is said again, as a reference would hardly be shorter."""


def folded(documents: Sequence[dict[str, Any]]) -> list[str]:
    """The documents in order, a JSON line each; before a shared value's first use a line that says it."""
    fold = _Fold(documents)
    for document in documents:
        fold.lines.append(_text(fold.inside(document, "")))
    return fold.lines


def unfolded(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The documents that `folded` was given. Equal parts are one object: do not change what you get.

    Raises:
        ValueError: if a line is not JSON.
        KeyError: if it uses a value that no line before it says.
    """
    said: dict[str, Any] = {}

    def known(found: dict[str, Any]) -> Any:
        if found.keys() == {"once", "is"}:
            said[found["once"]] = found["is"]
        return said[found["once"]] if found.keys() == {"once"} else found

    for line in lines:
        document = json.loads(line, object_hook=known)
        if document.keys() != {"once", "is"}:
            yield document


class _Fold:
    def __init__(self, documents: Sequence[dict[str, Any]]) -> None:
        self.lines: list[str] = []
        self._names: dict[str, str] = {}
        self._times: Counter[str] = Counter()
        for document in documents:
            for part in _parts(document):
                self._count(part)

    def _count(self, value: Any) -> None:
        text = _text(value)
        self._times[text] += 1
        # A part that repeats only because the whole does is not shared by itself: look inside one whole only.
        if self._times[text] == 1 and len(text) > LONG:
            for part in _parts(value):
                self._count(part)

    def inside(self, value: Any, name: str) -> Any:
        """The value with its parts folded; `name` is for parts that have none of their own."""
        if isinstance(value, dict):
            return {key: self._part(part, key) for key, part in value.items()}
        return [self._part(part, name) for part in value] if isinstance(value, list) else value

    def _part(self, value: Any, name: str) -> Any:
        text = _text(value)
        if len(text) <= LONG:
            return value
        if self._times[text] == 1:
            return self.inside(value, name)
        if text not in self._names:
            self.lines_for(value, text, name)
        return {"once": self._names[text]}

    def lines_for(self, value: Any, text: str, name: str) -> None:
        """Say a shared value, after what it shares itself."""
        inside = self.inside(value, name)
        self._names[text] = f"{name}.{len(self._names) + 1}"
        self.lines.append(_text({"once": self._names[text], "is": inside}))


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
