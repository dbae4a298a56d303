"""What to know of a plan's models and prompts: said before it is measured, and on its page."""

from collections.abc import Iterable, Sequence
from itertools import starmap
from operator import attrgetter
from pathlib import Path

from specbook import console, paths, records
from specbook.config import Plan, prompt_files
from specbook.config.schema import Point, Target, Traffic, resolve_model
from specbook.engine import preflight
from specbook.errors import ConfigError
from specbook.records.run import RunRecord


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
    """A note for each kind of traffic that has prompts too long for the target."""
    return list(dict.fromkeys(filter(None, map(too_long, sweeps))))


def low_caps(sweeps: Iterable[Plan], todo: Iterable[Point]) -> str | None:
    """Which caps end most answers, by records of a larger one, and which would not.

    Only points to measure count, and no sweep that is `capped`.
    """
    wanted = {point.key for point in todo}
    points = (point for sweep in sweeps if not sweep.capped for point in sweep.points())
    asked = dict.fromkeys((point.target, point.traffic) for point in points if point.key in wanted)
    if not asked:
        return None
    runs = [run for run in records.load() if run.status == "ok" and run.point.speculation is None]
    low = dict.fromkeys(filter(None, (_low_cap(runs, *one) for one in asked)))
    if not low:
        return None
    return (
        f"{'; '.join(low)}. Such answers are all as long as the cap. To fix: set max_tokens to what nine "
        "of ten had; or --set capped=true, or `capped: true` in the plan, if their length is not what you ask"
    )


def _low_cap(runs: Sequence[RunRecord], target: Target, traffic: Traffic) -> str | None:
    asked = attrgetter("domain", "prompts", "temperature")
    own = [run for run in runs if run.point.target.model == target.model]
    alike = [run for run in own if asked(run.point.traffic) == asked(traffic)]
    longest = max(alike, key=lambda run: run.point.traffic.max_tokens, default=None)
    if longest is None or (allowed := longest.point.traffic.max_tokens) <= traffic.max_tokens:
        return None
    tokens = records.requests(longest)["output_tokens"]
    if tokens.median() <= traffic.max_tokens:
        return None
    most = tokens.quantile(0.9, interpolation="higher")
    return (
        f"max_tokens {traffic.max_tokens} ends most answers of {target.name} to {traffic.domain}: nine of "
        f"ten had up to {most:.0f} tokens where {allowed} were allowed"
    )


def say(sweeps: Sequence[Plan]) -> None:
    """Say all of these sweeps on stderr."""
    heads = starmap(preflight.past_training, (arm for sweep in sweeps for arm in sweep.arms()))
    notes = {
        "warning:": dict.fromkeys(filter(None, heads)),
        "note:": of_sampling((sweep.target, sweep.temperature) for sweep in sweeps),
        "prompts:": [*of_prompts(one for sweep in sweeps for one in sweep.traffic()), *of_lengths(sweeps)],
    }
    for label, texts in notes.items():
        for text in texts:
            console.complain(label, text)


def too_long(plan: Plan) -> str | None:
    """How many prompts leave no room for `max_tokens`, and the first of them; None where all fit.

    The chat template's own tokens are not counted, so a few more may be refused by the server. None too where
    the target is no folder with a tokenizer.json.

    Raises:
        ConfigError: if that file cannot be used.
    """
    file = Path(resolve_model(plan.target.model)) / "tokenizer.json"
    if plan.prompts is None or not file.is_file():
        return None
    room = plan.target.max_model_len - plan.max_tokens
    if not paths.at(plan.prompts).is_file():  # a data set that a dry run does not fetch
        return None
    asked = {prompt.id: prompt for traffic in plan.traffic() for prompt in prompt_files.for_traffic(traffic)}
    # A token is a byte or more, so only what has more bytes than there is room for is worth a tokenizer.
    said = ((name, "".join(turn["content"] or "" for turn in one.turns())) for name, one in asked.items())
    large = {name: text for name, text in said if len(text.encode()) > room}
    long = {name: n for name, n in _lengths(file, large).items() if n > room}
    if not long:
        return None
    name, n = next(iter(long.items()))
    return (
        f"{len(long)} of {len(asked)} prompts of {plan.prompts} have more than {room} tokens, so that "
        f"{plan.max_tokens} of an answer do not fit into max_model_len {plan.target.max_model_len}, and the "
        f"server will refuse them (first: {name!r}, {n} tokens): raise target.max_model_len, lower "
        "max_tokens, or remove them"
    )


def _lengths(file: Path, texts: dict[str, str]) -> dict[str, int]:
    if not texts:
        return {}
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # it raises plain ones
        raise ConfigError(f"{file} cannot be used ({error}): copy or train the model again") from error
    return {name: len(tokenizer.encode(text, add_special_tokens=False)) for name, text in texts.items()}
