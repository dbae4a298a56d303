"""`vllm bench serve`, the load generator that comes with vLLM: what it is asked to do."""

from pathlib import Path
from types import MappingProxyType

from specbook.config.schema import Point, resolve_model
from specbook.engine.vllm import load_worker, log


class Bench:
    """See `engine.base.LoadTool`."""

    worker = Path(load_worker.__file__)
    environment = MappingProxyType({"VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"})
    reads_counters_of = "vllm"

    def arguments(self, point: Point, url: str, dataset: Path, num_requests: int, result: Path) -> list[str]:
        """The command line after `vllm bench serve`.

        The seed draws nothing but arrivals, as the order of prompts is the dataset's. Each restart has
        Poisson arrivals of its own, the same for all arms: else every restart would repeat one draw, bursts
        and all.
        """
        load, traffic, target = point.load, point.traffic, point.target
        seed = traffic.seed + (point.restart if load.concurrency is None else 0)
        arrivals = (
            ["--max-concurrency", str(load.concurrency)]
            if load.concurrency is not None
            else ["--request-rate", str(load.request_rate_per_s), "--burstiness", "1.0"]
        )
        return [
            "--backend", "openai-chat", "--base-url", url, "--endpoint", "/v1/chat/completions",
            "--model", target.name, "--tokenizer", resolve_model(target.model),
            "--dataset-name", "custom", "--dataset-path", str(dataset), "--custom-output-len", "-1",
            "--skip-chat-template",  # the server applies it; without this the prompt gets it twice
            "--disable-shuffle", "--num-prompts", str(num_requests), *arrivals,
            "--seed", str(seed), "--temperature", str(traffic.temperature),
            "--save-result", "--save-detailed", "--result-filename", str(result), "--disable-tqdm",
        ]  # fmt: skip

    def last_words(self, log_path: Path) -> str:
        """The error that the worker's log ends with."""
        return log.last_words(log_path)
