"""P-EAGLE: an EAGLE-3 head that drafts all K tokens in one forward pass, from a mask token at each place.

In a plan it is `method: eagle3` with `parallel_drafting: true`, which are the engine's own words.
"""

from specbook.config.checkpoint import Checkpoint
from specbook.config.methods.base import register
from specbook.config.methods.eagle3 import Eagle3
from specbook.errors import ConfigError

MASK_TOKEN = ("mask_token_id", "pard_token", "ptd_token_id")
"""Where an engine looks for it (vLLM 0.32, vllm/v1/spec_decode/llm_base_proposer.py)."""


@register
class PEagle(Eagle3):
    """A head that was not trained on mask tokens has none, and cannot draft in parallel."""

    title = "P-EAGLE"
    parallel_drafting = True

    @classmethod
    def recognises(cls, draft: Checkpoint) -> bool:
        """An EAGLE-3 head that names a mask token."""
        return super().recognises(draft) and _has_mask_token(draft)

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """As EAGLE-3, and the head names its mask token."""
        super().check_draft(target, draft)
        if not _has_mask_token(draft):
            raise ConfigError(
                f"draft {draft.name} names no mask token ({', '.join(MASK_TOKEN)}): it was not trained to "
                "draft in parallel. Leave `parallel_drafting` out, or train a P-EAGLE head"
            )


def _has_mask_token(draft: Checkpoint) -> bool:
    return any(draft.config.get(key) is not None for key in MASK_TOKEN)
