"""A small model of the same vocabulary drafts, one token a forward pass."""

import re

from specbook.config.checkpoint import Checkpoint
from specbook.config.methods.base import Method, TrainedDraft, register, same

WHOLE_MODEL = re.compile(r"(?!.*(Eagle|Medusa|MTP)).*ForCausalLM")


@register
class DraftModel(Method):
    """Any model with the target's vocabulary will do: its hidden size is its own affair."""

    name, title = "draft_model", "draft model"
    keys = TrainedDraft

    @classmethod
    def recognises(cls, draft: Checkpoint) -> bool:
        """A whole language model, and no head."""
        return any(map(WHOLE_MODEL.fullmatch, draft.architectures))

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """The vocabulary is the target's."""
        same(target, draft, "vocab_size")
