"""What the engines beside vLLM have in common: a plan's words are vLLM's, and each of them has its own."""

import re
from collections.abc import Mapping
from pathlib import Path

from specbook.config import methods
from specbook.config.methods import Method
from specbook.config.schema import Speculation, Target
from specbook.engine import counters
from specbook.engine.base import Build, Check, Counters, Pulse, inherited, log_lines, version
from specbook.errors import EngineError

PYTHON = re.compile(r"^(?:.* )?(\w[\w.]*(?:Error|Exception): .*)")
"""How the last line of a Python traceback reads, whatever a logger put before it."""
LONGEST = 600
"""Characters of a log that a message quotes."""


class OtherEngine:
    """Base of an engine in one package; see `engine.base.Engine`.

    What is its own beside these fields: `command` and `page_counters`.
    """

    name: str
    title: str
    packages: tuple[str, ...]
    install: str
    """What installs its package, for messages."""
    variables: tuple[str, ...]
    """How the caller's variables begin that matter to it."""
    drafts_by: Mapping[str, str]
    """Its own word for each method that it knows; none of them drafts in parallel."""
    prefix: str
    """How the names of its counters begin."""
    prompt_tokens: str
    """Counter that a page of another engine lacks."""
    release: str
    """The one whose counters are known."""
    queued: tuple[str, ...]
    """Gauges of the requests that run, and of those that wait. llama.cpp's figures move with each step,
    SGLang's every few dozen, TensorRT-LLM's with the last iteration."""
    prefill: str
    """Histogram of how long a prompt takes, in seconds; empty where it has none."""
    errors: tuple[re.Pattern[str], ...] = (PYTHON,)
    """Each matches a line of its log that names an error, and its group is what is told; the first goes
    first."""
    key_variable: str | None = None
    lock_arguments: tuple[str, ...] = ()
    health_path = "/health"
    counters_path = "/metrics"
    load_tool = profiler = None

    def build(self) -> Build:
        """The package that is installed; raises EngineError if none is."""
        (package,) = self.packages
        if (installed := version(package)) is None:
            raise EngineError(f"{self.title} is not installed. To fix: {self.install}")
        return Build(package, installed, "accelerator")

    def knows(self, method: type[Method]) -> bool:
        """Those that it has a word for."""
        return method.name in self.drafts_by and not method.parallel_drafting

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """A method that it does not know, played acceptance, or K by batch."""
        if speculation is None:
            return None
        if not self.knows(speculation.drafting):
            known = ", ".join(method.name for method in methods.known() if self.knows(method))
            title = speculation.drafting.title
            return f"{self.title} does not draft by {title} here. To fix: use {known}, or `engine: vllm`"
        if speculation.synthetic_acceptance_rates or speculation.num_speculative_tokens_per_batch_size:
            return f"{self.title} plays no acceptance, and drafts one K. To fix: `engine: vllm` for these"
        return None

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """The caller's variables that matter to it; none of ours."""
        return inherited(self.variables)

    def counters(self, text: str) -> Counters:
        """From Prometheus text. A counter appears with the first request that moves it: none is demanded.

        Raises:
            EngineError: for a page of another engine.
        """
        if (found := self.page_counters(text, "")) is None:
            raise EngineError(counters.lacking(text, self.prompt_tokens, self.title, self.release))
        return found

    def pulse(self, text: str) -> Pulse:
        """Its lines of the same text."""
        return counters.pulse(text, self.prefix, self.queued, self.prefill)

    def last_words(self, log: Path) -> str:
        """The last error that its log names, failing that its last lines."""
        lines = [line for line in log_lines(log) if line.strip()]
        for error in self.errors:
            if said := [match[1] for match in map(error.match, lines) if match]:
                return said[-1][:LONGEST]
        return "\n".join(lines[-3:])[:LONGEST] or "(its log is empty)"

    def checks(self) -> list[Check]:
        """Nothing: where it is not installed nothing is missing."""
        return []
