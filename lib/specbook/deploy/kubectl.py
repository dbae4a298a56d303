"""kubectl as a library: one cluster of a kubeconfig, its commands, and its API through `kubectl proxy`."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import httpx

from specbook import paths
from specbook.deploy.explain import explain
from specbook.deploy.render import Manifest, kubectl
from specbook.errors import ClusterError

TIMEOUT_S = 60
LOCAL_CONTEXT = "specbook-local"
CONTEXT = "SPECBOOK_CONTEXT"
WHOLE = {"KUBECTL_EXTERNAL_DIFF": "diff -U99999 -N -r"}
"""`kubectl diff` with every line of both sides, so that both can be read."""


class KubectlError(ClusterError):
    """A call that failed, explained; `said` is what kubectl printed, which may hold secrets."""

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


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

    def run(
        self, *arguments: str, stdin: str | None = None, timeout_s: float = TIMEOUT_S,
        fine: tuple[int, ...] = (0,), environment: dict[str, str] | None = None,
    ) -> str:  # fmt: skip
        """Standard output of one call.

        Args:
            fine: exit codes that are no failure.
            environment: variables beside this process's own.

        Raises:
            KubectlError: if it fails or takes longer than `timeout_s`.
        """
        try:
            done = subprocess.run(
                self.command(*arguments), input=stdin, capture_output=True, text=True, timeout=timeout_s,
                env=os.environ | (environment or {}),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._error(arguments[0], f"timeout after {timeout_s:g} s") from None
        if done.returncode not in fine:
            raise self._error(arguments[0], done.stderr)
        return done.stdout

    def _error(self, command: str, said: str) -> KubectlError:
        def contexts() -> list[str]:
            return replace(self, context=None).run("config", "get-contexts", "--output=name").split()

        return KubectlError(f"kubectl {command}: {explain(said, contexts)}", said)

    def where(self) -> tuple[str, str]:
        """Context and address of the API server, which answers.

        Raises:
            KubectlError: if there is no such context, or no answer.
        """
        self.run("get", "--raw=/version")
        both = "jsonpath={.contexts[0].name} {.clusters[0].cluster.server}"
        context, _, server = self.run("config", "view", "--minify", f"--output={both}").rpartition(" ")
        return context, server

    def minor(self) -> int:
        """The N of the server's Kubernetes 1.N."""
        return int(re.sub(r"\D", "", json.loads(self.run("get", "--raw=/version"))["minor"]))

    def apply(self, manifests: list[Manifest], *options: str) -> str:
        """Apply objects by server-side apply."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
        return self.run("apply", "--server-side", *options, "-f", "-", stdin=text)

    def diff(self, manifest: Manifest, *options: str) -> str:
        """What server-side apply would change, tried on the server; values of Secrets are masked."""
        return self.run(
            "diff", "--server-side", *options, "-f", "-", stdin=json.dumps(manifest), fine=(0, 1),
            environment=WHOLE,
        )  # fmt: skip

    def get(self, *arguments: str) -> dict[str, Any]:
        """What `kubectl get` reads, as an object."""
        return json.loads(self.run("get", *arguments, "--output=json"))

    @contextmanager
    def listening(self, *arguments: str) -> Iterator[tuple[int, IO[str]]]:
        """Port on 127.0.0.1 and output of a kubectl that serves while the block lasts.

        Raises:
            KubectlError: if it ends before it listens.
        """
        process = subprocess.Popen(
            self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            assert process.stdout
            lines = []
            for line in process.stdout:
                lines.append(line)
                if match := re.match(r"(?:Starting|Forwarding).* 127\.0\.0\.1:(\d+)", line):
                    yield int(match[1]), process.stdout
                    return
            raise self._error(arguments[0], "".join(lines))
        finally:
            process.terminate()
            process.wait()

    @contextmanager
    def proxy(self) -> Iterator[httpx.Client]:
        """A client of the cluster's API with the rights of the context, while `kubectl proxy` runs.

        Raises:
            KubectlError: if the proxy does not start.
        """
        with (
            self.listening("proxy", "--port=0") as (port, _),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10) as client,
        ):
            yield client
