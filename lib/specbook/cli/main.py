"""The command line: doctor, run, book, check, pack, readme, skill, train; its other modules have the rest."""

import signal
from collections.abc import Sequence
from datetime import datetime
from importlib.metadata import entry_points
from typing import Annotated, Any, get_args

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from specbook.cli.comparing import compare, export, gate, import_
from specbook.cli.options import Group, Hardware, OwnDrafts, OwnPrompts, OwnTarget, Settings
from specbook.cli.scheduling import schedule
from specbook.cli.serving import ask, probe, serve, watch
from specbook.console import busy, complain, one_clear_message, out
from specbook.deploy.commands import app as deploy_app
from specbook.errors import ConfigError


class _Commands(TyperGroup):
    """Ctrl-C has its one message in the seconds of a command's own imports too."""

    def invoke(self, ctx: Any) -> Any:
        with one_clear_message():
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Commands,
    help="Measure speculative decoding on a real server, and build the book from the records.",
    no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
)  # fmt: skip
app.add_typer(deploy_app, name="deploy")
for command in (serve, ask, probe, watch, compare, gate, export, schedule):
    app.command()(command)
app.command("import")(import_)

Chapters = Annotated[list[str], typer.Argument(help="Chapters, e.g. 02_eagle3 (or 02), or `all`.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be measured.")]
Since = Annotated[
    datetime | None,
    typer.Option(help="UTC. Points measured before are measured again; those after count as done."),
]
Replicate = Annotated[
    bool, typer.Option("--replicate", help="Measure again what other hosts of this machine have measured.")
]
Dirty = Annotated[bool, typer.Option("--dirty", help="Measure into results/ with uncommitted changes.")]
RESUMABLE = "interrupted. What was done is on disk; run it again to go on."


@app.command()
def doctor() -> None:
    """Say what this machine has, what it lacks, and the command that fixes it."""
    from specbook.cli import doctor as checkup

    checks = checkup.checks()
    table = Table(box=None, pad_edge=False)
    for column in ("", "what", "found", "fix"):
        table.add_column(column, overflow="fold")
    for check in checks:
        mark = {True: "[green]ok[/]", False: "[red]missing[/]", None: "[yellow]optional[/]"}[check.ok]
        table.add_row(mark, *map(Text, (check.name, check.value, check.fix)))
    out.print(table)
    if checkup.failed(checks):
        raise typer.Exit(1)


@app.command()
def run(
    chapters: Chapters, hardware: Hardware = "cpu", group: Group = "full", dry_run: DryRun = False,
    since: Since = None, replicate: Replicate = False, dirty: Dirty = False, target: OwnTarget = None,
    draft: OwnDrafts = None, prompts: OwnPrompts = None, settings: Settings = None,
) -> None:  # fmt: skip
    """Measure what is missing of these chapters' plans; every point is on disk before the next starts."""
    from specbook import config
    from specbook.bench import packaged_models, plan_notes, resources
    from specbook.config import plan_overrides as own

    with one_clear_message(RESUMABLE):
        given = own.given(target, draft or [], prompts, settings or [])
        plans = [config.load(name, hardware, group, **given) for name in config.chapters(chapters, hardware)]
        models = [model for one in plans for model in one.models()]
        sweeps = [sweep for one in plans for sweep in one.parts()]
        if not dry_run:
            _fetch_prompts(sweeps)
        resources.make_shapes(models)
        lacking: dict[str, str] = {}
        for maker in (packaged_models, *_trainers()):
            lacking |= maker.missing(models, report=None if dry_run else out.print)
        _leave_out(lacking)
        plan_notes.say(sweeps)
        if dry_run:
            return _preview(plans, since, replicate)
        _measure(plans, lacking, since, replicate=replicate, dirty=dirty)


def _fetch_prompts(sweeps: Sequence[Any]) -> None:
    """Fetch the data sets of these sweeps; those that were not there are checked as files at hand are."""
    from specbook import paths
    from specbook.config import datasets

    asked = [sweep for sweep in sweeps if sweep.prompts]
    absent = [sweep for sweep in asked if not paths.at(sweep.prompts).is_file()]
    with busy("fetching prompts"):
        datasets.fetch(sweep.prompts for sweep in asked)
    for sweep in absent:
        sweep.check()


def _preview(plans: Sequence[Any], since: datetime | None, replicate: bool) -> None:
    from specbook.bench.dry_run import preview

    with busy("looking for what is on disk"):
        shown = preview(plans, since, replicate)
    typer.echo("\n".join(shown.lines))
    out.print(shown.counted, soft_wrap=True)
    if shown.problem:
        raise ConfigError(shown.problem)


