"""Chapters on records whose truth is not the shipped book's: every sentence follows them, or claims nothing.

Each truth is a small plan, a made-up world that it was measured in, and what no page may say of it (and what
one must). A sentence that was typed once, and true once, is caught where it is not.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

import chapters
import drifting
import mixtures
import synthetic
from specbook import config, records
from specbook.errors import ConfigError
from specbook.report import headline
from specbook.report.text import answers_text
from synthetic import World

TYPED_ONCE = (
    "too large for a busy server", "structured output first", "free prose last", "win less, then nothing",
    "costs? little more than writing one", "weights are read once", "arms take turns", "great saver",
    "saves most", "every clock slows down", "leaves the line is a queue", "one long answer at the end",
    "should lie on each other", "cheaper to read than", "Speed follows the length", "A decode step has time",
)  # fmt: skip
"""Claims about data that stood in the prose of chapters and pages, whatever the records said."""
NOTHING = (
    r"(?i)\bnan\b", r"Empty DataFrame", r"(?i)\binf\b", r"<NA>", r"\bNaT\b", r"\$0\b(?!\.)",
    r"(\([^()\n]{20,}\))[^\n]* and [^\n]*\1", r"(\b[^.\n]{12,}),? and \1\b",
)  # fmt: skip
"""Never on a page: numbers that are none, frames without rows, a thing said twice."""
SMALL: dict[str, Any] = {
    "domains": ["json", "code"], "concurrency": [1, 32], "num_requests": {1: 6, 32: 12}, "restarts": 3,
}  # fmt: skip
CHAPTERS = list(dict.fromkeys(chapters.PLANS.values()))
OF_EXPERIMENTS = ("04_drift_monitors", "04_fallback", "07_hpa")
"""Pages whose records are no sweep's: no world changes them, so they are read in the first."""
LATER = ("03_p_eagle", "04_domain_drift", "05_moe", "06_trainium", "09_public", "10_schedule")
"""Chapters that say by the same sentences what chapter 2 says: some truths are read there alone."""


@dataclass(frozen=True)
class Truth:
    """What was measured, and what may be said of it."""

    world: World = synthetic.USUAL
    baseline: Mapping[str, Any] = field(default_factory=dict)
    """Changes to the quick plan of chapter 01, ..."""
    speculation: Mapping[str, Any] = field(default_factory=lambda: {"num_speculative_tokens": [1, 5]})
    """... and of chapters 02 and 05."""
    both: Mapping[str, Any] = field(default_factory=dict)
    """... and of both."""
    checks: bool = True
    never: Sequence[str] = ()
    always: Sequence[str] = ()
    refused: Sequence[str] = ()
    """Chapters that have nothing to draw: they say what measures it."""
    alike: Sequence[str] = ()
    """Chapters that see no difference to the usual world: they are not run again."""


def at_batch_32(point: config.schema.Point) -> bool:
    return point.speculation is None and point.load.concurrency == 32


def baselines(point: config.schema.Point) -> bool:
    return point.speculation is None


WINS = (r"faster in [1-9]", r"×[^\n]*\] +faster\b", r"makes tokens \d+ % cheaper", r"cheaper in [1-9]")
INTERVALS = (
    r"95 % interval \d\.\d\d to",
    r"beyond (its|their) interval",
    r"over restarts \d",
    r"\b\d×? \[\d\.\d",
)
TRUTHS = {
    "it loses everywhere": Truth(
        World(acceptance=dict.fromkeys(("json", "code"), 0.05), verify={1: 2.0, 32: 2.5}),
        never=(*WINS, r"None of \d+ arms", r"more than it costs in (all|[1-9]|the)"),
        always=("A server with speculation is shown to be faster in 0 of 4", "8 of 8 cases came out slower",
                r"fastest case(, at its best K,)? is [^.]* at \*\*0\.",
                r"×[^\n]*\] +slower\b", "% more expensive"),
        alike=["01_baseline", "09_public"],  # whose kinds of traffic are others
    ),
    "it wins more in larger batches, and code wins most": Truth(
        World(acceptance={"json": 0.4, "code": 0.95}, verify={1: 1.5, 32: 0.8}, draft={1: 0.2, 32: 0.05}),
        never=(r"fastest case(, at its best K,)? is [^.]* on (json|code at batch 1\b)",
               r"slowest case, at its best K, is [^.]* (on code|at batch 32)\b"),
        always=(r"fastest case, at its best K, is EAGLE-3 K=\d on code at batch 32",),
        alike=["01_baseline", *LATER],
    ),
    "one restart, one K, one batch": Truth(
        both={"restarts": 1, "concurrency": [1]}, speculation={"num_speculative_tokens": [5]},
        baseline={"request_rate_per_s": []},
        never=(*INTERVALS, "times the requests", "grow", "no difference shown"),
        always=("no interval", "it may be chance", r"ms a token \(medians", r"yet:\*\* Poisson arrivals"),
        alike=["04_domain_drift", "05_moe"],  # their experiments have intervals of their own
    ),
    "one domain": Truth(
        both={"domains": ["code"]},
        never=("all domains,", r"late +of requests", "the engine wrote them on time",
               r"fastest case(, at its best K,)? is [^.]* on (json|math|chat|prose)"),
        always=(r"EAGLE-3 K=\d on code at batch 32", r" (\d\.\d\d×) +\1 +\d restarts"),
    ),
    "no baseline": Truth(
        World(failed=baselines), refused=("01_baseline", "08_cost"),
        never=(r"\*\*\d\.\d\d×", r"\d× (\[|over|\(no)", "faster in", "cheaper", r"restarted: \d"),
        always=(answers_text.NO_PAIR, r"yet:\*\* a prediction(,| and) answers to compare"),
    ),
    "no baseline at one batch": Truth(
        World(failed=at_batch_32),
        never=(r"×[^.\n]*at batch 32", r"\nbatch 32 [^\n]* (faster|slower|no difference shown) "),
        always=(r"ms a token \(medians",),
    ),
    "no check": Truth(
        checks=False,
        never=(r"control: other mode +\d+ of",), always=(r"yet:\*\* a lossless check",),
        alike=["01_baseline", *LATER, "08_cost"],
    ),
    "too slow for every objective": Truth(
        World(step_s={1: 1.1, 8: 1.4, 32: 1.9}),
        never=("so this is a tie",), always=("no batch that was measured keeps that",),
        alike=LATER,
    ),
    "first chunks come late": Truth(
        World(late_share=0.1),
        always=(r"late +of requests", "the engine wrote them on time", r"baseline \(\w+\) +batch \d+ +[1-9]"),
    ),
}  # fmt: skip
FIRST = next(iter(TRUTHS.values()))


