"""SGLang, by its documentation: nothing of it was run here, and no number of it is the project's.

In: a target and how to speculate. Out: what `engine.base` asks of an engine, in our words.
"""

from specbook.engine.base import register
from specbook.engine.sglang.engine import Sglang

register(Sglang())
