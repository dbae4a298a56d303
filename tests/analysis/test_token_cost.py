"""Bills from records: rates under an objective, two bills, the split, savings, and doubts."""

from pathlib import Path

import numpy as np
import pytest

import factories
from specbook import config
from specbook.analysis import api_prices, token_cost
from specbook.config import prices
from specbook.config.chapter import Objective
from specbook.config.prompt_files import Prompt
from specbook.records import published

PRICE = 3.6
"""Dollars an hour: a rate of 1000 tokens/s costs a dollar per million."""
LENGTHS = np.arange(60) + 5
READING_S = 0.0001
"""What each prompt token adds to TTFT."""
SLOW, FAST = (
    factories.rows(60, tpot_s=tpot_s).assign(input_tokens=LENGTHS, ttft_s=0.02 + READING_S * LENGTHS)
    for tpot_s in (0.05, 0.01)
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the module's records lie: they are written once."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(autouse=True)
def results(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECBOOK_RESULTS", str(folder))


def cost_plan(**changes) -> config.CostPlan:
    fields = {
        "of": ["02_eagle3"], "usd_per_hour": PRICE, "utilisation": 0.5, "utilisation_range": [0.25, 1.0],
        "slos": {"strict": {"ttft_s": 0.1, "tpot_s": 0.02}, "loose": {"ttft_s": 1, "tpot_s": 1}},
    }  # fmt: skip
    body = {"experiment": "cost", "full": fields | changes}
    return config.build("08_x", body, hardware="cpu", group="full", overrides={})


def test_a_drain_does_not_count_as_time_that_is_paid_for():
    run = factories.write_run(factories.point(concurrency=8), 400.0, requests=FAST, run_id="drained")
    full = run.measurement.model_copy(update={"steady_output_tokens_per_s": 500.0, "steady_s": 1.0})
    whole, steady = (
        token_cost.windows([run.model_copy(update={"measurement": found})]).iloc[0]
        for found in (run.measurement, full)
    )
    assert whole["output_tokens"] / whole["seconds"] == pytest.approx(400)
    assert steady["output_tokens"] / steady["seconds"] == pytest.approx(500)


@pytest.fixture(scope="module")
def runs(folder: Path):
    """Batch 1 gains from speculation; at batch 8 it gains less, and is too slow for the strict objective."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECBOOK_RESULTS", str(folder))
        return _written()


def _written():
    speeds = {(1, None): 100, (8, None): 400, (1, 5): 200, (8, 5): 500}
    found = []
    for (batch, k), speed in speeds.items():
        for restart in range(5):
            for domain, share in (("json", 1.25), ("code", 1.0)):
                where = factories.point(
                    factories.eagle3(k) if k else None, domain=domain, concurrency=batch, restart=restart,
                    num_requests=60,
                )  # fmt: skip
                counted = factories.counters() if k else None
                rows = SLOW if (batch, k) == (8, 5) else FAST
                speed_now = speed * share * (1 + 0.01 * restart)
                found.append(
                    factories.write_run(
                        where, speed_now, spec_decode=counted, requests=rows, run_id=where.key
                    )
                )
    return found


def row(table, load, kind):
    (found,) = table[(table["load"] == load) & (table["kind"] == kind)].itertuples()
    return found


def test_a_rate_is_all_tokens_over_all_seconds(runs):
    found = row(token_cost.rates(runs), "batch 1", token_cost.BASELINE)
    middle = 2 / (1 / 125 + 1 / 100)  # two domains of as many tokens each
    assert found.output.value == pytest.approx(middle * 1.02, rel=1e-3)
    assert found.output.low < found.output.value < found.output.high
    assert (found.output.n, found.n, found.enough) == (5, 120, False)
    assert found.label == "baseline"
    assert row(token_cost.rates(runs), "batch 1", token_cost.SPECULATING).label == "EAGLE-3 K=5"


def test_a_restart_that_lacks_a_domain_is_left_out(runs):
    lacking = [run for run in runs if (run.point.restart, run.point.traffic.domain) != (4, "code")]
    assert row(token_cost.rates(lacking), "batch 1", token_cost.BASELINE).output.n == 4


def test_both_bills_carry_the_interval(runs):
    found = row(token_cost.bills(token_cost.rates(runs), cost_plan()), "batch 1", token_cost.SPECULATING)
    assert found.by_use.value == pytest.approx(1000 / found.speed)
    assert found.by_reservation.value == pytest.approx(2 * found.by_use.value)
    assert found.by_use.low == pytest.approx(1000 / found.output.high)


def test_goodput_is_the_fastest_rate_that_keeps_the_objective(runs):
    good = token_cost.goodput(token_cost.rates(runs), cost_plan().slos).set_index(["slo", "kind"])
    assert good.loc[("strict", token_cost.BASELINE), "load"] == "batch 8"
    assert good.loc[("strict", token_cost.SPECULATING), "load"] == "batch 1"
    assert good.loc[("loose", token_cost.SPECULATING), "load"] == "batch 8"


def test_an_objective_nobody_keeps_has_no_row(runs):
    assert token_cost.goodput(token_cost.rates(runs), {"x": Objective(ttft_s=0.001, tpot_s=1)}).empty


def test_an_objective_can_make_faster_speculation_dearer(runs):
    good = token_cost.goodput(token_cost.rates(runs), cost_plan().slos)
    strict, loose = (token_cost.dearer(good[good["slo"] == name]) for name in ("strict", "loose"))
    assert strict.value == pytest.approx(2.0)  # 400 against 200 tokens/s
    assert loose.value == pytest.approx(0.8)
    assert token_cost.dearer(good[good["kind"] == token_cost.BASELINE]) is None


def test_savings_are_those_of_the_speedup(runs):
    table = token_cost.savings(runs)
    assert set(table["saved"].round(6)) == {0.5, 0.2}


def test_the_split_pays_for_the_machine(runs):
    best = token_cost.best_arms(token_cost.rates(runs)).assign(input_tokens_per_s=50.0)
    for found in token_cost.splits(best, runs, cost_plan()).itertuples():
        paid = found.input_usd_per_million * 50 + found.output_usd_per_million * found.speed
        assert paid * 3600 / 1e6 == pytest.approx(PRICE)
        assert found.input_share == pytest.approx(50 * READING_S)


def test_no_input_price_where_ttft_is_flat_in_prompt_length():
    rows = FAST.assign(ttft_s=0.03 - READING_S * LENGTHS)
    runs = [
        factories.write_run(
            factories.point(num_requests=60, restart=i), 100.0, requests=rows, run_id=f"flat-{i}"
        )
        for i in range(3)
    ]
    assert token_cost.splits(token_cost.best_arms(token_cost.rates(runs)), runs, cost_plan()).empty


def test_each_bar_changes_one_thing_of_the_base_case(runs):
    table = token_cost.bills(token_cost.rates(runs), cost_plan())
    chosen = token_cost.goodput(table, cost_plan().slos).iloc[0]
    bars = {bar.name: bar for bar in token_cost.bars(runs, chosen, cost_plan())}
    base = chosen["by_reservation"].value
    assert set(bars) == {"utilisation", "batch", "traffic", "speculation", "measurement"}
    assert (bars["utilisation"].at_low, bars["utilisation"].at_high) == pytest.approx((2 * base, base / 2))
    assert (bars["batch"].at_low, bars["batch"].at_high) == pytest.approx((4 * base, base))
    assert bars["speculation"].at_high == pytest.approx(base * 400 / 500)
    assert bars["measurement"].at_low == pytest.approx(chosen["by_reservation"].high)


def test_the_price_is_a_doubt_where_others_are_listed(runs):
    priced = cost_plan(usd_per_hour=None, price="m7a.large on demand")
    table = token_cost.bills(token_cost.rates(runs), priced)
    names = [bar.name for bar in token_cost.bars(runs, table.iloc[0], priced)]
    assert "price" in names


COUNTED = {"input_characters": 4000, "output_characters": 8000, "input_tokens": 1500, "output_tokens": 2500}


def test_a_prompt_gone_from_its_file_counts_by_its_tokens(monkeypatch):
    rows = factories.rows(2, tokens=10).assign(prompt_id=["there", "gone"], input_tokens=5, text="x" * 30)
    run = factories.write_run(factories.point(num_requests=2), 100.0, requests=rows)
    asked = Prompt(id="there", domain="json", prompt="y" * 7)
    monkeypatch.setattr(token_cost.prompt_files, "load", lambda file: [asked])
    counted = token_cost.characters([run])
    assert counted["input_characters"] == 7 + 5 * 30 / 10
    assert counted["output_characters"] == 60
    assert counted["guessed_characters"] == 5 * 30 / 10


def test_an_apis_tokens_are_counted_by_its_makers_rule():
    (found,) = api_prices.apis(["GPT-5.4"], COUNTED).itertuples()
    assert found.tokens_per_own == pytest.approx(2000 / 2500)
    assert found.usd_per_million == pytest.approx((1000 * 2.5 + 2000 * 15) / 2500)
    assert found.counted_by == "4 characters each"


def test_a_host_of_the_model_counts_as_the_model_does():
    (found,) = api_prices.apis(["Bedrock Qwen3-32B"], COUNTED).itertuples()
    assert found.usd_per_million == pytest.approx((1500 * 0.15 + 2500 * 0.6) / 2500)
    assert (found.tokens_per_own, found.counted_by) == (1, api_prices.OWN)


@pytest.mark.parametrize(
    ("hardware", "hosts"), [("h200", ("Bedrock Qwen3-32B",)), ("cpu", ())], ids=["public", "our own"]
)
def test_hosts_are_those_of_the_same_weights(hardware, hosts):
    served = config.load("02_eagle3", hardware, "full").target
    assert api_prices.hosts(served) == hosts
    same = api_prices.apis(["Bedrock Qwen3-32B", "GPT-5.4"], COUNTED, api_prices.hosts(served))["same_model"]
    assert list(same) == [bool(hosts), False]


def test_rented_machines_are_compared_with_the_models_hosts():
    table = api_prices.rented(published.load())
    assert {"GPT-OSS-120B", "Llama-3.3-70B"} == set(table["model"])
    assert all(table["api"].str.lower().str.contains("gpt-oss-120b|llama-3.3-70b"))
    ratio = table["usd_per_million"] / table["api_usd_per_million"]
    assert list(ratio) == pytest.approx(list(table["break_even_utilisation"]))


CPU, served = factories.HARDWARE, factories.target


def test_shapes_are_priced_by_their_models_cheapest_host():
    h200 = CPU.model_copy(update={"kind": "cuda", "gpu_name": "NVIDIA H200"})
    runs = [
        factories.write_run(factories.point(target=served(name=name), restart=r), speed, hardware=gpu)
        for name, gpu in (("qwen3-32b-fp8", h200), ("nobody-hosts-it", h200), ("qwen3-32b-fp8", CPU))
        for r, speed in enumerate((500.0, 2000.0))
    ]
    (row,) = api_prices.shapes(runs).to_dict("records")
    assert row["tokens_per_s"] == pytest.approx(1000)
    assert row["usd_per_million"] == pytest.approx(row["usd_per_hour"] / 3.6)
    host, per_output = prices.api(row["api"]), 1 / 44  # a prompt token to 4 answers of 11
    assert host.model == "Qwen3-32B"
    whole = host.output_usd_per_million + per_output * host.input_usd_per_million
    assert row["api_usd_per_million"] == pytest.approx(whole)
    assert row["break_even_utilisation"] == pytest.approx(row["usd_per_million"] / whole)
