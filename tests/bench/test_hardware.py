"""What the machine is: read from the drivers, and None where they are silent."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from specbook.bench import hardware
from specbook.bench.hardware import PEAKS
from specbook.config import machines
from specbook.engine.base import Build
from specbook.engine.vllm import engine as requirements
from specbook.errors import EngineError
from specbook.records.run import Hardware

H200 = "NVIDIA H200, 143771\n"


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Put a command on an otherwise empty PATH that prints the given text, whatever its arguments."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(hardware, "computes_on_cpu", lambda: False)

    def put(name: str, text: str, code: int = 0) -> None:
        (tmp_path / f"{name}.txt").write_text(text)
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\nwhile read -r line; do echo "$line"; done < "$0.txt"\nexit {code}\n')
        path.chmod(0o755)

    return put


def test_a_machine_without_drivers_is_a_cpu(command, monkeypatch):
    monkeypatch.setattr(hardware, "cpu_model", lambda: "AMD EPYC 9R14 96-Core Processor")
    monkeypatch.setattr(hardware, "cpu_vectors", lambda: "avx512_bf16")
    monkeypatch.setattr(hardware.os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    found = hardware.detect()
    assert (found.kind, found.id, found.gpu_count) == ("cpu", "cpu-amd-epyc-9r14-avx512-bf16-2c", 0)
    assert (found.peak_flops_per_s, found.peak_bytes_per_s, found.peak_source) == (None, None, None)


def test_this_machine_survives_a_round_trip_through_json():
    found = hardware.detect()
    assert found.memory_bytes > 2**30
    assert Hardware.model_validate_json(found.model_dump_json()) == found


def test_a_host_is_a_machine_and_its_boot(monkeypatch, tmp_path):
    machine_id, boot_id = tmp_path / "machine", tmp_path / "boot"
    monkeypatch.setattr(hardware, "MACHINE_ID", machine_id)
    monkeypatch.setattr(hardware, "BOOT_ID", boot_id)
    assert hardware.detect().host is None
    seen = []
    for boot, machine_name in (("a", None), ("a", "m"), ("b", "m"), ("b", "n")):
        boot_id.write_text(boot)
        if machine_name:
            machine_id.write_text(machine_name)
        seen.append(hardware.detect())
    assert len({found.host for found in seen}) == 4
    assert len({found.id for found in seen}) == 1
    assert hardware.host() == seen[-1].host


def test_gpus_are_counted_and_get_their_datasheet_peak(command):
    command("nvidia-smi", H200 * 8)
    found = hardware.detect()
    assert (found.kind, found.id) == ("cuda", "cuda-nvidia-h200-8x")
    assert (found.gpu_name, found.gpu_count, found.gpu_memory_bytes) == ("NVIDIA H200", 8, 143771 * 2**20)
    assert found.peak_bytes_per_s == 4.8e12
    assert found.peak_source.startswith("https://www.nvidia.com/")


def test_an_unknown_gpu_has_no_peak(command):
    command("nvidia-smi", "NVIDIA GeForce RTX 9090, 32768\n")
    found = hardware.detect()
    assert found.id == "cuda-nvidia-geforce-rtx-9090-1x"
    assert (found.peak_flops_per_s, found.peak_bytes_per_s, found.peak_source) == (None, None, None)


def test_a_gpu_beside_an_engine_for_processors_computes_nothing(command, monkeypatch):
    command("nvidia-smi", H200 * 8)
    monkeypatch.setattr(hardware, "computes_on_cpu", lambda: True)
    found = hardware.detect()
    assert (found.kind, found.gpu_name, found.gpu_count) == ("cpu", None, 0)


class Built:
    """An engine that is installed, or not."""

    def __init__(self, device):
        self.device = device

    def build(self):
        if self.device is None:
            raise EngineError("not installed")
        return Build("x", "1", self.device)


@pytest.mark.parametrize(
    ("devices", "want"),
    [(["cpu"], True), (["cpu", None], True), (["cpu", "accelerator"], False), ([None], False), ([], False)],
)
def test_engines_say_what_they_were_built_for(monkeypatch, devices, want):
    monkeypatch.setattr(hardware.engine, "known", lambda: [Built(device) for device in devices])
    assert hardware.computes_on_cpu() is want


def test_a_slice_of_a_gpu_has_neither_its_memory_nor_its_peaks(monkeypatch):
    listed = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-1)\n  MIG 1g.10gb     Device  1: (UUID: MIG-2)"
    )
    answers = {"-L": listed, "--query-gpu=name,memory.total": "NVIDIA H100 80GB HBM3, 81559"}
    monkeypatch.setattr(hardware, "computes_on_cpu", lambda: False)
    monkeypatch.setattr(hardware, "output", lambda command, *options: answers.get(options[0]))
    found = hardware.detect()
    assert (found.gpu_name, found.gpu_count) == ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 2)
    assert found.id == "cuda-nvidia-h100-80gb-hbm3-mig-1g-10gb-2x"
    assert (found.gpu_memory_bytes, found.peak_flops_per_s, found.peak_bytes_per_s) == (None, None, None)
    assert not machines.read("h100").fits(found.kind, found.gpu_name)
    assert machines.read("h100").fits(found.kind, "NVIDIA H100 80GB HBM3")


def test_a_device_that_disappears_is_told(command):
    command("nvidia-smi", H200 * 2)
    before = hardware.detect()
    hardware.refuse_another(before, hardware.detect())
    command("nvidia-smi", H200)
    with pytest.raises(EngineError, match=r"was cuda-nvidia-h200-2x when .* is cuda-nvidia-h200-1x now: "):
        hardware.refuse_another(before, hardware.detect())


def test_memory_that_the_driver_does_not_report_is_none(command):
    command("nvidia-smi", "NVIDIA GB10, [N/A]\n")
    assert hardware.detect().gpu_memory_bytes is None


def test_a_broken_driver_is_no_gpu(command):
    command("nvidia-smi", "Failed to initialize NVML: Driver/library version mismatch\n", code=18)
    assert hardware.detect().kind == "cpu"


@pytest.mark.parametrize(("series", "key"), [("MI300X VF", "Card Series"), ("MI300X OAM", "Card series")])
def test_amd_gpus_are_no_cpu_and_get_their_datasheet_peak(command, series, key):
    card = {"VRAM Total Memory (B)": str(192 * 2**30), key: f"AMD Instinct {series}", "Card Model": "0x74a1"}
    command("rocm-smi", json.dumps({f"card{i}": card for i in range(8)} | {"system": {"x": "y"}}) + "\n")
    found = hardware.detect()
    assert (found.kind, found.id) == ("rocm", "rocm-amd-instinct-mi300x-8x")
    assert (found.gpu_count, found.gpu_memory_bytes) == (8, 192 * 2**30)
    assert found.peak_bytes_per_s == PEAKS["AMD Instinct MI300X"].bytes_per_s
    assert hardware.with_peaks(found) == found


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"system": {}}', "No AMD GPUs"])
def test_a_silent_rocm_tool_is_no_gpu(command, text):
    command("rocm-smi", text + "\n")
    assert hardware.detect().kind == "cpu"


def test_an_unnamed_amd_gpu_has_no_peak(command):
    command("rocm-smi", '{"card0": {"VRAM Total Memory (B)": "N/A"}}\n')
    found = hardware.detect()
    assert (found.kind, found.gpu_name, found.gpu_memory_bytes) == ("rocm", "unknown AMD GPU", None)
    assert found.peak_flops_per_s is None


@pytest.mark.parametrize(
    ("printed", "name"),
    [("instance-type: trn2.48xlarge\n", "Trainium2"), ("instance-type: inf2.xlarge\n", "Inferentia2")],
)
def test_neuron_chips_are_named_by_their_instance(monkeypatch, printed, name):
    chips = json.dumps([{"neuron_device": i, "nc_count": 4, "memory_size": 96 * 2**30} for i in range(16)])
    answers = {("neuron-ls", "--json-output"): chips, ("neuron-ls",): printed}
    monkeypatch.setattr(hardware, "computes_on_cpu", lambda: False)
    monkeypatch.setattr(hardware, "output", lambda *command: answers.get(command))
    found = hardware.detect()
    assert (found.kind, found.gpu_name, found.gpu_count) == ("neuron", name, 16)
    assert found.gpu_memory_bytes == 96 * 2**30
    assert found.peak_flops_per_s == PEAKS[name].flops_per_s


def test_an_unnamed_neuron_chip_has_no_peak(command):
    command("neuron-ls", json.dumps([{"neuron_device": 0, "memory_size": 2**35}]) + "\n")
    found = hardware.detect()
    assert (found.kind, found.gpu_name) == ("neuron", "unknown Neuron chip")
    assert found.peak_flops_per_s is None


@pytest.mark.parametrize("text", ["", "{}", "[]", "not JSON"])
def test_a_silent_neuron_tool_is_no_chip(command, text):
    command("neuron-ls", text + "\n")
    assert hardware.detect().kind == "cpu"


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("AMD EPYC", "amd-epyc"),
        ("Intel(R) Xeon(R) Platinum 8488C", "intel-xeon-platinum-8488c"),
        ("Intel(R) Xeon(R) CPU @ 2.20GHz", "intel-xeon"),
        ("AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "amd-ryzen-7-7840u-w-radeon-780m-graphics"),
        ("Apple M3 Pro", "apple-m3-pro"),
        ("(R)", "unknown"),
    ],
)
def test_slugs_are_short_and_fit_for_a_folder(name, want):
    assert hardware.slug(name) == want


@pytest.mark.parametrize("peak", PEAKS.values(), ids=PEAKS)
def test_every_known_peak_is_plausible_and_has_a_source(peak):
    assert peak.source.startswith("https://")
    assert 20 < peak.flops_per_s / peak.bytes_per_s < 1000  # the ridge of a roofline, FLOP per byte


def test_a_mistyped_field_is_refused():
    with pytest.raises(ValidationError, match="memory_gb"):
        Hardware(id="cpu", kind="cpu", cpu_model=None, physical_cores=1, logical_cores=1, memory_gb=8)


def test_libiomp_is_looked_for_beside_python(monkeypatch, tmp_path):
    monkeypatch.setattr(hardware.sys, "prefix", str(tmp_path))
    assert requirements.find_libiomp() is None
    library = tmp_path / "lib" / "libiomp5.so"
    library.parent.mkdir()
    library.touch()
    assert requirements.find_libiomp() == library


def test_tcmalloc_is_found_without_a_linker_cache(monkeypatch, tmp_path):
    monkeypatch.setattr(requirements.ctypes.util, "find_library", lambda name: None)
    monkeypatch.setattr(requirements, "LIBRARY_DIRS", (str(tmp_path),))
    assert requirements.find_tcmalloc() is None
    (tmp_path / "libtcmalloc_minimal.so.4").touch()
    (tmp_path / "libtcmalloc_minimal_debug.so.4").touch()
    assert requirements.find_tcmalloc() == tmp_path / "libtcmalloc_minimal.so.4"


def test_peaks_are_measured_in_flops_and_bytes_per_second(monkeypatch):
    """A call that takes a known time gives a known peak: the arithmetic, not this machine's speed."""
    pytest.importorskip("torch")
    monkeypatch.setattr(hardware, "_best_s", lambda action, budget_s: (action(), 0.5)[1])
    assert hardware.measure_peaks(size=64, size_bytes=4096) == (2 * 64**3 / 0.5, 2 * 4096 / 0.5)


