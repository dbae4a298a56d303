"""Words, tables and figures of drafting methods: a crossover or none, and how much of a promise arrived."""

import numpy as np
import pandas as pd
import pytest

from specbook.analysis.prediction import AVERAGED
from specbook.report import tables
from specbook.report.figures import acceptance_figures as draw
from specbook.report.text import draft_text


def counters(method, domain, conditional, trained_depth=np.nan):
    row = {"method": method, "domain": domain, "conditional": np.array(conditional)}
    return row | {"trained_depth": trained_depth}


def test_positions_past_the_training_are_hollow():
    rows = [
        counters("P-EAGLE", "json", [0.9, 0.85, 0.7], 2),
        counters("P-EAGLE", "code", [0.9, 0.6, np.nan], 2),
    ]
    within = [row | {"trained_depth": 3} for row in rows]
    unknown = [row | {"trained_depth": np.nan} for row in rows]
    hollow = [
        list(line.get_xdata())
        for table in (rows, within, unknown)
        for line in draw.conditional(pd.DataFrame(table))[0].lines
        if line.get_markerfacecolor() == "white"
    ]
    assert hollow == [[3], [], []]


def test_a_line_is_named_at_its_last_known_point():
    table = pd.DataFrame(
        [counters("P-EAGLE", "json", [0.9, 0.6, np.nan]), counters("EAGLE-3", "json", [0.9, 0.8, 0.5])]
    )
    (ax,) = draw.conditional(table)
    assert {text.get_text(): text.xy[0] for text in ax.texts} == {"P-EAGLE": 2, "EAGLE-3": 3}


def crossing(measured, predicted, domain=AVERAGED, apart=0.3):
    row = {
        "load": "batch 8",
        "domain": domain,
        "measured": measured,
        "predicted": predicted,
        "smallest": 1,
        "largest": 10,
        "apart": apart,
    }
    return pd.DataFrame([row])


@pytest.mark.parametrize(
    ("measured", "predicted", "want"),
    [
        (4.2, 5.0, "from K = 4.2 on as measured, from K = 5.0 on as predicted: 0.8 apart"),
        (np.nan, np.nan, "not even at K = 10 as measured, not even at K = 10 as predicted: they agree"),
        (
            np.nan,
            3.0,
            "not even at K = 10 as measured, from K = 3.0 on as predicted: the prediction is",
        ),
        (1.0, 1.0, "at every K from 1 as measured, at every K from 1 as predicted: 0.0 apart"),
    ],
)
def test_a_crossover_stands_beside_its_prediction(measured, predicted, want):
    assert want in draft_text.crossovers(crossing(measured, predicted), "EAGLE-3", "P-EAGLE")


def test_domains_near_their_prediction_are_counted():
    single = [(4.2, 5.0), (np.nan, np.nan), (np.nan, 3.0), (1.0, 3.0)]
    table = pd.concat([crossing(4.2, 5.0), *(crossing(*pair, f"d{i}") for i, pair in enumerate(single))])
    told = draft_text.crossovers(table, "EAGLE-3", "P-EAGLE")
    assert told.count("\n- ") == 0  # one line: domains are in the table
    assert told.endswith("or both say never, in 2 of 4 combinations with a batch.")
    close = table.assign(apart=[0.3, 0.3, 0.3, 0.06, 0.04])
    assert " In the other 2 the two are never more than 6 % apart" in draft_text.crossovers(
        close, "EAGLE-3", "P-EAGLE"
    )


def test_the_crossovers_table_tells_never_from_always():
    shown = tables.crossovers(crossing(np.nan, 1.0)).loc["batch 8", AVERAGED]
    assert list(shown) == ["never up to 10", "from 1"]


def test_how_much_of_the_bound_arrives():
    row = {
        "load": "batch 1",
        "domain": "json",
        "label": "P-EAGLE K=5",
        "length": 4.0,
        "cost": 2.0,
        "bound": 2.0,
    }
    shares = [(1.9, 0.95, 1.0), (1.0, 0.5, 0.9)]
    table = pd.DataFrame([row | dict(zip(("speedup", "share", "decoding"), s, strict=True)) for s in shares])
    assert draft_text.bounds(table) == (
        "- **batch 1**: 72 % in the median of 2 points; 1 of 2 points reach 90 %; least, 50 %, "
        "P-EAGLE K=5 on json. With the time to each first token left out, 90 to 100 %."
    )
    shown = tables.bounds(table)
    assert list(shown["of the bound"]) == ["95 %", "50 %"]
    assert list(shown["decoding alone"]) == ["100 %", "90 %"]
