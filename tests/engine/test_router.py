"""The router between servers that only pretend: streams as they come, and nothing lost in silence."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from specbook.engine.client import Client
from specbook.engine.preflight import free_port
from specbook.engine.router import Router
from specbook.errors import EngineError

WORDS = ["one ", "two ", "three ", "four "]


class Backend:
    """Streams WORDS, each when `go` lets it; `cut` breaks the stream off after so many."""

    def __init__(self, name: str, cut: int | None = None, pace_s: float = 0.0) -> None:
        self.name, self.cut, self.pace_s = name, cut, pace_s
        self.go = threading.Semaphore(10_000)
        self.seen: list[dict] = []
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                backend.seen.append(dict(self.headers))
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if body.get("refuse"):
                    return self.refuse()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                for word in WORDS[: backend.cut]:
                    backend.go.acquire()
                    time.sleep(backend.pace_s)
                    self.say({"choices": [{"index": 0, "delta": {"content": word}}]})
                if backend.cut is None:
                    self.say({"choices": [], "usage": {"completion_tokens": 4}})
                    self.wfile.write(b"data: [DONE]\n\n")

            def refuse(self):
                self.send_response(400)
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
    return "".join(p.choices[0].delta.content for p in pieces if p.choices)


def settle(router, answers: int, in_flight: int = 0) -> None:
    """The client may have the last event before the router has counted it."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and (
        sum((router.served + router.broken + router.left).values()) < answers
        or sum(router.in_flight.values()) > in_flight
    ):
        time.sleep(0.01)


def test_a_stream_passes_as_it_comes():
    a = Backend("a")
    a.go = threading.Semaphore(1)
    with routed(a) as router:
        stream = Client(router.url, "m", "secret").stream("hello", 9)
        assert next(stream).choices[0].delta.content == "one "  # the second is not written yet
        a.go.release(9)
        assert [p.choices[0].delta.content for p in stream if p.choices] == WORDS[1:]
    assert a.seen[0]["Authorization"] == "Bearer secret"


def test_new_requests_go_where_is_preferred_and_those_in_flight_stay():
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
        assert len([p for p in stream if p.choices]) == 3
        settle(router, 2)
        assert (dict(router.served), dict(router.broken)) == ({"a": 1, "b": 1}, {})


def test_some_requests_still_try_the_other():
    a, b = Backend("a"), Backend("b")
    with routed(a, b, trial=("a", 4)) as router:
        router.preferred = "b"
        for _ in range(8):
            text(router)
        settle(router, 8)
        assert dict(router.served) == {"a": 2, "b": 6}


def test_hundreds_of_streams_across_switches_and_none_is_lost():
    a, b = Backend("a", pace_s=0.002), Backend("b", pace_s=0.002)
    found = []
    with routed(a, b) as router:

        def ask():
            found.extend([text(router) for _ in range(30)])

        threads = [threading.Thread(target=ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            time.sleep(0.02)
            router.preferred = "b" if router.preferred == "a" else "a"
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
        assert dict(router.served) == {"b": 1}
        a.server = b.server  # ended once


def test_an_answer_that_breaks_off_is_broken_off():
    a, b = Backend("a", cut=2), Backend("b")
    with routed(a, b) as router:
        with pytest.raises(EngineError, match="stopped answering"):
            text(router)
        settle(router, 1)
        assert (dict(router.broken), dict(router.served)) == ({"a": 1}, {})


def test_a_client_that_hangs_up_is_no_fault_of_the_server():
    a = Backend("a", pace_s=0.05)
    with routed(a) as router:
        with httpx.stream("POST", f"{router.url}/v1/chat/completions", json={}) as answer:
            next(answer.iter_raw())
        settle(router, 1)
        assert (dict(router.left), dict(router.broken), dict(router.served)) == ({"a": 1}, {}, {})


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


def test_a_port_that_is_taken_is_said():
    a = Backend("a")
    with routed(a) as router, pytest.raises(EngineError, match="cannot listen"):
        Router({"a": a.url}, port=int(router.url.rpartition(":")[2])).__enter__()
