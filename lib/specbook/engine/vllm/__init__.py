"""vLLM: its command line, its counters, its log, its load generator. Nothing outside knows its words.

In: a target and how to speculate. Out: what `engine.base` asks of an engine, in our words.
"""

from specbook.engine.base import register
from specbook.engine.vllm.engine import Vllm
from specbook.engine.vllm.neuron import NxdInference

register(Vllm())
register(NxdInference())
