"""What tests of every folder share."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With several workers (`-n`), a file's tests stay on one, and all those that open the one built book."""
    for item in items:
        book = item.path.parent.name == "book"
        item.add_marker(pytest.mark.xdist_group("book" if book else item.path.stem))


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project itself and its shipped records, whatever the book's session fixtures point at."""
    for name in ("SPECBOOK_ROOT", "SPECBOOK_RESULTS"):
        monkeypatch.delenv(name, raising=False)
