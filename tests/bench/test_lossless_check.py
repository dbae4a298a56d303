"""The order of a check: four servers, the record, and only then the margins. Servers are faked."""

import json
from contextlib import closing

import pytest

from factories import HARDWARE, PROVENANCE, eagle3, target
from specbook import records
from specbook.bench import greedy, lossless_check
from specbook.bench.greedy import Answer
from specbook.config.plan import Lossless, Plan
from specbook.config.schema import Traffic
from specbook.errors import EngineError
from specbook.records.lossless import LosslessRecord, MarginsRecord

TOKENS = {
    (None, "compiled"): [(5, 6), (7, 8)],
    ("EAGLE-3 K=5", "compiled"): [(5, 6), (7, 9)],
    (None, "eager"): [(5, 1), (7, 8)],
}
"""Speculation parts from the baseline in the second prompt, the other mode in the first."""


class World:
    """Servers that answer from TOKENS, and what happened in which order."""

    def __init__(self):
        self.events: list[tuple] = []

    def server(self, served, speculation=None):
        world, name = self, (speculation.label if speculation else None, served.execution)

        class Server:
            target, tokens = served, TOKENS[name]

            def __enter__(self):
                world.events.append(("start", *name))
                return self

            def __exit__(self, *error):
                world.events.append(("stop", *name))

        return Server()

    def answers(self, server, prompts, max_tokens, concurrency):
        return [Answer(prompt_token_ids=(1, i), token_ids=t, text="x") for i, t in enumerate(server.tokens)]

    def margin(self, server, context, token_a, token_b):
        self.events.append(("rate", context, token_a, token_b))
        return 0.25


def came_from(prompts_sha256):
    return PROVENANCE.model_copy(update={"prompts_sha256": prompts_sha256})


@pytest.fixture
def world(monkeypatch, tmp_path):
    made = World()
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    monkeypatch.setattr(lossless_check, "Server", made.server)
    monkeypatch.setattr(greedy, "answers", made.answers)
    monkeypatch.setattr(lossless_check, "_origin", lambda server, sha256: came_from(sha256))
    monkeypatch.setattr(greedy, "margin_logits", made.margin)
    rows = [{"id": f"p{i}", "domain": "json", "prompt": f"{i}?"} for i in range(2)]
    made.file = tmp_path / "prompts.jsonl"
    made.file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return made


def check(world):
    return lossless_check.check(
        target(), eagle3(), [Traffic(domain="json", prompts=str(world.file))], 2, 8, hardware=HARDWARE
    )


def test_the_check_comes_before_its_margins(world):
    with closing(check(world)) as made:
        first = next(made)
        assert isinstance(first, LosslessRecord)
        assert not [event for event in world.events if event[0] == "rate"]
        second = next(made)
        assert list(made) == []
    assert isinstance(second, MarginsRecord)
    starts = [event[1:] for event in world.events if event[0] == "start"]
    assert starts == [(None, "compiled"), ("EAGLE-3 K=5", "compiled"), (None, "eager"), (None, "compiled")]
    assert world.events[-3:] == [
        ("rate", (1, 1, 7), 8, 9),
        ("rate", (1, 0, 5), 6, 1),
        ("stop", None, "compiled"),
    ]
    assert second.check == first.run_id
    assert second.margins_logits == {"speculation": {"p1": 0.25}, "control": {"p0": 0.25}}


def test_each_arm_is_compared_with_the_baseline(world):
    with closing(check(world)) as made:
        first = next(made)
    assert (first.equality.equal, first.control.equal, first.repeat.equal) == (1, 1, 2)
    assert [fork.prompt_id for fork in first.divergences] == ["p1"]
    assert [fork.prompt_id for fork in first.control_divergences] == ["p0"]
    assert set(first.provenance) == {"baseline", "speculation", "control", "repeat"}
    assert world.events[-1] == ("stop", None, "compiled")


def test_a_check_is_kept_though_its_margins_fail(world, monkeypatch):
    def dies(*asked):
        raise EngineError("gone")

    monkeypatch.setattr(greedy, "margin_logits", dies)
    monkeypatch.setattr(Traffic, "file", lambda self: world.file)
    monkeypatch.setattr(lossless_check.provenance, "today", lambda *models: PROVENANCE)
    asked = Lossless(num_speculative_tokens=5, dtypes=("bfloat16",), prompts_per_domain=2, concurrency=1)
    plan = Plan(
        chapter="test", hardware="cpu", group="quick", target=target(), baselines=("compiled",),
        drafts=({"method": "eagle3", "model": "models/eagle3"},), domains=("json",), concurrency=(1,),
        num_requests={1: 1}, max_tokens=8, restarts=1, lossless=asked,
    )  # fmt: skip
    with pytest.raises(EngineError, match="gone"):
        lossless_check.measure_missing(plan, HARDWARE)
    assert world.events[-1] == ("stop", None, "compiled")
    (kept,) = records.load_lossless()
    assert [fork.margin_logits for fork in kept.divergences] == [None]
    assert lossless_check.missing(plan, HARDWARE) == []
    asked_else = plan.model_copy(update={"domains": ("json", "code")})
    assert len(lossless_check.missing(asked_else, HARDWARE)) == 1
    upgraded = PROVENANCE.model_copy(update={"versions": {"vllm": "99"}})
    monkeypatch.setattr(lossless_check.provenance, "today", lambda *models: upgraded)
    assert len(lossless_check.missing(plan, HARDWARE)) == 1


def test_a_bounded_number_of_divergences_is_rated(world, monkeypatch):
    found = list(range(lossless_check.MARGINS_PER_ARM * 3 + 1))
    kept = lossless_check._spread(found)
    assert len(kept) <= lossless_check.MARGINS_PER_ARM
    assert (kept[0], kept[-1] > found[-1] * 0.9) == (0, True)
    assert lossless_check._spread([]) == []
    monkeypatch.setattr(lossless_check, "MARGINS_LIMIT_S", -1.0)
    with closing(check(world)) as made:
        assert [type(record) for record in made] == [LosslessRecord]
