"""A finding about the records at hand: a box on the page for as long as the records show it."""

from collections.abc import Callable
from typing import Any

import numpy as np
from IPython.display import Markdown


def takeaway(finding: str, *shown_by: Callable[[], Any]) -> Markdown | None:
    """The finding in a box, or None, which displays nothing, where the records do not show it.

    A finding is written for the shipped records. On other records, of a reader's own model or of a new
    measurement, it is left out as soon as it is not true, instead of being wrong.

    Args:
        finding: a sentence or two, in Markdown.
        shown_by: conditions, each a function without arguments that returns a bool, or a Series, table or
            array of them, of which there must be one or more and all be true. One that cannot be computed,
            because a domain or an arm was not measured, is not met.
    """
    if not shown_by:
        raise ValueError("a takeaway needs a condition that the records must meet")
    return Markdown(f"> **Takeaway.** {finding}") if all(map(_met, shown_by)) else None


def _met(condition: Callable[[], Any]) -> bool:
    try:
        values = np.ravel(np.asarray(condition(), dtype=object))
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError):
        return False
    return values.size > 0 and all(value is True or value is np.True_ for value in values)
