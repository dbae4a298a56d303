"""Prompt lookup: the draft is what followed the same words earlier, in the prompt or the answer."""

from pydantic import Field

from specbook.config.methods.base import Keys, Method, register


class _Keys(Keys):
    prompt_lookup_min: int | None = Field(default=None, ge=1)
    prompt_lookup_max: int | None = Field(default=None, ge=1)


@register
class Ngram(Method):
    """Costs no forward pass, and helps where the answer repeats the prompt."""

    name = title = "ngram"
    keys = _Keys
