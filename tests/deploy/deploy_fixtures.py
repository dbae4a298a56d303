"""Rendered manifests and a control plane, once a session; a tool; what the engine exports."""

import copy
import functools
import importlib.util
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_plane import Kubelet, running

import tools
from specbook.deploy import kubectl
from specbook.deploy.kubectl import Kubectl
from specbook.deploy.manifests import render

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
OVERLAYS = sorted(path.name for path in (DEPLOY / "overlays").iterdir() if path.is_dir())
COMPONENTS = sorted(path.name for path in (DEPLOY / "components").iterdir() if path.is_dir())
UNDER = {"multi-node": "tensor-parallel", "campaign-cpu": "cpu"}
"""The overlay that a component is made for, where it is not `gpu`."""


rendered = functools.cache(render)
"""Objects of a folder; kubectl takes half a second."""


def manifests(overlay: str) -> list:
    """The objects of an overlay, or of `base`; a fresh copy, to be spoilt at will."""
    folder = DEPLOY / overlay if overlay == "base" else DEPLOY / "overlays" / overlay
    return copy.deepcopy(rendered(folder))


@pytest.fixture(scope="session")
def on_top(tmp_path_factory):
    """The folder of a kustomization beside copies of the overlays: kustomize wants them below one folder."""
    top = tmp_path_factory.mktemp("kustomize")
    shutil.copytree(DEPLOY, top / "deploy")

    @functools.cache
    def write(text: str) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="top-", dir=top / "deploy" / "overlays"))
        (folder / "kustomization.yaml").write_text(text)
        return folder

    return write


def component_on_top(component: str, overlay: str | None = None) -> str:
    """The kustomization of an overlay with one component."""
    below = overlay or UNDER.get(component, "gpu")
    return f"resources: [../{below}]\ncomponents: [../../components/{component}]\n"


@pytest.fixture(scope="session")
def with_component(on_top):
    """The objects of an overlay with one component on top."""

    def build(component: str, overlay: str | None = None) -> list:
        return copy.deepcopy(rendered(on_top(component_on_top(component, overlay))))

    return build


@pytest.fixture
def oldest_kubectl(monkeypatch):
    """Renders by the kubectl of the oldest Kubernetes whose answers were compared."""
    found = tools.need("an older kubectl")
    monkeypatch.setattr(kubectl, "program", lambda: found)


@pytest.fixture(scope="session")
def promtool() -> str:
    return tools.need("promtool")


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory) -> Iterator[Path]:
    """The kubeconfig of a real control plane, whose deployers have the rights of deploy/rbac.yaml."""
    tools.need("cluster")
    with running(tmp_path_factory.mktemp("control-plane")) as kubeconfig:
        yield kubeconfig


@pytest.fixture(scope="session")
def kubelet(control_plane) -> Iterator[Kubelet]:
    """Pods get ready and Jobs complete, unless a test says otherwise."""
    ended = threading.Event()
    with Kubectl("admin", control_plane).proxy() as client:
        kubelet = Kubelet(client)
        thread = threading.Thread(target=kubelet.run, args=(ended,))
        thread.start()
        yield kubelet
        ended.set()
        thread.join()


def vllm_source(*parts: str) -> str:
    """The text of a file of the installed engine; nothing of it is imported."""
    folder = Path(importlib.util.find_spec("vllm").submodule_search_locations[0])
    return folder.joinpath(*parts).read_text()


@functools.cache
def engine_metrics() -> frozenset[str]:
    """Every name that the installed vLLM's /metrics shows, by its source; histograms as three series."""
    kinds = {
        "_gauge_cls": ("",),
        "_counter_cls": ("_total",),
        "_histogram_cls": ("_bucket", "_sum", "_count"),
    }
    text = vllm_source("v1", "metrics", "loggers.py") + vllm_source("v1", "spec_decode", "metrics.py")
    made = re.findall(r"\._?(\w+_cls)\(\s*name=\"(vllm:\w+)\"", text)
    looped = [("counter_cls", name) for name in re.findall(r"\(\"(vllm:spec_decode_\w+)\",", text)]
    return frozenset(
        name.removesuffix("_total") + ending if ending == "_total" else name + ending
        for kind, name in [*made, *looped]
        for ending in kinds[f"_{kind}"]
    )


def state_metrics() -> set[str]:
    """What kube-state-metrics exports, from the list beside this file."""
    lines = (Path(__file__).parent / "kube_state_metrics.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


QUOTED = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'")
BRACES = re.compile(r"\{[^{}]*\}")
LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
DURATION = re.compile(r"\[[^\[\]]*\]|\boffset\s+-?\w+")
SERIES = re.compile(r"(?<![\w:.])[A-Za-z_:][A-Za-z0-9_:]*(?!\s*\()(?![A-Za-z0-9_:])")
KEYWORDS = {"and", "or", "unless", "bool", "inf", "nan", "group_left", "group_right"}


def metrics(expression: str) -> set[str]:
    """Names of the series that an expression reads; histograms keep their `_bucket`, `_sum` or `_count`."""
    named = set(re.findall(r'__name__\s*=\s*"([^"]+)"', expression))
    text = QUOTED.sub('""', expression)
    for noise in (BRACES, LABELS, DURATION):
        text = noise.sub(" ", text)
    return named | {word for word in SERIES.findall(text) if word.lower() not in KEYWORDS}
