"""What to say about a word that is not known, or a value that does not fit: the value, and the near match."""

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def close(word: Any, known: Iterable[Any]) -> str | None:
    """The known word most like `word`; None when none is."""
    return next(iter(difflib.get_close_matches(str(word), list(map(str, known)), n=1)), None)


def near(word: Any, known: Iterable[Any]) -> str:
    """` (did you mean 'x'?)` when a known word is close, else the known words."""
    known = sorted(map(str, known))
    match = close(word, known)
    return f" (did you mean {match!r}?)" if match else f" (known: {', '.join(known) or 'none'})"


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Where, what, and which field was meant, of what was wrong with the input of `model`.

    A misspelt required field is two errors, and only the second names what was written: that one is told.
    """
    found = error.errors()
    first = next((e for e in found if e["type"] == "extra_forbidden"), found[0])
    where = ".".join(str(part) for part in first["loc"])
    said = f"{where}: {first['msg']}" if where else first["msg"]
    if first["type"] == "extra_forbidden":
        return said + near(first["loc"][-1], _model_at(model, first["loc"]).model_fields)
    return f"{said}, got {first['input']!r}"


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    for part in location[:-1]:
        if isinstance(part, str):
            model = _model_in(model.model_fields[part].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
