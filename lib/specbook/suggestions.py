"""Words in a row, and what to say about one that is not known: the value, and the near match."""

import difflib
import inspect
from collections.abc import Iterable
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""libyaml's parser, ten times as fast, where PyYAML was built with it: all its wheels are."""
MOST_KNOWN = 20
"""Known words listed beside one that is not; of more, the count is said."""
NO_YAML = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, RecursionError)
"""What PyYAML raises of text that it cannot read: a tag whose value does not fit is a plain Python error."""


def listed(words: Iterable[Any]) -> str:
    """`json, math and code`; nothing twice."""
    each = list(dict.fromkeys(map(str, words)))
    return " and ".join([", ".join(each[:-1]), each[-1]] if len(each) > 1 else each)


def close(word: Any, candidates: Iterable[Any]) -> str | None:
    """The known word most like `word`; None when none is."""
    return next(iter(difflib.get_close_matches(str(word), list(map(str, candidates)), n=1)), None)


def near(word: Any, candidates: Iterable[Any]) -> str:
    """` (did you mean 'x'?)` when a known word is close, else known words."""
    candidates = sorted(map(str, candidates))
    if match := close(word, candidates):
        return f" (did you mean {match!r}?)"
    more = f", and {len(candidates) - MOST_KNOWN} more" if len(candidates) > MOST_KNOWN else ""
    return f" (known: {', '.join(candidates[:MOST_KNOWN]) or 'none'}{more})"


def explain(error: ValidationError, model: type[BaseModel], beside: Iterable[str] = ()) -> str:
    """Where, what, and which field was meant, of what was wrong with the input of `model`.

    A misspelt required field is two errors, and only the second names what was written: that one is told,
    and what was written wrong before what was not written. `beside`: fields known though not the model's.
    """
    errors = error.errors()
    written = (e for e in errors if e["type"] != "missing")
    first = next((e for e in errors if e["type"] == "extra_forbidden"), next(written, errors[0]))
    where = ".".join(str(part) for part in first["loc"])
    message = f"{where}: {first['msg']}" if where else first["msg"]
    if first["type"] == "extra_forbidden":
        return message + near(first["loc"][-1], [*_model_at(model, first["loc"]).model_fields, *beside])
    return f"{message}, got {first['input']!r}" if where else message  # a whole plan says nothing


def _model_at(model: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    for part in location[:-1]:
        if part in model.model_fields:  # else it is an index, or the key of a mapping
            model = _model_in(model.model_fields[str(part)].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
