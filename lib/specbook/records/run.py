"""The records of a measured point and of an experiment: their schemas, and what tells measurements apart."""

from functools import lru_cache
from pathlib import PurePath
from typing import Literal, Self

from pydantic import Field, JsonValue, model_validator

from specbook.config import methods
from specbook.config.chapter import Experiment
from specbook.config.schema import KEY_VERSION, Frozen, Point, digest

DISTURBED = 0.1
"""Share of the machine's cores that other programs may take before a point is marked."""
BESIDE = {"python", "specbook", "numpy", "transformers", "speculators"}
"""Packages whose version is recorded and does not change what an engine does; all others are its build."""
NEUTRAL = {
    "CUDA_VISIBLE_DEVICES", "HF_HUB_OFFLINE", "NEURON_COMPILED_ARTIFACTS", "PYTHONDONTWRITEBYTECODE",
    "VLLM_NO_USAGE_STATS",
}  # fmt: skip
"""Variables that change neither speed nor output: which of several equal devices, what is kept on disk."""
Kind = Literal["measured", "simulated", "imported"]
"""Kind of a record. What is computed, published or replayed has a kind on its page, and no record."""
LACKED = (
    "no rounds, no restarts that are known as such, no counters of the server but of drafts, no digest of "
    "weights or prompts, no machine and no options of the server"
)
"""What an imported record has not, since the files of other load generators do not hold it."""


REQUEST_COLUMNS = (
    "prompt_id", "start_s", "ttft_s", "itl_s", "e2e_s", "input_tokens", "output_tokens", "text", "error",
)  # fmt: skip


class Hardware(Frozen):
    """One machine. Peaks are per device: one GPU, one Neuron chip, or the whole CPU."""

    id: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    """Slug that names the folder its records lie in, such as `cpu-amd-epyc-2c` or `cuda-nvidia-h200-1x`."""
    kind: Literal["cpu", "cuda", "rocm", "neuron"] | None
    """What the engine computes on; this, cores and memory are None of an imported record."""
    host: str | None = Field(default=None, pattern=r"^[0-9a-f]{12}$")
    """Digest of the host and its boot, no part of `id`; None where neither is known, or nobody looked."""
    cpu_model: str | None
    """The CPU's name as the system reports it."""
    cpu_vectors: str | None = None
    """Its widest vector instructions, such as `avx512_bf16`; None where they were not recorded."""
    physical_cores: int | None
    """Physical cores of the machine; None where a virtual machine hides them."""
    logical_cores: int | None = Field(ge=1)
    """Logical cores this process may use."""
    memory_bytes: int | None = Field(gt=0)
    """Main memory."""
    gpu_name: str | None = None
    """The accelerator's name, GPU or Neuron chip; None on a CPU."""
    gpu_count: int = Field(default=0, ge=0)
    """Accelerators in the machine."""
    gpu_memory_bytes: int | None = None
    """Memory of one accelerator."""
    peak_flops_per_s: float | None = None
    """Dense bf16 FLOP/s of one device; None if unknown. On a CPU it is measured: see `measure_peaks`."""
    peak_bytes_per_s: float | None = None
    """Memory bandwidth of one device; None if unknown."""
    peak_source: str | None = None
    """Where the peaks come from: the maker's page, or "measured"; None if unknown."""


class Provenance(Frozen):
    """All that is needed to run the same measurement again, and to doubt it."""

    git_sha: str | None
    """Commit of this project; None outside a checkout."""
    git_dirty: bool | None
    """Whether tracked files under lib/, params/ or models/ differed from that commit."""
    versions: dict[str, str]
    """Python, and the installed packages that `bench.provenance` asks for."""
    weights_sha256: dict[str, str]
    """`target` and, with a trained draft, `draft`: digest of the weight files, or `hub:<id>@<revision>`.

    Where an experiment has a second server that drafts otherwise, its draft is `instead`.
    """
    draft_trained_depth: int | None = None
    """Draft tokens a step that the draft says it was trained to give; None where that is not known."""
    prompts_sha256: str
    server_command: tuple[str, ...]
    """The engine's command line; this machine's project folder is written as `.`."""
    server_env: dict[str, str]
    """Variables set for the engine; never an API key."""
    bench_command: tuple[str, ...]
    """The load generator's arguments."""
    load_average_1min: float | None
    """Before the window: what else this machine was doing; None of an imported record."""


