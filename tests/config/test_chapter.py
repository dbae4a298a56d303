"""Chapters that are no single sweep: parts with a cluster's context, and prices on what others measured."""

from functools import partial
from pathlib import Path

import pytest
import yaml

from specbook import config
from specbook.config.plan_files import settable
from specbook.errors import ConfigError

PROJECT = Path(__file__).parents[2]
COST = {
    "of": ["01_baseline", "02_eagle3"], "price": "m7a.large on demand", "utilisation": 0.5,
    "utilisation_range": [0.2, 1.0], "slos": {"quick": {"ttft_s": 0.5, "tpot_s": 0.05}}, "apis": ["GPT-5.4"],
}  # fmt: skip
CLUSTER = {"full": {"experiments": [{"name": "cluster"}]}}


def build(**changes) -> config.CostPlan:
    body = {"experiment": "cost", "full": {**COST, **changes}, "quick": COST}
    return config.build("08_x", body, hardware="cpu", group="full", overrides={})


def test_it_measures_nothing_and_names_the_sweeps_it_prices():
    found = build()
    assert found.points() == []
    assert [sweep.chapter for sweep in config.sweeps(found)] == ["01_baseline", "02_eagle3"]
    assert {(sweep.hardware, sweep.group) for sweep in config.sweeps(found)} == {("cpu", "full")}


def test_the_readers_own_price_goes_first():
    assert build().hourly() == pytest.approx(0.11592)
    assert build(usd_per_hour=0.2).hourly() == 0.2
    assert build(price=None, usd_per_hour=0.2).listed() == []


def test_other_ways_to_buy_the_same_machine_are_listed():
    assert {one.purchase for one in build().listed()} == {"on demand", "spot"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"price": None}, "give `price`, an entry of params/prices.yaml, or `usd_per_hour`"),
        ({"price": "m7a.large on demnd"}, "did you mean 'm7a.large on demand'"),
        ({"utilisation": 0}, "utilisation: .* greater than 0, got 0"),
        ({"utilisation": 1.5}, "utilisation: .* less than or equal to 1, got 1.5"),
        ({"utilisation": 0.1}, r"utilisation 0.1 lies outside its range 0.2 to 1.0"),
        ({"utilisation_range": [0.2, 1.2]}, "outside"),
        ({"usd_per_hour": -1}, "usd_per_hour"),
        ({"slos": {}}, "slos"),
        ({"slos": {"quick": {"ttft_s": 0, "tpot_s": 1}}}, "slos.quick.ttft_s"),
        ({"slos": {"quick": {"ttft_s": float("inf"), "tpot_s": 1}}}, "slos.quick.ttft_s"),
        ({"apis": ["GPT-5.5.5"]}, "price unknown for 'GPT-5.5.5'.*did you mean"),
        ({"apis": ["Claude Sonnet 4.7"]}, "no verified price of Claude Sonnet 4.7"),
        ({"utilization": 0.5}, "did you mean 'utilisation'"),
        ({"of": []}, "of"),
    ],
)
def test_what_cannot_be_priced_is_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        build(**changes)


def test_an_experiment_nobody_knows_is_refused():
    with pytest.raises(ConfigError, match=r"no experiment 'costs' .did you mean 'cost'"):
        config.build(
            "08_x", {"experiment": "costs", "full": COST}, hardware="cpu", group="full", overrides={}
        )
    with pytest.raises(ConfigError, match=r"no experiment \{1: 2\}"):
        config.build("08_x", {"experiment": {1: 2}, "full": COST}, hardware="cpu", group="full", overrides={})


def test_a_chapter_that_measures_nothing_cannot_be_priced(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "params" / "cpu").mkdir(parents=True)
    (tmp_path / "params" / "prices.yaml").write_text((PROJECT / "params" / "prices.yaml").read_text())
    body = {"experiment": "cost", "full": {**COST, "of": ["08_x"]}}
    (tmp_path / "params" / "cpu" / "08_x.yaml").write_text(yaml.safe_dump(body))
    with pytest.raises(ConfigError, match="sweep no server"):
        config.sweeps(config.load("08_x", "cpu", "full"))


def test_a_notebook_may_set_its_price(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_ROOT", str(tmp_path))
    (tmp_path / "params" / "cpu").mkdir(parents=True)
    (tmp_path / "params" / "prices.yaml").write_text((PROJECT / "params" / "prices.yaml").read_text())
    body = {"experiment": "cost", "full": COST, "quick": COST}
    (tmp_path / "params" / "cpu" / "08_x.yaml").write_text(yaml.safe_dump(body))
    names = {"hardware": "cpu", "group": "full", "source": "records", "usd_per_hour": 0.3, "price": None}
    assert config.from_notebook("08_x", names | body).hourly() == 0.3
    with pytest.raises(ConfigError, match="did you mean 'usd_per_hour'"):
        config.from_notebook("08_x", names | {"usd_per_hours": 0.3})


def test_context_is_a_parameter_of_a_chapter():
    plan = config.build("07_hpa", CLUSTER, hardware="cpu", group="full", overrides={"context": "kind-kind"})
    assert plan.context == "kind-kind"
    assert "context" in settable(config.Chapter)


def test_context_changes_no_experiment_key():
    keys = {
        config.build("07_hpa", CLUSTER, hardware="cpu", group="full", overrides=given).experiments[0].key
        for given in ({}, {"context": "kind-kind"})
    }
    assert len(keys) == 1


def test_sweeps_share_a_baseline_and_no_arm():
    body = yaml.safe_load(config.file("appendix_engines", "cpu").read_text())
    *_, once = body["full"]["sweeps"]
    made = partial(config.build, "appendix_engines", hardware="cpu", group="full", overrides={})
    assert made(body).points()
    body["full"]["sweeps"].append(once)
    with pytest.raises(ConfigError, match=r"EAGLE-3 K=2 \(compiled\) at batch 32: name it once$"):
        made(body)
