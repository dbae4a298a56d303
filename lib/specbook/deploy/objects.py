"""Reading manifests: which pods an object makes, what a selector picks, what a container was told."""

from collections.abc import Iterator
from dataclasses import dataclass

from specbook.deploy.render import Manifest, title
from specbook.errors import ConfigError

ACCELERATORS = ("nvidia.com/gpu", "aws.amazon.com/neuron")


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
    """A number that a manifest holds as text.

    Raises:
        ConfigError: if it is none.
    """
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
    """The Deployment that serves; else the first there is.

    Raises:
        ConfigError: if there is none.
    """
    serving = server(manifests)
    candidates = [*([serving.owner] if serving else []), *find(manifests, "Deployment")]
    found = next((each for each in candidates if each["kind"] == "Deployment"), None)
    if found is None:
        raise ConfigError(
            "the overlay has no Deployment, and nothing else is waited for, watched or rolled back"
        )
    return found