@pytest.fixture(scope="module", params=TRUTHS)
def truth(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Truth]:
    """A project whose quick plans are small, and whose records are of another world."""
    found, folder = TRUTHS[request.param], tmp_path_factory.mktemp("project")
    shutil.copytree(chapters.PROJECT / "params", folder / "params")
    (folder / "models").symlink_to(chapters.PROJECT / "models")
    (folder / "results").mkdir()
    shutil.copy(chapters.PROJECT / "results" / "published.csv", folder / "results")
    swept = dict.fromkeys(("02_eagle3", "03_p_eagle", "05_moe"), found.speculation)
    changes = {"01_baseline": found.baseline, **swept}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_ROOT", str(folder))
        patch.setenv("SPECBOOK_RESULTS", str(folder / "results"))
        for name in CHAPTERS:
            if name in changes:
                _change(folder / "params" / "cpu" / f"{name}.yaml", {**SMALL, **found.both, **changes[name]})
            for sweep in config.load(name, "cpu", "quick").parts():
                synthetic.write(sweep, world=found.world)
        drifting.write(config.load("04_domain_drift", "cpu", "quick"))
        mixtures.write(config.load("05_moe", "cpu", "quick"))
        if found.checks:
            synthetic.write_lossless(config.load("02_eagle3", "cpu", "quick"), "float32", 0, 0)
        yield found


def _change(path: Path, fields: Mapping[str, Any]) -> None:
    body = yaml.safe_load(path.read_text())
    for sweep in body["quick"].get("sweeps", [body["quick"]]):
        sweep |= fields
    path.write_text(yaml.safe_dump(body))


@pytest.fixture(scope="module")
def pages(truth: Truth) -> dict[str, str]:
    """What the cells of each chapter showed, and the front page's answer."""
    left_out = {*truth.refused, *truth.alike, *(OF_EXPERIMENTS if truth is not FIRST else ())}
    told = {
        name: chapters.run(name, group="quick")
        for name, plan in chapters.PLANS.items()
        if not {name, plan} & left_out
    }
    front = headline.render(records.replay(config.load("02_eagle3", "cpu", "quick")))
    return told | {"front": front}


def claims(text: str, patterns: Sequence[str]) -> list[str]:
    """What in the text one of the patterns forbids, with the words around it."""
    found = (hit for pattern in patterns for hit in re.finditer(pattern, text))
    return [text[max(0, hit.start() - 80) : hit.end() + 80] for hit in found]


def test_no_page_claims_what_is_not_so(truth, pages):
    for name, text in pages.items():
        assert not claims(text, [*truth.never, *TYPED_ONCE]), name


def test_no_page_shows_what_is_nothing(pages):
    for name, text in pages.items():
        assert not claims(text, NOTHING), name


def test_the_pages_say_what_is_so(truth, pages):
    text = "\n".join(pages.values())
    assert [words for words in truth.always if not re.search(words, text)] == []


@pytest.fixture(scope="module")
def refusals(truth: Truth) -> list[str]:
    """What is said in place of the pages that have no records in that world."""
    said = []
    for name in truth.refused:
        with pytest.raises(ConfigError) as refused:
            chapters.run(name, group="quick")
        said.append(str(refused.value))
    return said


def test_a_chapter_without_records_says_what_measures_them(refusals):
    assert [said for said in refusals if "measure it with `specbook run 01_baseline" not in said] == []


@pytest.mark.parametrize("name", chapters.PLANS)
def test_prose_claims_nothing_that_records_decide(name):
    cells = chapters.typed(chapters.cells(name))
    assert not claims("\n".join(cells), TYPED_ONCE)


def test_pages_claim_nothing_that_records_decide():
    for page in [*chapters.PROJECT.glob("book/*.md"), chapters.PROJECT / "README.md"]:
        assert not claims(page.read_text(), TYPED_ONCE), page.name


@pytest.mark.parametrize(
    ("said", "patterns"),
    [
        ("Batching is the great saver.", TYPED_ONCE),
        (
            "A server with speculation is shown to be faster in 3 of 4 combinations",
            TRUTHS["it loses everywhere"].never,
        ),
        ("1.10× (95 % interval 1.02 to 1.20)", TRUTHS["one restart, one K, one batch"].never),
        ("verification  NaN", NOTHING),
        ("Empty DataFrame", NOTHING),
        (
            "runs at 2.10× (130 → 273 tokens/s, n=1) here, and at 2.10× (130 → 273 tokens/s, n=1) there",
            NOTHING,
        ),
    ],
)
def test_a_false_claim_is_caught(said, patterns):
    assert claims(f"Before it. {said} After it.", patterns)
