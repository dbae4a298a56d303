"""A trace of the engine's profiler becomes seconds of parts, once each."""

import gzip
import json

import pytest

from specbook.engine.vllm.profiler import BETWEEN, PARTS, REST, TorchProfiler
from specbook.errors import EngineError

RUNNER = "gpu_model_runner: "


def scope(name, start, length):
    return {"ph": "X", "cat": "user_annotation", "name": RUNNER + name, "ts": start, "dur": length, "tid": 1}


def op(name, start, length, tid=1):
    return {"ph": "X", "cat": "cpu_op", "name": name, "ts": start, "dur": length, "tid": tid}


def step(start):
    """100 of every thing that is counted, in microseconds; the operations of the draft are the draft's."""
    return [
        scope("preprocess", start, 10), scope("forward", start + 10, 50),
        op("## Call CompiledFxGraph f5mm2 ##", start + 11, 48),  # named by a digest
        op("vllm::unified_attention_with_output", start + 12, 20), op("_C::cpu_attention", start + 14, 10),
        op("vllm::unified_kv_cache_update", start + 33, 2),
        op("aten::linear", start + 35, 15), op("aten::mm", start + 36, 10), op("aten::add", start + 55, 2),
        op("aten::mm", start + 35, 9, tid=2),
        scope("sample", start + 60, 5), scope("draft", start + 66, 20), op("aten::mm", start + 70, 10),
        scope("bookkeep", start + 86, 3), scope("postprocess", start + 89, 1),
    ]  # fmt: skip


@pytest.fixture
def written(tmp_path):
    def write(events, name="worker.1.pt.trace.json.gz"):
        opened = gzip.open if name.endswith("gz") else open
        with opened(tmp_path / name, "wt") as file:
            json.dump({"traceEvents": [{"ph": "M", "name": "process_name"}, *reversed(events)]}, file)
        return tmp_path

    return write


@pytest.mark.parametrize("name", ["w.pt.trace.json.gz", "w.pt.trace.json"])
def test_no_part_of_a_step_is_counted_twice(written, name):
    found = TorchProfiler().steps(written([*step(0), *step(100), scope("preprocess", 250, 10)], name))
    expected = {
        "prepare inputs": 10, "attention": 20, "KV cache": 2, "matrices": 15, REST: 13, "sample, reject": 5,
        "draft": 20, "book-keeping": 4,
    }  # fmt: skip
    first, second = ({part: round(1e6 * s) for part, s in one.items()} for one in found)
    assert first == {**expected, BETWEEN: 11}
    assert second == {**expected, BETWEEN: 61}
    assert tuple(first) == PARTS


def test_half_a_profile_is_an_error(written, tmp_path):
    assert TorchProfiler().steps(tmp_path) == []
    assert TorchProfiler().steps(written(step(0))) == []  # where it ended is unknown
    (tmp_path / "b.pt.trace.json.gz").write_bytes(b"\x1f\x8b half")
    with pytest.raises(EngineError, match=r"b\.pt\.trace\.json\.gz cannot be read"):
        TorchProfiler().steps(tmp_path)
