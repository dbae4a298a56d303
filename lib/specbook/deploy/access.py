"""Whether the server's key guards every path, but for those who bring none: probes, and Prometheus."""

from collections.abc import Iterator

from specbook.deploy.objects import PodTemplate, find
from specbook.deploy.render import Manifest, title

KEY, OPEN_PATHS = "VLLM_API_KEY", "SPECBOOK_OPEN_PATHS"
DOOR = "--middleware=specbook.engine.vllm.auth_middleware.Door"


def problems(manifests: list[Manifest], serving: PodTemplate) -> Iterator[str]:
    """One sentence for each path that the key leaves open, or shuts, against what is meant."""
    container = serving.spec["containers"][0]
    variables = {each["name"]: each.get("value", "") for each in container.get("env", [])}
    if KEY not in variables:
        return
    if DOOR not in container["args"]:
        yield f"{serving.name}: its key is asked for below /v1 only, add {DOOR}"
    for who, path in _keyless(manifests, serving, container):
        if path not in variables.get(OPEN_PATHS, "").split():
            yield f"{who} brings no key: name {path} in {OPEN_PATHS}"


def _keyless(
    manifests: list[Manifest], serving: PodTemplate, container: Manifest
) -> Iterator[tuple[str, str]]:
    """Who asks without a key, and for which path."""
    probes = [probe for name, probe in container.items() if name.endswith("Probe")]
    for path in sorted({probe["httpGet"]["path"] for probe in probes if "httpGet" in probe}):
        yield f"{serving.name}: a probe", path
    for monitor in find(manifests, "PodMonitor"):
        for endpoint in monitor["spec"]["podMetricsEndpoints"]:
            if "authorization" not in endpoint:
                yield title(monitor), endpoint.get("path", "/metrics")
