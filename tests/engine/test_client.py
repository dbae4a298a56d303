"""A server that runs already: its model and its counters are found, and what is none is told in one line."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from specbook.engine import connection
from specbook.engine.client import Client
from specbook.engine.running import Running
from specbook.errors import EngineError

METRICS = (Path(__file__).parents[1] / "data/metrics-after.txt").read_text()
MODELS = {"/v1/models": json.dumps({"data": [{"id": "mine"}]})}


@contextmanager
def serving(pages, key=None):
    """A server with these pages, for holders of the key; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            allowed = key is None or self.headers["Authorization"] == f"Bearer {key}"
            self.send_response(401 if not allowed else 200 if self.path in pages else 404)
            self.end_headers()
            if allowed:
                self.wfile.write(pages.get(self.path, "").encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/"])
def test_its_model_and_its_engine_are_found(tail):
    with serving(MODELS | {"/metrics": METRICS}, key="k") as url:
        found = Running(url + tail, "k")
        assert (found.client.base_url, found.client.model) == (f"{url}/v1", "mine")
        assert found.title == f"vLLM at {url}, mine"
        assert found.counters().spec_decode.num_drafts > 0


def test_a_server_without_counters_can_be_asked():
    with serving(MODELS | {"/metrics": "something_else 1\n"}) as url:
        assert Running(url).counters() is None
        assert Running(url).title == f"a server at {url}, mine"


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ({}, "/v1/models answered 404: is it a server"),
        ({"/v1/models": "<html>"}, "names no model: is it an OpenAI-compatible server"),
        ({"/v1/models": '{"data": []}'}, "names no model"),
        ({"/v1/models": "[]"}, "names no model"),
    ],
)
def test_what_is_no_server_is_told(pages, message):
    with serving(pages) as url, pytest.raises(EngineError, match=message):
        Running(url)


def test_a_server_that_wants_a_key_or_is_gone_is_told():
    with serving(MODELS, key="k") as url, pytest.raises(EngineError, match="answered 401: it wants a key"):
        Running(url, "wrong")
    with pytest.raises(EngineError, match=rf"no server answers at {url} .*`specbook serve` starts one"):
        Running(url)
    with pytest.raises(EngineError, match="no server answers at nonsense"):
        Running("nonsense")


@pytest.mark.parametrize(("url", "checked"), [("https://a.example", True), ("http://127.0.0.1:1", False)])
def test_certificates_are_checked_where_there_are_any(url, checked, monkeypatch):
    given = {}
    monkeypatch.setattr(connection.httpx, "Client", lambda **options: given.update(options))
    Client(url, "mine", "k")
    assert given["verify"] is checked
