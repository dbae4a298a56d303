"""Published numbers: each with a source, and nothing guessed from a value that is no plain number."""

import datetime
from pathlib import Path

import pytest

from specbook.errors import RecordError
from specbook.records import published
from specbook.records.published import PublishedRow

SHIPPED = Path(__file__).parents[2] / "results" / "published.csv"
HEAD = ",".join(PublishedRow.model_fields) + "\n"
GOOD = "vLLM,m,EAGLE-3,1xH100,gsm8k,1,3,output_tok_s,12.5,https://a.org/x (2026-03-01),reported,note\n"


def test_each_shipped_row_has_a_source_and_a_value():
    rows = published.load(SHIPPED)
    assert rows
    assert all(row.source.strip() and row.value.strip() for row in rows)


def test_no_shipped_row_is_lost():
    assert len(published.load(SHIPPED)) == len(SHIPPED.read_text().splitlines()) - 1


def test_most_values_are_numbers_and_the_others_stay_words():
    rows = published.load(SHIPPED)
    assert sum(row.number is not None for row in rows) > 0.9 * len(rows)
    vague = [row for row in rows if set("/~ ") & set(row.value) or "-" in row.value[1:]]
    assert {row.number for row in vague} == {None}


def load(tmp_path, text) -> list[PublishedRow]:
    path = tmp_path / "published.csv"
    path.write_text(text)
    return published.load(path)


def test_a_row_knows_its_number_its_day_and_its_address(tmp_path):
    (row,) = load(tmp_path, HEAD + GOOD)
    assert (row.number, row.date, row.address) == (12.5, datetime.date(2026, 3, 1), "https://a.org/x")


@pytest.mark.parametrize("value", ["10-21", "~4", "1.30/1.69/1.30", "up to 2.29", "370 (base 118; 3.14x)"])
def test_a_range_is_not_turned_into_a_number(tmp_path, value):
    (row,) = load(tmp_path, HEAD + GOOD.replace("12.5", value))
    assert row.number is None


def test_a_source_without_a_day_has_none(tmp_path):
    (row,) = load(tmp_path, HEAD + GOOD.replace("https://a.org/x (2026-03-01)", "secondary; March 2026-03"))
    assert (row.date, row.address) == (None, None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("https://a.org/x (2026-03-01)", "  "), r"row 2: source = '  '.*without its source"),
        (GOOD + GOOD.replace("12.5", ""), "row 3: value = ''"),
        (GOOD.replace("reported", "guessed"), "row 2: status = 'guessed'"),
    ],
)
def test_a_row_without_source_value_or_known_status_is_refused(tmp_path, text, message):
    with pytest.raises(RecordError, match=message):
        load(tmp_path, HEAD + text)


def test_other_columns_and_a_missing_file_are_named(tmp_path):
    with pytest.raises(RecordError, match="has columns"):
        load(tmp_path, HEAD.replace("source,", "") + GOOD)
    with pytest.raises(RecordError, match="Restore it from git"):
        published.load(tmp_path / "nowhere.csv")
