"""The commands that compare records, `compare` and `gate`, and exchange them: `import` and `export`."""

import json
import re
from pathlib import Path
from typing import Annotated

import typer

from specbook.console import busy, complain, one_clear_message

Chosen = Annotated[
    str, typer.Argument(help="A folder of records, KEY=VALUE such as date=2026-11-25, or both with commas.")
]
Tolerance = Annotated[float, typer.Option(help="Share of A's speed that B may lack.", min=0.001, max=0.9)]


def compare(
    a: Chosen, b: Chosen, tolerance: Tolerance = 0.05,
    markdown: Annotated[bool, typer.Option("--markdown", help="As Markdown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:  # fmt: skip
    """Say whether B is slower than A, from records: by cell, with intervals, and by which part."""
    from specbook.analysis import comparison
    from specbook.records import selection
    from specbook.report.comparison_report import body, page

    with busy("reading records"):
        compared = comparison.compare(*(comparison.read(selection.read(text)) for text in (a, b)), tolerance)
    typer.echo(json.dumps(body(compared)) if as_json else page(compared, markdown))


def gate(
    a: Chosen,
    b: Annotated[str | None, typer.Argument(help="As A; --plan does without it.")] = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(help="YAML: a metric and the share by which B may be worse; by_cell; cannot_tell."),
    ] = None,
    tolerance: Annotated[
        float | None, typer.Option(help="Of tokens_per_s, before that of the file.", min=0.001, max=0.9)
    ] = None,
    junit: Annotated[Path | None, typer.Option(help="Write a JUnit report to this file.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Only say how many restarts it takes.")] = False,
    power: Annotated[float, typer.Option(help="Of --plan.", min=0.5, max=0.999)] = 0.8,
) -> None:  # fmt: skip
    """Exit with 1 if B is worse than A by more than the thresholds, with 2 if they cannot be compared."""
    from specbook.analysis import comparison, gate
    from specbook.config.yaml_files import read_as
    from specbook.errors import ConfigError
    from specbook.records import selection
    from specbook.records.atomic_files import write_atomically
    from specbook.report import comparison_report as report

    with one_clear_message(code=2), busy("reading records"):
        asked = read_as(thresholds, gate.Thresholds) if thresholds else gate.Thresholds()
        asked = asked.model_copy(update={"tokens_per_s": tolerance} if tolerance else {})
        if b is None and not plan:
            raise ConfigError("a gate compares A with B: give B too, or --plan")
        both = [comparison.read(selection.read(text)) for text in (a, b) if text is not None]
        if plan:
            restarts = gate.plan(*both, wanted=power)
            typer.echo(report.planned(restarts, gate.alarms(both[0].windows), power))
            return
        compared, checks = gate.check(*both, asked)
        if junit:
            write_atomically(junit, report.junit(checks))
    typer.echo("\n".join([report.summary(compared), *map(report.check_line, checks)]))
    if not all(check.passed for check in checks):
        raise typer.Exit(1)


def import_(
    files: Annotated[
        list[Path], typer.Argument(help="JSON of `vllm bench serve`, of its sweep, or of GuideLLM.")
    ],
    name: Annotated[str, typer.Option(help="Of results/imported/: what `chapter=` chooses them by.")],
    speculative_config: Annotated[
        str | None, typer.Option(help="The server's, where a file does not say how it drafted.")
    ] = None,
) -> None:
    """Import results of other load generators, a record a window, and say what they lack."""
    from pydantic import ValidationError

    from specbook.bench import imported
    from specbook.config.schema import Speculation
    from specbook.errors import ConfigError
    from specbook.report.text import count
    from specbook.suggestions import explain

    with busy("reading files"):
        if not re.fullmatch(r"\w[\w.-]*", name):
            raise ConfigError(f"--name {name!r} is no folder's name. To fix: letters, digits, - and _")
        try:
            draft = Speculation.model_validate_json(speculative_config) if speculative_config else None
        except ValidationError as error:
            raise ConfigError(f"--speculative-config: {explain(error, Speculation)}") from error
        made, left_out = imported.take(files, name, draft)
    for line in left_out:
        complain("left out:", line)
    typer.echo(f"{count(len(made), 'record')} imported, with {made[0].lacks}. Choose by chapter={name}.")


def export(
    chosen: Chosen,
    out: Annotated[
        Path,
        typer.Argument(help="A .csv or .parquet file; else a folder for llm-d's benchmark reports, v0.2."),
    ],
) -> None:
    """Export records, a row or a report each."""
    from specbook.records import selection
    from specbook.report import exported
    from specbook.report.text import count

    with busy("reading records"):
        n = exported.write(selection.read(chosen), out)
    typer.echo(f"{count(n, 'record')} exported to {out}")
