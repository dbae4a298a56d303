"""Programs that a machine may lack. Their tests are left out loudly; where CI can have them, they fail."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest


class Tool(NamedTuple):
    """A program under any of its names, and how to get it."""

    commands: tuple[str, ...]
    get: str
    ci: bool = True
    """CI can have it, so there its tests are never left out."""


OLDER_KUBECTL = "kubectl.1.27"
BESIDE_KUBECTL = (
    Path(shutil.which("kubectl", path=os.defpath) or "kubectl").resolve().with_name(OLDER_KUBECTL)
)
"""Where the Google Cloud CLI keeps older ones."""
ROOT = Path(__file__).parents[1]
CLUSTER = ROOT / "build" / "cluster" / "bin"


TOOLS = {
    "chromium": Tool(
        ("chromium", "chromium-browser", "google-chrome"),
        "sudo apt-get install chromium, or without root: .venv/bin/playwright install chromium",
    ),
    "promtool": Tool(("promtool",), "sudo apt-get install prometheus"),
    "an older kubectl": Tool(
        (OLDER_KUBECTL, str(BESIDE_KUBECTL)),
        f"put the kubectl of Kubernetes 1.27 on the path as {OLDER_KUBECTL}",
        ci=False,
    ),
    "cluster": Tool((str(CLUSTER / "kube-controller-manager"),), "make cluster", ci=False),
}
LEFT_OUT = "left out, for want of "


def need(name: str) -> str:
    """The program's path. Without it the test that asks is left out, or fails where CI is set."""
    if found := next(filter(None, map(shutil.which, TOOLS[name].commands)), None):
        return found
    if os.environ.get("CI") and TOOLS[name].ci:
        reason = f"CI is set, so nothing is left out, and {name} is missing: {TOOLS[name].get}"
        pytest.fail(reason, pytrace=False)
    pytest.skip(f"{LEFT_OUT}{name}")


def git(*arguments: str) -> str:
    """What git says in the project; without a checkout the test that asks is left out."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        pytest.skip(f"no git checkout: {done.stderr.strip()[:80]}")
    return done.stdout


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """After all else: what was tried again and why; programs that were missing, what that cost, the fix."""
    yield
    for report in terminalreporter.stats.get("rerun", []):
        why = getattr(report.longrepr, "reprcrash", None)
        terminalreporter.write_line(f"tried again: {report.nodeid}: {why and why.message}", yellow=True)
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", [])]
    counts = Counter(reason.rpartition(LEFT_OUT)[2] for reason in reasons if LEFT_OUT in reason)
    for name, n in counts.items():
        line = f"{n} tests were left out, for want of {name}. Get it: {TOOLS[name].get}"
        terminalreporter.write_line(line, yellow=True, bold=True)
