"""Which head a draft is, by what it holds: names of classes differ from trainer to trainer.

| evidence, the strongest first | head |
|---|---|
| `speculators_config.algorithm`, `speculators_model_type` | what they say |
| a class or a model type of P-EAGLE, DFlash, DSpark, Medusa, MTP or an MLP speculator | that one |
| `dflash_config`; `medusa_num_heads`, tensors `0.0.linear.weight`; `num_nextn_predict_layers` | that one |
| `fc` of three hidden states; tensors `d2t`, `t2d`; `draft_vocab_size`; a class of EAGLE-3 | EAGLE-3 |
| `fc` of two hidden states; a class of EAGLE without a generation | EAGLE |

An EAGLE-3 head that names a mask token drafts in parallel: P-EAGLE. Many heads bear their target's class
(`LlamaForCausalLM`): only what they hold tells them from a draft model.
Sources: vLLM 0.32 (config/speculative.py, model_executor/models/registry.py), speculators 0.9.0, and the
heads that EAGLE's authors publish (Li et al., arXiv:2401.15077, arXiv:2503.01840).
"""

import re

from specbook.config.checkpoint import Checkpoint

MASK_TOKEN = ("mask_token_id", "pard_token", "ptd_token_id")
"""Where an engine looks for it (vLLM 0.32, vllm/v1/spec_decode/llm_base_proposer.py)."""
EAGLE, EAGLE3, P_EAGLE = "EAGLE", "EAGLE-3", "P-EAGLE"
WORDS = {
    "peagle": P_EAGLE, "dflash": "DFlash", "dspark": "DSpark", "medusa": "Medusa",
    "mlpspeculator": "MLP speculator", "mtp": "MTP", "nextn": "MTP",
}  # fmt: skip
"""What names a head whatever it holds; compared in lower case and without punctuation."""
ALGORITHMS = WORDS | {"eagle3": EAGLE3, "eagle": EAGLE, "hass": EAGLE, "mlp": "MLP speculator"}
"""Words of speculators, the most special first."""
EAGLE_CLASS = re.compile(r"eagle(?!\d).*forcausallm|\w*forcausallmeagle|eagle(speculator|draftmodel|model)?")
MEDUSA_TENSOR = re.compile(r"(medusa_heads?\.|blocks\.)?\d+\.(\d+|layers\.\d+)\.(linear\.)?weight")


def kind(draft: Checkpoint) -> str | None:
    """The head's name for people; None for what may be a whole language model."""
    if named := _first(ALGORITHMS, draft.algorithms):
        return named
    names = [_plain(name) for name in (*draft.architectures, str(draft.config.get("model_type") or ""))]
    head = _first(WORDS, names) or _by_keys(draft)
    if head is None and _is_eagle3(draft, names):
        return P_EAGLE if names_mask_token(draft) else EAGLE3
    if head is None and (draft.fused == 2 or any(map(EAGLE_CLASS.fullmatch, names))):
        return EAGLE
    return head


def is_unclear(draft: Checkpoint) -> bool:
    """Whether it may be a head of one layer, and no weights are here whose names would tell."""
    return not draft.tensors and draft.get("num_hidden_layers") == 1


def names_mask_token(draft: Checkpoint) -> bool:
    """Whether it says which token stands at the places that it drafts in parallel."""
    return any(draft.config.get(key) is not None for key in MASK_TOKEN)


def _plain(text: object) -> str:
    return re.sub(r"[^a-z0-9]", "", str(text).lower())


def _first(words: dict[str, str], texts: list[str]) -> str | None:
    return next((head for word, head in words.items() for text in texts if word in _plain(text)), None)


def _by_keys(draft: Checkpoint) -> str | None:
    if draft.config.get("dflash_config"):
        return "DFlash"
    if draft.config.get("medusa_num_heads") or any(map(MEDUSA_TENSOR.fullmatch, draft.tensors)):
        return "Medusa"
    return "MTP" if draft.get("num_nextn_predict_layers") and draft.get("num_hidden_layers") == 1 else None


def _is_eagle3(draft: Checkpoint, names: list[str]) -> bool:
    maps = {name.rpartition(".")[2] for name in draft.tensors} & {"d2t", "t2d"}
    reduced = draft.get("draft_vocab_size") is not None
    return (
        draft.fused > 2
        or bool(maps)
        or any("eagle3" in name for name in names)
        or (reduced and not draft.fused)
    )
