"""P-EAGLE: an EAGLE-3 head that drafts all K tokens in one forward pass, from a mask token at each place.

In a plan it is `method: eagle3` with `parallel_drafting: true`, which are the engine's own words.
"""

from specbook.config.checkpoint import Checkpoint
from specbook.config.heads import MASK_TOKEN, P_EAGLE, kind, names_mask_token
from specbook.config.methods.base import register
from specbook.config.methods.eagle3 import Eagle3
from specbook.errors import ConfigError


@register
class PEagle(Eagle3):
    """A head that was not trained on mask tokens has none, and cannot draft in parallel."""

    title = "P-EAGLE"
    parallel_drafting = True
    varying_k = "all or none"

    @classmethod
    def recognises(cls, draft: Checkpoint) -> bool:
        """A head that drafts in parallel."""
        return kind(draft) == P_EAGLE

    @classmethod
    def check_draft(cls, target: Checkpoint, draft: Checkpoint) -> None:
        """As EAGLE-3, and the head names its mask token."""
        super().check_draft(target, draft)
        if not names_mask_token(draft):
            raise ConfigError(
                f"draft {draft.name} names no mask token ({', '.join(MASK_TOKEN)}): it was not trained to "
                "draft in parallel. Leave `parallel_drafting` out, or train a P-EAGLE head"
            )
