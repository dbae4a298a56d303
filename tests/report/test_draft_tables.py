"""Tables and figures of drafting methods: a crossover or none, and how much of a promise arrived."""

import numpy as np
import pandas as pd

from specbook.analysis.prediction import AVERAGED, CROSSOVERS
from specbook.report import tables
from specbook.report.figures import acceptance_figures as draw


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


def test_the_crossovers_table_tells_never_from_always():
    row = ("batch 8", AVERAGED, np.nan, 1.0, 1, 10)
    shown = tables.crossovers(pd.DataFrame([row], columns=list(CROSSOVERS))).loc["batch 8", AVERAGED]
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
    shown = tables.bounds(table)
    assert list(shown["of the bound"]) == ["95 %", "50 %"]
    assert list(shown["decoding alone"]) == ["100 %", "90 %"]
