"""The front page's figure and table, from records.

Glue does not carry figures across pages, and numbers typed into `index.md` would go stale: so both are put
beside the executed notebooks, and the page includes them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from specbook import records
from specbook.analysis import speedup
from specbook.errors import ConfigError
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet
from specbook.report import break_even_page, engines_page, executed_pages, tables
from specbook.report.figures import speedup_figures, style
from specbook.report.provenance_line import credit
from specbook.report.text import answers_text
from specbook.stats.estimate import Estimate

BEGIN, END = "<!-- headline: written by `specbook readme`, from records -->", "<!-- /headline -->"
ALT = "Speed-up over the best baseline by batch and domain, on a logarithmic axis with a line at 1"
CAPTION = (
    "Speed-up of speculative decoding over the best baseline{picked}, with its 95 % interval from three "
    "restarts on. The axis is logarithmic: below the line speculation loses, and a loss is as large as a win."
)
PICKED = ", each point at its own best K"
EVERY_METHOD = (
    "Speed-up of each drafting method over the best baseline, at its own best K where several were measured, "
    "with its 95 % interval from three restarts on. Below the line, on a logarithmic axis, speculation loses."
)
TABLE = (
    "Speed-up, and output tokens/s without → with speculation; intervals are in the figure and the chapters:"
)
MANY = 0.25
"""Share of the tokens in looping answers from which on the headline says what is left without them."""
BEST_CASE = (
    "The Answer is the best case: a small model of this project's own, and drafts that were trained on "
    "the same kinds of traffic, for `json` and `math` on the same templates."
)
TYPICAL = (
    "The next table puts a typical case beside it: a public model, {target}, on public prompts (chapter 9). "
    "It compares decoding alone: no time to first token, and no answers that repeat themselves. So its "
    "numbers differ from the Answer's. Each kind of traffic has its fastest method, picked afterwards. Where "
    "both rows of a case name the same traffic, only one kind was measured. Below 1 the server is slower "
    "with a draft."
)
LOOPS = (
    "Text that repeats itself is the easiest to draft. So the speed-up of decoding is given twice where such "
    "answers hold more than a quarter of the tokens: with them, and without."
)
PUBLIC = ("09_public", "appendix_public_batch", "appendix_public_suffix")
"""Plans of the typical case: a chapter's, one of more sets at batch 8, and one of suffix trees."""
NOTHING = "**No answer yet.** No chapter with speculation has a plan for this hardware.\n"


def render(runs: Sequence[RunRecord]) -> str:
    """The answer, the figure and the table."""
    if not runs:
        return NOTHING
    best = speedup.best_k(runs, by=("load", "domain"))
    if best.empty:
        return f"**No answer yet.** {answers_text.NO_PAIR}\n"
    caption = EVERY_METHOD if _several(best) else CAPTION.format(picked=PICKED * any(best["arms"] > 1))
    drawn = executed_pages.figure("fig-headline", _draw(best, runs), ALT, caption)
    table = tables.markdown(tables.overview(best))
    return "\n\n".join([answer(best, runs), drawn, TABLE, table]) + "\n"


def write_readme(runs: Sequence[RunRecord], readme: Path, picture: Path) -> None:
    """Put the answer and its credit between the README's two headline marks, and the figure in `picture`.

    Raises:
        ConfigError: if a mark is missing.
    """
    best = speedup.best_k(runs, by=("load", "domain"))
    figure = _draw(best, runs)
    figure.savefig(picture, dpi=144, bbox_inches="tight", pad_inches=0.2)
    plt.close(figure)
    text = readme.read_text()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ConfigError(f"{readme} needs the line {BEGIN!r} and, after it, {END!r}: put them back")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    place = picture.relative_to(readme.parent)
    block = f"\n![{ALT}]({place})\n\n{credit(runs)}\n\n{answer(best, runs)}\n"
    readme.write_text(head + BEGIN + block + END + tail)


