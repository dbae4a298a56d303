"""Train a draft head with `speculators`, EAGLE-3 or P-EAGLE, on what the target itself answers greedily."""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import torch
from datasets import load_from_disk
from pydantic import Field, model_validator
from safetensors.torch import load_file, save_file

from pocket import checkpoint
from pocket.checkpoint import write_curve, write_recipe
from pocket.loss import fast_bfloat16
from pocket.muon import orthogonalised
from pocket.outputs import OutputsRecipe
from pocket.tokenizer import MASK_ID


class HeadRecipe(OutputsRecipe):
    """Everything that decides a head's weights, given its target."""

    prompts_per_domain: int = 600
    speculator_type: Literal["eagle3", "peagle"]
    num_answers: int | None = Field(default=None, ge=1)
    """Answers that it learns from, the first ones; None: all."""
    target_layer_ids: tuple[int, ...] = Field(default=(2, 12, 21), min_length=3)
    """Layers whose outputs the head reads; distinct, each in [1, layers - 1]; the last one is always read."""
    num_layers: int = 1
    epochs: int = 3
    total_seq_len: int = 384
    """Tokens per optimizer step: short rows, since a head learns more from many steps than from long ones."""
    lr: float = 2e-3
    seed: int = 0
    draft_vocab_size: int | None = Field(default=None, ge=1)
    """Most frequent tokens of the answers that it drafts; None: all that the target has."""
    router_noise: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """Noise in the target's router while it answers and while its hidden states are read; see `Target`."""
    start: str | None = None
    """A head to go on from, see `checkpoint.older`; None: random weights.

    A P-EAGLE head may go on from an EAGLE-3 head, see `grown`.
    """

    def arguments(self, target: Path, scratch: Path) -> dict[str, Any]:
        """What `speculators` is told of this recipe, under its own names."""
        ours = {
            *OutputsRecipe.model_fields, "num_answers", "target_layer_ids", "num_layers", "start",
            "router_noise",
        }  # fmt: skip
        said = self.model_dump(exclude=ours, exclude_none=True) | {
            "target_layer_ids": list(self.target_layer_ids)
        }
        if self.start:
            older = checkpoint.older(self.start, scratch / "older")
            return said | {"from_pretrained": str(starting_point(older, self, target, scratch / "start"))}
        return said | self.form()

    def form(self) -> dict[str, Any]:
        """What a new head looks like, which one that goes on knows of itself."""
        return {"num_layers": self.num_layers}


class Eagle3Recipe(HeadRecipe):
    """A head that drafts one token after another."""

    speculator_type: Literal["eagle3"] = "eagle3"
    ttt_steps: int = 5
    """Depth to which training unrolls the head on its own guesses."""


class PEagleRecipe(HeadRecipe):
    """A head that drafts all its tokens in one pass; layers are cheap, so it has several."""

    speculator_type: Literal["peagle"] = "peagle"
    num_layers: int = 4
    num_depths: int = 8
    """Tokens it learns to draft at once."""
    down_sample_ratio: float = 0.9
    """Share of the positions kept from one depth to the next."""
    down_sample_ratio_min: float = 0.5
    max_anchors: int = 256
    norm_before_fc: bool = True
    """Normalise what is read of the target, whose layers differ in scale; `speculators` does for EAGLE-3.

    A head that goes on from a `start` has this of it.
    """
    loss_fn: Literal["kl_div", "lk_hybrid"] = "kl_div"
    """`lk_hybrid` goes over to the share that would be accepted as the head learns: arXiv:2602.23881."""
    embed_requires_grad: bool = True
    """Whether the embedding learns, too. False, for a head that is grown: it stays the target's, and does not
    ship."""

    @model_validator(mode="after")
    def _has_the_form_of_its_start(self) -> Self:
        if not (self.start or self.embed_requires_grad):
            raise ValueError(
                "embed_requires_grad=False would be ignored: a new P-EAGLE head trains its embedding. "
                "Leave it out, or name an EAGLE-3 head to start from"
            )
        if self.start and not self.norm_before_fc:
            raise ValueError(
                f"norm_before_fc=False would be ignored: a head that goes on has that of its start, "
                f"{self.start!r}. Leave out norm_before_fc, or start"
            )
        return self

    def form(self) -> dict[str, Any]:
        """As an EAGLE-3 head's, with the draft layers' kind and the mask token, which must not be the pad."""
        return super().form() | {"draft_arch": "llama", "mask_token_id": MASK_ID}


