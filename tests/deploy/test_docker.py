"""The images: what they copy is there, what they install is locked, and they fit the manifests."""

import fnmatch
import re
import shlex
import tomllib

import pytest
from deploy_fixtures import DEPLOY, ROOT, manifests

from specbook.bench import provenance
from specbook.deploy.manifests import flag, pod_templates, server

ENGINES = ("cpu", "cuda")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
HOME = "/opt/specbook"


def instructions(engine: str) -> list[tuple[str, str]]:
    """A Dockerfile's instructions with their arguments, continued lines joined."""
    text = (DEPLOY / "docker" / f"{engine}.Dockerfile").read_text()
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def of(engine: str, name: str) -> list[str]:
    return [argument for instruction, argument in instructions(engine) if instruction == name]


def sent() -> list[str]:
    """What .dockerignore lets through: it names everything, then the exceptions."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    return [line[1:] for line in lines if line.startswith("!")]


@pytest.mark.parametrize("engine", ENGINES)
def test_what_is_copied_exists_and_is_sent(engine):
    sources = [source for argument in of(engine, "COPY") for source in argument.split()[:-1]]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert any(fnmatch.fnmatch(source, pattern) for pattern in sent()), source


@pytest.mark.parametrize("engine", ENGINES)
def test_packages_come_from_the_lock_alone(engine):
    runs = " ".join(of(engine, "RUN"))
    assert f"make .venv/.locked ENGINE={engine}" in runs
    assert f"make .venv/.installed ENGINE={engine}" in runs
    assert "pip install" not in runs
    targets = (ROOT / "Makefile").read_text()
    assert "$(VENV)/.locked:" in targets
    assert "$(VENV)/.installed:" in targets


@pytest.mark.parametrize("engine", ENGINES)
def test_system_packages_are_those_of_ci(engine):
    words = shlex.split(of(engine, "RUN")[0].split("--no-install-recommends")[1].split("&&")[0])
    ci = set(re.findall(r"^need (\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert set(words) - {"python3.11", "ca-certificates"} <= ci
    assert {"g++", "make", "python3.11-dev", "python3.11-venv"} <= set(words)


@pytest.mark.parametrize("engine", ENGINES)
def test_the_image_runs_as_the_user_of_the_manifests(engine):
    (user,) = of(engine, "USER")
    for pod in pod_templates(manifests("gpu")):
        context = pod.spec["securityContext"]
        assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    (base,) = of(engine, "FROM")
    assert base == "debian:bookworm-slim"


@pytest.mark.parametrize("engine", ENGINES)
def test_the_tag_is_the_projects_version_everywhere(engine):
    tag = f"specbook-{engine}:{VERSION}"
    overlay = "cpu" if engine == "cpu" else "gpu"
    assert server(manifests(overlay)).spec["containers"][0]["image"] == tag
    assert f"-t {tag} ." in (DEPLOY / "docker" / f"{engine}.Dockerfile").read_text()
    assert f"-t {tag} ." in (DEPLOY / "README.md").read_text()


def test_the_cpu_image_holds_the_overlays_models():
    container = server(manifests("cpu")).spec["containers"][0]
    model = flag(container, "model")
    assert model.startswith(f"{HOME}/models/")
    assert (ROOT / model.removeprefix(f"{HOME}/") / "config.json").is_file()
    assert "models models" in of("cpu", "COPY")
    assert of("cpu", "WORKDIR") == [HOME]
    path = next(argument for argument in of("cpu", "ENV"))
    assert f"PATH={HOME}/.venv/bin:$PATH" in path  # `python` of the manifests' commands


@pytest.mark.parametrize("engine", ENGINES)
def test_an_image_names_its_commit_in_records(engine, monkeypatch):
    assert "COMMIT=" in of(engine, "ARG")
    assert "SPECBOOK_COMMIT=$COMMIT" in of(engine, "ENV")[0]
    monkeypatch.setenv("SPECBOOK_COMMIT", "f" * 40)
    assert provenance.git_state() == ("f" * 40, False)
