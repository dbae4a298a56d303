"""A small project for each hostile case, and `specbook` on it as a process whose traces can be counted."""

import json
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

ROOT = Path(__file__).parents[2]
CLI = Path(__file__).with_name("torture_cli.py")
MARK = "SPECBOOK_TORTURE"
"""Variable that every process of a case inherits: by it they are found again, whatever session they chose."""
GONE_WITHIN_S = 20
TIMEOUT_S = 120
WORDS = "one two three four five six seven eight"
GROUP = {
    "target": {"name": "echo", "model": "models/m", "max_model_len": 512, "engine": "echo"},
    "baselines": ["eager"], "drafts": [{"method": "ngram"}], "num_speculative_tokens": [3],
    "domains": ["words", "more"], "concurrency": [1], "num_requests": {1: 3}, "max_tokens": 12,
    "restarts": 2,
}  # fmt: skip
POINTS = 8
CAMPAIGN = ("run", "01", "--group", "full")
TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^\w*(Error|Exception|Interrupt)\b", re.MULTILINE)


@dataclass
class Count:
    """Over all cases of one run."""

    records: int = 0
    """That were on disk and were looked for again."""
    lost: int = 0
    """Of these, how many were not found again."""
    left: int = 0
    """Processes that outlived their command by GONE_WITHIN_S."""


COUNT = Count()


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    code: int
    """Its exit status; -n when signal n ended it."""
    out: str
    err: str

    def clear(self) -> None:
        """A mistake is told in one message, without a traceback."""
        assert not TRACEBACK.search(self.out + self.err), self
        if self.code > 0:
            assert [line for line in self.err.splitlines() if line.startswith("specbook: ")], self


class Project:
    """A folder with a plan of the echo engine; no record but its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, f"{folder}-{time.time_ns()}"
        self.seen: set[str] = set()
        for name in ("params/cpu", "models/heldout", "models/m"):
            (folder / name).mkdir(parents=True)
        body = {"hardware": "cpu", "group": "full", "source": "records", "quick": GROUP, "full": GROUP}
        (folder / "params/cpu/01_echo.yaml").write_text(yaml.safe_dump(body))
        profile = {"target": GROUP["target"], "speculation": {"method": "ngram", "num_speculative_tokens": 3}}
        (folder / "params/cpu/profiles.yaml").write_text(yaml.safe_dump({"echo": profile}))
        prompts = [{"id": f"p{i}", "prompt": f"{WORDS} {i}"} for i in range(12)]
        for domain in GROUP["domains"]:
            lines = "".join(json.dumps(p) + "\n" for p in prompts)
            (folder / f"models/heldout/{domain}.jsonl").write_text(lines)
        make_model(folder / "models/m")

    @property
    def results(self) -> Path:
        """Where its records lie."""
        return self.folder / "results"

    def environment(self) -> dict[str, str]:
        """Of its commands: nothing of the caller's project."""
        held = {name: text for name, text in os.environ.items() if not name.startswith("SPECBOOK_")}
        path = os.pathsep.join([str(ROOT / "lib"), os.environ.get("PYTHONPATH", "")])
        own = {"SPECBOOK_ROOT": str(self.folder), "SPECBOOK_RESULTS": str(self.results), MARK: self.mark}
        return held | own | {"PYTHONPATH": path, "TORTURE_BEGUN": str(self.folder / "begun")}

    def start(
        self, *arguments: str, environment: Mapping[str, str] | None = None, largest_file: int | None = None,
        **streams: Any,
    ) -> subprocess.Popen[str]:  # fmt: skip
        """`specbook ARGUMENTS`; no file may grow beyond `largest_file` bytes, as on a disk that is full."""

        def child() -> None:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
            if largest_file is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

        environment = dict(environment or {})
        if largest_file is not None:  # what is imported before `specbook` begins is not its own to keep whole
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
        return subprocess.Popen(
            [sys.executable, str(CLI), *arguments], env=self.environment() | environment,
            cwd=self.folder, text=True, errors="replace", preexec_fn=child, start_new_session=True, **how,
        )  # fmt: skip

    def run(self, *arguments: str, **how) -> Said:
        """The same, waited for."""
        return ended(self.start(*arguments, **how))

    def processes(self) -> list[psutil.Process]:
        """All that this project's commands started and that still run."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(MARK) == self.mark:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def look(self) -> None:
        """Remember the records that are on disk now: whatever comes, they have to stay."""
        self.seen |= {path.stem for path in self.results.glob("*/*/*.json")}

    def finishes(self) -> None:
        """The campaign, run once more without harm, measures the rest and has all its points."""
        for path in self.orphans():
            path.unlink()
        said = self.run(*CAMPAIGN)
        assert (said.code, "Traceback" in said.err) == (0, False), said
        assert f"0 points to measure, {POINTS} on disk" in self.run(*CAMPAIGN, "--dry-run").out
        checked = self.run("check")
        assert (checked.code, checked.err) == (0, "")
        self.nothing_runs()
        self.nothing_is_lost()

    def orphans(self) -> list[Path]:
        """Rows whose record a kill forestalled; a pack's own are not among them."""
        claimed = {path.with_suffix("") for path in self.results.rglob("*.json")}
        rows = (path for path in self.results.rglob("*.parquet") if not path.name.startswith("pack-"))
        return [path for path in rows if path.with_suffix("") not in claimed]

    def nothing_runs(self) -> None:
        """No process is left behind."""
        wait_until(lambda: not self.processes(), GONE_WITHIN_S)
        left = self.processes()
        COUNT.left += len(left)
        assert left == []

    def record_ids(self) -> set[str]:
        """Run ids on disk, by `specbook`'s own reader in a process of its own."""
        code = "from specbook import records; print(*(r.run_id for r in records.everything()))"
        env = {**os.environ, "PYTHONPATH": str(ROOT / "lib"), "SPECBOOK_RESULTS": str(self.results)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        return set(done.stdout.split())

    def nothing_is_lost(self) -> None:
        """Every record that was seen is still there; those there now are seen."""
        now = self.record_ids()
        lost = self.seen - now
        COUNT.records += len(self.seen)
        COUNT.lost += len(lost)
        self.seen = now
        assert lost == set()

    def begun(self, process: subprocess.Popen[str]) -> float:
        """Wait until a command's own code runs, so that what comes before is not taken for it; its time."""
        assert wait_until(lambda: (self.folder / "begun").exists() or process.poll() is not None, TIMEOUT_S)
        (self.folder / "begun").unlink(missing_ok=True)
        return time.monotonic()

    def is_sound(self) -> None:
        """No record that was seen is lost, none is damaged, nothing runs. A kill may leave rows alone."""
        self.nothing_runs()
        self.nothing_is_lost()
        bad = [line for line in self.run("check").err.splitlines() if "belongs to no record" not in line]
        assert bad == []


def make_model(folder: Path) -> None:
    """The least that passes for weights: the echo engine loads none."""
    (folder / "config.json").write_text('{"vocab_size": 16, "hidden_size": 4}')
    header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 16)


def ended(process: subprocess.Popen[str]) -> Said:
    """What a command said, and how it ended."""
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"not done after {TIMEOUT_S} s: {out[-500:]}{err[-500:]}") from None
    return Said(process.returncode, out or "", err or "")


def wait_until(true: Callable[[], bool], within_s: float) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + within_s
    while not (found := true()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found
