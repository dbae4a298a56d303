"""What a step of a draft costs, with acceptance played at given rates: for `book/break_even.md`."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from statistics import fmean

import pandas as pd

from specbook import config, records
from specbook.analysis import break_even, summaries
from specbook.bench import experiments
from specbook.config.machines import Machine
from specbook.errors import ConfigError
from specbook.records.run import RunRecord
from specbook.report.memory_page import accelerators
from specbook.report.provenance_line import credit, credit_experiments
from specbook.report.tables import markdown
from specbook.report.text import ends

PLAN = "appendix_break_even"
NOTHING = "**Not measured yet.**"
ONLY_TIMES = "random weights: only times mean anything"
SHAPES = (
    "Of models that matter in production, *shapes* were measured on an accelerator: real sizes, random "
    "weights. Draft tokens are accepted by chance, at rates that were published for an MTP head (another "
    "kind of draft) of another model on GSM8K, a set of math questions. No published EAGLE-3 head of these "
    "models is that good: the table names the head whose time was measured, and has the speed-up that a "
    "draft so good would give (*When does a draft pay?* says how):"
)


def render() -> str:
    """Whether played acceptance takes a real draft's time, a map of each machine and model, what lacks."""
    parts = ["# Does played acceptance take a real draft's time?", checked()]
    seen = []
    for title, runs in measured():
        prices = break_even.map_of(runs)
        if len(prices):  # a campaign that was broken off may have baselines alone
            shape = runs[0].point.target.load_format == "dummy"
            own = credit(runs, ONLY_TIMES if shape else "")
            parts += [f"# {title}", hopeless(prices), dips(prices), markdown(table(prices)), own]
            seen.append(runs[0])
    parts += ["# Accelerators", missing(seen)]
    return "\n\n".join(filter(None, parts)) + "\n"


def shapes() -> pd.DataFrame:
    """What shapes gain on accelerators at the highest acceptance played: a row for each draft, a column for
    each batch.
    """
    rows = []
    for name, prices in break_even.shape_maps().items():
        for (method, k), own in prices.groupby(["method", break_even.K]):
            lengths, gains = zip(*(played[0] for played in own["played"]), strict=True)
            batches = {f"batch {n}": gain for n, gain in zip(own["concurrency"], gains, strict=True)}
            # The credit below says that there are no intervals, once.
            cells = {batch: gain.span("×").removesuffix(" (no interval)") for batch, gain in batches.items()}
            rows.append(
                {"shape": name, "draft": f"{method} K={k}", "tokens a step": f"{fmean(lengths):.2f}", **cells}
            )
    return summaries.frame(rows, ("shape", "draft"))


def of_shapes() -> str:
    """Whose numbers `shapes` are."""
    return credit(break_even.of_shapes(), ONLY_TIMES)


def front() -> list[str]:
    """`shapes` for the front page: a sentence, a table and its credit; none of them without records."""
    table = shapes()
    return [SHAPES, markdown(table), of_shapes()] if len(table) else []


def checked() -> str:
    """Remark and table of the played server's figures over the real one's, batch by batch, of the machine
    that has most of the plan's experiments.
    """
    results = experiments.replay(config.load(PLAN, "cpu", "full"), partial=True)
    if not results:
        return f"{NOTHING} `specbook run {PLAN}` measures it."
    ratios = break_even.comparison(results)
    shown = {
        "draft": ratios["method"], "traffic": ratios["domain"], "batch": ratios["concurrency"],
        "tokens a step: set": ratios["set_length"].map("{:.2f}".format),
        "played": ratios["played_length"].map("{:.2f}".format),
        "real": ratios["real_length"].map("{:.2f}".format),
        "step, played over real": [one.span("×") for one in ratios["step"]],
        f"p{break_even.TAIL} over median TPOT, likewise": [one.span("×") for one in ratios["spread"]],
    }  # fmt: skip
    turns = f"n={ratios['step'].iloc[0].counted}"
    return "\n\n".join([agreement(ratios), markdown(pd.DataFrame(shown)), credit_experiments(results, turns)])


