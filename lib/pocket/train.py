"""Everything under `models/`: held-out prompts, targets, heads, draft model, quality, card."""

import os
import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pocket.catalogue import COPIES, CURVE, DENSE, MOE, NEXT, NOISE, SMOLLM2, noise_head, untrained
from specbook import paths
from specbook.config.schema import Target, digest
from specbook.errors import ConfigError
from specbook.suggestions import near

if TYPE_CHECKING:
    from pocket.cut import CutRecipe
    from pocket.draft import HeadRecipe
    from pocket.draft_model import DraftModelRecipe
    from pocket.target import TargetRecipe

EAGLE3 = "02a8934:models/pocket-dense-eagle3"
"""The EAGLE-3 head of the dense target goes on from this one, of six epochs on half as many answers."""
PEAGLE = "ea4f3b4:models/pocket-dense-peagle"
"""Its P-EAGLE head goes on from this one: three epochs, grown out of the same EAGLE-3 head."""


def run(what: str, device: str, report: Callable[[str], None]) -> None:
    """Run one stage, or `all` of them in order. A stage that was interrupted goes on where it stopped.

    Raises:
        ConfigError: for an unknown stage, naming the near match, or a device that is not there.
        EngineError: if the target cannot be served.
    """
    stages = {
        "target": _target, "eagle3": _eagle3, "peagle": _peagle, "draft": _draft,
        "moe": _moe, "moe-eagle3": _moe_eagle3, "moe-peagle": _moe_peagle,
        "next": _next, "next-eagle3": _next_eagle3, "card": _card,
    }  # fmt: skip
    # Hours more, and nothing that is served comes of it; copies, which are served and not shipped; and what
    # needs a public model.
    apart = {
        "smollm2-eagle3": _smollm2_eagle3, "smollm2-peagle": _smollm2_peagle,
        "smollm2-curve": _smollm2_curve, "study": _study, "moe-noise": _moe_noise,
        "int8": partial(_narrow_copy, "int8"), "int4": partial(_narrow_copy, "int4"),
        "next-copy": _next_copy, "smollm2-eagle3-gguf": _smollm2_gguf,
        "smollm2-draft": _smollm2_draft, "smollm2-draft-copy": _smollm2_draft_copy,
    }  # fmt: skip
    if what != "all" and what not in stages | apart:
        raise ConfigError(f"nothing called {what!r} to train{near(what, ['all', *stages, *apart])}")
    for name, stage in (stages | apart).items():
        if what == name or (what == "all" and name in stages):
            report(f"{name}: starting")
            stage(device, report)


def missing(models: Iterable[str], report: Callable[[str], None] | None = None) -> dict[str, str]:
    """Those of these models that cannot be served, with the reason.

    Args:
        models: folders or hub ids; what is not the project's own is passed over.
        report: called with a line for each copy that is made for it; None: none is made.
    """
    models = list(models)
    found = untrained(models)
    if report:
        found |= make_copies((model for model in models if model not in found), report)
    return found


def make_copies(models: Iterable[str], report: Callable[[str], None]) -> dict[str, str]:
    """Make those of these models that are COPIES, anew each time: what ships may have been trained again.

    Returns:
        Those that cannot be made, with the reason: what they are made of was not trained yet.
    """
    failed = {}
    for model in dict.fromkeys(models):
        if model in COPIES:
            try:
                run(COPIES[model].stage, "cpu", report)
            except ConfigError as error:
                failed[model] = str(error)
    return failed


def scratch() -> Path:
    """Checkpoints, outputs of the target, hidden states: all of it can be made again."""
    return paths.build_dir() / "train"


def _target(device: str, report: Callable[[str], None]) -> None:
    from pocket import corpus
    from pocket.target import TargetRecipe

    corpus.write_held_out(paths.models_dir() / "heldout")
    _trained(DENSE, TargetRecipe(), device, report)


def _moe(device: str, report: Callable[[str], None]) -> None:
    from pocket.moe import MoeRecipe
    from specbook.bench import provenance

    start = provenance.model_sha256(DENSE.model, DENSE.revision)
    _trained(MOE, MoeRecipe(start=DENSE.model, start_sha256=start), device, report)


def _next(device: str, report: Callable[[str], None]) -> None:
    from pocket import quality
    from pocket.next_version import NextRecipe
    from specbook.bench import provenance

    recipe = NextRecipe(start_sha256=provenance.model_sha256(DENSE.model, DENSE.revision))
    folder = _learnt(NEXT, recipe, device, report)
    _next_copy(device, report)
    quality.save(quality.measure(NEXT, tuple(recipe.shares)), folder)


def _next_copy(device: str, report: Callable[[str], None]) -> None:
    from pocket import next_version

    shipped = paths.models_dir() / NEXT.name
    made = next_version.copy(paths.root() / DENSE.model, shipped, paths.root() / NEXT.model)
    report(f"next-copy: {paths.portable(str(made))}")


