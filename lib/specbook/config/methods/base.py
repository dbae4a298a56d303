"""What a drafting method is, and the registry of those there are."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from specbook.config import heads
from specbook.config.checkpoint import Checkpoint
from specbook.config.draft_schedule import VaryingK
from specbook.errors import ConfigError
from specbook.suggestions import explain, near

OF_EVERY_METHOD = (
    "method", "num_speculative_tokens", "num_speculative_tokens_per_batch_size", "parallel_drafting",
    "synthetic_acceptance_rates",
)  # fmt: skip
"""Keys that a plan sets for whatever method it names."""
OF_ITS_OWN = "use a draft that was trained for this target, or train one"


class Keys(BaseModel):
    """What may be set for a method, in the engine's own words. A method subclasses it; this one has none."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )


class TrainedDraft(Keys):
    """Keys of a method whose draft is a model of its own."""

    model: str
    """The folder or hub id of the draft."""
    revision: str | None = None
    """Hub revision; None for a local folder."""


class Method:
    """One way to propose draft tokens. A file of this folder subclasses it and registers the class."""

    name: ClassVar[str]
    """The engine's word, the key `method` of a plan."""
    title: ClassVar[str]
    """The word for people, in tables and figures."""
    parallel_drafting: ClassVar[bool] = False
    """Whether one forward pass drafts all K tokens: with `name` it tells methods apart."""
    varying_k: ClassVar[VaryingK] = "any"
    """Which K a server may draft from step to step; see `config.draft_schedule`."""
    keys: ClassVar[type[Keys]] = Keys
    """What may and must be set beside `method`, K and `parallel_drafting`."""
    packages: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Modules that the engine must be able to import, each with what to install for it."""

    @classmethod
    def problem(cls, given: Mapping[str, Any]) -> str | None:
        """What is wrong with the keys that were set; None when nothing is."""
        try:
            cls.keys.model_validate(given)
        except ValidationError as error:
            missing = [e["loc"][0] for e in error.errors() if e["type"] == "missing"]
            if len(missing) < error.error_count():
                return f"method {cls.name!r}: {explain(error, cls.keys, OF_EVERY_METHOD)}"
            meaning = cls.keys.model_fields[str(missing[0])].description or "see its file"
            return f"method {cls.name!r} needs `{missing[0]}`: {meaning}"
        return None

    @classmethod
    def check_installed(cls) -> None:
        """Raise ConfigError if a package that the method needs is missing."""
        for module, requirement in cls.packages:
            if find_spec(module) is None:
                raise ConfigError(f"method {cls.name!r} needs {requirement}: `pip install {requirement}`")

    @classmethod
    def requirements(cls) -> tuple[str, ...]:
        """Names of the packages that the method needs, without their versions."""
        return tuple(requirement.partition("==")[0] for _, requirement in cls.packages)

    heads: ClassVar[tuple[str, ...]] = ()
    """Heads of `config.heads` that this method serves; none where it takes no head."""

    @classmethod
    def recognises(cls, draft: Checkpoint) -> bool:
        """Whether what a draft holds says that it is one of this method's."""
        return heads.kind(draft) in cls.heads

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """Raise ConfigError if this draft cannot work for this target; here: another method's head."""
        kind = heads.kind(draft)
        if kind is not None and kind not in cls.heads:
            serves = next((one for one in known() if kind in one.heads), None)
            fix = f"name it {serves.name}:{draft.name}" if serves else OF_ITS_OWN
            raise ConfigError(
                f"draft {draft.name} holds a head of {kind}, and is asked to be {cls.title}: {fix}"
            )


def same(target: Checkpoint, draft: Checkpoint, key: str, theirs: Any = None) -> None:
    """Raise ConfigError if both say what `key` is, and they differ."""
    theirs, ours = theirs or draft.get(key), target.get(key)
    if None not in (theirs, ours) and theirs != ours:
        raise ConfigError(
            f"draft {draft.name} has {key} {theirs}, target {target.name} has {ours}: {OF_ITS_OWN}"
        )


def same_class(target: Checkpoint, draft: Checkpoint) -> None:
    """Raise ConfigError if the draft names its target's class, and this one is of another.

    Its name may differ: a quantised or a newer version of a target is served with the old one's head too.
    """
    its = draft.verifier
    if its.architectures and target.architectures and its.architectures != target.architectures:
        raise ConfigError(
            f"draft {draft.name} was trained for {its.name}, a {', '.join(its.architectures)}, and target "
            f"{target.name} is a {', '.join(target.architectures)}: {OF_ITS_OWN}"
        )


_REGISTRY: dict[tuple[str, bool], type[Method]] = {}
T = TypeVar("T", bound=type[Method])


def register(method: T) -> T:
    """Make a method known; a class decorator."""
    _REGISTRY[method.name, method.parallel_drafting] = method
    return method


def known() -> list[type[Method]]:
    """Every method, by name."""
    return [_REGISTRY[key] for key in sorted(_REGISTRY)]


def by_name(name: str, parallel_drafting: bool = False) -> type[Method]:
    """The method that a plan names; ValueError, naming the near match, if there is none."""
    names = {method.name for method in known()}
    if name not in names:
        raise ValueError(f"no method {name!r}{near(name, names)}")
    if (name, parallel_drafting) not in _REGISTRY:
        raise ValueError(f"method {name!r} knows no parallel_drafting = {parallel_drafting}")
    return _REGISTRY[name, parallel_drafting]


def detect(draft: Checkpoint) -> type[Method]:
    """The most special method that knows this draft as one of its own; ConfigError if none does."""
    matching = [each for each in known() if each.recognises(draft)]
    if matching:
        return max(matching, key=lambda each: len(each.__mro__))
    names = ", ".join(sorted({each.name for each in known()}))
    if head := heads.kind(draft):
        raise ConfigError(
            f"draft {draft.name} holds a head of {head}, which fits no method here ({names}): {OF_ITS_OWN}"
        )
    built = ", ".join(draft.architectures) or "is not named, which"
    why = f"its architecture {built} fits no method here ({names})"
    if heads.is_unclear(draft):
        why = f"a {built} of one layer may be a head or a whole model, and no safetensors file tells"
    raise ConfigError(f"draft {draft.name}: {why}: name it, METHOD:{draft.name}")
