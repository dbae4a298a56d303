"""Suffix decoding: trees over the prompt and over past answers say what follows most often.

Source: Oliaro et al. 2024 (arXiv:2411.04975). Keys are those of vLLM 0.32.
"""

from pydantic import Field

from specbook.config.methods.base import Keys, Method, register


class _Keys(Keys):
    suffix_decoding_max_tree_depth: int = Field(default=24, ge=1)
    suffix_decoding_max_cached_requests: int = Field(default=10000, ge=0)
    suffix_decoding_max_spec_factor: float = Field(default=1.0, ge=0)
    suffix_decoding_min_token_prob: float = Field(default=0.1, ge=0, le=1)


@register
class Suffix(Method):
    """Needs no training; K is only the most that it may draft."""

    name = title = "suffix"
    varying_k = "never"
    keys = _Keys
    packages = (("arctic_inference", "arctic-inference==0.1.1"),)
