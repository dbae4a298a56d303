"""K by batch: what the engine would not obey is refused, and what it does obey is read in its source."""

import importlib.util
from pathlib import Path

import pytest
from pydantic import ValidationError

import factories
from specbook.config.draft_schedule import at, label
from specbook.config.plan import PlannedDraft
from specbook.config.schema import Speculation

ROWS = ((1, 1, 8), (2, 8, 5), (9, 32, 0))


def drafted(rows=ROWS, **fields):
    return factories.eagle3(**{"k": 8, "num_speculative_tokens_per_batch_size": rows, **fields})


def engine(name):
    """Source of a module of the installed engine."""
    (folder,) = importlib.util.find_spec("vllm").submodule_search_locations
    return (Path(folder) / name).read_text()


@pytest.fixture(scope="module")
def lookup():
    """The engine's own function from rows to K by batch, without the engine around it."""
    made = {}
    exec(engine("v1/spec_decode/dynamic/utils.py"), made)
    return made["build_dynamic_sd_schedule_lookup"]


def test_the_engine_looks_up_what_the_rows_say(lookup):
    config = drafted().engine_config()
    table = lookup(config["num_speculative_tokens_per_batch_size"], 40, config["num_speculative_tokens"])
    assert table[1:] == [8, *[5] * 7, *[0] * 32]


def test_a_batch_in_a_gap_or_above_has_the_row_before(lookup):
    rows = ((1, 2, 8), (5, 6, 3))
    assert [at(rows, batch) for batch in range(1, 11)] == lookup(list(rows), 10, 8)[1:]


def test_a_server_and_its_name_say_the_rows():
    assert drafted().label == "EAGLE-3 K=8 from batch 1, 5 from 2, 0 from 9"
    assert drafted().engine_config()["num_speculative_tokens_per_batch_size"] == [list(row) for row in ROWS]
    assert label(((1, 32, 3),)) == "K=3 from batch 1"


def test_a_fixed_k_keeps_its_key():
    """A new option renames no point that was measured without it."""
    assert "per_batch" not in str(factories.point(factories.eagle3(8))._set())
    assert factories.point(drafted()).key != factories.point(factories.eagle3(8)).key


def test_a_plan_may_name_a_schedule():
    draft = PlannedDraft(
        method="ngram",
        num_speculative_tokens=[4],
        num_speculative_tokens_per_batch_size=[[1, 8, 4], [9, 9, 0]],
    )
    assert draft.num_speculative_tokens_per_batch_size == ((1, 8, 4), (9, 9, 0))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "the first one begins at batch 1"),
        ([[2, 8, 5]], "the first one begins at batch 1"),
        ([[1, 8, 5], [8, 9, 3]], r"row \[8, 9, 3\]: batches rise"),
        ([[1, 8, 9]], r"row \[1, 8, 9\]: .*K is 0 to 8"),
        ([[3, 1, 5]], r"row \[3, 1, 5\]: batches rise"),
    ],
)
def test_rows_that_the_engine_would_refuse_are_refused(rows, message, lookup):
    with pytest.raises(ValidationError, match=message):
        drafted(rows)


@pytest.mark.parametrize(
    ("fields", "rows", "allowed"),
    [
        ({"parallel_drafting": True}, [[1, 1, 8], [2, 8, 5]], r"\[0, 8\]"),
        ({"method": "suffix", "model": None}, [[1, 1, 8], [2, 8, 0]], r"\[8\]"),
    ],
)
def test_a_k_that_would_end_the_engine_is_refused(fields, rows, allowed):
    with pytest.raises(ValidationError, match=f"drafts {allowed} and nothing else"):
        drafted(rows, **fields)
    fits = [[1, 1, 8]] if "method" in fields else [[1, 1, 8], [2, 8, 0]]
    assert isinstance(drafted(fits, **fields), Speculation)


HEAD = "v1/spec_decode/llm_base_proposer.py"
READ = {
    "the requests of a step": ("v1/core/sched/scheduler.py", "self.dynamic_sd_lookup[", "len(num_sched"),
    "verified in the next": (
        "v1/core/sched/async_scheduler.py", "] * scheduler_output.num_spec_tokens_to_schedule",
        "request.spec_token_ids = self._spec_token_placeholders",
    ),
    "a pass at K = 0": (HEAD, "= self.model(**model_kwargs)", "if self.num_speculative_tokens == 0:"),
    "lookup at K = 0": ("v1/spec_decode/ngram_proposer.py", "k = min(k, max_model_len", "if k <= 0:"),
    "suffix": ("v1/spec_decode/suffix_decoding.py", "assert num_speculative_tokens == self.num_spec"),
    "rows of a parallel head": (HEAD, "1 if not self.parallel_drafting else self.", "* self.extra_slots"),
    "rows cut": (HEAD, "or self.parallel_drafting:", "draft_token_ids.view(-1, self.num_speculative_tokens)"),
    "data parallelism": ("config/vllm.py", "Dynamic speculative decoding is not supported with data "),
    "CUDA graphs": ("config/vllm.py", "or self.use_v2_model_runner", "Overriding cudagraph_mode from %s to "),
}  # fmt: skip
"""What `config.draft_schedule` says -> a module of the engine, and what stands there one after the other."""


@pytest.mark.parametrize("name", READ)
def test_the_engine_still_does_what_was_read(name):
    """A release that fails here is to be read again."""
    module, *lines = READ[name]
    source, place = engine(module), 0
    for line in lines:
        place = source.find(line, place)
        assert place >= 0, line
