"""`outputs/skill-inference-server.md`, the deliverable: what was built and what was reached, from records."""

from collections.abc import Sequence

import pandas as pd

from specbook import config as plans
from specbook import records
from specbook.analysis import (
    acceptance,
    answers,
    api_prices,
    break_even,
    drift,
    latency,
    moe_tables,
    scaling,
    speedup,
    token_cost,
    versions,
)
from specbook.bench import experiments
from specbook.records.run import RunRecord
from specbook.report import cluster_page, cost_page, headline, tables
from specbook.report.cluster_page import Named
from specbook.report.provenance_line import credit, credit_experiments, served_by
from specbook.report.text import answers_text
from specbook.suggestions import listed

GOAL = 2.5
"""The speed-up that the capstone asks for."""
HEAD = """# Skill: an inference server with speculative decoding

Written by `specbook skill` from the records of `results/`; a test compares. Where nothing else is said, it
was measured with vLLM's CPU build on two cores: with the pocket models that this project trained, the best
case for a draft, and with a public model on public prompts. On a GPU only shapes were measured, with random
weights, and a pocket model.
"""
Runs = Sequence[RunRecord]


def text(hardware: str = "cpu") -> str:
    """The whole document, of the full plans' records on one hardware folder."""
    dense, head = _runs("03_p_eagle", hardware), _runs("02_eagle3", hardware)
    public = headline.public_runs()
    moe, _ = moe_tables.by_target(plans.load("05_moe", hardware, "full"), _runs("05_moe", hardware))
    cluster = experiments.replay(plans.load("07_hpa", hardware, "full"), partial=True)
    named = cluster_page.named(cluster)
    answer = cluster_page.answer(named).removeprefix("**Answer.** ")
    sections = {
        "The rubric": [_rubric(dense, public, moe, head, named)],
        "The stack": [_stack(dense)],
        "Speed": [
            _speed("Dense target", dense),
            _speed("Public dense target", public),
            _speed("Mixture of experts", moe),
        ],
        "Acceptance by kind of traffic": [_acceptance(head)],
        "The slowest requests": [_tails(head)],
        "Drift": [_drift(hardware)],
        "On Kubernetes": [answer, credit_experiments(cluster)],
        "Cost": [_cost(hardware)],
    }
    parts = [part for title, some in sections.items() for part in (f"## {title}", *some)]
    return "\n\n".join([HEAD.strip(), *parts]) + "\n"


def _runs(chapter: str, hardware: str) -> Runs:
    return records.replay(plans.load(chapter, hardware, "full"))


def _rubric(dense: Runs, public: Runs, moe: Runs, head: Runs, cluster: Named) -> str:
    kinds = acceptance.by_domain(head)["domain"].nunique()
    tails = f"at {listed(run.point.load.label for run in head)}; some are not to be quoted"
    ready = [f"{scaling.stages(run)['ready']:.0f}" for run in cluster_page.of_scenario(cluster, "step")]
    updates = [run for name in cluster_page.UPDATES for run in cluster_page.of_scenario(cluster, name)]
    lost = [scaling.counts(scaling.during(run, ["restart", "undo"])) for run in updates]
    scaled = (
        f"a new pod serves {listed(ready)} s after the load triples; which signal asked for it varies"
        if ready
        else "not measured"
    )
    rolled = "; ".join(f"{one['lost']} of {one['sent']:,} requests lost" for one in lost) or "not measured"
    lines = [
        (f"{GOAL:g}x at matched quality, dense", _reached(dense), "chapters 2 and 3"),
        (f"{GOAL:g}x at matched quality, a public dense model", _reached(public), "chapter 9"),
        (f"{GOAL:g}x at matched quality, mixture of experts", _reached(moe), "chapter 5"),
        ("matched quality", _same(dense, public, moe), "chapters 2, 3, 5 and 9"),
        ("acceptance per kind of traffic", f"{kinds} kinds", "below, chapters 2 to 4"),
        ("p99 at batch 1, 8 and 32, with and without", tails, "below, chapter 2"),
        ("autoscaling on queue wait", scaled, "chapter 7"),
        ("a smooth rollout", rolled, "chapter 7"),
        ("a million tokens against hosted APIs", _rented(), "below, chapter 8"),
        ("a write-up that others can run again", "`make book`, `specbook run`", "README.md"),
    ]
    return tables.markdown(pd.DataFrame(lines, columns=["asked for", "reached", "where"]))


