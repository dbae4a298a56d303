"""kubectl as a library: one cluster of a kubeconfig, its commands, and its API through `kubectl proxy`."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from specbook import paths
from specbook.errors import ClusterError, ConfigError
from specbook.suggestions import near

if TYPE_CHECKING:
    import httpx

Manifest = dict[str, Any]
TIMEOUT_S = 60
OLDEST = 27
"""N of the oldest kubectl 1.N that is known to render every overlay as the newest does."""
INSTALL = "`make setup` installs kubectl beside Python"
LOCAL_CONTEXT = "specbook-local"
CONTEXT = "SPECBOOK_CONTEXT"
WHOLE = {"KUBECTL_EXTERNAL_DIFF": "diff -U99999 -N -r"}
"""`kubectl diff` with every line of both sides, so that both can be read."""
WITHOUT = {
    "monitoring.coreos.com": "install the Prometheus operator, or apply overlays/cpu, which does without it",
    "keda.sh": "install KEDA, or apply overlays/gpu, which scales with a HorizontalPodAutoscaler",
    "http.keda.sh": "install KEDA's HTTP add-on (0.15 or later)",
    "leaderworkerset.x-k8s.io": "install LeaderWorkerSet, or serve a model that fits one node",
    "resource.k8s.io": "Dynamic Resource Allocation needs Kubernetes 1.34: or apply overlays/neuron",
}
"""API group to what a cluster without it needs."""
FIXES = (
    (r"exceeded quota", "raise the quota, or ask for less"),
    (r"being terminated", "wait until it is gone, then apply again"),
    (r"forbidden", "have an administrator grant deploy/rbac.yaml"),
    (r"Unauthorized|logged in", "log in again, or renew the kubeconfig (401)"),
    (r"Apply failed with", "--force-conflicts takes these fields over, a rollback's too"),
    (r"progress deadline|unable to listen|lost connection|waiting for the condition", ""),
    (r"x509|certificate", "correct certificate-authority in the kubeconfig"),
    (r"was refused|nable to connect|timeout|timed out|deadline|handshake|reset by peer|EOF|no such host",
     "bring the cluster up, or correct its address in the kubeconfig"),
    (r"\(NotFound\)", "apply the overlay first"),
)  # fmt: skip
"""Pattern to fix; the first that matches counts."""
NO_KUBECONFIG = re.compile(
    r"error loading config file|localhost:8080|^error: stat |current-context must", re.MULTILINE
)
NO_CONTEXT = re.compile(r'context "([^"]+)" does not exist|(?:specified context:|locate context) "?([^"\n]+)')
NO_KIND = re.compile(r'no matches for kind "(\w+)" in version "([\w./]+)"')
UNKNOWN = re.compile(r"unknown (shorthand )?flag|unknown command")
NOISE = re.compile(r"[EIWF]\d{4} |Warning:|Flag --")
PREFIX = re.compile(r"^(error: |Error from server(?: \(\w+\))?: |Error in configuration: )+")
WHOLE_OBJECT = re.compile(r"Invalid value: \S*\{.*\}: ")
"""The server quotes the object that it refuses, values of variables included."""


class KubectlError(ClusterError):
    """A call that failed, explained; `stderr` is what kubectl printed, which may hold secrets."""

    def __init__(self, message: str, stderr: str) -> None:
        super().__init__(message)
        self.stderr = stderr


def local_kubeconfig() -> Path:
    """The kubeconfig that `make cluster` writes."""
    return paths.root() / "build" / "cluster" / "run" / "kubeconfig"


def selected() -> str:
    """The context that experiments run on: `SPECBOOK_CONTEXT`, else that of `make cluster`.

    Raises:
        ClusterError: if there is neither. Whoever has a current context has not said that pods may be killed.
    """
    if context := os.environ.get(CONTEXT) or (local_kubeconfig().is_file() and LOCAL_CONTEXT):
        return context
    raise ClusterError(
        "no cluster is named for experiments, which replace a Deployment, kill pods and take the metrics API "
        f"away. To fix: `make cluster`, or name a context of your kubeconfig in {CONTEXT}"
    )


def program() -> str:
    """The kubectl beside this Python, else the one on the path; ConfigError if there is none."""
    beside = Path(sys.executable).with_name("kubectl")
    path = str(beside) if beside.is_file() else shutil.which("kubectl")
    if not path:
        raise ConfigError(f"kubectl is missing. To fix: {INSTALL}")
    return path


@contextmanager
def runnable() -> Iterator[None]:
    """While kubectl starts: ConfigError if it cannot, for it may be no program of this machine's."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"{program()} cannot be run ({error.strerror}). To fix: {INSTALL}") from error


