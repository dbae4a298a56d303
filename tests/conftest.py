"""What tests of every folder share."""

import pytest


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project itself and its shipped records, whatever the book's session fixtures point at."""
    for name in ("SPECBOOK_ROOT", "SPECBOOK_RESULTS"):
        monkeypatch.delenv(name, raising=False)
