"""A key guards every path: vLLM's own middleware and ours, around an application without an engine."""

from argparse import Namespace

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from specbook.engine.base import OPEN_PATHS
from specbook.engine.vllm.engine import Vllm
from specbook.errors import ConfigError

GOOD, BAD = {"Authorization": "Bearer right"}, {"Authorization": "Bearer wrong"}


def application() -> TestClient:
    """An application with some of vLLM's paths, its middleware put around it by vLLM itself."""
    from vllm.entrypoints.serve.middleware.register import init_entrypoints_middleware

    app = FastAPI()
    for path in ("/health", "/metrics", "/invocations", "/v1/models"):
        app.add_api_route(path, lambda: {})
    anyone = {f"allowed_{what}": ["*"] for what in ("origins", "methods", "headers")}
    arguments = Namespace(
        **anyone, allow_credentials=False, api_key=None, enable_request_id_headers=False,
        middleware=[Vllm.lock_arguments[1]],
    )  # fmt: skip
    init_entrypoints_middleware(arguments, app, ())
    return TestClient(app)


@pytest.fixture
def client(monkeypatch):
    """One that has a key."""
    monkeypatch.setenv("VLLM_API_KEY", "right")
    monkeypatch.setenv(OPEN_PATHS, "/health")
    return application()


@pytest.mark.parametrize(
    "path", ["/metrics", "/invocations", "/v1/models", "/docs", "/openapi.json", "/none"]
)
def test_a_path_wants_the_key(client, path):
    assert client.get(path).status_code == client.get(path, headers=BAD).status_code == 401
    assert client.get(path, headers=GOOD).status_code == (404 if path == "/none" else 200)


@pytest.mark.parametrize(("path", "status"), [("/health", 200), ("/healthy", 401), ("//health", 401)])
def test_only_the_open_path_is_open(client, path, status):
    assert client.get(path).status_code == status


def test_without_a_key_everything_is_open(monkeypatch):
    """As a cluster starts it where nobody made the Secret."""
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    monkeypatch.setenv(OPEN_PATHS, "/health")
    assert {application().get(path).status_code for path in ("/health", "/metrics", "/v1/models")} == {200}


@pytest.mark.parametrize("key", ["", " \n"])
def test_an_empty_key_opens_nothing(monkeypatch, key):
    monkeypatch.setenv("VLLM_API_KEY", key)
    with pytest.raises(ConfigError, match="VLLM_API_KEY is empty"):
        application().get("/health")
