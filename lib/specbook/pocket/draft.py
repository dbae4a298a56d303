"""Train a draft head with `speculators`, on what the target itself answers greedily."""

import hashlib
import json
import shutil
from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

import torch
from datasets import Dataset
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from specbook import provenance
from specbook.config import Frozen, Target
from specbook.engine.vllm import VllmServer
from specbook.errors import ConfigError
from specbook.greedy import answers
from specbook.pocket.checkpoint import write_curve, write_recipe
from specbook.pocket.corpus import DOMAINS, train_examples

PROMPT_SEED = 777
"""Not a seed the target was trained with: new problems, and new cuts and wordings of code and chat."""


class DraftRecipe(Frozen):
    """Everything that decides a head's weights, given its target."""

    prompts_per_domain: int = 800
    max_tokens: int = 192
    """Output cap of the target's answers."""
    target_layer_ids: tuple[int, int, int] = (2, 12, 21)
    """Layers whose outputs the head reads; distinct, each in [1, layers - 1]; the last one is always read."""
    ttt_steps: int = 4
    """Depth to which training unrolls the head on its own guesses."""
    epochs: int = 6
    total_seq_len: int = 1024
    """Tokens per optimizer step."""
    lr: float = 2e-3
    seed: int = 0


def training_prompts(per_domain: int) -> list[str]:
    """Training prompts, domains in turn."""
    streams = (train_examples(domain, per_domain, PROMPT_SEED) for domain in DOMAINS)
    return [e.prompt for e in chain.from_iterable(zip_longest(*streams)) if e is not None]


def greedy_outputs(target: Target, recipe: DraftRecipe, out: Path) -> Path:
    """Let the target answer the training prompts, unless it has; a JSONL of prompt and answer token ids.

    Raises:
        EngineError: if the server does not start or stops answering.
    """
    path = out / f"outputs-{_digest(target, recipe)}.jsonl"
    if not path.exists():
        out.mkdir(parents=True, exist_ok=True)
        prompts = training_prompts(recipe.prompts_per_domain)
        with VllmServer(target) as server:
            got = answers(server, prompts, recipe.max_tokens, concurrency=target.max_num_seqs)
        lines = (json.dumps({"prompt": a.prompt_token_ids, "answer": a.token_ids}) for a in got)
        (out / "outputs.tmp").write_text("\n".join(lines) + "\n")
        (out / "outputs.tmp").replace(path)
    return path


def _digest(target: Target, recipe: DraftRecipe) -> str:
    """Of all that decides the answers: a head learnt from another target's answers would fit neither."""
    weights = provenance.model_sha256(target.model, target.revision)
    decides = (weights, target.dtype, recipe.prompts_per_domain, recipe.max_tokens, PROMPT_SEED)
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:12]


def hidden_states(model_folder: Path, outputs: Path, recipe: DraftRecipe, out: Path) -> Path:
    """What the head reads and must predict, in the form `speculators` trains from.

    Writes a `datasets` folder of `input_ids`, `loss_mask`, `seq_len` and, per sample i,
    `hidden_states/hs_{i}.safetensors`: `hidden_states` [tokens, 4, hidden], bfloat16 (three layers' outputs
    and the last layer's before the final norm) and `token_ids` [tokens].

    Raises:
        ConfigError: if the target has no such layers.
    """
    samples = [json.loads(line) for line in outputs.read_text().splitlines()]
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16).eval()
    last = model.config.num_hidden_layers - 1
    if not all(1 <= k <= last for k in recipe.target_layer_ids):
        raise ConfigError(f"target_layer_ids {recipe.target_layer_ids}: this target's are 1 to {last}")
    shutil.rmtree(out, ignore_errors=True)
    (out / "hidden_states").mkdir(parents=True)
    seen: list[torch.Tensor] = []
    # The library hands out the last layer's output only after the final norm: take what the norm takes.
    model.model.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for i, sample in enumerate(samples):
        ids = torch.tensor(sample["prompt"] + sample["answer"])
        with torch.no_grad():
            layers = model.model(ids[None], output_hidden_states=True).hidden_states
        states = torch.stack([*(layers[k][0] for k in recipe.target_layer_ids), seen.pop()[0]], dim=1)
        tensors = {"hidden_states": states.contiguous(), "token_ids": ids}
        save_file(tensors, out / f"hidden_states/hs_{i}.safetensors")
    _dataset(samples).save_to_disk(out)
    return out


