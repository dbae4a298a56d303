"""Which metrics a PromQL expression reads. Whether it parses is promtool's business."""

import re

STRING = re.compile(r'"(?:\\.|[^"\\])*"' + r"|'(?:\\.|[^'\\])*'")
BRACES = re.compile(r"\{[^{}]*\}")
LABELS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*\)")
DURATION = re.compile(r"\[[^\[\]]*\]|\boffset\s+-?\w+")
NAME = re.compile(r"(?<![\w:.])[A-Za-z_:][A-Za-z0-9_:]*(?!\s*\()(?![A-Za-z0-9_:])")
WORDS = {"and", "or", "unless", "bool", "inf", "nan", "group_left", "group_right"}


def metrics(expression: str) -> set[str]:
    """Names of the series that an expression reads; histograms keep their `_bucket`, `_sum` or `_count`."""
    named = set(re.findall(r'__name__\s*=\s*"([^"]+)"', expression))
    text = STRING.sub('""', expression)
    for noise in (BRACES, LABELS, DURATION):
        text = noise.sub(" ", text)
    return named | {word for word in NAME.findall(text) if word.lower() not in WORDS}