def _measure(plans: Sequence[Any], lacking: dict[str, str], since: datetime | None, **how: bool) -> None:
    """Measure the plans less what lacks a model or a cluster; exit status 1 if anything was left out."""
    from specbook.bench import campaign, experiments

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was taken from a cluster is put back
    wanted = [one.without(lacking) for one in plans]
    absent = {one.chapter: why for one in wanted if (why := experiments.unavailable(one))}
    if len(absent) < len(wanted):
        _leave_out(absent)
        lacking, wanted = lacking | absent, [one for one in wanted if one.chapter not in absent]
    made = campaign.measure(wanted, since, **how)
    bad = [record for record in made if record.status == "failed"]
    out.print(f"{len(made)} points measured now, {len(bad)} of them failed")
    for record in bad:
        complain("failed:", f"{record.title}: {record.reason}")
    _leave_out(lacking)  # once more, below an hour's lines
    if bad or lacking:
        raise typer.Exit(1)


def _leave_out(lacking: dict[str, str]) -> None:
    for model, why in lacking.items():
        complain("left out:", f"{model}: {why}")


@app.command()
def book(
    hardware: Hardware = "cpu",
    group: Group = "quick",
    source: Annotated[
        str | None,
        typer.Option(help="`hardware` measures first, `records` reads; default: as the group needs."),
    ] = None,
    print_pdf: Annotated[bool, typer.Option("--pdf", help="Print the book as one PDF, too.")] = False,
) -> None:
    """Measure the quick plan on this machine if it has not been, run the notebooks, build the HTML."""
    from specbook import config
    from specbook.bench import campaign, plan_notes
    from specbook.cli.doctor import BROWSERS
    from specbook.engine.base import which
    from specbook.report import render
    from specbook.suggestions import near

    with one_clear_message(RESUMABLE):
        source = source or ("hardware" if group == "quick" else "records")
        if source not in get_args(config.Source):
            raise ConfigError(f"no source {source!r}{near(source, get_args(config.Source))}")
        if source == "hardware":
            chapters = render.chapters_of(hardware)
            own = [name for name in chapters if config.in_book(name, hardware, group) == group]
            out.print(f"measuring the {group} plan of {', '.join(own)} on this machine")
            plans = [config.load(name, hardware, group) for name in own]
            plan_notes.say([sweep for plan in plans for sweep in plan.parts()])
            campaign.measure(plans)
        index = render.build(hardware, group, report=out.print)
        out.print(f"the book: {index}", soft_wrap=True)
        if print_pdf:
            out.print("printing the PDF")
            out.print(f"the PDF: {render.pdf(which(*BROWSERS))}", soft_wrap=True)


@app.command()
def check() -> None:
    """Read every record under results/ and say which are not what they should be."""
    from specbook import records

    with busy("reading every record"):
        checked = list(records.validate_all())
    bad = [problem for _, problem in checked if problem]
    for problem in bad:
        complain("bad:", problem)
    out.print(f"{sum(path.suffix != '.parquet' for path, _ in checked)} records read, {len(bad)} bad")
    if bad:
        raise typer.Exit(1)


@app.command()
def pack(
    drop_unshipped: Annotated[
        bool, typer.Option("--drop-unshipped", help="Remove records of weights that models/ no longer has.")
    ] = False,
) -> None:
    """Put records that have files of their own into packs; a campaign does so when it ends."""
    from specbook import records
    from specbook.bench import provenance

    with one_clear_message("interrupted. No record is lost; run it again to go on."):
        dropped = []
        if drop_unshipped:
            dropped = provenance.drop_unshipped(report=lambda line: out.print(f"dropped: {line}"))
        with busy("packing records"):
            made = records.pack()
    out.print(f"{len(made)} packs written, {len(dropped)} records dropped")


@app.command()
def readme(hardware: Hardware = "cpu", chapter: str = "03_p_eagle") -> None:
    """Write the README's headline figure and sentence from the full plan's records."""
    from specbook import config, paths, records
    from specbook.report import headline

    runs = records.replay(config.load(chapter, hardware, "full"))
    headline.write_readme(runs, paths.root() / "README.md", paths.root() / "book" / "headline.png")


@app.command()
def skill(hardware: Hardware = "cpu") -> None:
    """Write outputs/skill-inference-server.md, what was built and reached, from the full plans' records."""
    from specbook import paths
    from specbook.report import skill as deliverable

    with busy("reading every record"):
        place = paths.root() / "outputs" / "skill-inference-server.md"
        place.parent.mkdir(exist_ok=True)
        place.write_text(deliverable.text(hardware))


@app.command()
def train(
    what: Annotated[
        str, typer.Argument(help="`all`, or a stage such as eagle3 or int8; a name that is none lists them.")
    ] = "all",
    device: Annotated[str, typer.Option(help="A torch device for the target: cpu, cuda.")] = "cpu",
) -> None:
    """Train the pocket models again: target, heads, draft model, card. Hours on two cores."""
    with one_clear_message(RESUMABLE):
        if not (trainers := _trainers()):
            raise ConfigError("no trainer is installed. To fix: make setup, or pip install --editable .")
        for trainer in trainers:
            trainer.run(what, device=device, report=typer.echo)


def _trainers() -> list[Any]:
    """Modules that train models, by their entry points: none of them is a part of this package."""
    return [entry.load() for entry in entry_points(group="specbook.trainers")]
