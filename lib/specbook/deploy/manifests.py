"""Manifests: rendered by kustomize, read, shown without their secrets, and in an older API server's words."""

import copy
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from specbook import paths
from specbook.deploy import kubectl
from specbook.deploy.kubectl import Kubectl, KubectlError, Manifest
from specbook.errors import ConfigError
from specbook.suggestions import LOADER, near

KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""Names under which kustomize takes its file."""
ACCELERATORS = ("nvidia.com/gpu", "aws.amazon.com/neuron")
SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
QUANTITY = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGT]?i?)")
SECRET_NAME = re.compile(r"(^|_)(KEY|TOKEN|SECRET|PASSWORD)(_|$)")
SALT = secrets.token_bytes(16)
"""Another in each process: a digest must not serve to guess a short secret."""
SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
RENAMED = {
    ("autoscaling/v2", "HorizontalPodAutoscaler"): (23, "autoscaling/v2beta2"),
    ("policy/v1", "PodDisruptionBudget"): (21, "policy/v1beta1"),
}
"""API version and kind -> the minor release of Kubernetes 1 that brought it, and its name before."""
FIELDS = {
    ("PodDisruptionBudget", "unhealthyPodEvictionPolicy"): 27,
    ("Job", "podFailurePolicy"): 26,
    ("Job", "backoffLimitPerIndex"): 29,
    ("Job", "maxFailedIndexes"): 29,
}
"""Kind and field of its spec -> the minor release that has it on by default (KEP-3017, -3329, -3850)."""
SLEEP_SINCE = 30
"""The `sleep` action of preStop (KEP-3960, on by default)."""
INDEXED_JOBS_SINCE = 22
"""`completionMode: Indexed` (KEP-2214, on by default)."""


def overlay(name: str) -> Path:
    """The folder of an overlay: ours by name, or any with a kustomization; ConfigError if it is neither."""
    ours = paths.root() / "deploy" / "overlays"
    known = sorted(path.name for path in ours.glob("*/") if (path / "kustomization.yaml").is_file())
    folder = ours / name if name in known else Path(name)
    # False, and no error, where the name is too long for a file.
    if not any(os.path.isfile(folder / file) for file in KUSTOMIZATIONS):
        raise ConfigError(f"no overlay {name!r}{near(name, known)}")
    return folder


def render(folder: Path) -> list[Manifest]:
    """The objects of a kustomization, in kustomize's order; ConfigError if kustomize refuses it."""
    try:
        text = Kubectl().run("kustomize", str(folder))
    except KubectlError as error:
        lines = error.stderr.strip().removeprefix("error: ").splitlines() or ["it gives no reason"]
        raise ConfigError(f"kustomize refuses {folder}: {lines[0]}{kubectl.outdated()}") from None
    return [document for document in yaml.load_all(text, LOADER) if document]


def title(manifest: Manifest) -> str:
    """Kind, namespace and name: `Deployment specbook/specbook-server`."""
    metadata = manifest.get("metadata", {})
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest.get('kind', '?')} {where}{metadata.get('name', '?')}"


@dataclass(frozen=True)
class PodTemplate:
    """A pod that an object makes."""

    owner: Manifest
    labels: dict[str, str]
    spec: Manifest

    @property
    def name(self) -> str:
        """Kind, namespace and name of the object that makes it."""
        return title(self.owner)


def find(manifests: list[Manifest], kind: str) -> list[Manifest]:
    """All objects of a kind."""
    return [manifest for manifest in manifests if manifest.get("kind") == kind]


