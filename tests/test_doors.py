"""A chapter, with an experiment of its own, and a hardware: added to a copy of the project by their doors."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml
from nbformat.v4 import new_code_cell, new_notebook

import synthetic
from specbook import config
from specbook.config import machines
from specbook.report import render

PROJECT = Path(__file__).parents[1]
SWEEP = {
    "baselines": ["compiled"], "domains": ["json"], "concurrency": [1], "num_requests": {1: 4},
    "max_tokens": 32, "restarts": 2,
}  # fmt: skip
SMALL, LARGE = ({"name": name, "model": f"org/{name}", "max_model_len": 512} for name in ("small", "large"))
KETTLE = """
from specbook.bench.experiments import register
from specbook.config.schema import Frozen

class Fill(Frozen):
    litres: int

class Boiled(Frozen):
    minutes: int

@register("kettle", Fill, Boiled)
def run(parameters):
    return Boiled(minutes=3 * parameters.litres)
"""
CELLS = """
from specbook import config as plans
from specbook.analysis import summaries
from specbook.bench import campaign, experiments
plan = plans.from_notebook("09_new", globals())
---
runs = campaign.run_or_replay(plan, source)
sorted(set(summaries.throughput(runs)["target"]))
---
[result.minutes for record, result in experiments.replay(plan)]
"""

RUN = """
from contextlib import suppress
from specbook import config
from specbook.bench import experiments, hardware
from specbook.cli.main import app
with suppress(SystemExit):
    app()
for record in experiments.measure(config.load("09_new", "cpu", "quick"), hardware.detect()):
    print(record.status)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A copy of what a chapter needs; records of its own."""
    shutil.copytree(PROJECT / "lib", tmp_path / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("params", "notebooks", "models/heldout"):
        shutil.copytree(PROJECT / name, tmp_path / name)
    shutil.copy(PROJECT / "_toc.yml", tmp_path)
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    return tmp_path


def python(project: Path, code: str, *arguments: str) -> str:
    """What the copy's own code prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=project, env=os.environ, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return done.stdout


def add_a_chapter(project: Path) -> None:
    """Two pages, their parameters, their lines in the table of contents, and an experiment of its own."""
    experiment = {"name": "kettle", "parameters": {"litres": 2}}
    quick = {"sweeps": [SWEEP | {"target": t} for t in (SMALL, LARGE)], "experiments": [experiment]}
    body = {"hardware": "cpu", "group": "quick", "source": "records", "quick": quick, "full": quick}
    (project / "params/cpu/09_new.yaml").write_text(yaml.safe_dump(body))
    parameters = new_code_cell('hardware = "cpu"\ngroup = "full"\nsource = "records"')
    parameters.metadata.tags = ["parameters"]
    cells = [parameters, *map(new_code_cell, CELLS.strip().split("\n---\n"))]
    like = nbformat.read(project / "notebooks/01_baseline.ipynb", 4).metadata
    for name in ("09_new", "09_more"):
        nbformat.write(new_notebook(cells=cells, metadata=like), project / f"notebooks/{name}.ipynb")
    toc = project / "_toc.yml"
    last = "      - file: book/executed/02_eagle3\n"
    added = "- file: book/executed/09_new\n        sections: [{file: book/executed/09_more}]\n"
    toc.write_text(toc.read_text().replace(last, f"{last}      {added}"))
    (project / "lib/specbook/bench/experiments/kettle.py").write_text(KETTLE)


def test_a_chapter_of_two_targets_is_three_files_and_one(project):
    add_a_chapter(project)
    assert "09_new" in config.chapters(["all"], "cpu")
    assert "09_new" in render.chapters()
    assert render.pages()["09_more"] == "09_new"
    wanted = config.load("09_new", "cpu", "quick")
    said = python(project, RUN, "run", "09", "--group", "quick", "--dry-run")
    assert all(word in said for word in ("--model org/small", "--model org/large", "kettle (litres=2)"))
    assert said.endswith("ok\n")
    synthetic.write(wanted)
    page = nbformat.read(render.execute("09_more", group="quick", out_folder=project / "out"), 4)
    assert all(file in page.cells[-1].source for file in ("09_more.ipynb", "params/cpu/09_new.yaml"))
    shown = [o.data["text/plain"] for cell in page.cells[2:] for o in cell.get("outputs", []) if "data" in o]
    assert shown == ["['large', 'small']", "[6]"]


def test_a_hardware_is_one_folder(project):
    folder = project / "params" / "abacus"
    folder.mkdir()
    (folder / "machine.yaml").write_text("kind: cpu\n")
    (folder / "profiles.yaml").write_text(yaml.safe_dump({"base": {"target": SMALL}}))
    body = {"hardware": "abacus", "group": "full", "source": "records"}
    groups = {group: SWEEP | {"target": SMALL} for group in config.GROUPS}
    (folder / "01_baseline.yaml").write_text(yaml.safe_dump(body | groups))
    assert config.chapters(["all"], "abacus") == ["01_baseline"]
    assert {point.target.name for point in config.load("01_baseline", "abacus", "quick").points()} == {
        "small"
    }
    assert machines.profile("abacus/base").target.model == "org/small"
    assert machines.read("abacus").fits(synthetic.HARDWARE.kind, synthetic.HARDWARE.gpu_name)
