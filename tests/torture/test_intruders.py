"""Requests without the key, written in any way that might slip past it, and arguments that nobody means."""

from argparse import Namespace

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from torture_chance import tries
from typer.testing import CliRunner

from specbook.cli.main import app as command_line
from specbook.engine.base import OPEN_PATHS
from specbook.engine.vllm.engine import Vllm

PIECES = (
    "health", "metrics", "v1", "models", "invocations", "HEALTH", "%68ealth", "healthz", "..", ".", "",
    "%2e%2e", "%2f", "health;x", "health%00", "health%20", "é", "a" * 300, "?", "#", "health?x=1",
)  # fmt: skip
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get")
KEYS = (
    None, "", "Bearer", "Bearer ", "Bearer  right", "Bearer righ", "Bearer right ", "bearer wrong",
    "Basic right", "right", "Bearer right,Bearer wrong", "Bearer \u00ff", "x" * 9000,
)  # fmt: skip


@pytest.fixture
def reached(monkeypatch):
    """(client, the paths that a request got to): a server that answers every path, behind the door."""
    from vllm.entrypoints.serve.middleware.register import init_entrypoints_middleware

    monkeypatch.setenv("VLLM_API_KEY", "right")
    monkeypatch.setenv(OPEN_PATHS, "/health")
    inside, app = [], FastAPI()

    @app.api_route("/{path:path}", methods=[*METHODS, "OPTIONS"])
    def every(path: str):
        inside.append(path)

    anyone = {f"allowed_{what}": ["*"] for what in ("origins", "methods", "headers")}
    how = {"allow_credentials": False, "api_key": None, "enable_request_id_headers": False}
    init_entrypoints_middleware(Namespace(**anyone, **how, middleware=[Vllm.lock_arguments[1]]), app, ())
    return TestClient(app), inside


def test_no_way_of_writing_a_path_or_a_key_gets_in(reached):
    client, inside = reached
    assert client.get("/v1/models", headers={"Authorization": "Bearer right"}).status_code == 200
    inside.clear()
    for chance in tries("requests", least=150):
        path = "/" + "/".join(chance.choices(PIECES, k=chance.randint(1, 4)))
        key, method = chance.choice(KEYS), chance.choice(METHODS)
        headers = {} if key is None else {"Authorization": key.encode("latin-1")}
        answer = client.request(method, path, headers=headers)
        assert {each.rstrip("/") for each in inside} <= {"health"}, (method, path, key)
        assert answer.status_code in (200, 401), (method, path, key, answer.status_code)


WORDS = (
    "", " ", "../..", "/", "cpu/../cpu", "\udcff", "\u202e", "é" * 500, "-", "--", "-1", "1e999", "nan",
    "[/]", "{}", "*", "all", "0", "<b>", "a\nb", "cpu", "cpu/", "01", "full", "x" * 5000,
)  # fmt: skip
COMMANDS = (
    ("run", "{}", "--dry-run"), ("run", "01", "--dry-run", "--hardware", "{}"),
    ("run", "01", "--dry-run", "--group", "{}"), ("run", "01", "--dry-run", "--since", "{}"),
    ("run", "01", "--dry-run", "--set", "{}"), ("run", "01", "--dry-run", "--set", "seed={}"),
    ("book", "--hardware", "{}", "--group", "none"), ("book", "--source", "x{}"),
    ("serve", "--profile", "x{}"), ("serve", "--port", "x{}"), ("serve", "--api-key", "{}"),
    ("ask", "{}", "--profile", "x{}"), ("ask", "why", "--usd-per-hour", "-{}"), ("train", "x{}"),
    ("deploy", "check", "x{}"), ("deploy", "diff", "cpu", "--kubeconfig", "{}"),
)  # fmt: skip


def test_no_argument_brings_a_traceback(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    for chance in tries("arguments", least=16):
        word = chance.choice(WORDS)
        line = [part.replace("{}", word) for part in chance.choice(COMMANDS)]
        done = CliRunner().invoke(command_line, line)
        assert done.exit_code in (0, 1, 2), (line, done.exit_code, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), (line, done.exception)
        assert "Traceback" not in done.output, line
        if done.exit_code == 1:
            assert "specbook: " in done.stderr, line
