"""llama.cpp by the wheel `xllamacpp`: GGUF models on a laptop, measured by the same load generator as vLLM's.

In: a target and how to speculate. Out: what `engine.base` asks of an engine, in our words.
"""

from specbook.engine.base import register
from specbook.engine.llama_cpp.engine import LlamaCpp

register(LlamaCpp())
