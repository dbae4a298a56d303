"""llama.cpp's server as a process of its own, since the wheel `xllamacpp` brings no command.

    python -P llama_server.py NAME=VALUE ...

NAME is an attribute of `xllamacpp.CommonParams`, with dots where it lies deeper: `cpuparams.n_threads=2`. A
VALUE is what the attribute holds already: a number, `true` or `false`, text, the name of an enumeration's
member, or several of these with commas between. The API key comes from the environment.
"""

import os
import signal
import sys
from collections.abc import Iterable
from enum import Enum
from functools import reduce
from typing import Any

KEY = "LLAMA_API_KEY"


def assign(params: Any, setting: str) -> None:
    """Set one attribute from `NAME=VALUE`; ValueError if there is none such, or it cannot hold the value."""
    name, _, text = setting.partition("=")
    *within, last = name.split(".")
    try:
        holder = reduce(getattr, within, params)
        setattr(holder, last, _value(getattr(holder, last), text))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{setting!r} is no setting of llama.cpp ({error!r})") from error


def _value(now: Any, text: str) -> Any:
    """`text` as what an attribute holds that holds `now`."""
    if isinstance(now, bool):
        return {"true": True, "false": False}[text]
    if isinstance(now, Enum):
        return type(now)[text]
    if isinstance(now, list):
        return [_value(now[0], one) if now else one for one in text.split(",")]
    return {text} if isinstance(now, set) else type(now)(text)


def main(settings: Iterable[str]) -> None:
    """Load the model and serve it until a signal comes.

    Raises:
        ValueError: see `assign`.
        RuntimeError: if the model cannot be loaded; the log says why.
    """
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    for setting in settings:
        assign(params, setting)
    if key := os.environ.get(KEY):
        params.api_keys = [key]
    _server = Server(params)  # it serves from threads of its own, for as long as it is referred to
    signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
