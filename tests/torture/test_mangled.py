"""Files that are not what they should be: whatever is wrong with them, it is one message."""

import copy
import shutil
from pathlib import Path

import pytest
import yaml
from torture_chance import nothing_but, spoilt, spoilt_bytes, tries
from torture_project import make_model

import factories
from specbook import config, paths, records
from specbook.config import machines, prices
from specbook.config.schema import Speculation, Target
from specbook.engine import preflight
from specbook.errors import ConfigError, RecordError

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "params" / "cpu").glob("[0-9]*.yaml"))


@pytest.fixture
def params(tmp_path, monkeypatch):
    """A copy of the shipped parameter files."""
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    shutil.copytree(ROOT / "params", tmp_path / "params")
    (tmp_path / "models").symlink_to(ROOT / "models")
    return tmp_path / "params"


@pytest.mark.parametrize("chapter", [path.stem for path in CHAPTERS])
def test_a_plan_with_one_place_spoilt(params, chapter):
    whole = config.read_file(params / "cpu" / f"{chapter}.yaml")
    for chance in tries(f"plan {chapter}", least=60):
        body = copy.deepcopy(whole)
        done = spoilt(body, chance)
        with nothing_but(ConfigError, done):
            made = config.build(
                chapter, body, hardware="cpu", group=chance.choice(config.GROUPS), overrides={}
            )
            made.points()


def shorten(prices_file):
    """Two prices of each kind: reading them all takes PyYAML a second."""
    whole = yaml.safe_load(prices_file.read_text())
    prices_file.write_text(yaml.safe_dump({name: entries[:2] for name, entries in whole.items()}))


def files(params):
    """Each kind of parameter file, and what reads it."""
    return {
        params / "cpu" / "02_eagle3.yaml": lambda: config.load("02_eagle3", "cpu", "full").points(),
        params / "cpu" / "profiles.yaml": lambda: machines.profile("cpu/eagle3"),
        params / "cpu" / "machine.yaml": lambda: machines.read("cpu"),
        params / "prices.yaml": prices.load,
    }


def test_a_parameter_file_with_bytes_spoilt(params):
    shorten(params / "prices.yaml")
    whole = {path: path.read_bytes() for path in files(params)}
    for chance in tries("parameter files", least=20):
        path = chance.choice(list(whole))
        path.write_bytes(spoilt_bytes(whole[path], chance))
        with nothing_but(ConfigError, f"{path.name}: {path.read_bytes()[:200]}"):
            files(params)[path]()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2000,
        "{a: " * 2000,
        "!!timestamp x",
        "!!bool x",
        "!!int x",
        "2026-13-45",
        "&a [*a]",
        "a: &a {b: *a}",
        "? [x]\n: y",
    ],
)
def test_a_parameter_file_that_turns_in_circles_or_never_ends(params, text):
    for path, read in files(params).items():
        path.write_text(text)
        with pytest.raises(ConfigError):
            read()


def test_a_profile_or_a_price_with_one_place_spoilt(params):
    shorten(params / "prices.yaml")
    whole = {path: yaml.safe_load(path.read_text()) for path in files(params)}
    for chance in tries("profiles and prices", least=20):
        path = chance.choice(list(whole))
        body = copy.deepcopy(whole[path])
        done = spoilt(body, chance)
        path.write_text(yaml.safe_dump(body))
        with nothing_but(ConfigError, f"{path.name}: {done}"):
            files(params)[path]()


@pytest.fixture
def model(tmp_path):
    """A target and its head, their weights the least that passes; their configurations as shipped."""
    for name in ("pocket-dense", "pocket-dense-eagle3"):
        (tmp_path / name).mkdir()
        make_model(tmp_path / name)
        shutil.copy(ROOT / "models" / name / "config.json", tmp_path / name)
    return tmp_path


def test_a_model_with_bytes_spoilt(model):
    target = Target(name="t", model=str(model / "pocket-dense"), max_model_len=512)
    head = {"method": "eagle3", "num_speculative_tokens": 3, "model": str(model / "pocket-dense-eagle3")}
    whole = {path: path.read_bytes() for path in sorted(model.glob("*/*"))}
    preflight.check(target, Speculation(**head))
    for chance in tries("model bytes", least=60):
        path = chance.choice(list(whole))
        path.write_bytes(spoilt_bytes(whole[path], chance))
        with nothing_but(ConfigError, f"{path.parent.name}/{path.name}: {path.read_bytes()[:200]}"):
            preflight.check(target, Speculation(**head))
        path.write_bytes(whole[path])


def test_a_model_with_one_place_of_its_configuration_spoilt(model):
    import json

    target = Target(name="t", model=str(model / "pocket-dense"), max_model_len=512)
    head = {"method": "eagle3", "num_speculative_tokens": 3, "model": str(model / "pocket-dense-eagle3")}
    for chance in tries("model configuration", least=60):
        path = chance.choice(sorted(model.glob("*/config.json")))
        whole = path.read_text()
        body = json.loads(whole)
        done = spoilt(body, chance)
        path.write_text(json.dumps(body, default=str, skipkeys=True))
        with nothing_but(ConfigError, f"{path.parent.name}: {done}"):
            preflight.check(target, Speculation(**head))
        path.write_text(whole)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Results with a pack of three records and two beside it; `kept()` is a fresh copy, the project's own."""
    whole = tmp_path / "whole"
    monkeypatch.setenv("SPECBOOK_RESULTS", str(whole))
    for restart in range(5):
        records.append(factories.write_run(factories.point(restart=restart), 10.0))
        if restart == 2:
            records.pack()
    copies = iter(range(10**9))

    def fresh() -> list[Path]:
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        # A name of its own: what was read is remembered by path, time and size.
        monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "copy" / str(next(copies))))
        shutil.copytree(whole, paths.results_dir())
        return sorted(path for path in paths.results_dir().rglob("*") if path.is_file())

    return fresh


def mangle(path: Path, others: list[Path], chance) -> str:
    """Do something to a file that no program of ours does; returns what."""
    match how := chance.choice(["bytes", "bytes", "bytes", "gone", "folder", "dangling", "other", "renamed"]):
        case "bytes":
            path.write_bytes(spoilt_bytes(path.read_bytes(), chance))
        case "other":
            path.write_bytes(chance.choice([p for p in others if p != path]).read_bytes())
        case "renamed":
            path.rename(path.with_name(f"x{path.name}"))
        case _:
            path.unlink()
            if how == "folder":
                path.mkdir()
            elif how == "dangling":
                path.symlink_to("nowhere")
    return f"{how} {path.name}"


def test_results_with_one_file_mangled(kept):
    kept()
    assert len(records.load()) == 5
    for chance in tries("results", least=60):
        found = kept()
        path = chance.choice(found)
        whole = path.read_bytes()
        done = mangle(path, found, chance)
        if path.is_file() and path.read_bytes() == whole:
            continue
        with nothing_but(RecordError, done):
            bad = [problem for _, problem in records.validate_all() if problem]
            # A record of its own has no digest over it; everything else has, and its loss is seen.
            assert bad or path.suffix == ".json", done
        with nothing_but(RecordError, done):
            for record in records.load():
                records.requests(record)
        with nothing_but(RecordError, done):
            records.pack()
