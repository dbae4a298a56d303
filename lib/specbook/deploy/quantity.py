"""Kubernetes quantities as numbers: `1500m` is 1.5, `2k` is 2000, `1Gi` is 2**30."""

import re

SUFFIXES = {
    "n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40,
}  # fmt: skip
FORM = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGT]?i?)")


def number(text: str) -> float:
    """The number that a quantity stands for.

    Raises:
        ValueError: if it is no quantity.

    Source: Kubernetes, "Quantity" in the API reference (read 2026-11).
    """
    match = FORM.fullmatch(text)
    if not match or match[2] not in SUFFIXES:
        raise ValueError(f"{text!r} is no Kubernetes quantity")
    return float(match[1]) * SUFFIXES[match[2]]
