"""An engine that stands still fails its point: while it is silent, or by what its requests received."""

import numpy as np
import pytest

from specbook import records
from specbook.bench import stall
from specbook.config.schema import Load
from specbook.engine.vllm.telemetry import pulse
from specbook.errors import EngineError, HangError

CLOSED = Load(concurrency=4, num_requests=16, num_warmups=0)
SPARSE = Load(request_rate_per_s=0.1, num_requests=16, num_warmups=0)
METRICS = """\
vllm:num_requests_running{{engine="0"}} {running}
vllm:num_requests_waiting{{engine="0"}} 0.0
vllm:kv_cache_usage_perc{{engine="0"}} {cache}
vllm:request_prefill_time_seconds_sum{{engine="0"}} {prefill_s}
vllm:request_prefill_time_seconds_count{{engine="0"}} 1.0
process_cpu_seconds_total {now}
"""


class Server:
    """Stands for one under load: its cache fills for `works_s`, then only its process's clock moves."""

    def __init__(self, works_s=0.0, start_s=20.0, running=4.0, prefill_s=0.1, answers=True):
        self.now, self.works_s, self.start_s, self.alive, self.answers = 0.0, works_s, start_s, True, answers
        self.running, self.prefill_s = running, prefill_s

    def is_alive(self):
        return self.alive

    def pids(self):
        return []

    def pulse(self):
        if not self.answers:
            raise EngineError("no answer")
        cache = min(self.now, self.works_s)
        text = METRICS.format(cache=cache, now=self.now, running=self.running, prefill_s=self.prefill_s)
        return pulse(text)


def silent_until(server, load=CLOSED, at_most_s=1000):
    """When the watch gives up, in seconds; None if it does not."""
    watch = stall.Watch(server, load, clock=lambda: server.now)
    while server.now < at_most_s:
        server.now += 0.5
        try:
            watch()
        except HangError:
            return server.now
    return None


@pytest.mark.parametrize("answers", [True, False])
def test_a_hang_is_noticed_after_about_a_minute(answers):
    assert silent_until(Server(answers=answers)) == pytest.approx(65, abs=6)
    assert silent_until(Server(works_s=300)) == pytest.approx(365, abs=6)


def test_a_step_may_be_as_long_as_start_or_ten_prompts():
    assert silent_until(Server(start_s=400)) == pytest.approx(405, abs=6)
    assert silent_until(Server(prefill_s=30)) == pytest.approx(305, abs=6)


def test_an_engine_that_works_is_left_alone():
    assert silent_until(Server(works_s=2000)) is None


def test_an_engine_may_rest_between_sparse_arrivals():
    assert silent_until(Server(running=0.0), SPARSE) == pytest.approx(265, abs=6)
    assert silent_until(Server(running=4.0), SPARSE) == pytest.approx(65, abs=6)


def test_a_server_that_ends_is_told_at_once():
    server = Server()
    watch = stall.Watch(server, CLOSED, clock=lambda: server.now)
    server.alive = False
    with pytest.raises(EngineError, match="went away"):
        watch()


@pytest.mark.parametrize(
    ("engine", "machine", "words"), [(0.1, 60, "it hangs"), (60, 120, "it hangs"), (1, 119, "they starve it")]
)
def test_it_is_told_whether_the_engine_hangs_or_starves(monkeypatch, engine, machine, words):
    """On two cores, over the 60 seconds of silence."""
    monkeypatch.setattr(stall.psutil, "cpu_count", lambda: 2)
    server = Server()
    used = iter([(0.0, 0.0)])
    monkeypatch.setattr(stall.Watch, "_cpu", lambda _: next(used, (engine, machine)))
    watch = stall.Watch(server, CLOSED, clock=lambda: server.now)
    monkeypatch.setattr(server, "pulse", Server(answers=False).pulse)
    server.now = 60.5
    with pytest.raises(HangError, match=words):
        watch()


# windows


def window(n=16, batch=4, tokens=50, step_s=0.02, ttft_s=0.1, prompt=100, hold=None):
    """`n` requests in waves of `batch`; `hold` is (when, how long) nothing came."""
    began = np.repeat(np.arange(n / batch), batch) * (ttft_s + step_s * tokens)
    arrive = [np.r_[t, t + ttft_s + step_s * np.arange(tokens + 1)] for t in began]
    if hold:
        arrive = [np.where(times >= hold[0], times + hold[1], times) for times in arrive]
    return {
        "start_times": [times[0] for times in arrive],
        "ttfts": [times[1] - times[0] for times in arrive],
        "itls": [list(np.diff(times[1:])) for times in arrive],
        "latencies": [times[-1] - times[0] for times in arrive],
        "input_lens": [prompt] * n,
    }


def test_an_even_window_did_not_stall():
    assert stall.stalled(window(), CLOSED) is None


@pytest.mark.parametrize("when", [0.05, 0.5, 1.13, 3.0])
def test_a_stall_is_told_with_its_place_and_length(when):
    problem = stall.stalled(window(hold=(when, 45.0)), CLOSED)
    assert "4 requests waited 45" in problem
    assert f"from {when:.1f} s into the window" in problem or when < 0.2


def test_a_wave_that_waits_for_first_tokens_stalled():
    assert "8 requests waited 45" in stall.stalled(window(n=8, batch=8, hold=(0.05, 45.0)), CLOSED)


def test_hiccups_are_not_stalls():
    assert stall.stalled(window(hold=(0.5, 3.0)), CLOSED) is None


def test_long_prompts_on_a_slow_machine_are_not_stalls():
    slow = window(n=4, batch=1, step_s=1.5, ttft_s=60.0, prompt=4000, tokens=20)
    assert stall.stalled(slow, Load(concurrency=1, num_requests=4, num_warmups=0)) is None
    held = window(n=4, batch=1, step_s=1.5, ttft_s=60.0, prompt=4000, tokens=20, hold=(70.0, 45.0))
    assert stall.stalled(held, Load(concurrency=1, num_requests=4, num_warmups=0))


def test_a_pause_between_sparse_arrivals_is_not_a_stall():
    result = window(n=3, batch=1)
    result["start_times"] = [0.0, 40.0, 90.0]
    assert stall.stalled(result, SPARSE) is None


def test_one_token_answers_have_no_steps_and_can_stall():
    result = window(n=4, batch=1, tokens=0)
    assert stall.stalled(result, CLOSED) is None
    result["ttfts"][3] = result["latencies"][3] = 45.0
    assert "1 requests waited 45" in stall.stalled(result, CLOSED)
    assert stall.stalled(window(n=4, batch=1, tokens=0, ttft_s=60.0), CLOSED) is None


@pytest.mark.usefixtures("project")
def test_no_shipped_record_stalled():
    for run in records.load():
        if run.status == "ok":
            rows = records.requests(run)
            result = {
                "start_times": rows.start_s, "ttfts": rows.ttft_s, "itls": rows.itl_s,
                "latencies": rows.e2e_s, "input_lens": rows.input_tokens,
            }  # fmt: skip
            assert stall.stalled(result, run.point.load) is None, run.run_id