def starting_point(head: Path, recipe: HeadRecipe, target: Path, out: Path) -> Path:
    """A copy of `head` in `out` as `speculators` loads it: of the recipe's kind, its target where it lies.

    What `speculators` freezes is taken from this target: it would keep that of the one that `head` was for.
    An embedding that the head stores was trained, and stays. In float32, as a new head is: small steps are
    lost in a shipped head's bfloat16, and the trainer wants the precision of the hidden states.
    """
    config, lent = _config(head, target), targets_own(target)
    own = load_file(head / "model.safetensors")
    if "embed_tokens.weight" in own:
        del lent["embed_tokens.weight"]
    if "t2d" in own:  # it drafts some of the target's tokens
        lent["lm_head.weight"] = lent["lm_head.weight"][own["t2d"]]
    if config["speculators_model_type"] == "eagle3" and isinstance(recipe, PEagleRecipe):
        grown(head, config, recipe, out)
    else:
        shutil.copytree(head, out, dirs_exist_ok=True)
        _write_config(out, config)
    _save(load_file(out / "model.safetensors") | lent, torch.float32, out)
    return out


def targets_own(target: Path) -> dict[str, torch.Tensor]:
    """What a new head reads and writes tokens with, [vocabulary, hidden] each, under a head's names."""
    weights = load_file(target / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    return {"embed_tokens.weight": embedding, "lm_head.weight": weights.get("lm_head.weight", embedding)}


def grown(head: Path, old: dict[str, Any], recipe: PEagleRecipe, out: Path) -> Path:
    """Give an EAGLE-3 head what a P-EAGLE head has more, so that its first draft is as good from the start.

    The layers behind its own write nothing into the residual stream yet.

    Args:
        head: the old head's folder.
        old: its config, with the target that the new head names.
        recipe: how many layers and tokens at once the new head has.
        out: folder of the new head.
    """
    from speculators.models.peagle.config import PEagleSpeculatorConfig
    from speculators.models.peagle.core import PEagleDraftModel

    layers, told = old["transformer_layer_config"], old["speculators_config"]
    layers |= {
        "num_hidden_layers": recipe.num_layers,
        "layer_types": layers["layer_types"] * recipe.num_layers,
    }
    told["algorithm"] = recipe.speculator_type
    told["proposal_methods"][0]["speculative_tokens"] = recipe.num_depths
    kept = ("draft_vocab_size", "eagle_aux_hidden_state_layer_ids", "norm_before_fc", "norm_before_residual")
    config = PEagleSpeculatorConfig(
        transformer_layer_config=layers, speculators_config=told, mask_token_id=MASK_ID,
        embed_requires_grad=recipe.embed_requires_grad, **{name: old[name] for name in kept},
    )  # fmt: skip
    torch.manual_seed(recipe.seed)
    model = PEagleDraftModel(config)
    model.load_state_dict(load_file(head / "model.safetensors"), strict=False)
    with torch.no_grad():
        for layer in model.layers[1:]:
            layer.self_attn.o_proj.weight.zero_()
            layer.mlp.down_proj.weight.zero_()
    model.save_pretrained(out)
    return out


def _config(head: Path, target: Path | None = None) -> dict[str, Any]:
    """A head's config, naming the target by where it lies for training, and by its class.

    Without `target` it has a name alone, for shipping: this machine's paths are no one else's, and vLLM takes
    the target from its own flags.
    """
    config = json.loads((head / "config.json").read_text())
    verifier = config["speculators_config"]["verifier"]
    verifier["name_or_path"] = str(target or Path(verifier["name_or_path"]).name)
    config["dtype"] = "float32" if target else "bfloat16"
    if target is not None:
        verifier["architectures"] = json.loads((target / "config.json").read_text())["architectures"]
    return config


def _write_config(head: Path, config: dict[str, Any]) -> None:
    (head / "config.json").write_text(json.dumps(config, indent=2) + "\n")


_NO_ACCELERATOR = {
    "draft_attn_impl": "sdpa", "loss_implementation": "eager", "on_missing": "raise", "num_workers": 0,
    "no_resume_from_checkpoint": True, "log_freq": 50, "train_data_ratio": 0.96,
}  # fmt: skip


def train_head(model_folder: Path, data: Path, recipe: HeadRecipe, scratch: Path, out: Path) -> Path:
    """Train a head on `data` (see `outputs.hidden_states`) and put its last checkpoint in `out`."""
    from speculators.train.cli import main
    from speculators.train.config import TrainConfig
    from speculators.train.vocab_mapping import save_token_frequency_distribution

    quick = torch.accelerator.is_available() or fast_bfloat16("cpu")
    arguments = recipe.arguments(model_folder, scratch) | _NO_ACCELERATOR | {
        "verifier_name_or_path": str(model_folder), "data_path": str(data), "save_path": str(scratch),
        "log_dir": str(scratch / "logs"), "hidden_states_dtype": "bfloat16" if quick else "float32",
    }  # fmt: skip
    if recipe.draft_vocab_size:
        save_token_frequency_distribution(load_from_disk(str(data)), data / "token_freq.pt")
    curve: list[dict[str, float]] = []
    with patched_trainer(curve):
        main(TrainConfig.from_sources(cli=arguments, argv=["specbook", "train"]))
    publish(scratch, out, targets_own(model_folder))
    write_recipe(out, recipe)
    write_curve(out, curve)
    return out


@contextmanager
def patched_trainer(curve: list[dict[str, float]]) -> Iterator[None]:
    """`speculators` 0.9 asks for an accelerator in three places, and only logs each epoch's validation.
    Told to stop, it saves what there is and returns as if it had finished: half a head would be shipped.

    While this lasts, the CPU answers where there is no accelerator, Muon works in float32 where bfloat16 is
    emulated, validation metrics are left in `curve` too, and signals do what they do elsewhere. Afterwards
    everything is as it was, so that a second head may be trained in the same process.
    """
    from speculators.train import graceful_shutdown, trainer
    from torch.optim import _muon

    validate, init = trainer.Trainer.val_epoch, trainer.Trainer.__init__

    def keeping(self, epoch: int):
        metrics = validate(self, epoch)
        curve.append({"epoch": epoch + 1} | {name: round(v, 4) for name, v in (metrics or {}).items()})
        return metrics

    def on_cpu(self, model, config, *args, **kwargs):
        self.device_type = "cpu"
        init(self, model, config, *args, **kwargs)
        self.device_type = "cpu"

    with (
        _replaced(trainer.Trainer, {"val_epoch": keeping}),
        _replaced(graceful_shutdown.GracefulShutdownHandler, {"install": lambda _: None}),
    ):
        if torch.accelerator.is_available():
            yield
            return
        exact = {"_zeropower_via_newtonschulz": lambda matrix, *_: orthogonalised(matrix.float()[None])[0]}
        with (
            _replaced(_muon, {} if fast_bfloat16("cpu") else exact),
            _replaced(trainer, {"get_local_rank": lambda: "cpu"}),
            _replaced(torch.accelerator, {"synchronize": lambda *_: None}),
            _replaced(trainer.Trainer, {"__init__": on_cpu}),
        ):
            yield


@contextmanager
def _replaced(owner: Any, values: Mapping[str, Any]) -> Iterator[None]:
    kept = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(owner, name, value)


def publish(scratch: Path, out: Path, lent: Mapping[str, torch.Tensor]) -> Path:
    """Copy the newest checkpoint's config and weights, as bfloat16, to `out`: all that serving needs.

    What the target lent stays out, so a head is a quarter as large: the engine shares the target's with it.
    """
    newest = max((p for p in scratch.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    out.mkdir(parents=True, exist_ok=True)
    _write_config(out, _config(newest))
    for path in newest.glob("generation_config.json"):
        shutil.copy(path, out)
    weights = load_file(newest / "model.safetensors")
    for name, weight in lent.items():
        if torch.equal(weights[name].bfloat16(), weight.bfloat16()):
            del weights[name]
    _save(weights, torch.bfloat16, out)
    return out


def _save(weights: Mapping[str, torch.Tensor], dtype: torch.dtype, head: Path) -> None:
    """Each as a tensor of its own, which the format wants: a target may lend one matrix twice."""
    cast = {n: w.to(dtype, copy=True) if w.is_floating_point() else w for n, w in weights.items()}
    save_file(cast, head / "model.safetensors", metadata={"format": "pt"})
