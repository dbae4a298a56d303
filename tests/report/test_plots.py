from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import pytest

import factories
from specbook.report.figures import style


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    yield
    plt.close("all")


def test_credit_names_kind_machine_restarts_and_days():
    runs = [
        factories.write_run(
            factories.point(restart=i),
            100.0,
            run_id=f"run-{i}",
            started_at=f"2026-01-0{i + 1}T00:00:00Z",
        )
        for i in range(2)
    ]
    assert style.credit(runs, also="curves computed").split(" · ") == [
        "measured", "cpu-test-2c", "pocket bfloat16", "2 restarts an arm: no intervals",
        "2026-01-01 to 2026-01-02", "curves computed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("days", "said"), [((1, 1), "2026-01-01"), ((2, 1), "2026-01-01 to 2026-01-02")], ids=["one", "two"]
)
def test_experiments_are_credited_with_kind_machine_and_days(days, said):
    hardware = SimpleNamespace(id="cpu-test-2c")
    kept = [
        (SimpleNamespace(kind="measured", hardware=hardware, started_at=f"2026-01-0{day}T00:00:00Z"), None)
        for day in days
    ]
    assert style.credit_experiments(kept, "replayed") == f"measured · cpu-test-2c · {said} · replayed"
    assert style.credit_experiments(iter(kept)) == f"measured · cpu-test-2c · {said}"
    assert style.credit_experiments([]) == "nothing measured"


def test_a_loss_is_drawn_as_large_as_a_win():
    (ax,) = style.panels(1)
    style.ratio_axis(ax, [3.0, 0.9, None, float("nan")])
    low, high = ax.get_ylim()
    assert ax.get_yscale() == "log"
    assert low * high == pytest.approx(1.0)
    assert high > 3.0


def test_domains_keep_their_order_and_colour_and_new_ones_follow():
    assert style.ordered(["sql", "code", "json"]) == ["json", "code", "sql"]
    assert style.colour("json") != style.colour("code") != style.colour("sql")


def test_the_style_does_not_leak():
    before = plt.rcParams["axes.grid"]
    style.panels(2)
    assert plt.rcParams["axes.grid"] == before
