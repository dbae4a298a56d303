"""EAGLE-3: a head of one layer that reads the target's hidden states, one forward pass a token.

Source: Li et al. 2025 (arXiv:2503.01840).
"""

from specbook.config.checkpoint import Checkpoint
from specbook.config.methods.base import Method, TrainedDraft, register, same, same_class


@register
class Eagle3(Method):
    """The head is trained for one target: vocabulary and hidden size must be the target's."""

    name, title = "eagle3", "EAGLE-3"
    keys = TrainedDraft

    @classmethod
    def recognises(cls, draft: Checkpoint) -> bool:
        """Its class says so (`LlamaForCausalLMEagle3`, `Eagle3DraftModel`), whoever trained it."""
        return any("eagle3" in name.lower() for name in draft.architectures)

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """Same vocabulary and class, and the head reads hidden states of the target's size."""
        same_class(target, draft)
        same(target, draft, "vocab_size")
        same(target, draft, "hidden_size", draft.config.get("target_hidden_size"))