def _trained(served: Target, recipe: "TargetRecipe", device: str, report: Callable[[str], None]) -> None:
    from pocket import quality

    folder = _learnt(served, recipe, device, report)
    quality.save(quality.measure(served), folder)


def _learnt(served: Target, recipe: "TargetRecipe", device: str, report: Callable[[str], None]) -> Path:
    from pocket import loop

    _check_device(device)
    folder = paths.models_dir() / served.name
    loop.train(recipe, folder, scratch() / served.name, device, report, _workers(device))
    return folder


def _workers(device: str) -> int:
    """Threads that share a batch's rows, one a core: small matrices gain little from threads of their own."""
    import torch

    if device != "cpu":
        return 1
    torch.set_num_threads(1)
    return os.cpu_count() or 1


def _check_device(device: str) -> None:
    import torch

    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        said = str(error).splitlines()[0]
        raise ConfigError(
            f"device {device!r} cannot be used: {said}. Use cpu, or cuda on a GPU machine"
        ) from error


def _eagle3(device: str, report: Callable[[str], None]) -> None:
    from pocket.draft import Eagle3Recipe

    _head(DENSE, Eagle3Recipe(start=EAGLE3), report)


def _next_eagle3(device: str, report: Callable[[str], None]) -> None:
    """The dense target's head trained on for a while, on what the next version answers."""
    from pocket.draft import Eagle3Recipe
    from pocket.next_version import NextRecipe

    _next_copy(device, report)
    recipe = Eagle3Recipe(
        start=f"{DENSE.model}-eagle3", domains=tuple(NextRecipe.may_see), prompts_per_domain=150, epochs=2
    )
    _head(NEXT, recipe, report)


def _smollm2_eagle3(
    device: str, report: Callable[[str], None], num_prompts: int = 1536, out: Path | None = None
) -> None:
    """A head for a public model, on its answers to what people asked a chatbot."""
    from pocket.draft import Eagle3Recipe

    _packaged(SMOLLM2.model, report)
    recipe = Eagle3Recipe(
        data_set="sharegpt-train", num_prompts=num_prompts, temperature=0.7, max_tokens=256,
        draft_vocab_size=8192, target_layer_ids=(2, 15, 27), total_seq_len=1024, lr=1e-3, ttt_steps=4,
    )  # fmt: skip
    _head(SMOLLM2, recipe, report, out)


def _smollm2_peagle(device: str, report: Callable[[str], None]) -> None:
    """A head that drafts in parallel, grown out of that one on a third of its answers."""
    from pocket.draft import PEagleRecipe

    _packaged(SMOLLM2.model, report)
    recipe = PEagleRecipe(
        start=f"models/{SMOLLM2.name}-eagle3", data_set="sharegpt-train", num_prompts=512, temperature=0.7,
        max_tokens=256, target_layer_ids=(2, 15, 27), total_seq_len=1024, lr=1e-3, num_layers=1,
        num_depths=4, embed_requires_grad=False,
    )  # fmt: skip
    _head(SMOLLM2, recipe, report)


def _smollm2_draft(device: str, report: Callable[[str], None]) -> None:
    """A draft model of two of its layers, on half of the answers of its EAGLE-3 head."""
    from pocket.cut import CutRecipe
    from specbook.bench import provenance

    _packaged(SMOLLM2.model, report)
    recipe = CutRecipe(
        start=SMOLLM2.model, start_sha256=provenance.model_sha256(SMOLLM2.model, None), layers=(0, 1),
        steps=300, data_set="sharegpt-train", num_prompts=768, temperature=0.7, max_tokens=256,
    )  # fmt: skip
    _draft_model(SMOLLM2, recipe, device, report)


def _smollm2_draft_copy(device: str, report: Callable[[str], None]) -> None:
    from pocket import cut

    name = f"{SMOLLM2.name}-draft"
    target = _packaged(SMOLLM2.model, report)
    made = cut.copy(target, paths.models_dir() / name, paths.build_dir() / name)
    report(f"smollm2-draft-copy: {paths.portable(str(made))}")


def _smollm2_curve(device: str, report: Callable[[str], None]) -> None:
    """The same head, of fewer answers."""
    for folder, num_prompts in CURVE.items():
        _smollm2_eagle3(device, report, num_prompts, paths.root() / folder)


def _smollm2_gguf(device: str, report: Callable[[str], None]) -> None:
    """That head for llama.cpp."""
    from pocket import gguf_head

    (target,) = _packaged(f"{SMOLLM2.model}-f32", report).glob("*.gguf")
    name = f"{SMOLLM2.name}-eagle3"
    made = gguf_head.write(paths.models_dir() / name, target, paths.build_dir() / f"{name}-f32")
    report(f"smollm2-eagle3-gguf: {paths.portable(str(made))}")


