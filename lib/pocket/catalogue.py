"""The project's own models: those that `models/` ships, and those that are made of them and only served."""

from collections.abc import Iterable
from typing import NamedTuple

from specbook import paths
from specbook.config.schema import Target

DENSE = Target(
    name="pocket-dense", model="models/pocket-dense", max_model_len=512, max_num_seqs=32, execution="eager",
    dtype="float32",
)  # fmt: skip
MOE = DENSE.model_copy(update={"name": "pocket-moe", "model": "models/pocket-moe"})
NEXT = DENSE.model_copy(update={"name": "pocket-dense-next", "model": "build/pocket-dense-next"})
"""The dense target trained on for new traffic: `models/` ships the difference, and this is made of it."""
SMOLLM2 = Target(
    name="smollm2-135m", model="build/models/smollm2-135m", dtype="float32", max_model_len=1024,
    max_num_seqs=64,
)  # fmt: skip
"""A public target, SmolLM2-135M-Instruct (`params/models/smollm2-135m`): not the project's, its heads are."""
NOISE = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Strengths of router noise that heads are trained on with, in logits; 0: what training on alone is worth."""
CURVE = {f"build/{SMOLLM2.name}-eagle3-{n}": n for n in (32, 64, 128, 256)}
"""Heads of the learning curve, which do not ship -> prompts of ShareGPT on whose answers each was trained."""


class Copy(NamedTuple):
    """What is served and does not ship."""

    stage: str
    """That makes it, in seconds."""
    of: str
    """The folder of `models/` that it is made of."""


def noise_head(strength: float) -> str:
    """Folder of the mixture's head that was trained on with this noise."""
    return f"{MOE.model}-eagle3-noise-{strength:g}"


TRAINED = {
    DENSE.model: "target", f"{DENSE.model}-eagle3": "eagle3", f"{DENSE.model}-peagle": "peagle",
    f"{DENSE.model}-draft": "draft", MOE.model: "moe", f"{MOE.model}-eagle3": "moe-eagle3",
    f"{MOE.model}-peagle": "moe-peagle", f"models/{NEXT.name}": "next",
    f"models/{NEXT.name}-eagle3": "next-eagle3", f"models/{SMOLLM2.name}-eagle3": "smollm2-eagle3",
    f"models/{SMOLLM2.name}-peagle": "smollm2-peagle", f"models/{SMOLLM2.name}-draft": "smollm2-draft",
    **dict.fromkeys(map(noise_head, NOISE), "moe-noise"),
    **dict.fromkeys(CURVE, "smollm2-curve"),
}  # fmt: skip
"""Folder -> the stage that trains what it holds, or will hold."""
COPIES = {
    **{f"build/{DENSE.name}-{form}": Copy(form, DENSE.model) for form in ("int8", "int4")},
    NEXT.model: Copy("next-copy", f"models/{NEXT.name}"),
    f"build/{SMOLLM2.name}-draft": Copy("smollm2-draft-copy", f"models/{SMOLLM2.name}-draft"),
    f"build/{SMOLLM2.name}-eagle3-f32": Copy("smollm2-eagle3-gguf", f"models/{SMOLLM2.name}-eagle3"),
}
"""What is made of it: folder -> how."""


def untrained(models: Iterable[str]) -> dict[str, str]:
    """Those of these models that are the project's own and not trained yet, with the command that trains."""
    found = {}
    for model in dict.fromkeys(models):
        folder = COPIES[model].of if model in COPIES else model
        if folder in TRAINED and not (paths.root() / folder).is_dir():
            found[model] = f"{folder} was not trained yet: `specbook train {TRAINED[folder]}` does that"
    return found