def outdated() -> str:
    """The fix where kubectl is older than OLDEST, to say of what it refused; empty where it is not."""
    asked = [program(), "version", "--client", "--output=json"]
    try:
        stdout = subprocess.run(asked, capture_output=True, text=True, timeout=TIMEOUT_S).stdout
        minor = minor_of(json.loads(stdout)["clientVersion"])
    except (OSError, ValueError, LookupError, TypeError, subprocess.TimeoutExpired):
        return ""
    older = f"this kubectl is 1.{minor}, and 1.{OLDEST} is the oldest that was tried: {INSTALL}"
    return f". To fix: {older}" if minor < OLDEST else ""


def minor_of(version: dict[str, Any]) -> int:
    """The N of Kubernetes 1.N in what a server or kubectl says of its version, as `34` or `34+`."""
    return int(re.sub(r"\D", "", version["minor"]))


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
        return [program(), *(f"{name}={value}" for name, value in chosen.items() if value), *arguments]

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
            with runnable():
                done = subprocess.run(
                    self.command(*arguments), input=stdin, capture_output=True, timeout=timeout_s,
                    encoding="utf-8", errors="replace", env=os.environ | (environment or {}),
                )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise self._error(arguments[0], f"timeout after {timeout_s:g} s") from None
        if done.returncode not in fine:
            raise self._error(arguments[0], done.stderr)
        return done.stdout

    def _error(self, command: str, stderr: str) -> KubectlError:
        def contexts() -> list[str]:
            return replace(self, context=None).run("config", "get-contexts", "--output=name").split()

        older = outdated() if UNKNOWN.search(stderr) else ""
        return KubectlError(f"kubectl {command}: {explain(stderr, contexts)}{older}", stderr)

    def where(self) -> tuple[str, str]:
        """Context and address of the API server; KubectlError if there is no such context, or no answer."""
        self.run("get", "--raw=/version")
        both = "jsonpath={.contexts[0].name} {.clusters[0].cluster.server}"
        context, _, server = self.run("config", "view", "--minify", f"--output={both}").rpartition(" ")
        return context, server

    def minor(self) -> int:
        """The N of the server's Kubernetes 1.N."""
        return minor_of(json.loads(self.run("get", "--raw=/version")))

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
        """Port on 127.0.0.1 and output of a kubectl, for this block; KubectlError if it never listens."""
        with runnable():
            process = subprocess.Popen(
                self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        try:
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
    def proxy(self) -> "Iterator[httpx.Client]":
        """A client of the cluster's API with the context's rights in this block; KubectlError if it fails."""
        import httpx

        with (
            self.listening("proxy", "--port=0") as (port, _),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=10) as client,
        ):
            yield client


def explain(stderr: str, contexts: Callable[[], list[str]]) -> str:
    """One message for what kubectl printed on standard error.

    Args:
        contexts: names in the kubeconfig, asked for only where one is misspelt.
    """
    if NO_KUBECONFIG.search(stderr):  # without what kubectl says: it may quote the file, and so a token
        return "no usable kubeconfig. To fix: name one with --kubeconfig, or `make cluster` makes one"
    if match := NO_CONTEXT.search(stderr):
        name = match[1] or match[2]
        return f"no context {name!r} in the kubeconfig{near(name, contexts())}"
    if kinds := dict.fromkeys(NO_KIND.findall(stderr)):
        return "; ".join(missing_kind(version, kind) for kind, version in kinds)
    fix = next((fix for pattern, fix in FIXES if re.search(pattern, stderr)), "")
    return f"{brief(stderr)}. To fix: {fix}" if fix else brief(stderr)


def missing_kind(api_version: str, kind: str) -> str:
    """What to say when a cluster lacks a kind."""
    fix = WITHOUT.get(api_version.partition("/")[0], "install what provides it")
    return f"the cluster does not know {kind} ({api_version}). To fix: {fix}"


def brief(stderr: str) -> str:
    """The message without log lines, repetitions, advice of several lines, and whole objects."""
    lines = (line.strip() for line in stderr.partition("Please review")[0].splitlines())
    kept = (PREFIX.sub("", WHOLE_OBJECT.sub("", line)) for line in lines if line and not NOISE.match(line))
    return "; ".join(dict.fromkeys(kept)) or "kubectl failed and printed nothing"
