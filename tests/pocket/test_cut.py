"""A draft model cut out of its target: the layers that are kept learn what the target would say."""

import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from pocket import checkpoint, cut, loop, target
from pocket.corpus import held_out
from pocket.cut import FILE, CutRecipe
from pocket.loss import to_torch
from pocket.packing import batches, encoded
from pocket.target import TargetRecipe
from specbook.bench import provenance
from specbook.errors import ConfigError

SIZES = {
    "num_hidden_layers": 4, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 16,
}  # fmt: skip
KEPT = (0, 3)


@pytest.fixture(scope="module")
def whole(tmp_path_factory, pocket_tokenizer):
    """The target: four layers of random weights, as it would be served."""
    folder = tmp_path_factory.mktemp("models") / "whole"
    made = TargetRecipe(**SIZES, start=None)
    model = target.new_model(made)
    with torch.no_grad():  # else it would say next to the same with layers and without
        for matrix in (p for p in model.parameters() if p.ndim > 1):
            matrix.mul_(10)
    checkpoint.publish(folder, model, pocket_tokenizer, made, [{"step": 0}])
    return folder


def recipe(whole, **more) -> CutRecipe:
    sha256 = provenance.model_sha256(str(whole), None)
    return CutRecipe(
        start=str(whole), start_sha256=sha256, rows=2, row_tokens=256, steps=30, warmup_steps=2,
        data_set="any", num_prompts=1, **{"layers": KEPT} | more,
    )  # fmt: skip


def samples(tokenizer):
    while True:
        yield from encoded(held_out("math", 8), tokenizer)


@pytest.fixture(scope="module")
def trained(whole, tmp_path_factory, pocket_tokenizer):
    """A folder with `draft`, what ships, and `served`, what is made of it."""
    folder = tmp_path_factory.mktemp("trained")
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "LOG_STEPS", 10)
        loop.train(
            recipe(whole), folder / "draft", folder / "scratch", report=lambda line: None, workers=2,
            samples=samples(pocket_tokenizer),
        )  # fmt: skip
    cut.copy(whole, folder / "draft", folder / "served")
    return folder


def test_the_loss_is_the_divergence_from_the_target(whole, tmp_path, pocket_tokenizer):
    asked = recipe(whole)
    model, _ = asked.begin(tmp_path)
    tensors = to_torch(next(batches(samples(pocket_tokenizer), 2, 256, 0.0)), "cpu")
    ids, mask, positions, _, weights = tensors
    teacher = AutoModelForCausalLM.from_pretrained(whole, dtype=torch.float32, attn_implementation="sdpa")
    p, q = (
        one(input_ids=ids, attention_mask=mask, position_ids=positions).logits.softmax(-1)
        for one in (teacher, model)
    )
    by_hand = ((p * (p / q).log()).sum(-1) * weights).sum() / weights.sum()
    assert by_hand > 0.01
    torch.testing.assert_close(asked.loss(model, tensors), by_hand, rtol=1e-3, atol=1e-5)


def test_only_its_layers_ship_and_they_learn(trained, whole):
    assert {path.name for path in (trained / "draft").iterdir()} == {FILE, "recipe.json", "training.csv"}
    rows = (trained / "draft" / "training.csv").read_text().splitlines()
    assert rows[0] == "step,tokens,hours,train"
    losses = [float(row.split(",")[3]) for row in rows[1:]]
    assert losses[-1] < 0.8 * losses[0]
    assert json.loads((trained / "draft" / "recipe.json").read_text()) == recipe(whole).model_dump(
        mode="json"
    )
    shipped = load_file(trained / "draft" / FILE)
    matrices = {name: tensor for name, tensor in shipped.items() if name.endswith("_proj.weight")}
    assert len(matrices) == 7 * len(KEPT)
    assert {tensor.dtype for tensor in matrices.values()} == {torch.int8}
    assert "model.embed_tokens.weight" not in shipped


def test_it_is_served_with_its_layers_and_the_targets_tokens(trained, whole, pocket_tokenizer):
    before, after = (load_file(folder / "model.safetensors") for folder in (whole, trained / "served"))
    assert {name.split(".")[2] for name in after if ".layers." in name} == {"0", "1"}
    assert {tensor.dtype for tensor in after.values()} == {torch.bfloat16}
    embeddings = "model.embed_tokens.weight"
    assert torch.equal(after[embeddings], before[embeddings])
    served = AutoModelForCausalLM.from_pretrained(trained / "served")
    assert len(served.model.layers) == served.config.num_hidden_layers == len(KEPT)
    assert AutoTokenizer.from_pretrained(trained / "served").get_vocab() == pocket_tokenizer.get_vocab()


def test_eight_bits_keep_a_matrix_to_half_a_step(trained):
    matrix = torch.randn(6, 10).bfloat16()
    name = "model.layers.0.mlp.up_proj.weight"
    back = cut.widened(cut.narrowed({name: matrix}))
    assert set(back) == {name}
    step = matrix.float().abs().amax(dim=1, keepdim=True) / 127
    assert ((back[name].float() - matrix.float()).abs() <= 0.5 * step + 0.004 * matrix.float().abs()).all()


def test_layers_of_another_target_are_refused(trained, whole, tmp_path):
    (tmp_path / "model.safetensors").write_bytes((whole / "model.safetensors").read_bytes() + b"0")
    with pytest.raises(ConfigError, match=r"cut out of another model than .*`specbook train smollm2-draft`"):
        cut.copy(tmp_path, trained / "draft", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_draft_model_that_was_not_trained_is_named(whole, tmp_path):
    with pytest.raises(ConfigError, match=r"no layers.safetensors: train the draft model first"):
        cut.copy(whole, tmp_path, tmp_path / "out")


def test_a_layer_that_the_target_lacks_is_refused(whole, tmp_path):
    with pytest.raises(ConfigError, match=r"layers \(0, 4\): this target's are 0 to 3"):
        recipe(whole, layers=(0, 4)).begin(tmp_path)
