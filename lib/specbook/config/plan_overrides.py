"""A plan with another model or other prompts: those that its machine serves, and your own, given in short."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from specbook import paths
from specbook.config import datasets, machines, methods, models
from specbook.config import prompt_files as prompts
from specbook.config.checkpoint import Checkpoint
from specbook.config.machines import Served
from specbook.config.methods.base import TrainedDraft
from specbook.errors import ConfigError
from specbook.suggestions import NO_YAML, near

HUB_ID = re.compile(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?")
OF_ITS_MODEL = ("name", "model", "revision", "quantization")
"""Keys of a target that say nothing of another model."""


def filled(chapter: str, planned: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A sweep's fields as planned, with what was given in their place, written out.

    Args:
        chapter: for messages.
        planned: the group of a parameter file.
        given: replaces its keys. `target` may be a folder, a hub id, or some of a target's keys; each of
            `drafts` a folder, a hub id or a method; `prompts` a JSONL file or the name of a public data set,
            whose domains are then measured.

    Raises:
        ConfigError: if one of these cannot be found or used.
    """
    fields = {**planned, **given}
    if "target" in given:
        fields["target"] = target(planned.get("target", {}), given["target"])
        _refuse_strangers(chapter, planned, given, fields["target"])
    if several := fields.get("drafts"):
        several = several if isinstance(several, list | tuple) else [several]
        fields["drafts"] = [draft(one) if isinstance(one, str) else one for one in several]
        if given.get("num_speculative_tokens"):  # asked of all: no draft keeps K of its own
            fields["drafts"] = [_without_k(one) for one in fields["drafts"]]
    if fields.get("prompts") is not None:
        fields["prompts"] = file(fields["prompts"])
        named = given if "prompts" in given else fields
        if named.get("domains") is None:
            fields["domains"] = prompts.domains(paths.at(fields["prompts"]))
    return fields


def settings(texts: Sequence[str]) -> dict[str, Any]:
    """Parameters written `KEY=VALUE`, the value in YAML; `target.dtype=auto` sets one key of a mapping.

    Raises:
        ConfigError: for one that is not so written, or that no plan may set.
    """
    parameters: dict[str, Any] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name in ("chapter", "hardware", "group"):
            raise ConfigError(f"--set {text}: write KEY=VALUE, the key being a parameter of the plan")
        try:
            parsed = yaml.safe_load(value)
        except NO_YAML as error:
            why = " ".join(str(error).split())
            raise ConfigError(f"--set {text}: the value is not YAML ({why})") from error
        if re.search(r"\{[^}]*\b\d+:\d", value):  # to YAML `{32:8}` holds one number, of base 60
            raise ConfigError(f"--set {text}: put a blank after the colon, as in {{32: 8}}")
        head, _, key = name.partition(".")
        parameters[head] = {**parameters.get(head, {}), key: parsed} if key else parsed
    return parameters


def given(
    target: str | None, drafts: Sequence[str], prompts: str | None, texts: Sequence[str]
) -> dict[str, Any]:
    """What replaces a plan's own: `settings` of `texts`, which see for errors; short forms go first."""
    parameters = settings(texts)
    if target is not None:
        sizes = parameters.get("target", {})
        parameters["target"] = {"model": target, **sizes} if isinstance(sizes, dict) else target
    short = {"drafts": list(drafts), "prompts": prompts}
    return parameters | {key: value for key, value in short.items() if value}


def target(planned: Any, given: Any) -> Any:
    """The planned target with another model: its precision and sizes stay, unless they are given too."""
    given = {"model": given} if isinstance(given, str) else given
    if not isinstance(given, Mapping) or not isinstance(planned, Mapping):
        return given
    if given.get("model") in (None, planned.get("model")):
        return {**planned, **given}
    model = folder_or_hub_id(given["model"], "target")
    stays = {key: value for key, value in planned.items() if key not in OF_ITS_MODEL}
    return {**stays, "name": Path(model).name, **given, "model": model}


def draft(text: str) -> dict[str, Any]:
    """`ngram`, a folder, a hub id, or `eagle3:<hub id>`: its method is read from the draft's own config.json.

    Raises:
        ConfigError: if there is no such draft, or its config fits no method that is known here.
    """
    names = {method.name for method in methods.known()}
    named, _, model = text.partition(":")
    if named in names:
        return {"method": named, **({"model": folder_or_hub_id(model, "draft")} if model else {})}
    if paths.located(text) is None and "/" not in text:
        raise ConfigError(f"no draft {text!r}{near(text, names)}: give a folder, a hub id, or a method")
    model = folder_or_hub_id(text, "draft")
    detected = methods.detect(Checkpoint.of_draft(model))
    parallel = {"parallel_drafting": True} if detected.parallel_drafting else {}
    return {"method": detected.name, "model": model, **parallel}