def agreement(ratios: pd.DataFrame) -> str:
    """What `break_even.comparison` says of steps, and of how far apart requests are: real ones differ in what
    they accept, and chance is the same for all.
    """
    steps, spreads = ratios["step"].tolist(), ratios["spread"].tolist()
    same = sum(one.side() == "within" for one in steps)
    narrower = sum(one.side() == "below" for one in spreads)
    tails = (
        "Played requests lie closer together than real ones, beyond the interval, in "
        f"{_rows(narrower, len(spreads))}, because chance is the same for all. So no map shows tails."
        if narrower
        else "Nor do played requests lie closer together than real ones, beyond an interval, in any row."
    )
    return (
        f"A played step takes {ends([one.value for one in steps])} of a real draft's; the interval includes "
        f"1 in {_rows(same, len(steps))}. The p{break_even.TAIL} of the requests' TPOT over its median is "
        f"{ends([one.value for one in spreads])} of the real ones'. {tails}"
    )


def _rows(part: int, whole: int) -> str:
    """`all 4 rows`, `none of 4 rows`, `1 of 4 rows`, `the one row`, `no row`."""
    if whole == 1:
        return "the one row" if part else "no row"
    return f"{ {0: 'none of', whole: 'all'}.get(part, f'{part} of') } {whole} rows"


def measured() -> Iterator[tuple[str, list[RunRecord]]]:
    """Each machine and model that has records: a title, and they. On a GPU all count: it has no chapter."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for run in records.load():
        if (run.chapter == PLAN or run.hardware.kind == "cuda") and run.status == "ok":
            groups.setdefault((run.hardware.id, run.point.target.name), []).append(run)
    for (where, target), runs in sorted(groups.items()):
        yield f"{target} on {where}", runs


def table(prices: pd.DataFrame) -> pd.DataFrame:
    """Table of the tokens a step must yield, and what two sets of rates bring, from `break_even.map_of`."""
    rows, on_gpu = [], prices["busy"].notna().all()
    for row in prices.itertuples():
        busy = {"GPU busy: plain, drafting": f"{row.busy:.0%}, {row.drafting_busy:.0%}"} if on_gpu else {}
        brought = [f"{gain.span('×')} at {length:.2f}" for length, gain in row.played]
        rows.append(
            {"batch": row.concurrency, "draft": row.method, "K": row.num_speculative_tokens,
             "plain step, ms": f"{1e3 * row.step_s:.1f}", "to break even, tokens a step": row.price.span(),
             "speed-up at tokens a step": "; ".join(brought), **busy}
        )  # fmt: skip
    return pd.DataFrame(rows)


def hopeless(prices: pd.DataFrame) -> str:
    """Sentence on rows of `break_even.map_of` that no acceptance makes good; empty where there is none."""
    never = sum(one.price.value > one.num_speculative_tokens + 1 for one in prices.itertuples())
    rows = _rows(never, len(prices))
    said = f"In {rows} a median step costs more than K + 1 plain ones, so nothing pays there."
    return said if never else ""


def dips(prices: pd.DataFrame) -> str:
    """Sentences on batches of `break_even.map_of` whose plain step takes 1.05 times that of the next larger
    batch or more; empty where there is none.
    """
    steps = prices.groupby("concurrency")["step_s"].first()
    return " ".join(
        f"A step without a draft takes longer at batch {batch} ({1e3 * step:.1f} ms) than at batch {larger} "
        f"({1e3 * after:.1f} ms), so speed-ups at batch {batch} are over a slow step."
        for (batch, step), (larger, after) in pairwise(steps.items())
        if step >= 1.05 * after
    )


def missing(seen: list[RunRecord]) -> str:
    """Models on each accelerator that have no record, of those whose shape is known; what measures one."""
    lines = [
        f"- {machine.title}: {', '.join(f'`{one}`' for one in names)}"
        for name, machine in accelerators()
        if machine.kind == "cuda" and (names := list(_without(name, machine, seen)))
    ]
    if not lines:
        return "Every model whose head's shape is known has its map."
    how = (
        f"`specbook run {PLAN} --hardware h100:qwen3-32b-fp8` measures one, in half an hour, and with "
        "`--group quick` in ten minutes. Nothing is downloaded: shapes are in `params/models/`. There are "
        "plans for these, and no record of them:"
    )
    return "\n".join([f"{NOTHING} {how}", "", *lines])


def _without(hardware: str, machine: Machine, seen: list[RunRecord]) -> Iterator[str]:
    own = (run for run in seen if machine.fits(run.hardware.kind, run.hardware.gpu_name))
    done = {run.point.target.name for run in own}
    for name in (one.name for one in machine.serves if one.name not in done):
        with suppress(ConfigError):  # its head's shape is not known
            config.load(PLAN, f"{hardware}:{name}", "full")
            yield f"{hardware}:{name}"
