"""EAGLE of the first generation: a head of one layer that continues the target's last hidden state.

Source: Li et al. 2024 (arXiv:2401.15077).
"""

from specbook.config.checkpoint import Checkpoint
from specbook.config.heads import EAGLE
from specbook.config.methods.base import Method, TrainedDraft, register, same, same_class


@register
class Eagle(Method):
    """The head is trained for one target, and as wide as it. NxD Inference knows this one, and no EAGLE-3."""

    name, title = "eagle", "EAGLE"
    keys = TrainedDraft
    heads = (EAGLE,)

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """Same vocabulary, class and hidden size."""
        super().check_draft(target, draft)
        same_class(target, draft)
        same(target, draft, "vocab_size")
        same(target, draft, "hidden_size")
