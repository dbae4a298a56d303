"""What each pod must have before it may go on a cluster: restricted, pinned, bounded."""

from collections.abc import Iterator

from specbook.deploy.objects import PodTemplate
from specbook.deploy.redact import sounds_secret
from specbook.deploy.render import Manifest

BUILT_IN_TOKEN = "automountServiceAccountToken"


def pod_problems(pod: PodTemplate) -> Iterator[str]:
    """One sentence for each rule a pod breaks."""
    spec = pod.spec
    if spec.get("enableServiceLinks", True):
        yield f"{pod.name}: set enableServiceLinks: false (a Service called vllm would set VLLM_PORT)"
    if spec.get(BUILT_IN_TOKEN, True) and "serviceAccountName" not in spec:
        yield f"{pod.name}: set {BUILT_IN_TOKEN}: false (it never talks to the API server)"
    context = spec.get("securityContext", {})
    if not context.get("runAsNonRoot") or context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield f"{pod.name}: the pod's securityContext needs runAsNonRoot and seccompProfile RuntimeDefault"
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        yield from _container_problems(f"{pod.name}, container {container['name']}", container)


def _container_problems(where: str, container: Manifest) -> Iterator[str]:
    context = container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation", True) or context.get("capabilities", {}).get("drop") != [
        "ALL"
    ]:
        yield f"{where}: the namespace is restricted: allowPrivilegeEscalation: false and drop ALL"
    if not pinned(container["image"]):
        yield f"{where}: image {container['image']!r} is not pinned: name a release tag or a digest"
    if "memory" not in container.get("resources", {}).get("limits", {}):
        yield f"{where}: without a memory limit it may take the node with it"
    for variable in filter(sounds_secret, container.get("env", [])):
        yield f"{where}: {variable['name']} is written out: who may read pods may read it. Use a Secret"
    for port in container.get("ports", []):
        if "protocol" not in port:
            yield f"{where}: port {port['containerPort']} names no protocol, by which apply merges"


def pinned(image: str) -> bool:
    """Whether an image names a digest, or a tag other than `latest`."""
    if "@sha256:" in image:
        return True
    _, colon, tag = image.rsplit("/", 1)[-1].partition(":")
    return bool(colon) and tag not in ("", "latest")
