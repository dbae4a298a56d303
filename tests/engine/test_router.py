"""The router between servers that only pretend: streams as they come, and nothing lost in silence."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count, cycle

import httpx
import pytest

from specbook.engine.client import Client
from specbook.engine.preflight import free_port
from specbook.engine.router import Router
from specbook.errors import EngineError

WORDS = ["one ", "two ", "three ", "four "]
USAGE = {"choices": [], "usage": {"completion_tokens": 4}}
NONE = {"a": 0, "b": 0}


class Backend:
    """Streams WORDS, each when `go` lets it; `cut` breaks the stream off after so many.

    One that is `endless` streams for as long as it is heard; `status` refuses everything with it.
    """

    def __init__(
        self, name: str, cut: int | None = None, pace_s: float = 0.0, endless: bool = False, status: int = 200
    ) -> None:
        self.name, self.cut, self.pace_s, self.endless, self.status = name, cut, pace_s, endless, status
        self.go = threading.Semaphore(10_000)
        self.send = threading.Event()
        self.send.set()
        self.seen: list[dict] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                backend.seen.append(dict(self.headers))
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if body.get("refuse") or backend.status != 200:
                    return self.refuse(400 if body.get("refuse") else backend.status)
                backend.send.wait()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                with suppress(ConnectionError):
                    self.stream()

            def stream(self):
                for word in cycle(WORDS) if backend.endless else WORDS[: backend.cut]:
                    backend.go.acquire()
                    time.sleep(backend.pace_s)
                    self.say({"choices": [{"index": 0, "delta": {"content": word}}]})
                if backend.cut is None:
                    self.say(USAGE)
                    self.wfile.write(b"data: [DONE]\n\n")

            def refuse(self, status):
                self.send_response(status)
                self.send_header("Content-Length", "9")
                self.end_headers()
                self.wfile.write(b"too long!")

            def say(self, event):
                self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def die(self):
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def routed(*backends, **more):
    try:
        with Router({one.name: one.url for one in backends}, **more) as router:
            yield router
    finally:
        for one in backends:
            one.die()


def text(router) -> str:
    pieces = Client(router.url, "m", "secret").stream("hello", 9)
    return "".join(piece.text for piece in pieces)


def until(true) -> None:
    """Wait for what another thread does, however busy the machine is."""
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)


def settle(router, answers: int, in_flight: int = 0) -> None:
    """The client may have the last event before the router has counted it."""
    until(
        lambda: (
            sum((router.served + router.broken + router.left).values()) >= answers
            and sum(router.in_flight.values()) <= in_flight
        )
    )


def test_a_stream_passes_as_it_comes():
    a = Backend("a")
    a.go = threading.Semaphore(1)
    with routed(a) as router:
        stream = Client(router.url, "m", "secret").stream("hello", 9)
        assert next(stream).text == "one "  # the second is not written yet
        a.go.release(9)
        assert [piece.text for piece in stream if piece.has_token] == WORDS[1:]
    assert a.seen[0]["Authorization"] == "Bearer secret"


def test_new_requests_go_where_is_preferred():
    a, b = Backend("a"), Backend("b")
    a.go = threading.Semaphore(1)
    with routed(a, b) as router:
        stream = Client(router.url, "m", "secret").stream("hello", 9)
        next(stream)
        router.preferred = "b"
        assert text(router) == "".join(WORDS)
        settle(router, 1, in_flight=1)
        assert dict(router.in_flight) == {"a": 1, "b": 0}
        a.go.release(9)
        assert len([piece for piece in stream if piece.has_token]) == 3
        settle(router, 2)
        assert (dict(router.served), dict(router.broken)) == ({"a": 1, "b": 1}, NONE)


def test_some_requests_still_try_the_other():
    a, b = Backend("a"), Backend("b")
    with routed(a, b, trial=("a", 4)) as router:
        router.preferred = "b"
        for _ in range(8):
            text(router)
        settle(router, 8)
        assert dict(router.served) == {"a": 2, "b": 6}


def test_no_stream_is_lost_across_switches():
    a, b = Backend("a", pace_s=0.002), Backend("b", pace_s=0.002)
    number = count()
    with routed(a, b) as router:

        def ask(_):
            if (place := next(number)) % 15 == 0:  # ten at once, so most of fifteen go where is preferred
                router.preferred = "ab"[place // 15 % 2]
            return text(router)

        with ThreadPoolExecutor(10) as pool:
            found = list(pool.map(ask, range(300)))
        settle(router, 300)
        assert sum(router.served.values()) == 300
        assert min(router.served.values()) > 30
    assert found == ["".join(WORDS)] * 300


def test_a_server_that_is_gone_loses_no_request():
    a, b = Backend("a"), Backend("b")
    with routed(b, a) as router:
        router.preferred = "a"
        a.die()
        assert text(router) == "".join(WORDS)
        settle(router, 1)
        assert dict(router.served) == {"b": 1, "a": 0}
        a.server = b.server  # ended once


def test_an_answer_that_breaks_off_is_broken_off():
    a, b = Backend("a", cut=2), Backend("b")
    with routed(a, b) as router:
        with pytest.raises(EngineError, match="stopped answering"):
            text(router)
        settle(router, 1)
        assert (dict(router.broken), dict(router.served)) == ({"a": 1, "b": 0}, NONE)


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_whose_engine_is_gone_loses_no_request(status):
    a, b = Backend("a", status=status), Backend("b")
    with routed(a, b) as router:
        assert text(router) == "".join(WORDS)
        settle(router, 1)
        assert dict(router.served) == {"a": 0, "b": 1}


def test_an_engine_that_gives_up_is_no_end_of_stream(monkeypatch):
    """vLLM then says why, and ends the stream as it does any other."""
    a = Backend("a")
    monkeypatch.setitem(globals(), "USAGE", {"error": {"message": "engine died"}})
    with routed(a) as router:
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.post(f"{router.url}/v1/chat/completions", json={}, timeout=60)
        settle(router, 1)
        assert (router.broken["a"], router.served["a"]) == (1, 0)


def test_a_client_that_hangs_up_is_no_fault_of_the_server():
    a = Backend("a", pace_s=0.01, endless=True)
    with routed(a) as router:
        with httpx.stream("POST", f"{router.url}/v1/chat/completions", json={}, timeout=60) as answer:
            next(answer.iter_raw())
        settle(router, 1)
        assert (router.left["a"], router.broken["a"], router.served["a"]) == (1, 0, 0)


def test_a_client_may_hang_up_before_the_first_byte():
    a = Backend("a", pace_s=0.01, endless=True)
    a.send.clear()
    with routed(a) as router:
        with socket.create_connection(("127.0.0.1", int(router.url.rpartition(":")[2]))) as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            until(lambda: a.seen)
        a.send.set()
        settle(router, 1)
        assert (router.left["a"], router.broken["a"], router.served["a"]) == (1, 0, 0)


def test_with_both_gone_it_says_which_and_why():
    gone = {name: f"http://127.0.0.1:{free_port()}" for name in "ab"}
    why = pytest.raises(EngineError, match=r"no server answers \(a at .*; b at .*\): start one")
    with Router(gone) as router, why:
        text(router)


def test_a_refusal_is_passed_on_and_not_tried_again():
    a, b = Backend("a"), Backend("b")
    with routed(a, b) as router:
        answer = httpx.post(f"{router.url}/v1/chat/completions", json={"refuse": True})
        assert (answer.status_code, answer.text, b.seen) == (400, "too long!", [])
        assert httpx.get(f"{router.url}/metrics").status_code == 404


def test_a_taken_port_leaves_nothing_open():
    a = Backend("a")
    with routed(a) as router:
        second = Router({"a": a.url}, port=int(router.url.rpartition(":")[2]))
        with pytest.raises(EngineError, match="cannot listen"):
            second.__enter__()
        assert second._session.closed
        assert not second._thread.is_alive()


def test_no_counter_grows_while_others_look():
    """A dictionary that grows while it is read is an error in whoever reads it."""
    made = Router({"a": "http://a", "b": "http://b"})
    assert [dict(one) for one in (made.in_flight, made.served, made.broken, made.left)] == [NONE] * 4
