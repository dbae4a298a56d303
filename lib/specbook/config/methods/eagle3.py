"""EAGLE-3: a head of one layer that reads the target's hidden states, one forward pass a token.

Source: Li et al. 2025 (arXiv:2503.01840).
"""

from specbook.config.checkpoint import Checkpoint
from specbook.config.heads import EAGLE3, P_EAGLE
from specbook.config.methods.base import Method, TrainedDraft, register, same, same_class


@register
class Eagle3(Method):
    """The head is trained for one target: vocabulary and hidden size must be the target's."""

    name, title = "eagle3", "EAGLE-3"
    keys = TrainedDraft
    heads = (EAGLE3, P_EAGLE)

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """Same vocabulary and class, and the head reads hidden states of the target's size."""
        super().check_draft(target, draft)
        same_class(target, draft)
        same(target, draft, "vocab_size")
        same(target, draft, "hidden_size", draft.config.get("target_hidden_size"))