def _without_k(draft: Any) -> Any:
    if not isinstance(draft, Mapping):
        return draft
    return {key: value for key, value in draft.items() if key != "num_speculative_tokens"}


def folder_or_hub_id(text: Any, what: str) -> str:
    """A model as plans name it; ConfigError if it is neither a folder that is there nor like a hub id."""
    if not isinstance(text, str):
        raise ConfigError(f"{what} {text!r}: give a folder or a hub id")
    if folder := paths.located(text):
        return folder
    if models.by_hub_id(text):  # one that is made when it is asked for
        return text
    if not HUB_ID.fullmatch(text):
        raise ConfigError(f"{what} {text!r}: no such folder, and no hub id (organisation/name): fix it")
    return text


def file(text: Any) -> str:
    """A prompt file as plans name it, be it given as a path or as the name of a data set.

    A name is fetched here; the file of a data set need not be there.

    Raises:
        ConfigError: if it is neither, or the data set cannot be had.
    """
    if not isinstance(text, str):
        raise ConfigError(f"prompts {text!r}: give the path of a JSONL file. {prompts.FORM}")
    if datasets.kept_as(text):
        return text  # fetched when it is measured
    path, public = paths.located(text), datasets.known()
    if path is None and text in public:
        return datasets.path(text).relative_to(paths.root()).as_posix()
    if path is None or not paths.at(path).is_file():
        raise ConfigError(
            f"prompts {text!r}: no such file, and no data set of that name{near(text, public)}. "
            f"{prompts.FORM}"
        )
    return path


def _refuse_strangers(chapter: str, planned: Mapping[str, Any], given: Mapping[str, Any], new: Any) -> None:
    """A head drafts for the target that it was trained for, and for no other."""
    old = planned.get("target", {})
    same = isinstance(new, Mapping) and isinstance(old, Mapping) and new.get("model") == old.get("model")
    drafts: Sequence[Any] = planned.get("drafts") or ()
    trained = [one["model"] for one in drafts if isinstance(one, Mapping) and one.get("model")]
    if trained and not same and given.get("drafts") is None:
        raise ConfigError(
            f"plan of {chapter}: its draft {trained[0]} was trained for {old.get('model')}: give a draft for "
            "your target too (--draft, or the parameter `drafts`); `ngram` needs no training"
        )


def of_machine(planned: Mapping[str, Any], hardware: str) -> dict[str, Any]:
    """A sweep's fields; where they name no target, that of the model which the hardware serves.

    Then a draft that is one word is one of its heads, or a method that needs no training. A head's name with
    a question mark behind it (`p-eagle?`) is left out where the model has no such head. A target without a
    model adds to the served one; with `load_format: dummy` it and its heads are served as shapes.
    """
    chosen, given = machines.served(hardware), planned.get("target", {})
    if chosen is None or not isinstance(given, Mapping) or "model" in given:
        return dict(planned)
    aim = machines.target(chosen).model_dump(exclude_defaults=True) | dict(given)
    drafts = list(_with_heads(chosen, planned.get("drafts") or ()))
    if aim.get("load_format") == "dummy":
        models.shape(chosen.name)  # refuses one that is not known
        aim |= {"model": f"{models.SHAPES}/{chosen.name}", "revision": None}
        drafts = [models.as_shape(chosen.model, one) for one in drafts]
    return {**planned, "target": aim, "drafts": drafts}


def _with_heads(chosen: Served, drafts: Iterable[Any]) -> Iterator[Any]:
    heads = models.load(chosen.model).heads
    untrained = [one.name for one in methods.known() if not issubclass(one.keys, TrainedDraft)]
    for draft in drafts:
        if not isinstance(draft, str) or "/" in draft or draft in untrained:
            yield draft
        elif (name := draft.removesuffix("?")) in heads:
            yield heads[name].draft.model_dump(exclude_defaults=True)
        elif name == draft:
            raise ConfigError(
                f"params/models/{chosen.model}/model.yaml names no head {name!r}{near(name, heads)}: "
                "add one, or leave the chapter out for this model"
            )


def cost(planned: Mapping[str, Any], hardware: str) -> dict[str, Any]:
    """A cost plan's fields, with the machine's price, the served model's devices, and that model's hosts."""
    chosen = machines.served(hardware)
    if chosen is None:
        return dict(planned)
    machine = machines.read(hardware)
    given = {"devices": machine.devices_for(chosen.tensor_parallel_size), "price": machine.price}
    hosts = [*models.load(chosen.model).apis, *planned.get("apis", ())]
    return {**given, **planned, "apis": hosts}
