"""Records of weights that no longer ship: which they are, and how they leave `results/`. Never silently."""

from collections.abc import Callable, Iterable
from pathlib import PurePath

from specbook import paths, records
from specbook.bench import provenance
from specbook.config.schema import Speculation, Target
from specbook.errors import RecordError
from specbook.records.experiment import ExperimentRecord
from specbook.records.lossless import LosslessRecord, MarginsRecord
from specbook.records.origin import Provenance
from specbook.records.run import RunRecord
from specbook.records.store import AnyRecord


def unshipped(record: AnyRecord) -> dict[str, str]:
    """Models of the record that lie in this project and are now others: folder -> old digest.

    Models from a hub or from elsewhere on a machine are never among them: they did not ship. Margins name no
    weights; they are their check's.
    """
    if isinstance(record, MarginsRecord | ExperimentRecord):
        return {}
    target, drafted, origins = _measured(record)
    models: dict[str, Target | Speculation | None] = {"target": target, "draft": drafted}
    found = {}
    for role, sha256 in (pair for origin in origins for pair in origin.weights_sha256.items()):
        model = models[role]
        if model is None or model.model is None or not _ships(model.model):
            continue
        if provenance.model_sha256(model.model, model.revision) != sha256:
            found[model.model] = sha256
    return found


def drop(report: Callable[[str], None]) -> list[AnyRecord]:
    """Take the records of unshipped weights out of `results/`, and say which before they go.

    Args:
        report: called with a line per set of weights.

    Raises:
        RecordError: if git does not hold every record as it is: history would not keep it.
    """
    found = records.everything()
    gone = {record.run_id: record for record in found if unshipped(record)}
    gone |= {r.run_id: r for r in found if isinstance(r, MarginsRecord) and r.check in gone}
    if not gone:
        return []
    commit = _committed()
    records.pack()
    for line in _lines(gone.values()):
        report(f"{line}; commit {commit[:12]} keeps them")
    records.drop(gone)
    return list(gone.values())


def _measured(record: RunRecord | LosslessRecord) -> tuple[Target, Speculation | None, Iterable[Provenance]]:
    if isinstance(record, RunRecord):
        return record.point.target, record.point.speculation, [record.provenance]
    return record.target, record.speculation, record.provenance.values()


def _ships(model: str) -> bool:
    return PurePath(model).parts[:1] == (paths.models_dir().name,)


def _lines(gone: Iterable[AnyRecord]) -> list[str]:
    groups: dict[str, list[AnyRecord]] = {}
    for record in gone:
        models = " and ".join(f"{model} {sha256[:12]}" for model, sha256 in sorted(unshipped(record).items()))
        old = f"weights of {models}" if models else "margins of such checks"
        groups.setdefault(f"{record.hardware.id}/{record.chapter}, {old}", []).append(record)
    return [f"{name}: {len(found)} records" for name, found in groups.items()]


def _committed() -> str:
    """The commit that holds `results/` as it is."""
    folder = paths.results_dir()
    commit = provenance.git("-C", str(folder), "rev-parse", "HEAD")
    changed = provenance.git("-C", str(folder), "status", "--porcelain", "--ignored", "--", ".")
    if commit is None or changed is None:
        raise RecordError(f"{folder} lies in no git checkout, so nothing would keep what is dropped")
    if changed:
        first = changed.splitlines()[0].split(maxsplit=1)[1]
        raise RecordError(f"{folder} has what no commit holds, such as {first}: commit it first")
    return commit
