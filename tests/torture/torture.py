"""`make torture`: every hostile case, campaigns struck at random moments until the time is up, and a table.

python tests/torture/torture.py [--seed N] [--minutes M]. A seed fixes what is done and after which share of a
campaign; how far that campaign was by then is the machine's. What needs a real engine runs with `make test`.
"""

import argparse
import os
import random
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RANDOM = "random moments"
LAST_START_S = 60.0
"""Before the end, after which no case is begun; as long as the longest case took, where that is longer."""
RUN = "TORTURE_RUN"
"""Variable that all processes of one run inherit: by it those are found that outlive it."""
TRIES_S = 5.0
"""How long each case goes on that tries one thing after another."""


def known() -> dict[str, list[str]]:
    """Node ids by family."""
    return yaml.safe_load((HERE / "known.yaml").read_text())


def cases() -> list[str]:
    """Node ids, a folder's side by side: pytest forgets its fixtures once it has been in another folder."""
    names = {str(ROOT / name) for names in known().values() for name in names}
    return sorted(
        {*names, str(HERE / "moments.py")}, key=lambda name: (Path(name.partition("::")[0]).parent, name)
    )


class Table:
    """What became of each case, as pytest tells it; begins none after `deadline` (`time.monotonic`)."""

    def __init__(self, seed: int, deadline: float) -> None:
        self.seed, self.deadline, self.began = seed, deadline, time.monotonic()
        self.outcomes: dict[str, dict[str, str]] = defaultdict(dict)
        self.late, self.longest_s, self.lost, self.left = 0, 0.0, 0, 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Known cases first, then round after round of the random ones, each in another order."""
        chance = random.Random(self.seed)
        place = {id(item): (self._round(item), chance.random() if self._round(item) >= 0 else n)
                 for n, item in enumerate(items)}  # fmt: skip
        items.sort(key=lambda item: place[id(item)])

    def _round(self, item: pytest.Item) -> int:
        return item.callspec.params["nth"] if "moments.py" in item.nodeid else -1

    def pytest_runtest_protocol(self, item: pytest.Item) -> bool | None:
        """True, which leaves a case out, once the time is up."""
        if time.monotonic() < self.deadline - max(LAST_START_S, self.longest_s):
            return None
        self.late += 1
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A case is as bad as its worst part."""
        self.longest_s = max(self.longest_s, report.duration)
        name = report.nodeid.partition("[")[0]
        held = self.outcomes[name].get(report.nodeid)
        if report.outcome != "passed" or (report.when == "call" and held is None):
            self.outcomes[name][report.nodeid] = report.outcome

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Family, case, and how many of its variants did what they should; what was lost and left."""
        families = {name: family for family, names in known().items() for name in names}
        write = terminalreporter.write_line
        write(f"\n{'family':20} {'case':100} outcome")
        for name, variants in sorted(self.outcomes.items(), key=lambda item: self._family(item[0], families)):
            good = sum(outcome == "passed" for outcome in variants.values())
            says = (
                "ok" if good == len(variants) else "DEFECT" if "failed" in variants.values() else "left out"
            )
            where, _, case = name.rpartition("::")
            words = f"{Path(where).stem}: {case}".replace("test_", "").replace("_", " ")
            write(f"{self._family(name, families):20} {words[:100]:100} {good:3} of {len(variants):3} {says}")
        every = [outcome for variants in self.outcomes.values() for outcome in variants.values()]
        bad = every.count("failed")
        minutes = (time.monotonic() - self.began) / 60
        write(f"seed {self.seed}: {len(every)} cases, {bad} defects, in {minutes:.1f} minutes; "
              f"{self.late} more rounds had no time")  # fmt: skip
        self._count(write)

    def _count(self, write: Callable[[str], None]) -> None:
        """Every look at a campaign's records is one; a process that outlives the whole run is left, too."""
        import torture_project as project  # only now: pytest rewrites its assertions first

        project.wait_until(lambda: not survivors(), project.GONE_WITHIN_S)
        self.lost, self.left = project.COUNT.lost, project.COUNT.left + len(survivors())
        write(
            f"records lost: {self.lost} (of {project.COUNT.records} looked for); processes left: {self.left}"
        )
        for process in survivors():
            write(f"  {process.pid}: {' '.join(process.cmdline())[:200]}")

    def _family(self, name: str, families: dict[str, str]) -> str:
        return families.get(name) or families.get(name.partition("::")[0]) or RANDOM


def survivors() -> list[psutil.Process]:
    """Processes of this run besides its own, but for Python's keeper of shared memory, which ends with it."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE or process.pid == os.getpid():
                continue
            ours = process.environ().get(RUN) == os.environ.get(RUN, "none")
            if ours and "multiprocessing.resource_tracker" not in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def main() -> int:
    """Run all; the exit status is pytest's, or 1 where a record was lost or a process left."""
    parser = argparse.ArgumentParser(description="Run the hostile cases.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--minutes", type=float, default=10)
    asked = parser.parse_args()
    os.environ |= {"TORTURE_SEED": str(asked.seed), "TORTURE_SECONDS": str(TRIES_S)}
    os.environ[RUN] = f"{os.getpid()}-{time.time_ns()}"
    print(f"torture: seed {asked.seed}, at most {asked.minutes:g} minutes", flush=True)
    options = ["-q", "-m", "not engine", "-p", "no:cacheprovider", "--no-header", "--tb=short"]
    table = Table(asked.seed, time.monotonic() + 60 * asked.minutes)
    code = pytest.main([*options, *cases()], plugins=[table])
    return int(code) or int(table.lost + table.left > 0)


if __name__ == "__main__":
    sys.exit(main())
