"""Pocket models. In: CPython's own texts, and templates. Out: target and heads, trained on a CPU."""
