"""A second engine is one folder: `tests/engines/echo`, served, asked and measured like the first."""

import os
import signal

import pytest

from specbook import config, engine, records
from specbook.analysis import speedup
from specbook.bench import campaign, greedy
from specbook.cli import ask, doctor
from specbook.config.machines import Profile
from specbook.config.schema import Speculation, Target
from specbook.engine.counters import delta
from specbook.engine.server import Server
from specbook.errors import ConfigError, EngineError

pytestmark = pytest.mark.usefixtures("echo", "scratch")
NGRAM = Speculation(method="ngram", num_speculative_tokens=3)
TARGET = {"name": "echo", "model": "models/pocket-dense", "max_model_len": 512, "engine": "echo"}


@pytest.fixture
def server(tmp_path):
    with Server(Target(**TARGET), NGRAM, api_key="hush", log_dir=tmp_path) as running:
        yield running


def test_it_answers_streams_and_counts(server):
    before = server.counters()
    (answer,) = greedy.answers(server, ["one two three four five"], max_tokens=9)
    assert (answer.text, answer.token_ids) == ("one two three four five", (3, 3, 5, 4, 4))
    found = delta(before, server.counters())
    assert (found.server.generation_tokens, found.spec_decode.num_accepted_tokens_per_pos) == (5, (1, 1, 1))
    said = []
    reply = ask.ask(server, "a b c d e f", 5, said.append)
    assert "".join(said) == "a b c d e "
    assert (reply.output_tokens, reply.spec_decode.num_drafts) == (5, 2)
    profile = Profile(target=server.target, speculation=NGRAM)
    assert ask.summary(ask.served(profile), reply, None, "")[0] == "[serve] Echo 1, echo bf16, ngram K=3"


def test_it_is_paused_and_its_end_is_told(server):
    server.pause()
    server.resume()
    os.kill(server.pids()[0], signal.SIGKILL)
    with pytest.raises(EngineError, match=r"cannot read .*/counts"):
        server.counters()
    server.stop()
    assert "Echo was ended by SIGKILL" in server.obituary()


def test_what_it_cannot_do_and_what_it_died_of_are_told(tmp_path):
    suffix = Speculation(method="suffix", num_speculative_tokens=3)
    with pytest.raises(ConfigError, match="Echo cannot draft by 'suffix': use ngram"):
        Server(Target(**TARGET), suffix, log_dir=tmp_path).__enter__()
    shy = Target(**TARGET, extra_args=("boo",))
    with pytest.raises(EngineError, match="Echo exited with code 1: I cannot say boo"):
        Server(shy, log_dir=tmp_path).__enter__()


def test_an_engine_that_is_misspelt_names_the_near_match():
    with pytest.raises(ConfigError, match=r"no engine 'ecko' \(did you mean 'echo'\?\)"):
        engine.for_target(Target(**TARGET | {"engine": "ecko"}))


def test_the_doctor_asks_it_too():
    assert "voice" in {check.name for check in doctor.checks()}


def test_a_whole_campaign_is_measured_on_it_and_replayed(monkeypatch):
    monkeypatch.setattr(campaign, "with_peaks", lambda hardware: hardware)
    monkeypatch.setattr(campaign.loadgen, "dismiss", lambda: None)  # other tests go on with it
    group = {
        "target": TARGET, "baselines": ["eager"], "drafts": [{"method": "ngram"}],
        "num_speculative_tokens": [3], "domains": ["json"], "concurrency": [1], "num_requests": {1: 6},
        "max_tokens": 12, "restarts": 1,
    }  # fmt: skip
    wanted = config.build("01_echo", {"quick": group}, hardware="cpu", group="quick", overrides={})
    made = campaign.measure([wanted])
    assert [record.reason for record in made] == [None, None]
    drafted = next(record for record in made if record.point.speculation)
    assert drafted.measurement.spec_decode.num_draft_tokens > 0
    assert drafted.measurement.server.generation_tokens == drafted.measurement.throughput.output_tokens
    assert "serve.py" in " ".join(drafted.provenance.server_command)
    replayed = records.replay(wanted)
    assert {record.point.target.engine for record in replayed} == {"echo"}
    assert speedup.speedups(replayed)["speedup"].gt(0).all()
