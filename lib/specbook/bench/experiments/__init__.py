"""Experiments that are no sweep of a server, one file each. In: parameters. Out: a result, kept as a record.

Every module of this folder is imported, so to add an experiment is to add its file: a model of its
parameters, one of its result, and a function from one to the other under `@register`.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from specbook import paths, records
from specbook.bench import provenance
from specbook.bench.hardware import detect
from specbook.config import AnyPlan, Chapter, load
from specbook.config.chapter import Experiment
from specbook.config.schema import Frozen, Point, Target
from specbook.deploy.kubectl import CONTEXT
from specbook.errors import ConfigError, SpecbookError
from specbook.records.run import ExperimentRecord, Hardware
from specbook.records.run_set import of_one_world
from specbook.suggestions import explain, near

P, R = TypeVar("P", bound=Frozen), TypeVar("R", bound=Frozen)


class Work(NamedTuple):
    """What an experiment is about to do, as far as its time depends on it."""

    starts: int
    """Number of server starts."""
    points: Sequence[Point]
    """Its windows, or their parts, as a sweep would ask for them."""


class Definition(NamedTuple):
    """A function from its parameters to its result."""

    parameters: type[Frozen]
    result: type[Frozen]
    run: Callable[[Any], Frozen]
    work: Callable[[Any], Work] | None
    """From its parameters too; None where nothing is known before it has run."""
    lacking: Callable[[], str | None] | None
    """Why it cannot run here and now, such as for want of a cluster; None where it always can."""


_REGISTRY: dict[str, Definition] = {}
ROLES = {"target": "target", "draft": "speculation", "instead": "instead"}
"""What a model is to an experiment, in `weights_sha256` -> the parameter that names it."""


def register(
    name: str, parameters: type[P], result: type[R], work: Callable[[P], Work] | None = None,
    lacking: Callable[[], str | None] | None = None,
) -> Callable[[Callable[[P], R]], Callable[[P], R]]:  # fmt: skip
    """Make an experiment known, by the name that plans use; a decorator."""

    def keep(run: Callable[[P], R]) -> Callable[[P], R]:
        _REGISTRY[name] = Definition(parameters, result, run, work, lacking)
        return run

    return keep


def check(plan: AnyPlan) -> None:
    """Raise ConfigError, naming the near match, if the plan asks for an experiment or parameter unknown."""
    for asked in _of(plan):
        _parameters(asked)


def work(asked: Experiment) -> Work | None:
    """What it is about to do, None if it does not say; ConfigError if it, or a parameter, is unknown."""
    definition, given = _parameters(asked)
    return definition.work(given) if definition.work else None


def _of(plan: AnyPlan) -> Sequence[Experiment]:
    return plan.experiments if isinstance(plan, Chapter) else ()


def _parameters(asked: Experiment) -> tuple[Definition, Frozen]:
    if asked.name not in _REGISTRY:
        raise ConfigError(f"no experiment {asked.name!r}{near(asked.name, _REGISTRY)}")
    definition = _REGISTRY[asked.name]
    try:
        return definition, definition.parameters.model_validate(asked.parameters)
    except ValidationError as error:
        raise ConfigError(f"experiment {asked.name}: {explain(error, definition.parameters)}") from error


def missing(plan: AnyPlan, hardware: Hardware, since: datetime | None = None) -> list[Experiment]:
    """Experiments of the plan without a good record of this machine with today's weights, from `since` (UTC)
    on."""
    oldest = since.isoformat() if since else ""
    done = [
        (record.experiment.key, record.provenance.weights_sha256)
        for record in _good(plan, hardware.id)
        if record.started_at >= oldest
    ]
    return [asked for asked in _of(plan) if (asked.key, weights_of(_parameters(asked)[1])) not in done]


def weights_of(given: Frozen) -> dict[str, str]:
    """Digests of the models that an experiment with these parameters would serve now, by ROLES; none where it
    names no target."""
    target, *ways = (getattr(given, name, None) for name in ROLES.values())
    if not isinstance(target, Target):
        return {}
    first, second = (provenance.weights_sha256(target, way) for way in ways)
    return first | ({"instead": second["draft"]} if "draft" in second else {})


def measure(plan: AnyPlan, hardware: Hardware, since: datetime | None = None) -> Iterator[ExperimentRecord]:
    """Run what is `missing`; each record is on disk before the next experiment starts.

    One that fails is a record too: its status is `failed` and it has a reason. A fault in it that we did not
    foresee is one as well, since the experiments behind it need not wait for its fix.
    """
    _choose_context(plan)
    for asked in missing(plan, hardware, since):
        record = _run(asked, plan.chapter, hardware)
        records.append(record)
        yield record


def unavailable(plan: AnyPlan) -> str | None:
    """Why what is missing of the plan cannot run here and now; None if it can, or nothing is missing."""
    _choose_context(plan)
    checks = {_REGISTRY[asked.name].lacking for asked in _of(plan) if asked.name in _REGISTRY}
    reasons = [why for check in checks if check and (why := check())]
    return reasons[0] if reasons and missing(plan, detect()) else None


def _choose_context(plan: AnyPlan) -> None:
    if context := getattr(plan, "context", None):
        os.environ[CONTEXT] = context


def _run(asked: Experiment, chapter: str, hardware: Hardware) -> ExperimentRecord:
    definition, given = _parameters(asked)
    began = datetime.now(UTC)
    head = {
        "run_id": f"{began:%Y%m%dT%H%M%SZ}-{asked.key[:8]}-{secrets.token_hex(2)}", "chapter": chapter,
        "kind": "measured", "started_at": began.isoformat(timespec="seconds"), "experiment": asked,
        "hardware": hardware,
        "provenance": provenance.of_code().model_copy(update={"weights_sha256": weights_of(given)}),
    }  # fmt: skip
    try:
        result = definition.run(given).model_dump(mode="json")
    except Exception as error:
        message = str(error) if isinstance(error, SpecbookError) else repr(error)
        return ExperimentRecord(**head, status="failed", reason=paths.portable(message))
    return ExperimentRecord(**head, status="ok", result=result)


def replay(
    plan: AnyPlan, here: str | None = None, partial: bool = False
) -> list[tuple[ExperimentRecord, Frozen]]:
    """The newest good record of each of the plan's experiments with its result, all from one
    `records.machine`: `here`, the machine of the page's sweeps, where it has any.

    Of each model only the newest weights count: what an older target or head did is no result beside them.

    Raises:
        ConfigError: if one was never run there, unless `partial`: then it is left out.
    """
    good = _good(plan)
    chosen = records.machine(((one.experiment.key, one) for one in good), plan.hardware, here)
    own = of_one_world([one for one in good if one.hardware.id == chosen], _facts)
    newest = {record.experiment.key: record for record in own}
    lacking = [asked.name for asked in _of(plan) if asked.key not in newest]
    if lacking and not partial:
        raise ConfigError(
            f"no record of {', '.join(lacking)} for the {plan.group} plan of {plan.chapter}: "
            f"`specbook run {plan.chapter} --hardware {plan.hardware} --group {plan.group}` runs it"
        )
    in_order = [newest[asked.key] for asked in _of(plan) if asked.key in newest]
    return [(one, _REGISTRY[one.experiment.name].result.model_validate(one.result)) for one in in_order]


def of_chapter(chapter: str, hardware: str) -> list[tuple[ExperimentRecord, Frozen]]:
    """What there is of a full plan that a page can do without; empty where this hardware has no such plan."""
    with suppress(ConfigError):
        return replay(load(chapter, hardware, "full"), partial=True)
    return []


def _facts(record: ExperimentRecord) -> dict[tuple[str, ...], str]:
    """The weights that each of its models had: role and folder -> digest."""
    given: dict[str, Any] = record.experiment.parameters
    weights = record.provenance.weights_sha256.items()
    return {(role, str(given.get(ROLES[role], {}).get("model"))): sha for role, sha in weights}


def _good(plan: AnyPlan, hardware_id: str | None = None) -> list[ExperimentRecord]:
    if not _of(plan):
        return []
    every = records.everything(hardware_id, [plan.chapter])
    runs = [r for r in every if isinstance(r, ExperimentRecord) and r.status == "ok"]
    keys = {asked.key for asked in _of(plan)}
    return sorted((r for r in runs if r.experiment.key in keys), key=lambda record: record.started_at)


for module in iter_modules(__path__):  # each registers its experiment
    import_module(f"{__name__}.{module.name}")
