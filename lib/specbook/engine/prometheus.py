"""Counters in Prometheus' text format, whichever engine wrote the page."""

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from specbook.engine import base


def samples(text: str, prefix: str) -> list[Sample]:
    """Samples whose names begin with `prefix`; none of a page that is not in this format."""
    own = "".join(f"{line}\n" for line in text.splitlines() if line.startswith(prefix))
    try:
        return [sample for family in text_string_to_metric_families(own) for sample in family.samples]
    except ValueError:
        return []


def totals(text: str, prefix: str) -> Counter[str]:
    """The same by name, summed over labels; what the page does not have is 0."""
    summed = Counter[str]()
    for sample in samples(text, prefix):
        summed[sample.name] += sample.value
    return summed


def lacking(text: str, name: str, title: str, release: str) -> str:
    """Why a page without the counter `name` cannot be read as that of the engine `title`.

    `release`: the one whose names are known.
    """
    owner = next((each for each in base.known() if each.page_counters(text, "") is not None), None)
    if owner is None or owner.title == title:
        return f"/metrics has no {name}: this {title} release is not one specbook knows ({release})"
    return f"/metrics is a page of {owner.title}, not of {title}. To fix: name `engine: {owner.name}`"
