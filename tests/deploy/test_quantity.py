"""Kubernetes quantities."""

import pytest

from specbook.deploy.quantity import number


@pytest.mark.parametrize(
    ("text", "want"),
    [("123m", 0.123), ("0", 0), ("2k", 2000), ("1Gi", 2**30), ("1e3", 1000), ("-1500m", -1.5)],
)
def test_quantity_is_a_number(text, want):
    assert number(text) == pytest.approx(want)


@pytest.mark.parametrize("text", ["", "NaN", "5 m", "1Q", "i", "1ki"])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="no Kubernetes quantity"):
        number(text)