def pod_templates(manifests: list[Manifest]) -> Iterator[PodTemplate]:
    """Every pod that these objects would make."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        groups = spec.get("leaderWorkerTemplate", {})
        for template in (spec.get("template"), groups.get("leaderTemplate"), groups.get("workerTemplate")):
            if template:
                yield PodTemplate(manifest, template.get("metadata", {}).get("labels", {}), template["spec"])


def selects(selector: Manifest, labels: dict[str, str]) -> bool:
    """Whether a label selector (or a Service's plain map) picks a pod with these labels."""
    wanted = selector.get("matchLabels", {} if "matchExpressions" in selector else selector)
    return all(labels.get(key) == value for key, value in wanted.items())


def flag(container: Manifest, name: str) -> str | None:
    """The value of `--name=value` among a container's arguments."""
    given = [arg for arg in container.get("args", []) if arg.startswith(f"--{name}=")]
    return given[-1].split("=", 1)[1] if given else None


def number(text: str, what: str) -> float:
    """A number that a manifest holds as text; ConfigError if it is none."""
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{what} is {text!r}: write a number") from None


def annotation(pod: PodTemplate, name: str) -> float | None:
    """The number of `specbook/<name>` on the object that makes the pod."""
    text = pod.owner["metadata"].get("annotations", {}).get(f"specbook/{name}")
    return None if text is None else number(text, f"{pod.name}: specbook/{name}")


def accelerators(spec: Manifest) -> int:
    """Devices that a pod takes, by device plugin; 0 for a CPU pod or one that claims its devices."""
    limits = [container.get("resources", {}).get("limits", {}) for container in spec["containers"]]
    return sum(int(limit.get(name, 0)) for limit in limits for name in ACCELERATORS)


def server(manifests: list[Manifest]) -> PodTemplate | None:
    """The pod that serves; None where nothing does."""
    serving = {"app.kubernetes.io/name": "specbook", "app.kubernetes.io/component": "server"}
    return next((pod for pod in pod_templates(manifests) if selects(serving, pod.labels)), None)


def deployment(manifests: list[Manifest]) -> Manifest:
    """The Deployment that serves, else the first there is; ConfigError if there is none."""
    serving = server(manifests)
    candidates = [*([serving.owner] if serving else []), *find(manifests, "Deployment")]
    manifest = next((each for each in candidates if each["kind"] == "Deployment"), None)
    if manifest is None:
        raise ConfigError(
            "the overlay has no Deployment, and nothing else is waited for, watched or rolled back"
        )
    return manifest


def quantity(text: str) -> float:
    """The number that a Kubernetes quantity stands for: `1500m` is 1.5, `2k` is 2000, `1Gi` is 2**30.

    Raises:
        ValueError: if it is no quantity.

    Source: Kubernetes, "Quantity" in the API reference (read 2026-11).
    """
    match = QUANTITY.fullmatch(text)
    if not match or match[2] not in SUFFIXES:
        raise ValueError(f"{text!r} is no Kubernetes quantity")
    return float(match[1]) * SUFFIXES[match[2]]


def hidden(value: str) -> str:
    """Says only whether two values are the same."""
    return f"<hidden {hashlib.blake2b(value.encode(), key=SALT, digest_size=3).hexdigest()}>"


def printable(manifest: Manifest) -> Manifest:
    """A copy that may be printed: what only the server writes is left out, secrets are hidden."""
    clean = copy.deepcopy(manifest)
    clean.pop("status", None)
    metadata = clean.get("metadata", {})
    for name in SERVER_FIELDS:
        metadata.pop(name, None)
    metadata.get("annotations", {}).pop(LAST_APPLIED, None)  # repeats the whole object, secrets included
    if clean.get("kind") == "Secret":
        # All under `data`: there what is hidden is no base64, so nobody applies it by mistake.
        values = (clean.pop("data", None) or {}) | (clean.pop("stringData", None) or {})
        clean["data"] = {key: hidden(str(value)) for key, value in values.items()}
    _hide_variables(clean)
    return clean


def sounds_secret(variable: Manifest) -> bool:
    """Whether this is an environment variable with a secret's name and a value written out."""
    name, value = variable.get("name"), variable.get("value")
    return isinstance(name, str) and isinstance(value, str) and bool(SECRET_NAME.search(name.upper()))


def _hide_variables(node: object) -> None:
    if isinstance(node, list):
        for item in node:
            _hide_variables(item)
    elif isinstance(node, dict):
        if sounds_secret(node):
            node["value"] = hidden(node["value"])
        for item in node.values():
            _hide_variables(item)


def served(api_version: str, kind: str, minor: int) -> str:
    """The API version under which a server of Kubernetes 1.`minor` has a kind."""
    since, before = RENAMED.get((api_version, kind), (0, api_version))
    return api_version if minor >= since else before


def translated(manifests: list[Manifest], minor: int) -> tuple[list[Manifest], list[str]]:
    """The same objects in the words of Kubernetes 1.`minor`, and one line for each word that was changed."""
    changed, notes = [], []
    for manifest in copy.deepcopy(manifests):
        changed += (some := _jobs(manifest, minor))
        notes += [f"Job {manifest['metadata']['name']}: one Job for each index"] * (len(some) > 1)
    return changed, list(dict.fromkeys([*notes, *_translate(changed, minor)]))


def _jobs(manifest: Manifest, minor: int) -> list[Manifest]:
    """An indexed Job as one Job for each index, where the server has none; anything else as it is."""
    spec = manifest.get("spec", {})
    if manifest["kind"] != "Job" or spec.get("completionMode") != "Indexed" or minor >= INDEXED_JOBS_SINCE:
        return [manifest]
    jobs = []
    for index in range(spec["completions"]):
        job = copy.deepcopy(manifest)
        for name in ("completionMode", "completions", "parallelism"):
            job["spec"].pop(name, None)
        job["metadata"]["name"] += f"-{index}"
        for container in job["spec"]["template"]["spec"]["containers"]:
            container.setdefault("env", []).append({"name": "JOB_COMPLETION_INDEX", "value": str(index)})
        jobs.append(job)
    return jobs


def _translate(manifests: list[Manifest], minor: int) -> Iterator[str]:
    for manifest in manifests:
        kind, version = manifest["kind"], manifest["apiVersion"]
        if (older := served(version, kind, minor)) != version:
            yield f"{kind}: {version} is {older}"
            manifest["apiVersion"] = older
        for (of_kind, field), since in FIELDS.items():
            if of_kind == kind and minor < since and manifest["spec"].pop(field, None) is not None:
                yield f"{kind}: {field} is left out"
    for pod in pod_templates(manifests) if minor < SLEEP_SINCE else ():
        for container in pod.spec["containers"]:
            hook = container.get("lifecycle", {}).get("preStop", {})
            if "sleep" in hook:
                seconds = hook.pop("sleep")["seconds"]
                hook["exec"] = {"command": ["sleep", str(seconds)]}
                yield "preStop: sleep is exec sleep"
