"""Measure what speculative decoding does to LLM serving, and keep the records that prove it."""

__version__ = "0.1.0"