def _dataset(samples: Sequence[dict]) -> Dataset:
    return Dataset.from_dict(
        {
            "input_ids": [s["prompt"] + s["answer"] for s in samples],
            "loss_mask": [[0] * len(s["prompt"]) + [1] * len(s["answer"]) for s in samples],
            "seq_len": [len(s["prompt"]) + len(s["answer"]) for s in samples],
        }
    ).with_format("torch")


def _allow_cpu() -> None:
    """`speculators` 0.9 asks for an accelerator in three places; where there is none, answer for the CPU."""
    from speculators.train import trainer

    if torch.accelerator.is_available():
        return
    trainer.get_local_rank = lambda: "cpu"
    torch.accelerator.synchronize = lambda *_: None
    init = trainer.Trainer.__init__

    def on_cpu(self, model, config, *args, **kwargs):
        self.device_type = "cpu"
        init(self, model, config, *args, **kwargs)
        self.device_type = "cpu"

    trainer.Trainer.__init__ = on_cpu


def _keep_validation(curve: list[dict[str, float]]) -> None:
    """Have the trainer leave each epoch's validation metrics in `curve` too: it only logs them."""
    from speculators.train import trainer

    validate = trainer.Trainer.val_epoch

    def keeping(self, epoch: int):
        metrics = validate(self, epoch)
        curve.append(
            {"epoch": epoch + 1, **{name: round(value, 4) for name, value in (metrics or {}).items()}}
        )
        return metrics

    trainer.Trainer.val_epoch = keeping


def train_eagle3(model_folder: Path, data: Path, recipe: DraftRecipe, scratch: Path, out: Path) -> Path:
    """Train an EAGLE-3 head on `data` (see `hidden_states`) and put its last checkpoint in `out`."""
    from speculators.train.cli import main
    from speculators.train.config import TrainConfig

    curve: list[dict[str, float]] = []
    _allow_cpu()
    _keep_validation(curve)
    arguments = {
        "speculator_type": "eagle3", "verifier_name_or_path": str(model_folder), "data_path": str(data),
        "save_path": str(scratch), "log_dir": str(scratch / "logs"),
        "target_layer_ids": list(recipe.target_layer_ids), "ttt_steps": recipe.ttt_steps,
        "epochs": recipe.epochs, "total_seq_len": recipe.total_seq_len, "lr": recipe.lr, "seed": recipe.seed,
        "train_data_ratio": 0.96, "draft_attn_impl": "sdpa", "loss_implementation": "eager",
        "on_missing": "raise", "num_workers": 0, "no_resume_from_checkpoint": True, "log_freq": 50,
    }  # fmt: skip
    main(TrainConfig.from_sources(cli=arguments, argv=["specbook", "train"]))
    publish(scratch, out)
    write_recipe(out, recipe)
    write_curve(out, curve)
    return out


def publish(scratch: Path, out: Path) -> Path:
    """Copy the newest checkpoint's config and weights, as bfloat16, to `out`: all that serving needs."""
    newest = max((p for p in scratch.iterdir() if p.name.isdigit()), key=lambda p: int(p.name))
    out.mkdir(parents=True, exist_ok=True)
    for path in newest.glob("*.json"):
        if path.name in ("config.json", "generation_config.json"):
            shutil.copy(path, out / path.name)
    weights = load_file(newest / "model.safetensors")
    halved = {n: w.to(torch.bfloat16) if w.is_floating_point() else w for n, w in weights.items()}
    save_file(halved, out / "model.safetensors", metadata={"format": "pt"})
    _make_portable(out / "config.json")
    return out


def _make_portable(config: Path) -> None:
    """Name the verifier's folder without this machine's path; vLLM takes the target from its own flags."""
    body = json.loads(config.read_text())
    verifier = body["speculators_config"]["verifier"]
    verifier["name_or_path"] = Path(verifier["name_or_path"]).name
    config.write_text(json.dumps(body, indent=2) + "\n")
