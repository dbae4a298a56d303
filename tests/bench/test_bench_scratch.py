"""What a killed measurement left in scratch goes with the next one; what another is writing stays."""

import os
import subprocess
import sys

from specbook.bench import loadgen


def test_scratch_of_the_dead_goes_and_that_of_the_living_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    names = {f"{dead.pid}-abc": False, "tmp1234": False, f"{os.getpid()}-abc": True}
    for name in names:
        (tmp_path / "build" / "bench" / name).mkdir(parents=True)
        (tmp_path / "build" / "bench" / name / "window.jsonl").touch()
    with loadgen.scratch() as own:
        folder = own.parent
        assert own.name.startswith(f"{os.getpid()}-")
        assert {name: (folder / name).exists() for name in names} == names
    assert not own.exists()
