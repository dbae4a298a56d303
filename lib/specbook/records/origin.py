"""Where a record comes from: the machine, the code, the versions and the weights behind a number."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from specbook.config.schema import Frozen


class Hardware(BaseModel):
    """One machine. Peaks are per device: one GPU, one Neuron chip, or the whole CPU."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

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
