"""The engines there are, by name."""

from specbook.config.schema import Target
from specbook.engine.base import Engine, LoadTool
from specbook.errors import ConfigError, EngineError
from specbook.suggestions import near

_REGISTRY: dict[str, Engine] = {}


def register(engine: Engine) -> None:
    """Make an engine known."""
    _REGISTRY[engine.name] = engine


def known() -> list[Engine]:
    """Every engine, by name."""
    return [_REGISTRY[name] for name in sorted(_REGISTRY)]


def of(target: Target) -> Engine:
    """The engine that serves a target.

    Raises:
        ConfigError: if there is none of that name, naming the near match.
    """
    if target.engine not in _REGISTRY:
        raise ConfigError(f"no engine {target.engine!r}{near(target.engine, _REGISTRY)}")
    return _REGISTRY[target.engine]


def load_tool() -> LoadTool:
    """The load generator: one for all engines, or their numbers could not be compared."""
    for engine in known():
        if engine.load_tool is not None:
            return engine.load_tool
    raise EngineError("no engine that is registered brings a load generator")
