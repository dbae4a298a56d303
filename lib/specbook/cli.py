"""The command line: doctor, run, book, serve, ask, check, train."""

import math
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, get_args

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from specbook.errors import ConfigError, SpecbookError

if TYPE_CHECKING:
    from specbook.plan import Plan

app = typer.Typer(
    help="Measure speculative decoding on a real vLLM server, and build the book from the records.",
    no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
)  # fmt: skip
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Hardware = Annotated[str, typer.Option(help="A folder of params/.")]
Group = Annotated[str, typer.Option(help="`quick`: the book in minutes; `full`: what results/ ships.")]
ProfileName = Annotated[
    str, typer.Option("--profile", help="<hardware>/<name> of params/<hardware>/profiles.yaml.")
]
RESUMABLE = "interrupted. What was done is on disk; run it again to go on."


@contextmanager
def _one_clear_message(interrupted: str = "interrupted.") -> Iterator[None]:
    """A mistake the user can mend ends in one message and a non-zero exit; so does Ctrl-C."""
    try:
        yield
    except SpecbookError as error:
        _complain("specbook:", str(error))
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        _complain("specbook:", interrupted)
        raise typer.Exit(130) from None


def _complain(label: str, message: str) -> None:
    # Never as markup: messages quote lists, paths and logs, and rich would eat what stands in brackets.
    err.print(Text.assemble((label, "bold red"), " ", message), soft_wrap=True)


@app.command()
def doctor() -> None:
    """Say what this machine has, what it lacks, and the command that mends it."""
    from specbook import doctor as checkup

    with _one_clear_message():
        found = checkup.checks()
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "mend"):
        table.add_column(column, overflow="fold")
    for check in found:
        mark = {True: "[green]ok[/]", False: "[red]missing[/]", None: "[yellow]optional[/]"}[check.ok]
        table.add_row(mark, *map(Text, (check.name, check.found, check.mend)))
    out.print(table)
    if checkup.failed(found):
        raise typer.Exit(1)


@app.command()
def run(
    chapters: Annotated[list[str], typer.Argument(help="Chapters, e.g. 02_eagle3 (or 02), or `all`.")],
    hardware: Hardware = "cpu",
    group: Group = "full",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be measured.")] = False,
    since: Annotated[
        datetime | None,
        typer.Option(help="UTC. Points measured before are measured again; those after count as done."),
    ] = None,
) -> None:
    """Measure what is missing of these chapters' plans; every point is on disk before the next starts."""
    from specbook import campaign, plan

    with _one_clear_message(RESUMABLE):
        plans = [plan.load(name, hardware, group) for name in plan.chapters(chapters, hardware)]
        if dry_run:
            _say_what_is_missing(plans, since)
            return
        made = campaign.measure(plans, since)
    bad = [record for record in made if record.status == "failed"]
    out.print(f"{len(made)} points measured now, {len(bad)} of them failed")
    for record in bad:
        _complain("failed:", f"{record.point.arm}, {record.point.load.label}: {record.reason}")
    if bad:
        raise typer.Exit(1)


def _say_what_is_missing(plans: "list[Plan]", since: datetime | None) -> None:
    from specbook import campaign
    from specbook.engine import vllm
    from specbook.hardware import detect

    todo = campaign.missing(plans, detect(), since)
    for command in dict.fromkeys(shlex.join(vllm.command(p.target, p.speculation, 8000)) for p in todo):
        typer.echo(command)
    done = sum(len(plan.points()) for plan in plans) - len(todo)
    out.print(f"{len(todo)} points to measure, {done} on disk or shared between chapters")


@app.command()
def book(
    hardware: Hardware = "cpu",
    group: Group = "quick",
    source: Annotated[
        str | None,
        typer.Option(help="`hardware` measures first, `records` reads; default: as the group needs."),
    ] = None,
) -> None:
    """Measure the quick plan on this machine if it has not been, run the notebooks, build the HTML."""
    from specbook import campaign, plan, render
    from specbook.mistakes import near

    with _one_clear_message(RESUMABLE):
        names = plan.chapters(["all"], hardware)
        source = source or ("hardware" if group == "quick" else "records")
        if source not in get_args(plan.Source):
            raise ConfigError(f"no source {source!r}{near(source, get_args(plan.Source))}")
        if source == "hardware":
            out.print(f"measuring the {group} plan of {', '.join(names)} on this machine")
            campaign.measure([plan.load(name, hardware, group) for name in names])
        index = render.build(names, hardware, group)
        out.print(f"the book: {index}", soft_wrap=True)


