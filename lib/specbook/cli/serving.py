"""The commands that serve a model, ask one or watch one: `serve`, `ask`, `probe` and `watch`."""

import json
import math
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from specbook.console import busy, complain, entered, err, one_clear_message, out
from specbook.errors import ConfigError, RefusedError, SpecbookError

if TYPE_CHECKING:
    from specbook.config.machines import Profile
    from specbook.engine.running import Running
    from specbook.engine.server import Server
    from specbook.records.experiment_results import Probed

ProfileName = Annotated[
    str, typer.Option("--profile", help="<hardware>/<name> of params/<hardware>/profiles.yaml.")
]
Url = Annotated[
    str | None, typer.Option(help="Of a server that runs already, such as http://127.0.0.1:8000.")
]
KeyFile = Annotated[Path | None, typer.Option(help="Holds the key that it wants; or set SPECBOOK_API_KEY.")]
ModelName = Annotated[str | None, typer.Option("--model", help="Of several at --url; default: the first.")]
Authority = Annotated[
    Path | None,
    typer.Option("--ca", help="Certificates of the authority behind --url, PEM; or set SSL_CERT_FILE."),
]
DAY_S = 86_400
COLUMNS = ("category", "prompts", "length", "95 % interval", "p10 to p90", "rate", "tokens/s")


def serve(
    profile: ProfileName = "cpu/eagle3",
    port: Annotated[int, typer.Option(help="On 127.0.0.1.", min=1, max=65535)] = 8000,
    api_key: Annotated[str | None, typer.Option(hidden=True)] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="Holds the key demanded of clients; or set SPECBOOK_API_KEY.")
    ] = None,
    ask_api_key: Annotated[bool, typer.Option("--ask-api-key", help="Ask for the key.")] = False,
    open_metrics: Annotated[
        bool, typer.Option("--open-metrics", help="/metrics needs no key, as /health never does.")
    ] = False,
) -> None:
    """Serve a profile until Ctrl-C, on an OpenAI-compatible endpoint."""
    from specbook.config import machines
    from specbook.engine.connection import NO_KEY_ON_A_COMMAND_LINE, read_api_key
    from specbook.engine.server import Server

    with one_clear_message(f"{profile} has ended."):
        chosen = machines.profile(profile)
        _warn_of_depth(chosen)
        if api_key is not None:
            raise ConfigError(NO_KEY_ON_A_COMMAND_LINE)
        key = typer.prompt("API key", hide_input=True) if ask_api_key else read_api_key(api_key_file)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        out.print(f"starting {profile} ...")
        starting = Server(
            chosen.target, chosen.speculation, port=port, api_key=key, open_counters=open_metrics
        )
        with entered(starting, "starting the engine") as server:
            place = f"{chosen.target.name} at {server.client.base_url}"
            out.print(f"{place}  (Ctrl-C ends it; log: {server.log_path})")
            while server.is_alive():
                time.sleep(0.5)
            raise SpecbookError(server.obituary())


def _warn_of_depth(chosen: Any) -> None:
    """Say if a profile's head would draft deeper than it was trained to."""
    from specbook.engine import preflight

    if text := preflight.past_training(chosen.target, chosen.speculation):
        complain("warning:", text)


@contextmanager
def _reached(
    url: str | None, api_key_file: Path | None, model: str | None, ca: Path | None, profile: str,
    chosen: "Profile | None",
) -> "Iterator[Server | Running]":  # fmt: skip
    """The server at `url`; without one, that of the profile, for as long as it is asked.

    Raises:
        ConfigError: for a model, or an authority, where there is no `url`.
    """
    from specbook.engine.connection import read_api_key
    from specbook.engine.running import Running
    from specbook.engine.server import Server

    if url is not None:
        yield Running(url, read_api_key(api_key_file), model=model, ca=ca)
        return
    if model is not None or ca is not None:
        option = "--ca" if model is None else "--model"
        raise ConfigError(f"{option} is of a server that runs already: give its --url, or take {option} away")
    _warn_of_depth(chosen)
    err.print(f"starting {profile} ... (`specbook serve` keeps one up, and --url asks it at once)")
    with entered(Server(chosen.target, chosen.speculation), "starting the engine") as server:
        yield server


