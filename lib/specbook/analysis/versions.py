"""A draft one version behind: a target trained on, under the head that it had and under one trained anew."""

from collections.abc import Iterable, Mapping

import pandas as pd

from specbook.analysis import acceptance, speedup
from specbook.config import Chapter
from specbook.records.run import RunRecord
from specbook.records.run_set import RunSet

BEFORE, BEHIND, RETRAINED = "before", "one version behind", "head retrained"
VERSIONS = (BEFORE, BEHIND, RETRAINED)
"""The old target under its own head; the next one under that same head; and under the head trained for it."""
Runs = Mapping[str, RunSet]
"""Runs of each of VERSIONS: the head's, and its target's without speculation."""


def parts(plan: Chapter) -> tuple[Chapter, Chapter]:
    """The plan of the first sweep's target, and that of all others: its next version."""
    first = plan.sweeps[0].target.model
    others = {sweep.target.model for sweep in plan.sweeps} - {first}
    return plan.without(others), plan.without({first})


def split(plan: Chapter, runs: Iterable[RunRecord]) -> Runs:
    """The runs of each of VERSIONS; a head is the old one where sweeps of both targets name it."""
    old, new = parts(plan)
    heads = [{draft.model for sweep in part.sweeps for draft in sweep.drafts} for part in (old, new)]
    unchanged, retrained = heads[0] & heads[1], heads[1] - heads[0]
    models, runs = {sweep.target.model for sweep in old.sweeps}, list(runs)

    def of(is_old: bool, drafts: set[str | None]) -> RunSet:
        """Runs of the old target, or of its next version, with one of these heads or without any."""
        return RunSet(
            run for run in runs if (run.point.target.model in models) == is_old
            and getattr(run.point.speculation, "model", None) in {None, *drafts}
        )  # fmt: skip

    return {BEFORE: of(True, unchanged), BEHIND: of(False, unchanged), RETRAINED: of(False, retrained)}


def lengths(by_version: Runs) -> pd.DataFrame:
    """`acceptance.by_domain` of each version (column `version`), where all three were asked the same."""
    return _alike([acceptance.by_domain(runs).assign(version=name) for name, runs in by_version.items()])


def gains(by_version: Runs) -> pd.DataFrame:
    """`speedup.speedups` of each version over its own target's baseline, where there are all three."""
    tables = [speedup.speedups(runs).assign(version=name) for name, runs in by_version.items()]
    return _alike([table[table["method"] != "baseline"] for table in tables])


def _alike(tables: list[pd.DataFrame]) -> pd.DataFrame:
    if any(table.empty for table in tables):
        return tables[0].iloc[:0]
    table = pd.concat(tables, ignore_index=True)
    asked = ["load", "domain", "num_speculative_tokens"]  # the version before may be measured at more K
    versions = table.groupby(asked)["version"].transform("nunique")
    return table[versions == len(VERSIONS)].reset_index(drop=True)
