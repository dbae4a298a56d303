"""One side of a comparison: records of a folder, chosen by `KEY=VALUE`."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from specbook import paths
from specbook.errors import ConfigError
from specbook.records import store
from specbook.records.run import RunRecord, engine
from specbook.records.run_set import RunSet
from specbook.suggestions import near

KEYS = (
    "date", "commit", "hardware", "host", "chapter", "target", "dtype", "execution", "options",
    "target_sha256", "arm", "draft", "draft_sha256", "load", "domain", "engine", "build",
)  # fmt: skip
BEGINNINGS = ("date", "commit", "host", "target_sha256", "draft_sha256", "build")
"""Keys of which the beginning of a value is enough."""
NO_OPTION = {"name", "model", "engine", "dtype", "execution"}


def facts(run: RunRecord) -> dict[str, str]:
    """What a record can be chosen by: a value for each of KEYS, empty where it is not known."""
    point, origin, drafted = run.point, run.provenance, run.point.speculation
    target = None if run.lacks else point.target
    options = target.model_dump(mode="json", exclude_defaults=True, exclude=NO_OPTION) if target else {}
    served = [f"{name} {v}" for name, v in origin.versions.items() if name.startswith(point.target.engine)]
    values = (
        run.started_at[:10], origin.git_sha, run.hardware.id, run.hardware.host, point.chapter,
        point.target.name, target and target.dtype, target and target.execution,
        " ".join(f"{name}={value}" for name, value in options.items()), origin.weights_sha256.get("target"),
        drafted.label if drafted else "baseline", drafted and (drafted.model or drafted.method),
        origin.weights_sha256.get("draft"), point.load.label, point.traffic.domain, ", ".join(served),
        engine(origin),
    )  # fmt: skip
    return dict(zip(KEYS, (value or "" for value in values), strict=True))


class Selection(NamedTuple):
    """A folder, and what its records must be."""

    text: str
    folder: Path | None
    """A checkout, or its results/; None for this project's."""
    wanted: dict[str, str]
    """Key of KEYS -> a value, or a pattern such as `EAGLE-3 *`."""

    def runs(self) -> RunSet:
        """The good records that fit, and count. Their rows are read inside `paths.results_of(folder)`.

        Raises:
            ConfigError: if none fits.
        """
        with paths.results_of(self.folder):
            good = [run for run in store.load() if run.status == "ok"]
        for key, value in self.wanted.items():
            every, good = good, [run for run in good if _fits(key, facts(run)[key], value)]
            if not good:
                known = near(value, {facts(run)[key] for run in every})
                raise ConfigError(f"{self.text}: no good record has {key}={value}{known}")
        if not good:
            raise ConfigError(f"{self.text}: there is no good record in this folder")
        return RunSet(good)


def _fits(key: str, own: str, value: str) -> bool:
    return fnmatchcase(own, value) or (key in BEGINNINGS and bool(value) and own.startswith(value))


def read(text: str) -> Selection:
    """A selection as it is written: `../other`, `date=2026-11-25`, `../other,arm=EAGLE-3 *`.

    Raises:
        ConfigError: for a word that is neither a folder nor a known key with its value.
    """
    folder, wanted = None, {}
    for word in filter(None, map(str.strip, text.split(","))):
        key, sign, value = word.partition("=")
        if Path(word).expanduser().is_dir():
            folder = Path(word).expanduser()
        elif not sign:
            raise ConfigError(f"{word!r}: no such folder: give one, or KEY=VALUE; keys: {', '.join(KEYS)}")
        elif key not in KEYS:
            raise ConfigError(f"{word!r}: no key {key!r}{near(key, KEYS)}")
        else:
            wanted[key] = value
    return Selection(text, folder, wanted)
