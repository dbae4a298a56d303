"""What kubectl printed, as one message: what is wrong, and how to fix it."""

import re
from collections.abc import Callable

from specbook.suggestions import near

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
NOISE = re.compile(r"[EIWF]\d{4} |Warning:|Flag --")
PREFIX = re.compile(r"^(error: |Error from server(?: \(\w+\))?: |Error in configuration: )+")
WHOLE_OBJECT = re.compile(r"Invalid value: \S*\{.*\}: ")
"""The server quotes the object that it refuses, values of variables included."""


def explain(said: str, contexts: Callable[[], list[str]]) -> str:
    """One message for what kubectl printed on standard error.

    Args:
        contexts: names in the kubeconfig, asked for only where one is misspelt.
    """
    if NO_KUBECONFIG.search(said):  # without what kubectl says: it may quote the file, and so a token
        return "no usable kubeconfig. To fix: name one with --kubeconfig, or `make cluster` makes one"
    if match := NO_CONTEXT.search(said):
        name = match[1] or match[2]
        return f"no context {name!r} in the kubeconfig{near(name, contexts())}"
    if kinds := dict.fromkeys(NO_KIND.findall(said)):
        return "; ".join(missing_kind(version, kind) for kind, version in kinds)
    fix = next((fix for pattern, fix in FIXES if re.search(pattern, said)), "")
    return f"{brief(said)}. To fix: {fix}" if fix else brief(said)


def missing_kind(api_version: str, kind: str) -> str:
    """What to say when a cluster lacks a kind."""
    fix = WITHOUT.get(api_version.partition("/")[0], "install what provides it")
    return f"the cluster does not know {kind} ({api_version}). To fix: {fix}"


def brief(said: str) -> str:
    """The message without log lines, repetitions, advice of several lines, and whole objects."""
    lines = (line.strip() for line in said.partition("Please review")[0].splitlines())
    kept = (PREFIX.sub("", WHOLE_OBJECT.sub("", line)) for line in lines if line and not NOISE.match(line))
    return "; ".join(dict.fromkeys(kept)) or "kubectl failed and printed nothing"
