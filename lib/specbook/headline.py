"""The front page's figure and table, from records.

Glue does not carry figures across pages, and numbers typed into `index.md` would go stale: so both are put
beside the executed notebooks, and the page includes them.
"""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt

from specbook import answers, comparisons, plots, plots_speculation, tables
from specbook.errors import ConfigError
from specbook.records import RunRecord

BEGIN, END = "<!-- headline: written by `specbook readme`, from records -->", "<!-- /headline -->"

ALT = "Speed-up over the best baseline by batch and domain, on a logarithmic axis with a line at 1"

CAPTION = (
    "Speed-up of speculative decoding over the best baseline, each point at its own best K, with its 95 % "
    "interval. The axis is logarithmic: below the line speculation loses, and a loss is as large as a win."
)

TABLE = (
    "Speed-up, and output tokens/s without → with speculation; intervals are in the figure and the chapters:"
)


def write(runs: Sequence[RunRecord], folder: Path) -> Path:
    """Write `headline.png` and `headline.md` into `folder`; returns the latter."""
    folder.mkdir(parents=True, exist_ok=True)
    best = comparisons.best_k(runs, by=("load", "domain"))
    _draw(best, runs, folder / "headline.png")
    page = folder / "headline.md"
    page.write_text(_page(answers.speculation(best), tables.overview(best).reset_index()))
    return page


def write_readme(runs: Sequence[RunRecord], readme: Path, picture: Path) -> None:
    """Put the answer and its credit between the README's two headline marks, and the figure in `picture`.

    Raises:
        ConfigError: if a mark is missing.
    """
    best = comparisons.best_k(runs, by=("load", "domain"))
    _draw(best, runs, picture)
    text = readme.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ConfigError(f"{readme} needs the line {BEGIN!r} and, after it, {END!r}: put them back")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    place = picture.relative_to(readme.parent)
    block = f"\n![{ALT}]({place})\n\n{answers.speculation(best)}\n\n{plots.credit(runs)}\n"
    readme.write_text(head + BEGIN + block + END + tail)


def _draw(best: pd.DataFrame, runs: Sequence[RunRecord], picture: Path) -> None:
    ax = plots_speculation.speedup(best)
    plots.sign(ax, runs)
    ax.get_figure().savefig(picture, dpi=144, bbox_inches="tight", pad_inches=0.2)
    plt.close(ax.get_figure())


def _page(answer: str, table: pd.DataFrame) -> str:
    head = "| " + " | ".join(table.columns) + " |"
    rule = "|" + " --- |" * len(table.columns)
    rows = ["| " + " | ".join(map(str, row)) + " |" for row in table.itertuples(index=False)]
    return "\n".join([
        answer, "", "```{figure} executed/headline.png", ":name: fig-headline", f":alt: {ALT}", "",
        CAPTION, "```", "", TABLE, "", head, rule, *rows, "",
    ])  # fmt: skip
