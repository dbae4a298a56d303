"""The open-loop load against a real HTTP server that streams, breaks off and refuses."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from specbook.bench.open_loop import OpenLoop, Segment
from specbook.config.prompt_files import Prompt

FIRST = {"choices": [{"delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
TOKEN = {"choices": [{"delta": {"content": "a"}, "finish_reason": None}]}
LAST = {"choices": [{"delta": {}, "finish_reason": "length"}]}
ABORTED = {"choices": [{"delta": {}, "finish_reason": "abort"}]}
USAGE = {"choices": [], "usage": {"completion_tokens": 7}}
STREAMS = {
    "whole": [FIRST, TOKEN, LAST, USAGE, "[DONE]"],
    "cut": [FIRST, TOKEN],
    "aborted": [FIRST, TOKEN, ABORTED, "[DONE]"],
    "failing": [FIRST, TOKEN, {"error": {"type": "internal"}}],
}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        asked = body["messages"][-1]["content"]
        self.send_response(200 if asked in STREAMS else 503)
        self.end_headers()
        for chunk in STREAMS.get(asked, []):
            text = chunk if isinstance(chunk, str) else json.dumps(chunk)
            self.wfile.write(f"data: {text}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def load(url: str, asked: str, *segments: Segment, **more: object) -> OpenLoop:
    prompts = [Prompt(id="p", prompt=asked)]
    chosen = segments or (Segment(rate_per_s=50, duration_s=0.4),)
    made = OpenLoop(url, "m", chosen, prompts, max_tokens=8, seed=1, **more)
    made.start()
    return made


@pytest.mark.parametrize(
    ("asked", "outcome"),
    [("whole", "whole"), ("cut", "truncated"), ("aborted", "truncated"), ("failing", "truncated"),
     ("busy", "refused")],
)  # fmt: skip
def test_every_request_has_its_outcome(url, asked, outcome):
    requests = load(url, asked).join()
    assert len(requests.outcome) > 5
    assert set(requests.outcome) == {outcome}
    assert sum(requests.errors.values()) == (0 if outcome == "whole" else len(requests.outcome))


def test_whole_answers_carry_tokens_and_ttft(url):
    requests = load(url, "whole").join()
    assert set(requests.output_tokens) == {7}
    assert all(0 < ttft <= e2e for ttft, e2e in zip(requests.ttft_s, requests.e2e_s, strict=True))


def test_no_listener_refuses_every_request():
    requests = load("http://127.0.0.1:9", "whole").join()
    assert set(requests.outcome) == {"refused"}
    assert all("Connect" in error for error in requests.errors)


def test_rate_of_each_segment_is_kept(url):
    both = Segment(rate_per_s=10, duration_s=2), Segment(rate_per_s=40, duration_s=2)
    made = load(url, "whole", *both)
    sent = made.join().sent_s
    first = sum(at < made.segments_s[1] for at in sent)
    assert 8 < first < 35
    assert 55 < len(sent) - first < 105


def test_same_seed_same_arrivals(url):
    one, other = (load(url, "whole").join().sent_s for _ in range(2))
    assert len(one) == len(other)
    assert one == pytest.approx(other, abs=0.5)


def test_last_segment_ends_early_when_allowed(url):
    began = time.time()
    load(url, "whole", Segment(rate_per_s=5, duration_s=8), may_end=lambda: time.time() > began).join()
    assert 3.6 < time.time() - began < 7


def test_silent_segment_sends_nothing(url):
    assert not load(url, "whole", Segment(rate_per_s=0, duration_s=0.5)).join().outcome
