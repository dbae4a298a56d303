"""kubectl as a library: one cluster of a kubeconfig, its commands, and its API through `kubectl proxy`."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from specbook import paths
from specbook.deploy.render import Manifest, kubectl
from specbook.errors import ClusterError

TIMEOUT_S = 60
LOCAL_CONTEXT = "specbook-local"
CONTEXT = "SPECBOOK_CONTEXT"


def local_kubeconfig() -> Path:
    """The kubeconfig that `make cluster` writes."""
    return paths.root() / "build" / "cluster" / "run" / "kubeconfig"


def selected() -> str | None:
    """The context that experiments run on: `SPECBOOK_CONTEXT`, else that of `make cluster` if it is there.

    None stands for the kubeconfig's current one.
    """
    return os.environ.get(CONTEXT) or (LOCAL_CONTEXT if local_kubeconfig().is_file() else None)


@dataclass(frozen=True)
class Kubectl:
    """One cluster, as kubectl reaches it."""

    context: str | None = None
    """A context of the kubeconfig; None for the current one."""
    kubeconfig: Path | None = None
    """None for $KUBECONFIG or ~/.kube/config; the context of `make cluster` has its own file."""

    def command(self, *arguments: str) -> list[str]:
        """The command line of one call."""
        own = local_kubeconfig() if self.context == LOCAL_CONTEXT else None
        chosen = {"--kubeconfig": self.kubeconfig or own, "--context": self.context}
        return [kubectl(), *(f"{name}={value}" for name, value in chosen.items() if value), *arguments]

    def run(self, *arguments: str, stdin: str | None = None, timeout_s: float = TIMEOUT_S) -> str:
        """Standard output of one call.

        Raises:
            ClusterError: with what kubectl printed, if it fails or takes longer than `timeout_s`.
        """
        try:
            done = subprocess.run(
                self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=timeout_s
            )
        except subprocess.TimeoutExpired:
            raise ClusterError(f"kubectl {arguments[0]} took more than {timeout_s:g} s") from None
        if done.returncode != 0:
            raise ClusterError(f"kubectl {arguments[0]}: {done.stderr.strip().removeprefix('error: ')}")
        return done.stdout

    def apply(self, manifests: list[Manifest], *options: str) -> str:
        """Apply objects by server-side apply."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        return self.run("apply", "--server-side", *options, "-f", "-", stdin=text)

    def get(self, *arguments: str) -> dict[str, Any]:
        """What `kubectl get` reads, as an object."""
        return json.loads(self.run("get", *arguments, "--output=json"))

    @contextmanager
    def proxy(self) -> Iterator[httpx.Client]:
        """A client of the cluster's API with the rights of the context, while `kubectl proxy` runs.

        Raises:
            ClusterError: if the proxy does not start.
        """
        process = subprocess.Popen(
            self.command("proxy", "--port=0"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert process.stdout
            first = process.stdout.readline().strip()  # "Starting to serve on 127.0.0.1:40123"
            address = first.rpartition(" ")[2]
            if not first.startswith("Starting to serve"):
                raise ClusterError(f"kubectl proxy: {first.removeprefix('error: ') or 'ended at once'}")
            with httpx.Client(base_url=f"http://{address}", trust_env=False, timeout=10) as client:
                yield client
        finally:
            process.terminate()
            process.wait()
