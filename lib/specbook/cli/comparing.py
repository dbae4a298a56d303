"""The commands that compare records: `compare`."""

import json
from typing import Annotated

import typer

from specbook.console import busy, one_clear_message

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
    from specbook.analysis import comparison, sides
    from specbook.records import selection
    from specbook.report.text import comparison_text

    with one_clear_message(), busy("reading records"):
        found = comparison.compare(*(sides.read(selection.read(text)) for text in (a, b)), tolerance)
    typer.echo(json.dumps(comparison_text.body(found)) if as_json else comparison_text.page(found, markdown))