def ask(
    question: Annotated[str, typer.Argument(help="One user message.")],
    profile: ProfileName = "cpu/eagle3",
    url: Url = None,
    api_key_file: KeyFile = None,
    model: ModelName = None,
    ca: Authority = None,
    max_tokens: Annotated[int, typer.Option(help="Output cap.", min=1)] = 400,
    usd_per_hour: Annotated[float | None, typer.Option(help="What an hour of it costs you.")] = None,
) -> None:
    """Ask one question; the answer streams, then four lines say what it took."""
    from specbook.cli import ask as asking
    from specbook.config import machines, prices

    def show(text: str) -> None:
        typer.echo(text, nl=False)

    dollars, price = usd_per_hour, f"${usd_per_hour}/h"
    if dollars is not None and not 0 < dollars < math.inf:
        raise ConfigError(f"--usd-per-hour {dollars}: give a positive price")
    chosen = None if url is not None else machines.profile(profile)
    if chosen and chosen.price and usd_per_hour is None:
        dollars, price = prices.machine(chosen.price).usd_per_hour, chosen.price
    with _reached(url, api_key_file, model, ca, profile, chosen) as server:
        if chosen:  # the first request after a start pays for warming up: it is not what is asked
            asking.ask(server, question, 16, lambda _: None)
        reply = asking.ask(server, question, max_tokens, show)
        served = asking.served(chosen) if chosen else server.title
    typer.echo("\n")
    typer.echo("\n".join(asking.summary(served, reply, dollars, price)))


def probe(
    traffic: Annotated[
        str, typer.Argument(help="JSON lines, each with `prompt` or `messages`; or a name, such as gsm8k.")
    ],
    profile: ProfileName = "cpu/eagle3",
    url: Url = None,
    api_key_file: KeyFile = None,
    model: ModelName = None,
    ca: Authority = None,
    seconds: Annotated[
        float, typer.Option(help="How long to ask; the last answer is waited for.", min=1)
    ] = 40,
    max_tokens: Annotated[int, typer.Option(help="Output cap.", min=1)] = 192,
    seed: Annotated[int, typer.Option(help="Shuffles the prompts.")] = 0,
) -> None:
    """Ask some of your own traffic, one prompt at a time, and say per category what was accepted."""
    from specbook import paths
    from specbook.bench import acceptance_probe
    from specbook.config import machines, plan_overrides, prompt_files

    with one_clear_message("interrupted: nothing is kept of a probe."):
        file = paths.at(plan_overrides.file(traffic))
        read = prompt_files.read(file)
        for note in read.notes:
            complain("prompts:", note)
        wanted = acceptance_probe.interleaved(read.prompts, seed, prompt_files.named_after(file))
        chosen = None if url is not None else machines.profile(profile)
        if chosen and chosen.speculation is None:
            raise ConfigError(f"--profile {profile} does not draft: there is nothing to accept")
        with (
            _reached(url, api_key_file, model, ca, profile, chosen) as server,
            busy(f"asking for {seconds:g} s"),
        ):
            # The first request after a start pays for warming up.
            list(acceptance_probe.probe(server, wanted[:1], max_tokens=min(16, max_tokens), seconds=seconds))
            answers = list(acceptance_probe.probe(server, wanted, max_tokens=max_tokens, seconds=seconds))
        _show(answers, len(wanted))


def _show(answers: "Sequence[Probed]", of: int) -> None:
    """The table, and a line for what is not in it.

    Raises:
        RefusedError: if every prompt was refused.
    """
    from specbook.analysis import acceptance

    refused = [one.refused for one in answers if one.refused]
    if len(refused) == len(answers):
        raise RefusedError(f"all {len(answers)} prompts were refused, the last with: {refused[-1]}")
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "category" else "right")
    for row in acceptance.of_probe(answers).to_dict("records"):
        table.add_row(*map(Text, _cells(row, [one for one in answers if one.domain == row["domain"]])))
    out.print(table)
    out.print(
        f"{len(answers)} of {of} prompts asked, one at a time. Length: tokens a step, bonus token included; "
        "p10 to p90: of single answers.",
        soft_wrap=True,
    )
    if shared := sum(one.spec_decode is None for one in answers) - len(refused):
        complain("not counted:", f"{shared} answers, during which the server answered others too")
    if refused:
        complain("refused:", f"{len(refused)} prompts, the last with: {refused[-1]}")


def _cells(row: dict, answers: "Sequence[Probed]") -> list[str]:
    """A row of the table; where a domain has no lengths, `answers`, its own, say why."""
    counted, speed = [row["domain"], str(row["prompts"])], f"{row['tokens_per_s']:.0f}"
    if row["estimate"] is None:
        if any(one.spec_decode for one in answers):
            why = "nothing drafted"
        else:
            why = "refused" if all(one.refused for one in answers) else "not counted"
        return [*counted, why, "", "", "", speed]
    low, high = row["estimate"].low, row["estimate"].high
    interval = "too few prompts" if low is None else f"{low:.2f} to {high:.2f}"
    tenths = f"{row['p10']:.2f} to {row['p90']:.2f}"
    return [*counted, f"{row['length']:.2f}", interval, tenths, f"{row['rate']:.2f}", speed]


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
        every = (run.measurement.spec_decode for run in selection.read(expected).runs())
        counted = [one for one in every if one]
        drafts = sum(one.num_drafts for one in counted)
        value = 1 + sum(one.num_accepted_tokens for one in counted) / max(drafts, 1)
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