class SpecDecodeCounters(Frozen):
    """vLLM's own counters over the measured window; every acceptance figure is derived from these."""

    num_drafts: int = Field(ge=0)
    """Verification steps that had a draft."""
    num_draft_tokens: int = Field(ge=0)
    num_accepted_tokens: int = Field(ge=0)
    num_accepted_tokens_per_pos: tuple[int, ...]
    """Index i: drafts whose positions 0..i were all accepted (joint)."""


class ServerCounters(Frozen):
    """Deltas of the server's own `/metrics` over the measured window."""

    prompt_tokens: int = Field(ge=0)
    generation_tokens: int = Field(ge=0)
    requests_finished: int | None = Field(ge=0)
    """None of an engine that does not count them."""
    prefix_cache_hits: int = Field(ge=0)
    """Prompt tokens served from the prefix cache; 0 when it is off."""
    preemptions: int = Field(ge=0)
    queue_time_s: float | None = Field(ge=0)
    """Sum over finished requests of the time before first scheduling; None of an engine without it."""


class Utilisation(Frozen):
    """Sampled about twice a second over the measured window."""

    samples: int = Field(ge=0)
    engine_cpu_cores: float | None
    """Mean cores busy in the server's processes."""
    client_cpu_cores: float | None
    """Mean cores busy in the load generator's process."""
    foreign_cpu_cores: float | None = None
    """Mean cores busy with anything else, the machine's host included; None where it was not sampled."""
    engine_rss_bytes: int | None
    """Peak resident memory of the server's processes."""
    gpu_utilisation: float | None
    """Mean share of time that a kernel ran, 0 to 1; None without a GPU."""
    gpu_memory_bytes: int | None


class Throughput(Frozen):
    """The load generator's own figures for the whole window."""

    duration_s: float = Field(gt=0)
    completed: int = Field(ge=0)
    failed: int = Field(ge=0)
    output_tokens: int = Field(ge=0)
    output_tokens_per_s: float = Field(ge=0)


class Measurement(Frozen):
    """What one point gave. Present exactly when the record's status is `ok`."""

    throughput: Throughput
    server: ServerCounters | None
    """None of an imported record."""
    spec_decode: SpecDecodeCounters | None
    """None when nothing was drafted (the baseline)."""
    utilisation: Utilisation
    late_first_chunks: int | None = Field(default=None, ge=0)
    """Warning: requests whose stream stood still at first (see `stats.windows`); None where nobody looked."""
    steady_s: float | None = Field(default=None, gt=0)
    """Length of the steady window (`stats.windows`); None where there is none, or the record predates it."""
    mean_concurrency: float | None = Field(default=None, gt=0)
    """Requests in flight, averaged over the steady window; None where that is."""
    steady_output_tokens_per_s: float | None = Field(default=None, ge=0)
    """Over all slots, in the steady window; None where that is."""
    requests_file: str
    """Parquet beside the record until both are packed: a row per request, as `records.REQUEST_COLUMNS`."""
    requests_sha256: str
    """SHA-256 of that file; a pack has a digest of its own."""


class Round(Frozen):
    """Arms of one round were measured together, in turns: only their ratios are pairs."""

    id: str
    position: int | None = Field(default=None, ge=0)
    """Place among the arms of the same load and prompts, from 0; None for records from before rounds."""
    seed: int | None = None
    """Seed of the order of the arms: see `config.order`."""


