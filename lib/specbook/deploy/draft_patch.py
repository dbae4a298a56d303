"""A kustomization that lays another speculative config over an overlay."""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from specbook.deploy.manifests import Manifest, flag
from specbook.errors import ConfigError


def kustomization(overlay: str, server: Manifest, config: Mapping[str, Any] | None) -> str:
    """The text of a `kustomization.yaml` in a folder beside the overlay's; no config takes the draft away.

    The draft's weights stay where the overlay has them, and the patch tests the argument that it replaces.

    Args:
        server: the container that serves, of the overlay's Deployment.

    Raises:
        ConfigError: if the overlay serves no draft of this kind.
    """
    served = flag(server, "speculative-config")
    old = json.loads(served or "{}")
    kinds = [(one.get("method"), one.get("parallel_drafting", False)) for one in (old, config or old)]
    if served is None or kinds[0] != kinds[1]:
        raise ConfigError(f"overlay {overlay!r} serves no such draft. To fix: give the --overlay that does")
    argument = f"--speculative-config={served}"
    path = f"/spec/template/spec/containers/0/args/{server['args'].index(argument)}"
    change = {"op": "remove", "path": path}
    if config:
        new = json.dumps(
            {**config, **{key: old[key] for key in ("model",) if key in old}}, separators=(",", ":")
        )
        change = {"op": "replace", "path": path, "value": f"--speculative-config={new}"}
    operations = [{"op": "test", "path": path, "value": argument}, change]
    patch = yaml.safe_dump(operations, sort_keys=False, width=10_000).replace("\n", "\n      ").rstrip()
    return (
        "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n\n"
        f"resources: [../{overlay}]\npatches:\n  - target: {{kind: Deployment, name: specbook-server}}\n"
        f"    patch: |-\n      {patch}\n"
    )
