"""A project for each hostile case; what it leaves running is ended, and told by the case before."""

import pytest

pytest.register_assert_rewrite("torture_project", "torture_chance")

from torture_project import Project  # noqa: E402


@pytest.fixture
def small(tmp_path):
    """A project with one plan of the echo engine."""
    made = Project(tmp_path / "project")
    yield made
    for process in made.processes():
        process.kill()
