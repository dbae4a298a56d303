"""A small model of the same vocabulary drafts, one token a forward pass."""

import re

from specbook.config import heads
from specbook.config.checkpoint import Checkpoint
from specbook.config.methods.base import Method, TrainedDraft, register, same

WHOLE_MODEL = re.compile(r".*(ForCausalLM|LMHeadModel|ForConditionalGeneration)")


@register
class DraftModel(Method):
    """Any model with the target's vocabulary will do: its hidden size is its own affair."""

    name, title = "draft_model", "draft model"
    keys = TrainedDraft

    @classmethod
    def recognises(cls, draft: Checkpoint) -> bool:
        """A whole language model, and no head."""
        whole = any(map(WHOLE_MODEL.fullmatch, draft.architectures))
        return whole and heads.kind(draft) is None and not heads.is_unclear(draft)

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """It is no head, and its vocabulary is the target's."""
        super().check_draft(target, draft)
        same(target, draft, "vocab_size")
