"""`specbook probe`: what would my traffic accept? A minute, a table with a row for each of its categories."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from specbook.console import busy, complain, err, one_clear_message, out
from specbook.errors import ConfigError, RefusedError

if TYPE_CHECKING:
    from specbook.bench.acceptance_probe import Asked
    from specbook.config.prompt_files import Prompt
    from specbook.records.probe_results import Probed

COLUMNS = ("category", "prompts", "length", "95 % interval", "p10 to p90", "rate", "tokens/s")
INTERRUPTED = "interrupted: nothing is kept of a probe."


def probe(
    traffic: Annotated[
        str, typer.Argument(help="JSON lines, each with `prompt` or `messages`; or a name, such as gsm8k.")
    ],
    profile: Annotated[
        str, typer.Option(help="<hardware>/<name>: the server that is started.")
    ] = "cpu/eagle3",
    url: Annotated[
        str | None, typer.Option(help="Of a server that runs already, such as http://127.0.0.1:8000.")
    ] = None,
    api_key_file: Annotated[
        Path | None, typer.Option(help="Holds the key that it wants; or set SPECBOOK_API_KEY.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(help="How long to ask; the last answer is waited for.", min=1)
    ] = 40,
    max_tokens: Annotated[int, typer.Option(help="Output cap.", min=1)] = 192,
    seed: Annotated[int, typer.Option(help="Shuffles the prompts.")] = 0,
) -> None:
    """Ask some of your own traffic, one prompt at a time, and say per category what was accepted."""
    from specbook import paths
    from specbook.bench.acceptance_probe import interleaved
    from specbook.config import machines, plan_overrides, prompt_files
    from specbook.engine.client import Running, read_api_key
    from specbook.engine.server import Server

    with one_clear_message(INTERRUPTED):
        file = paths.at(plan_overrides.file(traffic))
        wanted = interleaved(prompt_files.load(file), seed, file.name.partition(".")[0])
        if url is not None:
            found = _asked(Running(url, read_api_key(api_key_file)), wanted, max_tokens, seconds)
        else:
            chosen = machines.profile(profile)
            if chosen.speculation is None:
                raise ConfigError(f"--profile {profile} does not draft: there is nothing to accept")
            err.print(f"starting {profile} ... (`specbook serve` keeps one up, and --url asks it at once)")
            with Server(chosen.target, chosen.speculation) as server:
                found = _asked(server, wanted, max_tokens, seconds)
        show(found, len(wanted))


def _asked(server: "Asked", wanted: "Sequence[Prompt]", max_tokens: int, seconds: float) -> "list[Probed]":
    from specbook.bench.acceptance_probe import probe as ask

    with busy(f"asking for {seconds:g} s"):
        # The first request after a start pays for warming up.
        list(ask(server, wanted[:1], max_tokens=min(16, max_tokens), seconds=seconds))
        return list(ask(server, wanted, max_tokens=max_tokens, seconds=seconds))


def show(found: "Sequence[Probed]", of: int) -> None:
    """The table, and a line for what is not in it.

    Raises:
        RefusedError: if every prompt was refused.
    """
    from specbook.analysis import acceptance_by_domain

    refused = [one.refused for one in found if one.refused]
    if len(refused) == len(found):
        raise RefusedError(f"all {len(found)} prompts were refused, the last with: {refused[-1]}")
    table = Table(box=None, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name == "category" else "right")
    for row in acceptance_by_domain.by_domain(found).to_dict("records"):
        table.add_row(*map(Text, _cells(row)))
    out.print(table)
    out.print(
        f"{len(found)} of {of} prompts asked, one at a time. Length: tokens a step, bonus token included; "
        "p10 to p90: of single answers.",
        soft_wrap=True,
    )
    if refused:
        complain("refused:", f"{len(refused)} prompts, the last with: {refused[-1]}")


def _cells(row: dict) -> list[str]:
    if row["estimate"] is None:
        return [
            row["domain"],
            str(row["prompts"]),
            "nothing drafted",
            "",
            "",
            "",
            f"{row['tokens_per_s']:.0f}",
        ]
    low, high = row["estimate"].low, row["estimate"].high
    return [
        row["domain"], str(row["prompts"]), f"{row['length']:.2f}",
        "too few prompts" if low is None else f"{low:.2f} to {high:.2f}",
        f"{row['p10']:.2f} to {row['p90']:.2f}", f"{row['rate']:.2f}", f"{row['tokens_per_s']:.0f}",
    ]  # fmt: skip
