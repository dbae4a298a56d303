"""Arithmetic alone, no engine and no files. In: numbers. Out: values with their intervals, and theory."""

from specbook.stats.estimate import Estimate, wilson

__all__ = ["Estimate", "wilson"]