class RunRecord(Frozen):
    """One measured point, with all that is needed to believe it and to run it again."""

    record_type: Literal["run"] = "run"
    """Tells the kinds of record under results/ apart: see `store.AnyRecord`."""
    schema_version: Literal[2] = 2
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    key: str = Field(pattern=rf"^{KEY_VERSION}-[0-9a-f]{{16}}$")
    """`Point.key`: the digest of what was set."""
    kind: Kind
    status: Literal["ok", "failed"]
    reason: str | None
    """Why the point failed; None when it did not."""
    started_at: str
    """UTC, ISO 8601."""
    point: Point
    round: Round
    hardware: Hardware
    provenance: Provenance
    measurement: Measurement | None

    @model_validator(mode="after")
    def _status_says_what_exists(self) -> "RunRecord":
        if (self.status == "ok") != (self.measurement is not None):
            raise ValueError(f"status {self.status!r} contradicts measurement={self.measurement is not None}")
        if (self.status == "failed") != (self.reason is not None):
            raise ValueError("a failed record, and only a failed one, has a reason")
        if self.key != self.point.key:
            raise ValueError(f"key {self.key} is not the digest of its point, {self.point.key}")
        return self

    @property
    def disturbed(self) -> bool:
        """Whether other programs took more than a tenth of the machine's cores while this was measured."""
        foreign = self.measurement.utilisation.foreign_cpu_cores if self.measurement else None
        return foreign is not None and foreign > DISTURBED * self.hardware.logical_cores

    @property
    def lacks(self) -> str:
        """LACKED of an imported record; nothing of others."""
        return LACKED if self.kind == "imported" else ""

    def named(self, target: str) -> "RunRecord":
        """The same record, its target called by another display name."""
        renamed = self.point.target.model_copy(update={"name": target})
        return self.model_copy(update={"point": self.point.model_copy(update={"target": renamed})})

    @property
    def title(self) -> str:
        """What was measured, for people."""
        return f"{self.point.arm}, {self.point.load.label}"

    @property
    def chapter(self) -> str:
        """The folder under `results/<hardware-id>/`."""
        return self.point.chapter


class ExperimentRecord(Frozen):
    """One experiment, with all that is needed to believe it and to run it again."""

    record_type: Literal["experiment"] = "experiment"
    schema_version: Literal[1] = 1
    run_id: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    chapter: str
    """The folder under `results/<hardware-id>/`."""
    kind: Kind
    status: Literal["ok", "failed"]
    reason: str | None = None
    """Why it failed; None when it did not."""
    started_at: str
    """UTC, ISO 8601."""
    experiment: Experiment
    hardware: Hardware
    provenance: Provenance
    result: dict[str, JsonValue] | None = None
    """Fields of the model that the experiment is registered with; None when it failed."""

    @model_validator(mode="after")
    def _status_says_what_exists(self) -> Self:
        if (self.status == "ok") != (self.result is not None) or (self.status == "failed") != bool(
            self.reason
        ):
            raise ValueError("a good record has a result and no reason, a failed one a reason and no result")
        return self

    @property
    def title(self) -> str:
        """What was measured, for people."""
        return self.experiment.title


def identity(point: Point, origin: Provenance) -> str:
    """16 hex digits: the point, the engine with its build and environment, the weights and the prompts.

    Two records of one identity repeat the same measurement; a name shown to people is no part of it.
    A package that drafts is a part of its own method's points, as the weights of a draft are.
    """
    drafting = point.speculation.drafting.requirements() if point.speculation else ()
    drafts = origin.weights_sha256 | {name: origin.versions.get(name) for name in drafting}
    return digest([point.key, engine(origin), drafts, origin.prompts_sha256], 16)


def setup(record: RunRecord) -> str:
    """8 hex digits of what two arms must share to be compared: all of `identity` but the arm itself."""
    origin = record.provenance
    weights = origin.weights_sha256.get("target")
    return digest([record.point.cell_key, engine(origin), weights, origin.prompts_sha256], 8)


def engine(origin: Provenance) -> str:
    """16 hex digits of the engine's build and of the variables that change what it does."""
    return _engine(tuple(origin.versions.items()), tuple(origin.server_env.items()))


@lru_cache(maxsize=256)  # thousands of records have the same few
def _engine(versions: tuple[tuple[str, str], ...], variables: tuple[tuple[str, str], ...]) -> str:
    beside = BESIDE.union(*(method.requirements() for method in methods.known()))
    build = {name: version for name, version in versions if name not in beside}
    return digest([build, {k: _value(k, v) for k, v in variables if k not in NEUTRAL}], 16)


def _value(name: str, value: str) -> object:
    """Preloaded libraries by their names: where they lie differs from machine to machine."""
    return sorted(PurePath(part).name for part in value.split(":")) if name == "LD_PRELOAD" else value