def test_the_best_repetition_counts(monkeypatch):
    ticks = iter([0.0, 3.0, 3.0, 4.0, 4.0, 7.0])
    monkeypatch.setattr(hardware.time, "perf_counter", lambda: next(ticks))
    calls: list[Path] = []
    assert hardware._best_s(lambda: calls.append(Path()), budget_s=5.0) == 1.0
    assert len(calls) == 4  # one to warm up


def test_only_a_cpus_peaks_are_measured(monkeypatch):
    monkeypatch.setattr(hardware, "measure_peaks", lambda: (2e11, 3e10))
    cpu = hardware.Hardware(
        id="cpu-x-2c", kind="cpu", cpu_model="x", physical_cores=2, logical_cores=2, memory_bytes=2**34
    )
    found = hardware.with_peaks(cpu)
    assert (found.peak_flops_per_s, found.peak_bytes_per_s, found.peak_source) == (2e11, 3e10, "measured")
    gpu = cpu.model_copy(update={"kind": "cuda", "gpu_name": "NVIDIA H200"})
    assert hardware.with_peaks(gpu) == gpu


@pytest.mark.parametrize(
    ("line", "widest"),
    [
        ("flags\t\t: fpu avx avx2 avx512f avx512_bf16 sha_ni", "avx512_bf16"),
        ("flags\t\t: fpu avx avx2 fma", "avx2"),
        ("Features\t: fp asimd sve", "sve"),
        ("model name\t: something else", None),
    ],
)
def test_generations_of_one_name_differ_by_their_vectors(monkeypatch, line, widest):
    monkeypatch.setattr(hardware.Path, "exists", lambda path: True)
    monkeypatch.setattr(hardware.Path, "read_text", lambda path: f"processor\t: 0\n{line}\n")
    assert hardware.cpu_vectors() == widest
