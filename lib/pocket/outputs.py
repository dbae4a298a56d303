"""What drafts learn from: the target's own answers, and its hidden states along them."""

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Self

import torch
from datasets import Dataset
from pydantic import Field, model_validator
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from pocket.corpus import DOMAINS, train_examples
from pocket.loss import fast_bfloat16
from specbook.bench import moe_routing, provenance
from specbook.bench.greedy import answers
from specbook.config import datasets, prompt_files
from specbook.config.schema import Frozen, Target
from specbook.engine.client import Asked
from specbook.engine.server import Server
from specbook.errors import ConfigError
from specbook.records import atomic_files
from specbook.stats.windows import repeats

PIECE = 64
"""Prompts whose answers are kept together, as many as the public target has slots."""
PROMPT_SEED = 777
"""Not a seed the target was trained with: new problems, and new cuts and wordings of the rest."""


class OutputsRecipe(Frozen):
    """What decides the answers, given the target."""

    prompts_per_domain: int = 300
    max_tokens: int = 192
    """Output cap of the target's answers."""
    domains: tuple[str, ...] = DOMAINS
    """Whose training prompts it answers; more than these only where the target is the next version."""
    data_set: str | None = None
    """A set of `params/datasets.yaml` whose first `num_prompts` it answers; None: prompts of the domains."""
    num_prompts: int = Field(default=0, ge=0)
    temperature: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Above 0 its answers are sampled. A greedy small model caught in a loop would teach a draft the loop."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.data_set is None) != (self.num_prompts == 0):
            raise ValueError("give `data_set` and `num_prompts` together, or neither")
        return self


def training_prompts(recipe: OutputsRecipe) -> list[Asked]:
    """Training prompts: of the data set, in its order, or of the domains in turn.

    Raises:
        ConfigError: if the data set cannot be had, or has fewer prompts than asked.
    """
    if recipe.data_set is None:
        n, domains = recipe.prompts_per_domain, recipe.domains
        streams = (train_examples(domain, n, PROMPT_SEED, domains) for domain in domains)
        return [e.prompt for e in chain.from_iterable(zip_longest(*streams)) if e is not None]
    found = prompt_files.load(datasets.path(recipe.data_set))
    if len(found) < recipe.num_prompts:
        raise ConfigError(f"{recipe.data_set} has {len(found)} prompts: num_prompts {recipe.num_prompts}")
    return [one.turns() for one in found[: recipe.num_prompts]]


def target_outputs(target: Target, recipe: OutputsRecipe, out: Path) -> Path:
    """Let the target answer the training prompts, unless it has; a JSONL of prompt and answer token ids.

    Interrupted, it goes on after the last PIECE; so does a recipe with more prompts of the same set. Sampled
    answers that loop all the same are left out.

    Raises:
        EngineError: if the server does not start or stops answering.
    """
    folder, prompts = out / f"outputs-{_digest(target, recipe)}", training_prompts(recipe)
    path = folder / f"{len(prompts)}.jsonl"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    pieces = {
        folder / f"{start}-{start + len(asked)}": asked
        for start in range(0, len(prompts), PIECE) for asked in [prompts[start : start + PIECE]]
    }  # fmt: skip
    missing = [piece for piece in pieces if not piece.exists()]
    # No seed with a request: vLLM 0.32 on a CPU dies of it. The server has one.
    sampling = {"temperature": recipe.temperature} if recipe.temperature else {}
    with Server(target) if missing else nullcontext() as server:
        for piece in missing:
            got = answers(server, pieces[piece], recipe.max_tokens, target.max_num_seqs, **sampling)
            kept = [a for a in got if not (sampling and repeats(a.text))]
            lines = (json.dumps({"prompt": a.prompt_token_ids, "answer": a.token_ids}) for a in kept)
            atomic_files.write_atomically(piece, "".join(f"{x}\n" for x in lines).encode())
    atomic_files.write_atomically(path, b"".join(piece.read_bytes() for piece in pieces))
    return path


def _digest(target: Target, recipe: OutputsRecipe) -> str:
    """Digest of all that decides an answer: a head learnt from another target's would fit neither."""
    weights = provenance.model_sha256(target.model, target.revision)
    count = 0 if recipe.data_set else recipe.prompts_per_domain
    decides = (weights, target.dtype, count, recipe.max_tokens, PROMPT_SEED)
    if recipe.domains != DOMAINS:
        decides = (*decides, recipe.domains)
    if target.router_noise:
        decides = (*decides, target.router_noise)
    if recipe.data_set:
        decides = (*decides, recipe.data_set, recipe.temperature)
    return hashlib.sha256(repr(decides).encode()).hexdigest()[:12]


