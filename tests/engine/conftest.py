"""A real vLLM for the tests marked `engine`, on the pocket model or a random one; else the echo engine."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from engine_models import IN_THE_CORE, cut_down, make_mixture, make_model

from specbook import engine, paths
from specbook.bench import loadgen
from specbook.bench.hardware import detect
from specbook.config.schema import Load, Point, Speculation, Target, Traffic
from specbook.engine import base
from specbook.engine.server import Server
from specbook.records.run import Hardware

LIB = Path(__file__).resolve().parents[2] / "lib"
ENGINES = Path(__file__).resolve().parents[1] / "engines"
NGRAM = Speculation(method="ngram", num_speculative_tokens=3, prompt_lookup_min=1, prompt_lookup_max=3)


@pytest.fixture(scope="session")
def target(tmp_path_factory: pytest.TempPathFactory) -> Target:
    """The dense pocket model when it is there, else two random layers; eager, since that starts faster.

    In float32: a processor that has to emulate bfloat16 is ten times slower in it. An answer under way at its
    end is finished, as the manifests have it.
    """
    pocket = paths.models_dir() / "pocket-dense"
    folder = (
        pocket
        if (pocket / "config.json").is_file()
        else make_model(tmp_path_factory.mktemp("model") / "tiny")
    )
    return Target(
        name="tiny", model=str(folder), dtype="float32", execution="eager", max_model_len=512, max_num_seqs=8,
        extra_args=("--shutdown-timeout=120", *IN_THE_CORE),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _servers_of_few_processes_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's CPU build refuses IN_THE_CORE without the first. Numba's pool, which ngram starts, would raise
    OpenMP's threads to its own: with two, a step costs four times as much beside other tests.
    """
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target of the second engine: its folder, `tests/engines/echo`, is all there is to add."""
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    monkeypatch.setattr(engine, "__path__", [*engine.__path__, str(ENGINES)])
    monkeypatch.delitem(sys.modules, "specbook.engine.echo", raising=False)
    engine.import_all()
    return Target(name="echo", model="models/pocket-dense", max_model_len=512, engine="echo")


@pytest.fixture(scope="session")
def prompts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten prompts that repeat themselves, so that ngram has something to find."""
    path = tmp_path_factory.mktemp("prompts") / "prompts.jsonl"
    rows = [{"id": f"p{i}", "domain": "code", "prompt": f"x = {i}\n" * 6} for i in range(10)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="session")
def hardware() -> Hardware:
    """This machine."""
    return detect()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records and logs of one test in its own folder."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    return tmp_path


@pytest.fixture(scope="session")
def up() -> Iterator[Callable[..., Server]]:
    """`up(name, start)`: the session's server of that name, started again when a test has ended it."""
    servers: dict[str, Server] = {}
    with ExitStack() as stack:

        def running(name: str, start: Callable[[], Server]) -> Server:
            if name not in servers or not servers[name].is_alive():
                servers[name] = stack.enter_context(start())
            return servers[name]

        yield running


@pytest.fixture
def server(up, target: Target, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """One drafting server for all tests that only ask it something; its API key is `session-secret`."""

    def start() -> Server:
        loadgen.shared()  # its imports take as long as the server's
        folder = tmp_path_factory.mktemp("logs")
        return Server(target, NGRAM, api_key="session-secret", open_counters=True, log_dir=folder)

    return up("server", start)


@pytest.fixture
def noisy(up, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Server:
    """A mixture of experts with much noise in its router, without a key though its caller has one."""

    def start() -> Server:
        folder = make_mixture(tmp_path_factory.mktemp("model") / "moe")
        monkeypatch.setenv("VLLM_API_KEY", "the-callers-own")
        target = Target(
            name="tiny", model=str(folder), max_model_len=512, dtype="float32", execution="eager",
            router_noise=50.0, extra_args=IN_THE_CORE,
        )  # fmt: skip
        return Server(target, log_dir=folder.parent)

    return up("noisy", start)


@pytest.fixture
def played(up, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Weights and acceptance are made up; its key is `k`, and its counters want it too."""

    def start() -> Server:
        loadgen.shared()
        folder = tmp_path_factory.mktemp("shapes")
        shape = Target(name="shape", model="-", max_model_len=512, load_format="dummy")
        target, head = cut_down(folder, shape)
        how = Speculation(
            method="eagle3", model=head, num_speculative_tokens=3, synthetic_acceptance_rates=(0.8, 0.5, 0.3)
        )
        return Server(target, how, api_key="k", log_dir=folder)

    return up("played", start)


@pytest.fixture
def point(target: Target, prompts: Path):
    """Builds a small point: `point(concurrency=4)`, `point(request_rate_per_s=8.0)`."""

    def build(
        speculation: Speculation | None = NGRAM, max_tokens: int = 24, num_requests: int = 12, **load
    ) -> Point:
        return Point(
            chapter="test",
            target=target,
            speculation=speculation,
            traffic=Traffic(domain="code", prompts=str(prompts), max_tokens=max_tokens),
            load=Load(num_requests=num_requests, num_warmups=2, **load),
            restart=0,
        )

    return build


@pytest.fixture
def script(tmp_path: Path):
    """Starts a Python script as another process, with this package importable."""
    started: list[subprocess.Popen[str]] = []

    def start(source: str) -> subprocess.Popen[str]:
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(LIB), os.environ.get("PYTHONPATH", "")])}
        started.append(
            subprocess.Popen(
                [sys.executable, "-c", source],
                stdout=subprocess.PIPE,
                text=True,
                env=env,
                cwd=tmp_path,
                # Tests in the background of a shell inherit an ignored Ctrl-C.
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
