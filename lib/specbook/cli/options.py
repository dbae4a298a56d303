"""Options of several commands: which plan, and what of yours stands in it."""

from typing import Annotated

import typer

Hardware = Annotated[str, typer.Option(help="A folder of params/.")]
Group = Annotated[str, typer.Option(help="`quick`: the book in minutes; `full`: what results/ ships.")]
OwnTarget = Annotated[
    str | None, typer.Option(help="Your own model, a folder or a hub id, in place of the plan's.")
]
OwnDrafts = Annotated[
    list[str] | None,
    typer.Option(help="A folder, a hub id or a method such as ngram; give it again for another."),
]
OwnPrompts = Annotated[
    str | None, typer.Option(help="Your own traffic: JSON lines, each with `prompt` or `messages`.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Another parameter of the plan, KEY=VALUE, such as domains=\\[json]."),
]
