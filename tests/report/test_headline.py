"""The README's headline: from records, between its marks, and nowhere else."""

import re
from pathlib import Path

import pytest

import chapters
import synthetic
from specbook import config, records
from specbook.errors import ConfigError
from specbook.report import headline
from specbook.report.provenance_line import credit
from specbook.stats import windows


@pytest.fixture
def runs(tmp_path: Path, project: None, monkeypatch: pytest.MonkeyPatch) -> list:
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "results"))
    chosen = config.load("02_eagle3", "cpu", "quick")
    synthetic.write(chosen)
    return records.replay(chosen)


def readme(tmp_path: Path, middle: str = "") -> Path:
    path = tmp_path / "README.md"
    path.write_text(f"# name\n{headline.BEGIN}{middle}{headline.END}\nrest\n")
    return path


def test_only_the_block_between_the_marks_is_written(tmp_path: Path, runs: list):
    path = readme(tmp_path, "\nold\n")
    headline.write_readme(runs, path, tmp_path / "headline.png")
    text = path.read_text()
    assert text.startswith("# name\n")
    assert text.endswith(f"{headline.END}\nrest\n")
    assert "old" not in text
    assert "**Answer.**" in text
    assert runs[0].hardware.id in text
    assert (tmp_path / "headline.png").stat().st_size > 10_000


def test_writing_twice_changes_nothing(tmp_path: Path, runs: list):
    path = readme(tmp_path)
    headline.write_readme(runs, path, tmp_path / "headline.png")
    once = path.read_text()
    headline.write_readme(runs, path, tmp_path / "headline.png")
    assert path.read_text() == once


def test_k_is_called_the_best_only_where_it_was_swept(
    tmp_path: Path, runs: list, monkeypatch: pytest.MonkeyPatch
):
    single = headline.render(runs)
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "swept"))
    swept = config.load("02_eagle3", "cpu", "quick", num_speculative_tokens=[1, 5])
    synthetic.write(swept)
    pages = [single, headline.render(records.replay(swept))]
    assert ["best K" in page for page in pages] == [False, True]


def test_a_readme_without_marks_is_refused_and_left(tmp_path: Path, runs: list):
    path = tmp_path / "README.md"
    path.write_text("# name\n")
    with pytest.raises(ConfigError, match="put them back"):
        headline.write_readme(runs, path, tmp_path / "headline.png")
    assert path.read_text() == "# name\n"


def test_the_shipped_readme_says_what_the_shipped_records_say(prose: Path, group: str):
    """It drifts when records are added without `specbook readme`."""
    text = (chapters.PROJECT / "README.md").read_text()
    block = text.split(headline.BEGIN)[1].split(headline.END)[0].strip()
    if group != "full":  # nothing shipped yet: then nothing may be claimed
        assert block == ""
        return
    answer = (prose / "headline.md").read_text().split("\n\n```{raw}")[0]
    runs = records.replay(config.load("03_p_eagle", "cpu", "full"))
    assert block == f"![{headline.ALT}](book/headline.png)\n\n{credit(runs)}\n\n{answer}"


def test_the_typical_case_stands_beside_the_best_case(tmp_path, project, monkeypatch):
    monkeypatch.setattr(windows, "repeats", lambda text: False)
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path / "unlooped"))
    mine = config.load("02_eagle3", "cpu", "quick", max_tokens=100)  # no other test's runs
    for sweep in (mine, *config.load(headline.PUBLIC[0], "cpu", "full").parts()):
        synthetic.write(sweep)
    runs, path = records.replay(mine), readme(tmp_path)
    headline.write_readme(runs, path, tmp_path / "headline.png")
    cases = [line for line in path.read_text().splitlines() if re.match(r"\| (best|typical) case,", line)]
    assert len(cases) == 4
    best, typical = cases[0], cases[2]
    assert re.search(r"(\| \d\.\d\d× \(no interval\) \w+ \(\S+ K=\d\) +){2}", best)
    assert re.search(r"\| \d\.\d\d× \[.*?\] \S+ \(\S+ K=\d\) +\| [\d.]+× \[.*\] sharegpt ", typical)
