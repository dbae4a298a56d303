"""The experiments of drift on the echo engine, whose acceptance is as long as what it is asked."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from specbook.bench import experiments, traffic_phases
from specbook.bench.experiments import domain_drift
from specbook.bench.experiments.domain_drift import Drift, FallbackEpisodes
from specbook.config.chapter import Chapter, Experiment
from specbook.config.prompt_files import Prompt
from specbook.config.schema import Speculation, Target
from specbook.engine.client import Client
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.stats.monitors import Growth

TARGET = Target(name="echo", model="models/pocket-dense", max_model_len=512, engine="echo")
NGRAM = Speculation(method="ngram", num_speculative_tokens=3)
WORDS = {"long": 12, "short": 1}
POLICY = {
    "leave_below": 2.0, "return_above": 3.0, "window_s": 0.5, "min_drafts": 3, "cool_down_s": 0.2,
    "trial_every": 5,
}  # fmt: skip


REQUEST_S = 0.01


class Clock:
    """Time that only requests let pass, so that nothing here depends on how busy the machine is."""

    now = 100.0

    def perf_counter(self):
        self.now += 1e-6  # readings lie one after the other
        return self.now


class QuickLoad:
    """Sends the data set's lines in order, so many at once, and calls `watch` after each lot.

    `meanwhile`: what to do beside the lot with this request.
    """

    def __init__(self, clock):
        self.clock, self.meanwhile = clock, {}

    def run(self, arguments, *, api_key, timeout_s, watch):
        said = dict(pairwise(arguments))
        rows = [json.loads(line) for line in Path(said["--dataset-path"]).read_text().splitlines()]
        client, at_once, found = Client(said["--base-url"], "m", api_key), int(said["--max-concurrency"]), []
        with ThreadPoolExecutor(at_once) as pool:
            for place in range(0, len(rows), at_once):
                began = self.clock.perf_counter()
                lot = [pool.submit(self.ask, client, row) for row in rows[place : place + at_once]]
                self.meanwhile.get(place, lambda: None)()
                found += [(began, REQUEST_S / 2, REQUEST_S, *one.result()) for one in lot]
                self.clock.now += REQUEST_S
                watch()
        names = ("start_times", "ttfts", "latencies", "output_lens", "errors")
        columns = dict(zip(names, map(list, zip(*found, strict=True)), strict=True))
        Path(said["--result-filename"]).write_text(json.dumps(columns))

    def ask(self, client, row):
        try:
            stream = client.stream(row["prompt"], row["output_tokens"])
            list(stream)
        except EngineError as failure:
            return 0, str(failure)
        return stream.reader.output_tokens, ""


@pytest.fixture(autouse=True)
def load(monkeypatch, echo):
    """The echo engine, asked by a `QuickLoad`."""
    said = {name: Prompt(id="p", prompt=" ".join(["w"] * n), domain=name) for name, n in WORDS.items()}
    monkeypatch.setattr(traffic_phases.files, "for_traffic", lambda traffic: [said[traffic.domain]])
    clock = Clock()
    for module in (traffic_phases, domain_drift):
        monkeypatch.setattr(module, "time", clock)
    made = QuickLoad(clock)
    monkeypatch.setattr(traffic_phases.loadgen, "shared", lambda: made)
    monkeypatch.setattr(traffic_phases, "EARLY_S", 0.45)  # twenty readings a second
    return made


def traffic(*parts, n=100):
    return {
        "phases": parts, "num_requests": n, "concurrency": 2, "max_tokens": 20, "scrape_s": 0.5,
    }  # fmt: skip


def run(name: str, parameters: dict):
    """By its name and parameters in JSON, as a plan has them."""
    asked = Experiment(name=name, parameters=json.loads(json.dumps(parameters)))
    plan = Chapter(chapter="04_domain_drift", hardware="cpu", group="full", experiments=(asked,))
    experiments.check(plan)
    found = experiments._REGISTRY[name]
    return found.run(found.parameters.model_validate(asked.parameters))


def asked_of_drift(**more) -> dict:
    body = Drift(target=TARGET, speculation=NGRAM, traffic=traffic(["long"], ["short"]), episodes=2)
    return body.model_dump(mode="json") | more


def test_the_counters_of_a_drift_fall_where_it_drifts():
    found = run("drift", asked_of_drift())
    assert len(found.episodes) == 2
    for episode in found.episodes:
        assert len(episode.requests.start_s) == episode.requests.sent == 100
        read = episode.readings
        growth = Growth.of(read.at_s, read.num_drafts, read.num_accepted_tokens)
        (drift_s,) = episode.drift_s
        before, after = growth.between(0, drift_s), growth.between(drift_s + 0.06, 1e9)
        assert min(before.intervals, after.intervals) >= 3
        assert before.accepted.sum() / before.drafts.sum() == pytest.approx(3.0)
        assert after.accepted.sum() == 0
    assert found.weights_sha256["target"]


def fall_back(**more) -> dict:
    body = FallbackEpisodes(
        target=TARGET, speculation=NGRAM, policy=POLICY, repeats=1,
        traffic=traffic(["long"], ["short"], ["long"], n=300),
    )  # fmt: skip
    return body.model_dump(mode="json") | more


def test_a_policy_with_too_few_trials_is_refused():
    with pytest.raises(ValidationError, match=r"20 trials of a phase make 400 drafts at most, .* is 500: it"):
        FallbackEpisodes.model_validate(fall_back(policy=POLICY | {"min_drafts": 500}))


def test_an_episode_leaves_and_comes_back_and_loses_nothing():
    found = run("fallback", fall_back())
    arms = {arm.arm: arm for arm in found.arms}
    assert set(arms) == {"fallback", "drafting", "plain"}
    for arm in arms.values():
        assert len(arm.episode.requests.start_s) == arm.episode.requests.sent == 300
        assert (arm.broken, sum(arm.served.values())) == (0, 300)
    assert set(arms["drafting"].served) == {"drafting"}
    assert set(arms["plain"].served) == {"plain"}
    away, back = arms["fallback"].switches
    drift_s, return_s = arms["fallback"].episode.drift_s
    assert drift_s < away.at_s < return_s < back.at_s
    assert (away.drafting, back.drafting) == (False, True)
    assert away.length < 2 < 3 < back.length


def test_each_server_has_variables_of_its_own(monkeypatch):
    told = []

    class Told(Server):
        def begin(self):
            told.append(self.environment["ECHO_LOUD"])
            return super().begin()

    monkeypatch.setattr(domain_drift, "Server", Told)
    run("fallback", fall_back(variables={"plain": {"ECHO_LOUD": "1"}}, traffic=traffic(["long"], n=20)))
    assert told == ["0", "1"]


def test_a_drafting_server_that_dies_loses_few_requests(tmp_path, load):
    asked = FallbackEpisodes.model_validate(fall_back(traffic=traffic(["long"], n=150)))
    with Server(TARGET, NGRAM, log_dir=tmp_path) as drafting, Server(TARGET, None, log_dir=tmp_path) as plain:
        load.meanwhile[50] = drafting.stop
        arm = domain_drift.one_arm(asked, (drafting, plain), "fallback", repeat=0)
    assert arm.served["plain"] >= 98
    assert arm.episode.readings.num_drafts[-1] is None
    assert len(arm.episode.requests.start_s) + arm.broken == 150


def test_an_arm_is_not_measured_once_a_server_has_ended(tmp_path, load):
    """It would be served by the other, and bear the wrong name."""
    asked = FallbackEpisodes.model_validate(fall_back(traffic=traffic(["long"], n=50), repeats=2))
    with Server(TARGET, NGRAM, log_dir=tmp_path) as drafting, Server(TARGET, None, log_dir=tmp_path) as plain:
        load.meanwhile[20] = plain.stop
        with pytest.raises(EngineError, match=r"a server ended between two arms: .* \(log: "):
            domain_drift._arms(asked, (drafting, plain))


def test_with_both_servers_gone_it_is_one_message(tmp_path):
    asked = FallbackEpisodes.model_validate(fall_back(traffic=traffic(["long"], n=10)))
    with Server(TARGET, NGRAM, log_dir=tmp_path) as drafting, Server(TARGET, None, log_dir=tmp_path) as plain:
        drafting.stop()
        plain.stop()
        with pytest.raises(EngineError, match=r"none of 10 requests was answered: .*no server answers"):
            domain_drift.one_arm(asked, (drafting, plain), "fallback", repeat=0)
