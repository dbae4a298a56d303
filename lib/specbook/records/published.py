"""Numbers that others published, each with its source: the one reader of `results/published.csv`.

None of them was measured by this project. Wherever one is shown it is marked as published.
"""

import csv
import datetime
import re
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from specbook import paths
from specbook.config.schema import Frozen
from specbook.errors import RecordError

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
DAY = re.compile(r"\b(20\d\d)-(\d\d)-(\d\d)\b")
ADDRESS = re.compile(r"https?://[^\s;,)]+")


class PublishedRow(Frozen):
    """One published number: what was run, on what, and who says so. `-` and `n/s` mean: not stated."""

    system: str
    """Engine or list it comes from; `price` and `api_price` are prices."""
    target_model: str
    draft: str
    """`none` where nothing was drafted."""
    hardware: str
    dataset: str
    batch_or_concurrency: str
    num_speculative_tokens: str
    metric: str = Field(min_length=1)
    value: str = Field(min_length=1)
    """As the source gives it: a number, a range, or a number with its base beside it."""
    source: str = Field(pattern=r"\S")
    status: Literal["reported", "derived", "digitised"]
    """The source's own number; computed from two of them; or read off its figure."""
    notes: str

    @property
    def number(self) -> float | None:
        """The value where it is one plain number, else None: a range is not turned into its middle."""
        return float(self.value) if NUMBER.fullmatch(self.value) else None

    @property
    def date(self) -> datetime.date | None:
        """The first whole day that the source names; None where it names none."""
        match = DAY.search(self.source)
        return datetime.date(*map(int, match.groups())) if match else None

    @property
    def address(self) -> str | None:
        """The first address in the source, None where it has none."""
        match = ADDRESS.search(self.source)
        return match.group() if match else None


def load(path: Path | None = None) -> list[PublishedRow]:
    """Every published number, in the file's order: the project's, wherever `SPECBOOK_RESULTS` is.

    Raises:
        RecordError: if the file is missing, has other columns, or a row lacks its source or its value.
    """
    path = path or paths.root() / "results" / "published.csv"
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            rows = csv.DictReader(lines)
            if rows.fieldnames != list(PublishedRow.model_fields):
                raise RecordError(
                    f"{path} has columns {rows.fieldnames}, want {list(PublishedRow.model_fields)}"
                )
            return [_row(path, number, row) for number, row in enumerate(rows, start=2)]
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}. Restore it from git") from error


def _row(path: Path, number: int, row: dict[str, str]) -> PublishedRow:
    try:
        return PublishedRow.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordError(
            f"{path}, row {number}: {where} = {first['input']!r}: {first['msg']}. A number without its "
            "source is not kept"
        ) from error