@app.command()
def check() -> None:
    """Read every record under results/ and say which are not what they should be."""
    from specbook import records

    with _one_clear_message():
        problems = [problem for _, problem in records.validate_all()]
    bad = [problem for problem in problems if problem]
    for problem in bad:
        _complain("bad:", problem)
    out.print(f"{len(problems)} records read, {len(bad)} bad")
    if bad:
        raise typer.Exit(1)


@app.command()
def readme(hardware: Hardware = "cpu", chapter: str = "02_eagle3") -> None:
    """Write the README's headline figure and sentence from the full plan's records."""
    from specbook import campaign, headline, paths, plan

    with _one_clear_message():
        runs = campaign.replay(plan.load(chapter, hardware, "full"))
        headline.write_readme(runs, paths.root() / "README.md", paths.root() / "book" / "headline.png")


@app.command()
def serve(
    profile: ProfileName = "cpu/eagle3",
    port: Annotated[int, typer.Option(help="On 127.0.0.1.", min=1, max=65535)] = 8000,
    api_key: Annotated[
        str | None, typer.Option(envvar="SPECBOOK_API_KEY", help="Demanded of clients.")
    ] = None,
) -> None:
    """Serve a profile until Ctrl-C, on an OpenAI-compatible endpoint."""
    from specbook import profiles
    from specbook.engine.vllm import VllmServer

    with _one_clear_message(f"{profile} has ended."):
        chosen = profiles.load(profile)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        out.print(f"starting {profile} ...")
        with VllmServer(chosen.target, chosen.speculation, port=port, api_key=api_key) as server:
            out.print(f"{chosen.target.name} at {server.base_url}  (Ctrl-C ends it; log: {server.log_path})")
            while server.is_alive():
                time.sleep(0.5)
            raise SpecbookError(server.obituary())


@app.command()
def ask(
    question: Annotated[str, typer.Argument(help="One user message.")],
    profile: ProfileName = "cpu/eagle3",
    max_tokens: Annotated[int, typer.Option(help="Output cap.", min=1)] = 400,
    usd_per_hour: Annotated[float | None, typer.Option(help="What an hour of it costs you.")] = None,
) -> None:
    """Ask one question; the answer streams, then four lines say what it took."""
    from specbook import ask as asking
    from specbook import cost, profiles
    from specbook.engine.vllm import VllmServer

    with _one_clear_message():
        chosen = profiles.load(profile)
        if usd_per_hour is not None and not 0 < usd_per_hour < math.inf:
            raise ConfigError(f"--usd-per-hour {usd_per_hour}: give a positive price")
        dollars, price = usd_per_hour, f"${usd_per_hour}/h"
        if usd_per_hour is None and chosen.price:
            dollars, price = cost.hourly_price(chosen.price), chosen.price
        err.print(f"starting {profile} ...")
        with VllmServer(chosen.target, chosen.speculation) as server:
            # The first request after a start pays for warming up: it is not what is asked.
            asking.ask(server, question, 16, lambda _: None)
            reply = asking.ask(server, question, max_tokens, lambda text: typer.echo(text, nl=False))
        typer.echo("\n")
        typer.echo("\n".join(asking.summary(chosen, reply, dollars, price)))


@app.command()
def train(
    what: Annotated[str, typer.Argument(help="`all`, or one of: target, eagle3, card.")] = "all",
    device: Annotated[str, typer.Option(help="A torch device for the target: cpu, cuda.")] = "cpu",
) -> None:
    """Train the pocket models again from nothing: tokenizer, target, heads, card. Hours on two cores."""
    from specbook.pocket import train as training

    with _one_clear_message(RESUMABLE):
        training.run(what, device=device, report=typer.echo)
