"""The least a measured step could cost: on all of its devices, with its weights as they are served."""

import json

import pytest

from factories import HARDWARE, point, target, write_run
from specbook.analysis import steps

CONFIG = {
    "model_type": "qwen3", "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16,
    "num_key_value_heads": 8, "intermediate_size": 3072, "vocab_size": 1000, "head_dim": 128,
    "dtype": "bfloat16",
}  # fmt: skip
PEAKS = {"gpu_count": 8, "peak_bytes_per_s": 1e12, "peak_flops_per_s": 1e15}


@pytest.fixture
def least(tmp_path, monkeypatch):
    """The row of `decode_steps` for one record, on hardware of some kind, of a target served in some way."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    def of(kind="cuda", flops=1e15, **served):
        machine = HARDWARE.model_copy(update=PEAKS | {"kind": kind, "peak_flops_per_s": flops})
        where = point(target=target(model=str(tmp_path), **served))
        run = write_run(where, 100.0, hardware=machine)
        return steps.decode_steps([run]).iloc[0]

    return of


def test_tensor_parallelism_divides_the_step(least):
    assert least(tensor_parallel_size=4).least_s == pytest.approx(least().least_s / 4)


def test_a_cpus_peaks_are_of_all_its_sockets(least):
    assert least("cpu", tensor_parallel_size=2).least_s == pytest.approx(least("cpu").least_s)


def test_quantized_weights_halve_a_memory_bound_step(least):
    assert least(quantization="fp8").bound == "memory"
    assert least(quantization="fp8").least_s == pytest.approx(least().least_s / 2, rel=0.02)


def test_what_bf16_peaks_cannot_tell_is_not_told(least):
    row = least(quantization="fp8", flops=1e9)
    assert row.memory_s > 0
    assert row[["compute_s", "least_s", "bound"]].isna().all()
    assert least("neuron").isna()[["memory_s", "least_s"]].all()
    assert least(quantization="bitsandbytes").isna()["memory_s"]


def test_a_row_says_in_which_mode_its_step_was_taken(least):
    assert [least(execution=mode).execution for mode in ("compiled", "eager")] == ["compiled", "eager"]


def test_the_bound_is_of_the_median_hosts_peaks(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    runs = []
    for restart, peak in enumerate((1e11, 1e12, 9e12)):
        machine = HARDWARE.model_copy(update=PEAKS | {"kind": "cuda", "peak_bytes_per_s": peak})
        where = point(target=target(model=str(tmp_path)), restart=restart)
        runs.append(write_run(where, 100.0, hardware=machine))
    assert steps.decode_steps(runs).iloc[0].memory_s == steps.decode_steps(runs[1:2]).iloc[0].memory_s
