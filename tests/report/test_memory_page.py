"""The page of what fits where: each cell is the sum's, and no machine or model is left out."""

import pytest

from specbook.config import machines, models
from specbook.config.machines import Machine
from specbook.errors import ConfigError
from specbook.report import memory_page

MACHINES = dict(memory_page.accelerators())


@pytest.fixture(scope="module")
def page() -> str:
    return memory_page.render()


def test_every_accelerator_model_and_format_is_there(page):
    assert {"h100", "h200", "b200", "trn2", "inf2"} == set(MACHINES)
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    wanted = list(memory_page.pairs())
    for name, form in wanted:
        title = models.load(name).title
        mine = [line for line in rows if line.startswith(f"| {title} ") and memory_page.LABELS[form] in line]
        assert len(mine) == len(MACHINES)
    assert len(wanted) == 10


def test_a_row_is_the_sum_on_the_fewest_devices():
    h100 = MACHINES["h100"]
    row = memory_page.table(h100).set_index(["model", "weights"]).loc[("Llama 3.3 70B Instruct", "BF16")]
    two = memory_page.rank(h100, "llama-3.3-70b", "bf16", 2)
    assert (row["devices"], memory_page.rank(h100, "llama-3.3-70b", "bf16", 1).sequences) == (2, 0)
    assert row["weights, GB"] == "141.1"
    assert row["sequences of 8,192 tokens"] == two.sequences == 3  # 4.2 GB left, 1.34 GB a sequence
    assert row["left a rank, GB"] == f"{two.kv_bytes / 1e9:.1f}"


def test_what_no_machine_holds_says_none():
    small = Machine(title="Small", memory_bytes=8 * 10**9, devices=1)
    assert set(memory_page.table(small)["devices"]) == {"none"}
    assert set(memory_page.table(small)["sequences of 8,192 tokens"]) == {0}


def test_the_question_is_answered_with_the_sum(page):
    one = memory_page.rank(machines.read("h200"), "llama-3.3-70b", "bf16", 1)
    assert one.sequences == 0
    no = "**No, not at the share of the card that the engine takes by itself.** In GB: weights 141.1 + "
    assert no in page
    assert one.sum() in page


def test_a_reported_size_is_between_checkpoint_and_padded():
    (row,) = [line for line in memory_page.reports().splitlines() if line.startswith("| gpt-oss")]
    reported, stored, loaded = (float(cell) for cell in row.split("|")[4:7])
    assert stored < reported < loaded
    assert "https://github.com/vllm-project/vllm/issues/33155" in row


def test_a_shape_that_is_not_counted_names_its_file(monkeypatch):
    monkeypatch.setattr(models, "config", lambda name: {"model_type": "mamba"})
    with pytest.raises(
        ConfigError, match=r"^params/models/qwen3-32b/config\.json: model_type 'mamba' is not one of"
    ):
        memory_page.weight_bytes("qwen3-32b", "bf16")