def _reached(runs: Runs) -> str:
    best = speedup.best_k(runs, by=("load", "domain"))
    if best.empty:
        return "not measured"
    top = best.loc[best["speedup"].idxmax()]
    over, shown = speedup.best_over_domains(runs), best[best["low"] >= GOAL]
    where = [f"{row.domain} at {row.load}" for row in shown.drop_duplicates(["load", "domain"]).itertuples()]
    beyond = (best["high"] < GOAL).all()  # none may reach it
    holds = f"yes, on {listed(where)}" if where else "no" if beyond else "not shown"
    kinds = best.groupby("load")["domain"].nunique()
    each = "; ".join(
        f"{row.estimate.span('x')} at {row.load}" for row in over.itertuples() if kinds[row.load] > 1
    )
    return (
        f"{holds}: the largest is {top['estimate'].span('x')}, {top['label']} on {top['domain']} at "
        f"{top['load']}. One setting for all traffic: {each}"
    )


def _same(*measured: Runs) -> str:
    """The least share of timed greedy answers that are the baseline's, over all arms and loads."""
    tables_of = (answers.shares(answers.pairs(runs)) for runs in measured if runs)
    same = [
        one.value for table in tables_of for one in table[table["comparison"] == "speculation"]["estimate"]
    ]
    if not same:
        return "not measured"
    least = f"{tables.percent(min(same))} %" + " or more" * (min(same) < 1)
    return f"{least} of the timed greedy answers are the baseline's, in every arm at every batch"


def _rented() -> str:
    """At which batches the measured shapes cost less than a host of the same model, on a busy rented GPU."""
    shapes = api_prices.shapes(break_even.of_shapes())
    if shapes.empty:
        return "not measured"
    least = shapes.pivot_table("break_even_utilisation", "shape", "concurrency", aggfunc="min")
    each = [
        f"({name}) {'at batch ' + listed(f'{n:g}' for n in cheaper) if len(cheaper) else 'at none'}"
        for name, row in least.iterrows()
        for cheaper in [row.index[row < 1]]
    ]
    return f"shapes with their best draft, on a rented GPU that is always busy, beat a host {'; '.join(each)}"


def _stack(runs: Runs) -> str:
    last = max(runs, key=lambda run: run.started_at)
    target = last.point.target
    rows = [
        ("machine", f"`{last.hardware.id}`"), ("engine", served_by([last])),
        ("target", f"{target.name}, {target.dtype}, {target.execution}"),
        ("drafts", ", ".join(dict.fromkeys(str(run.point.arm) for run in runs if run.point.speculation))),
        ("served by", "`specbook serve`, or `deploy/` on Kubernetes"),
    ]  # fmt: skip
    return tables.markdown(pd.DataFrame(rows, columns=["part", "what"]))


def _speed(name: str, runs: Runs) -> str:
    best = speedup.best_k(runs, by=("load", "domain"))
    if best.empty:
        return f"**{name}.** {answers_text.NO_PAIR}"
    answer = headline.answer(best, runs).replace("**Answer.**", f"**{name}.**")
    return f"{answer}\n\n{tables.markdown(tables.overview(best))}\n\n{credit(runs)}"


def _acceptance(runs: Runs) -> str:
    counted = acceptance.by_domain(runs)
    deepest = counted[counted["num_speculative_tokens"] == counted["num_speculative_tokens"].max()]
    cells = deepest.assign(cell=deepest["length"].map("{:.2f}".format))
    wide = cells.pivot_table(
        index=["label", "domain"], columns="load", values="cell", aggfunc="first", sort=False
    )
    return "Tokens a step, the bonus token included.\n\n" + tables.markdown(wide.reset_index())


def _tails(runs: Runs) -> str:
    every = latency.tails(runs)
    pooled = every[every["domain"] == latency.POOLED]
    opening = (
        "The best setting's p99, in brackets how it differs from the best baseline's. `*`: not to be quoted, "
        "because too few prompts or late first chunks decide it."
    )
    return f"{opening}\n\n{tables.markdown(tables.tails(pooled).reset_index(names=['batch', 'arm']))}"


def _drift(hardware: str) -> str:
    plan, _ = versions.parts(plans.load("04_domain_drift", hardware, "full"))
    *drifts, (_, fallen) = experiments.replay(plan)
    seen = answers_text.seen(drift.compare(drift.Recordings.of_records(drifts)))
    return f"{seen} {answers_text.fallback(fallen)}"


def _cost(hardware: str) -> str:
    plan = plans.load("08_cost", hardware, "full")
    runs = [run for sweep in plans.sweeps(plan) for run in records.replay(sweep)]
    rates = token_cost.bills(token_cost.rates(runs), plan)
    answer = cost_page.answer(token_cost.goodput(rates, plan.slos), plan).removeprefix("**Answer.** ")
    return f"{answer}\n\n{cost_page.price(plan)}"
