"""Tables and figures of drafting methods: a crossover or none, and how much of a promise arrived."""

import numpy as np
import pandas as pd

from specbook.analysis.prediction import AVERAGED, CROSSOVERS
from specbook.report import tables
from specbook.report.figures import acceptance_figures as draw
from specbook.report.figures import speedup_figures
from specbook.stats.estimate import Estimate


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


def case(domain, k, speedup, **more):
    ratio = Estimate(value=speedup, low=None, high=None, n=1, unit_of_n="restarts", method="none")
    return {
        "load": "batch 1", "domain": domain, "method": "ngram", "label": f"ngram K={k}",
        "num_speculative_tokens": k, "length": 1.5, "speedup": speedup, "low": None, "high": None,
        "baseline_tokens_per_s": 20.0, "tokens_per_s": 20 * speedup, "estimate": ratio, **more,
    }  # fmt: skip


def test_every_case_is_listed_with_the_smaller_k_first():
    arms = pd.DataFrame([case("json", 5, 1.5), case("code", 3, 0.9), case("json", 3, 1.2)])
    loops = pd.DataFrame({"load": "batch 1", "domain": ["code", "json"], "loops": [0.25, 0.0]})
    shown = tables.cases(arms, loops)
    assert [key[1:] for key in shown.index] == [
        ("json", "ngram K=3"), ("json", "ngram K=5"), ("code", "ngram K=3"),
    ]  # fmt: skip
    assert list(shown["tokens/s"]) == ["20.0 → 24.0", "20.0 → 30.0", "20.0 → 18.0"]
    assert list(shown["answers that loop, %"]) == ["0.0", "0.0", "25.0"]


def test_temperatures_are_drawn_in_their_order():
    rows = [case("json", 3, 2 - heat, temperature=heat) for heat in (1.0, 0.0, 0.2)]
    (ax,) = speedup_figures.by_temperature(pd.DataFrame(rows))
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["0", "0.2", "1"]
    (ax,) = draw.by_temperature(pd.DataFrame(rows))
    assert list(ax.lines[0].get_xdata()) == [0.0, 0.2, 1.0]