def _packaged(model: str, report: Callable[[str], None]) -> Path:
    """The folder of a public model, made of its package if it is not there."""
    from specbook.bench import packaged_models

    if lacking := packaged_models.missing([model], report):
        raise ConfigError(lacking[model])
    return paths.at(model)


def _moe_eagle3(device: str, report: Callable[[str], None]) -> None:
    """The dense target's head trained on: the mixture was made of that target."""
    from pocket.draft import Eagle3Recipe

    _head(MOE, Eagle3Recipe(start=f"{DENSE.model}-eagle3", prompts_per_domain=200), report)


def _moe_noise(device: str, report: Callable[[str], None]) -> None:
    """The mixture's EAGLE-3 head trained on with each strength of noise in the router, equally long."""
    from pocket.draft import Eagle3Recipe

    recipe = Eagle3Recipe(start=f"{MOE.model}-eagle3", prompts_per_domain=60, epochs=1)
    for strength in NOISE:
        noisy = recipe.model_copy(update={"router_noise": strength})
        _head(MOE, noisy, report, paths.root() / noise_head(strength))


def _narrow_copy(form: str, device: str, report: Callable[[str], None]) -> None:
    from pocket import quantize

    narrow = getattr(quantize, form)
    made = narrow(paths.models_dir() / DENSE.name, paths.build_dir() / f"{DENSE.name}-{form}")
    report(f"{form}: {paths.portable(str(made))}")


def _peagle(device: str, report: Callable[[str], None]) -> None:
    from pocket.draft import PEagleRecipe

    _head(DENSE, PEagleRecipe(start=PEAGLE, epochs=4), report)


def _moe_peagle(device: str, report: Callable[[str], None]) -> None:
    """The dense target's head trained on, on the answers that the EAGLE-3 head saw."""
    from pocket.draft import PEagleRecipe

    _head(MOE, PEagleRecipe(start=f"{DENSE.model}-peagle", prompts_per_domain=200), report)


def _study(device: str, report: Callable[[str], None]) -> None:
    from pocket import study

    done = study.run(lambda recipe: _trained_head(DENSE, recipe, scratch() / "study", report), report)
    report(f"study: {done}")


def _head(
    served: Target, recipe: "HeadRecipe", report: Callable[[str], None], out: Path | None = None
) -> None:
    """Train a head, by default into the folder beside its target's, unless just this one lies there: a stage
    of several goes on where it stopped."""
    out = out or paths.models_dir() / f"{served.name}-{recipe.speculator_type}"
    mark = scratch() / f"{out.name}-work" / "made"
    if mark.is_file() and mark.read_text() == _made(served, recipe, out):
        report(f"{out.name}: trained already; to train it again remove {paths.portable(str(mark))}")
        return
    _trained_head(served, recipe, out, report)
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(_made(served, recipe, out))


def _made(served: Target, recipe: "HeadRecipe", out: Path) -> str:
    """Names a head by all that decided it, and by what came of it."""
    from specbook.bench import provenance

    models = served.model, recipe.start or "", str(out)
    weights = [provenance.model_sha256(model, None) for model in models]
    return digest([recipe.model_dump(mode="json"), *weights], 16)


def _trained_head(served: Target, recipe: "HeadRecipe", out: Path, report: Callable[[str], None]) -> Path:
    from pocket import draft, outputs

    folder, work = paths.root() / served.model, scratch() / f"{out.name}-work"
    report(f"{out.name}: the target answers the training prompts")
    noisy = served.model_copy(update={"router_noise": recipe.router_noise})
    answered = outputs.target_outputs(noisy, recipe, scratch())
    samples = outputs.load(answered)[: recipe.num_answers]
    report(f"{out.name}: hidden states of {len(samples)} answers")
    data = outputs.hidden_states(
        folder, samples, recipe.target_layer_ids, answered.parent / "states", recipe.router_noise
    )
    shutil.rmtree(work / "checkpoints", ignore_errors=True)
    report(f"{out.name}: {recipe.epochs} epochs")
    return draft.train_head(folder, data, recipe, work / "checkpoints", out)


def _draft(device: str, report: Callable[[str], None]) -> None:
    from pocket.draft_model import DraftModelRecipe

    _draft_model(DENSE, DraftModelRecipe(), device, report)


def _draft_model(
    served: Target, recipe: "DraftModelRecipe | CutRecipe", device: str, report: Callable[[str], None]
) -> None:
    from pocket import draft_model

    _check_device(device)
    out = paths.models_dir() / f"{served.name}-draft"
    draft_model.train(served, recipe, scratch(), out, device, report, _workers(device))


def _card(device: str, report: Callable[[str], None]) -> None:
    from pocket import card

    report(f"card: {card.write()}")
