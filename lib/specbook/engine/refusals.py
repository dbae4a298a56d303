"""What an engine other than vLLM cannot do with a plan, whose words are vLLM's."""

from specbook.config import methods
from specbook.config.schema import Speculation
from specbook.engine.base import Engine


def of_draft(engine: Engine, speculation: Speculation | None) -> str | None:
    """A method that it does not know, played acceptance, or K by batch; None where it can draft so."""
    if speculation is None:
        return None
    if not engine.knows(speculation.drafting):
        known = ", ".join(method.name for method in methods.known() if engine.knows(method))
        title = speculation.drafting.title
        return f"{engine.title} does not draft by {title} here. To fix: use {known}, or `engine: vllm`"
    if speculation.synthetic_acceptance_rates or speculation.num_speculative_tokens_per_batch_size:
        return f"{engine.title} plays no acceptance, and drafts one K. To fix: `engine: vllm` for these"
    return None