def load(outputs: Path) -> list[dict[str, list[int]]]:
    """The samples `target_outputs` wrote: token ids of `prompt` and `answer`."""
    return [json.loads(line) for line in outputs.read_text().splitlines()]


def endless(outputs: Path, seed: int) -> Iterator[tuple[list[int], int]]:
    """Token ids and the prompt's length of every sample, in another order each time round."""
    samples, rng = load(outputs), Random(seed)
    while True:
        rng.shuffle(samples)
        yield from ((s["prompt"] + s["answer"], len(s["prompt"])) for s in samples)


def hidden_states(
    model_folder: Path, samples: Sequence[Mapping[str, list[int]]], layer_ids: Sequence[int], out: Path,
    router_noise: float = 0.0,
) -> Path:  # fmt: skip
    """What a head reads and must predict, in the form `speculators` trains from.

    `router_noise` is added to a mixture's routers meanwhile (`bench.moe_routing.disturb`). What `out` holds
    of the same tokens and layers is kept: a training that was interrupted, or has more answers, goes on.

    Writes a `datasets` folder of `input_ids`, `loss_mask`, `seq_len` and, per sample i,
    `hidden_states/hs_{i}.safetensors`: `hidden_states` [tokens, layers + 1, hidden], bfloat16 (the layers'
    outputs and the last layer's before the final norm) and `token_ids` [tokens].

    Raises:
        ConfigError: if the target has no such layers.
    """
    # In the precision that the processor has: one that must emulate bfloat16 would need hours.
    dtype = torch.bfloat16 if fast_bfloat16("cpu") else torch.float32
    mark, made_of = out / "made-of", repr((*layer_ids, router_noise, dtype))
    if not mark.is_file() or mark.read_text() != made_of:
        shutil.rmtree(out, ignore_errors=True)
        (out / "hidden_states").mkdir(parents=True)
        mark.write_text(made_of)
    files = [out / f"hidden_states/hs_{i}.safetensors" for i in range(len(samples))]
    missing = [
        i for i, sample in enumerate(samples) if _tokens(files[i]) != sample["prompt"] + sample["answer"]
    ]
    if missing:
        _read_states(model_folder, {files[i]: samples[i] for i in missing}, layer_ids, router_noise, dtype)
    _dataset(samples).save_to_disk(out)
    return out


def _tokens(states: Path) -> list[int] | None:
    """Token ids that a file of hidden states is of; None where there is no such file."""
    if not states.is_file():
        return None
    with safe_open(states, "pt") as file:
        return file.get_tensor("token_ids").tolist()


def _read_states(
    model_folder: Path, samples: Mapping[Path, Mapping[str, list[int]]], layer_ids: Sequence[int],
    router_noise: float, dtype: torch.dtype,
) -> None:  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=dtype).eval()
    moe_routing.disturb(model, router_noise)
    last = model.config.num_hidden_layers - 1
    if not all(1 <= k <= last for k in layer_ids):
        raise ConfigError(f"target_layer_ids {tuple(layer_ids)}: this target's are 1 to {last}")
    seen: list[torch.Tensor] = []
    # The library hands out the last layer's output only after the final norm: take what the norm takes.
    model.model.norm.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for file, sample in samples.items():
        ids = torch.tensor(sample["prompt"] + sample["answer"])
        with torch.no_grad():
            layers = model.model(ids[None], output_hidden_states=True).hidden_states
        states = torch.stack([*(layers[k][0] for k in layer_ids), seen.pop()[0]], dim=1)
        tensors = {"hidden_states": states.bfloat16().contiguous(), "token_ids": ids}
        save_file(tensors, whole := file.with_suffix(".part"))
        whole.replace(file)


def _dataset(samples: Sequence[Mapping[str, list[int]]]) -> Dataset:
    return Dataset.from_dict(
        {
            "input_ids": [s["prompt"] + s["answer"] for s in samples],
            "loss_mask": [[0] * len(s["prompt"]) + [1] * len(s["answer"]) for s in samples],
            "seq_len": [len(s["prompt"]) + len(s["answer"]) for s in samples],
        }
    ).with_format("torch")
