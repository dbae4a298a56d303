"""The command `watch`: a running server's acceptance, an interval a line."""

import json
import time
from collections.abc import Iterator
from typing import Annotated

import typer

from specbook.cli.serving import Authority, KeyFile, ModelName
from specbook.console import err, one_clear_message
from specbook.errors import ConfigError

DAY_S = 86_400


def watch(
    url: Annotated[str, typer.Option(help="Of a running server, such as http://127.0.0.1:8000.")],
    every: Annotated[float, typer.Option(help="Seconds from reading to reading.", min=0.1)] = 60,
    learn: Annotated[int, typer.Option(help="Intervals to learn from before any is judged.", min=10)] = 30,
    expected: Annotated[
        str | None, typer.Option(help="The usual acceptance length, or records that have it, as `compare` A.")
    ] = None,
    days: Annotated[
        float, typer.Option(help="At most one false alarm in so many, on average.", min=0.001)
    ] = 7,
    length: Annotated[float | None, typer.Option("--for", help="End after so many seconds.", min=0)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
    api_key_file: KeyFile = None, model: ModelName = None, ca: Authority = None,
) -> None:  # fmt: skip
    """Watch a running server until its acceptance falls: exit 1. Exit 2: its counters cannot be read."""
    from specbook.bench import acceptance_probe
    from specbook.engine.connection import read_api_key
    from specbook.engine.running import Running

    state = None
    with one_clear_message(code=2):
        if (intervals := days * DAY_S / every) < learn:
            raise ConfigError(
                f"--days {days:g} has {intervals:.0f} intervals. To fix: {learn} (--learn) or more"
            )
        rule = acceptance_probe.Rule(intervals, learn, _length(expected))
        server = Running(url, read_api_key(api_key_file), model=model, ca=ca)
        said = f"at most one false alarm in {days:g} days, where intervals are independent"
        err.print(f"{server.title}: {said}", soft_wrap=True)
        try:
            for one in acceptance_probe.watch(server, rule, _ticks(every, length)):
                state = one.state
                typer.echo(json.dumps(one._asdict()) if as_json else one.line(rule))
        except KeyboardInterrupt:
            return
    if state == "alarm":
        raise typer.Exit(1)


def _length(expected: str | None) -> float | None:
    """A number as it is; of records, that of all their drafts together."""
    from specbook.records import selection

    if expected is None:
        return None
    try:
        value = float(expected)
    except ValueError:
        counted = [run.measurement.spec_decode for run in selection.read(expected).runs()]
        drafts, accepted = (
            sum(getattr(one, name) for one in counted if one)
            for name in ("num_drafts", "num_accepted_tokens")
        )
        value = 1 + accepted / max(drafts, 1)
    if value > 1:
        return value
    raise ConfigError(
        f"--expected {expected}: a length of {value:g}. To fix: above 1, or records that drafted"
    )


def _ticks(every: float, length: float | None) -> Iterator[None]:
    """One each `every` seconds, for `length` seconds."""
    start, n = time.monotonic(), 1
    while length is None or n * every <= length:
        time.sleep(max(0.0, start + n * every - time.monotonic()))
        yield
        n += 1
