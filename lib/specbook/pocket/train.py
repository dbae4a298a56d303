"""Everything under `models/`, from nothing: held-out prompts, target, head, quality, card."""

import shutil
from collections.abc import Callable
from pathlib import Path

from specbook import paths
from specbook.config import Target
from specbook.errors import ConfigError
from specbook.mistakes import near

DENSE = Target(
    name="pocket-dense", model="models/pocket-dense", max_model_len=512, max_num_seqs=32, execution="eager"
)


def run(what: str, device: str, report: Callable[[str], None]) -> None:
    """Run one stage, or `all` of them in order. A stage that was interrupted goes on where it stopped.

    Raises:
        ConfigError: for an unknown stage, naming the near match, or a device that is not there.
        EngineError: if the target cannot be served.
    """
    stages = {"target": _target, "eagle3": _eagle3, "card": _card}
    if what != "all" and what not in stages:
        raise ConfigError(f"nothing called {what!r} to train{near(what, ['all', *stages])}")
    for name, stage in stages.items():
        if what in ("all", name):
            report(f"{name}: starting")
            stage(device, report)


def scratch() -> Path:
    """Checkpoints, outputs of the target, hidden states: all of it can be made again."""
    return paths.build_dir() / "train"


def _target(device: str, report: Callable[[str], None]) -> None:
    from specbook.pocket import corpus, quality, target

    _check_device(device)
    corpus.write_held_out(paths.models_dir() / "heldout")
    folder = paths.models_dir() / DENSE.name
    target.train(target.TargetRecipe(), folder, scratch() / DENSE.name, device, report)
    quality.save(quality.measure(DENSE), folder)


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
    from specbook.pocket import draft

    recipe, work = draft.DraftRecipe(), scratch() / f"{DENSE.name}-eagle3"
    folder = paths.models_dir() / DENSE.name
    report("eagle3: the target answers the training prompts")
    outputs = draft.greedy_outputs(DENSE, recipe, work)
    report("eagle3: hidden states")
    data = draft.hidden_states(folder, outputs, recipe, work / "data")
    shutil.rmtree(work / "checkpoints", ignore_errors=True)
    out = paths.models_dir() / f"{DENSE.name}-eagle3"
    draft.train_eagle3(folder, data, recipe, work / "checkpoints", out)


def _card(device: str, report: Callable[[str], None]) -> None:
    from specbook.pocket import card

    report(f"card: {card.write()}")
