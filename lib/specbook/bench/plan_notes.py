"""What to know of a plan's models and prompts: said before it is measured, and on its page."""

from collections.abc import Iterable, Sequence
from itertools import starmap
from pathlib import Path

from specbook import console
from specbook.bench import prompt_lengths
from specbook.config import Plan, prompt_files
from specbook.config.schema import Arm, Target, Traffic
from specbook.engine import preflight


def of_heads(arms: Iterable[Arm]) -> list[str]:
    """Which heads would draft deeper than they were trained to."""
    return list(dict.fromkeys(filter(None, starmap(preflight.past_training, arms))))


def of_sampling(sampled: Iterable[tuple[Target, float]]) -> list[str]:
    """Where a model asks for other sampling than its plan, whose temperature goes first."""
    return list(dict.fromkeys(filter(None, starmap(preflight.overridden_sampling, sampled))))


def of_prompts(traffic: Iterable[Traffic]) -> list[str]:
    """Which rows of your own prompt files are not measured as they stand, and why.

    Nothing of files that are not here, such as data sets that a dry run does not fetch.
    """
    files = dict.fromkeys(one.file() for one in traffic if one.prompts)
    return [note for file in filter(Path.is_file, files) for note in prompt_files.read(file).notes]


def of_lengths(sweeps: Iterable[Plan]) -> list[str]:
    """Of which sweeps some prompts are too long for the target."""
    return list(dict.fromkeys(filter(None, map(prompt_lengths.too_long, sweeps))))


def say(sweeps: Sequence[Plan]) -> None:
    """Say all of these sweeps on stderr."""
    notes = {
        "warning:": of_heads(arm for sweep in sweeps for arm in sweep.arms()),
        "note:": of_sampling((sweep.target, sweep.temperature) for sweep in sweeps),
        "prompts:": [*of_prompts(one for sweep in sweeps for one in sweep.traffic()), *of_lengths(sweeps)],
    }
    for label, texts in notes.items():
        for text in texts:
            console.complain(label, text)
