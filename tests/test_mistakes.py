"""A misspelt word is answered with the word that was meant."""

import pytest
from pydantic import ValidationError

from specbook.config.plan import Plan
from specbook.suggestions import explain, near


@pytest.mark.parametrize(
    ("word", "known", "want"),
    [
        ("cpuu", {"cpu", "h100"}, " (did you mean 'cpu'?)"),
        ("zzz", {"h100", "cpu"}, " (known: cpu, h100)"),
        ("x", [], " (known: none)"),
        (None, ["quick"], " (known: quick)"),
        (8, ["a", 1], " (known: 1, a)"),
        (8, "abcdefghijklmnopqrstuvwxyz", f" (known: {', '.join('abcdefghijklmnopqrst')}, and 6 more)"),
    ],
)
def test_near_names_the_match_or_what_is_known(word, known, want):
    assert near(word, known) == want


def wrong(**fields) -> str:
    with pytest.raises(ValidationError) as error:
        Plan.model_validate(fields)
    return explain(error.value, Plan)


def test_a_misspelt_nested_field_is_named_and_not_the_lacking():
    said = wrong(target={"name": "t", "model": "m", "max_modle_len": 8})
    assert said.startswith("target.max_modle_len: ")
    assert said.endswith("(did you mean 'max_model_len'?)")