def answer(best: pd.DataFrame, runs: Sequence[RunRecord]) -> str:
    """The chapter's answer, and what its largest number was when other campaigns measured it."""
    speeds = answers_text.speculation(best, speedup.best_over_domains(runs))
    top = best.loc[best["speedup"].idxmax()]
    recorded = RunSet(records.load())
    elsewhere = speedup.replicated(top, runs, recorded)
    every = {run.run_id: run for run in recorded}
    each = [
        f"{row.estimate.format('×')}, in {run.point.target.dtype} on {run.started_at[:10]} (`{row.hardware}`)"
        f"{_inside(row.estimate, top['estimate'])}"
        for row in elsewhere.itertuples()
        for run in [every[row.records[0]]]
    ]
    values = sorted([top["speedup"], *elsewhere["speedup"]])
    again = [
        f"Measured again, {top['label']} on {top['domain']} gave {'; '.join(each)}. Over all these campaigns "
        f"it is {values[0]:.2f}× to {values[-1]:.2f}×."
    ] * bool(each)
    targets = {run.point.target.name for run in runs}
    pocket = [BEST_CASE] * all(name.startswith("pocket-") for name in targets)
    cases, others = [], []
    if targets == {"pocket-dense"}:
        cases = _cases(best, runs, public_runs())
        others = [*break_even_page.front(), *engines_page.faster_baseline()]
    return "\n\n".join([*pocket, speeds, *cases, *again, *_loops(best, runs), *others])


def public_runs() -> RunSet:
    """The runs of the typical case; empty where its chapter was never measured."""
    chapter, *more = (records.of_chapter(plan, "cpu") for plan in PUBLIC)
    return chapter.joined(run for plan in more for run in plan)


def _inside(again: Estimate, first: Estimate) -> str:
    """Whether what was measured again lies in the interval that the answer quotes."""
    if first.low is None or first.high is None:
        return ""
    return f", {'inside' if first.low <= again.value <= first.high else 'outside'} the interval above"


def _cases(best: pd.DataFrame, runs: Sequence[RunRecord], public: RunSet) -> list[str]:
    """This project's own model and a public one side by side; nothing where no public one was measured."""
    if not public or (theirs := speedup.best_k(public, by=("load", "domain"))).empty:
        return []
    mine, typical = _decoding(runs, best), _decoding(public, theirs)
    if mine.empty or typical.empty:
        return []
    lines = {
        "best case, fastest traffic": _ends(mine, pd.Series.idxmax),
        "best case, slowest traffic": _ends(mine, pd.Series.idxmin),
        "typical case, fastest traffic": _ends(typical, pd.Series.idxmax),
        "typical case, slowest traffic": _ends(typical, pd.Series.idxmin),
    }
    beside = pd.DataFrame(lines).T.fillna("not measured").rename_axis("speed-up").reset_index()
    return [TYPICAL.format(target=public[0].point.target.name), tables.markdown(beside)]


def _decoding(runs: Sequence[RunRecord], best: pd.DataFrame) -> pd.DataFrame:
    """These arms by their speed-up of decoding, answers that repeat themselves left out."""
    table = speedup.beside_loops(runs, best).dropna(subset="without")
    return table.assign(estimate=table["without"], speedup=[one.value for one in table["without"]])


def _ends(table: pd.DataFrame, end: Callable[[pd.Series], int]) -> dict[str, str]:
    """By load: one kind of traffic, with the method that suits it."""
    suited = speedup.fastest(table).groupby("load", sort=False)["speedup"].agg(end)
    return {
        row.load: f"{row.estimate.span('×')} {row.domain} ({row.label})"
        for row in table.loc[suited].itertuples()
    }


def _loops(best: pd.DataFrame, runs: Sequence[RunRecord]) -> list[str]:
    """What is left of the speed-up where answers that repeat themselves hold many of the tokens."""
    table = speedup.beside_loops(runs, speedup.fastest(best)).dropna(subset="without")
    many = table[table["loop_tokens"] > MANY]
    return [LOOPS, tables.markdown(tables.beside_loops(many).reset_index())] if len(many) else []


def _several(best: pd.DataFrame) -> bool:
    return best["method"].nunique() > 1


def _draw(best: pd.DataFrame, runs: Sequence[RunRecord]) -> Figure:
    """Several methods share no axis with K: each batch has a panel then."""
    axes = speedup_figures.by_method(best) if _several(best) else [speedup_figures.by_load(best)]
    style.sign(axes, runs)
    return axes[0].get_figure()
