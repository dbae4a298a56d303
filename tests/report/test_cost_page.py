"""The cost chapter's words and tables: what they claim follows from the numbers."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from specbook import config
from specbook.analysis import api_prices, token_cost
from specbook.analysis.token_cost import BASELINE, SPECULATING
from specbook.report import cost_page
from specbook.report.figures import cost_figures as draw
from specbook.stats import Estimate, cost


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


PLAN = config.build(
    "08_x",
    {"experiment": "cost", "full": {
        "of": ["02_eagle3"], "price": "m7a.large on demand", "utilisation": 0.5,
        "utilisation_range": [0.2, 1], "slos": {"strict": {"ttft_s": 0.1, "tpot_s": 0.02}},
    }},
    hardware="cpu", group="full", overrides={},
)  # fmt: skip


HOST = "Bedrock Qwen3-32B"
"""It counts tokens as the model does."""


def estimate(value, spread=0.05) -> Estimate:
    return Estimate(
        value=value, low=value * (1 - spread), high=value * (1 + spread), n=5, unit_of_n="restarts",
        method="student-t",
    )  # fmt: skip


def good(speculating: float, spread: float = 0.0) -> pd.DataFrame:
    rows = []
    for kind, label, rate in ((BASELINE, "baseline", 100.0), (SPECULATING, "EAGLE-3 K=5", speculating)):
        speeds = [rate * (1 + spread * (-1) ** i * (kind == BASELINE) + i / 1000) for i in range(5)]
        rounds = pd.MultiIndex.from_tuples([(i, f"round-{i}") for i in range(5)], names=["restart", "round"])
        rows.append(
            {"slo": "strict", "kind": kind, "arm": f"{label} (eager)", "label": label, "load": "batch 8",
             "concurrency": 8, "output": estimate(rate), "speed": rate, "by_round": pd.Series(speeds, rounds),
             "by_prompt": pd.Series(0.0, pd.MultiIndex.from_product([["json"], range(12)])),
             "by_use": cost.interval(estimate(rate), 0.1),
             "by_reservation": cost.interval(estimate(rate), 0.1, 0.5),
             "ttft_p99_s": 0.05, "tpot_p99_s": 0.01, "enough": True}
        )  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("speculating", "spread", "said"),
    [(200.0, 0.0, "50 % cheaper"), (80.0, 0.0, "25 % more expensive"), (102.0, 0.2, "so this is a tie")],
)
def test_the_answer_says_which_is_cheaper_and_how_surely(speculating, spread, said):
    text = cost_page.answer(good(speculating, spread), PLAN)
    assert said in text
    assert "p99 TTFT within 100 ms and p99 TPOT within 20 ms" in text
    assert "n=5 restarts × 12 prompts" in text


def test_a_p99_from_few_prompts_is_marked():
    table = good(200.0).assign(enough=False)
    assert "The p99 of batch 8 is uncertain: too few prompts" in cost_page.answer(table, PLAN)
    assert list(cost_page.goodput(table, PLAN)["p99 TTFT, TPOT in ms"]) == ["50, 10.0 *", "50, 10.0 *"]


def test_an_objective_that_speculation_breaks_is_said():
    text = cost_page.answer(good(200.0).iloc[:1], PLAN)
    assert "No batch with speculation keeps that" in text


def test_the_price_is_named_with_source_and_date():
    assert "m7a.large on demand" in cost_page.price(PLAN)
    assert "skypilot-catalog" in cost_page.price(PLAN)
    assert "2026-11-22" in cost_page.price(PLAN)
    own = PLAN.model_copy(update={"usd_per_hour": 0.5})
    assert cost_page.price(own) == "Price: $0.5 an hour, the reader's own."


def test_tables_hold_both_bills_and_the_ways_to_buy():
    table = cost_page.goodput(good(200.0), PLAN)
    assert {"by use", "reserved, 50 % busy"} <= set(table.columns)
    bought = cost_page.purchases(PLAN, 1000.0)
    assert list(bought.index) == ["m7a.large on demand", "m7a.large spot"]
    assert "no listed price" in cost_page.purchases(PLAN.model_copy(update={"usd_per_hour": 1.0}), 1000.0)


@pytest.mark.parametrize(
    ("of_them", "api", "share"), [(5, "GPT-5.4", 0.125), (0, "GPT-5.4", 0), (5, HOST, 0)]
)
def test_a_bill_estimates_its_share_of_prompts(of_them, api, share):
    counted = {"input_characters": 40, "output_characters": 80, "input_tokens": 10, "output_tokens": 20}
    listed = api_prices.apis([api], counted)
    assert api_prices.estimated(listed, {**counted, "guessed_characters": of_them}) == share


def test_a_share_is_a_percentage_or_never():
    bought = cost_page.purchases(PLAN, 1000.0)
    assert list(bought["break-even with on demand"]) == ["100 % busy", "43.3 % busy"]


def test_an_api_says_whether_it_is_the_same_model():
    counted = {"input_characters": 40, "output_characters": 80, "input_tokens": 10, "output_tokens": 20}
    listed = api_prices.apis(["GPT-5.4", HOST], counted, same=[HOST])
    assert list(cost_page.apis(listed, 0.1)["answers by"]) == ["another model", "the same model"]


def test_a_rate_that_breaks_the_strictest_objective_is_hollow():
    table = good(200.0)
    ax = draw.by_batch(table, token_cost.keeps(table.assign(tpot_p99_s=[0.01, 0.05]), PLAN.slos["strict"]))
    faces = [line.get_markerfacecolor() for line in ax.lines if line.get_markersize() == 9]
    assert sorted(face == "white" for face in faces) == [False, True]


def test_labels_of_like_prices_share_a_line():
    prices = {"A": 10.0, "B": 10.5, "C": 2.0, "D": 2.1}
    rows = [(name, usd, name == "D") for name, usd in prices.items()]
    elsewhere = pd.DataFrame(rows, columns=["name", "usd_per_million", "same_model"])
    ax = draw.by_utilisation(good(200.0), 0.1, elsewhere, "a small model")
    said = [text.get_text() for text in ax.texts]
    assert said == ["another model: C", "the same model: D", "other models: A and 1 more"]
    assert ax.get_title(loc="left") == "solid: a small model"


def test_a_line_is_named_beside_it():
    table = pd.concat([good(200.0), good(300.0).assign(concurrency=32, load="batch 32")], ignore_index=True)
    ax = draw.by_batch(table, table["enough"])
    assert [text.get_text() for text in ax.texts] == [BASELINE, SPECULATING]
    assert not ax.get_figure().legends


def test_a_tornado_has_a_bar_for_each_doubt_around_the_base():
    bars = [cost.Bar("batch", 0.1, 1, 10.0, 1.0), cost.Bar("traffic", 0.9, 1.1, 1.1, 0.9)]
    ax = draw.tornado(bars, 1.0)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["kind of traffic", "batch"]
