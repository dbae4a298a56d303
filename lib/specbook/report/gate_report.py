"""What a gate found and what it can see: lines for a terminal, and JUnit XML for a CI system."""

from collections.abc import Sequence
from xml.etree import ElementTree

import pandas as pd

from specbook.analysis.gate import SLOWDOWNS, Check
from specbook.report.text import percent
from specbook.stats.ratios import MOST_RESTARTS


def line(check: Check) -> str:
    """`ok tokens_per_s: all cells: not worse, B/A 0.993 [0.981, 1.005]`."""
    ratio = check.ratio.span(digits=3) if check.ratio else "not measured"
    return f"{'ok' if check.passed else 'FAILED'} {check.name}: {check.verdict}, B/A {ratio}"


def junit(checks: Sequence[Check]) -> bytes:
    """A JUnit report: a test case for each check, its verdict in the message of its failure."""
    failed = sum(not check.passed for check in checks)
    top = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(
        top, "testsuite", name="specbook gate", tests=str(len(checks)), failures=str(failed)
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname="specbook.gate", name=check.name)
        if not check.passed:
            ElementTree.SubElement(case, "failure", message=line(check))
    return ElementTree.tostring(top, encoding="utf-8", xml_declaration=True)


def planned(plan: pd.DataFrame, alarms: pd.DataFrame, wanted: float) -> str:
    """The tables of `gate.plan` and `gate.alarms`, each under its sentence."""
    counts = plan.drop(columns="slowdown").map(lambda n: n if n <= MOST_RESTARTS else f"over {MOST_RESTARTS}")
    counts.insert(0, "slowdown", plan["slowdown"].map(percent))
    shown = [f"Restarts a side that see a slowdown with a power of {percent(wanted)}:",
             counts.to_string(index=False)]  # fmt: skip
    if len(alarms):
        opening = "Called worse, of replays of one arm against itself, B slowed down:"
        shown += [opening, replays(alarms).to_string(index=False)]
    return "\n".join(shown)


def replays(alarms: pd.DataFrame) -> pd.DataFrame:
    """`gate.alarms` with a row for each kind of replay and a column for each of SLOWDOWNS."""
    shown = alarms[alarms["slowdown"].isin((0.0, *SLOWDOWNS))]
    cells = shown.assign(
        slowdown=["false alarms" if not one else f"{percent(one)} slower" for one in shown["slowdown"]],
        worse=[one.through(lambda share: 100 * share).span(" %", 0) for one in shown["estimate"]],
        counted=[one.counted for one in shown["estimate"]],
    )
    wide = cells.pivot_table("worse", ["rounds", "over", "counted"], "slowdown", aggfunc="first", sort=False)
    return wide.reset_index()
