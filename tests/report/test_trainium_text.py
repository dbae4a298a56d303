"""The Trainium chapter's words: published pairs, ideal steps by hand, no claim without records."""

import pandas as pd
import pytest

import chapters
import synthetic
from specbook import config
from specbook.analysis import traffic
from specbook.config import models
from specbook.report import render
from specbook.report.text import trainium_text
from specbook.stats import roofline


def row(**changes):
    names = ("load", "method", "arm", "metric", "baseline_s", "arm_s", "estimate", "verdict")
    return {**dict.fromkeys(names), "load": "batch 1", "method": "EAGLE-3", "metric": "ttft_s", **changes}


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("unchanged", "is shown for EAGLE-3 at batch 1"), ("changed", "is refuted for EAGLE-3 at batch 1"),
        ("undecided", "neither shown nor refuted"), ("no interval", "it takes three restarts"),
    ],
)  # fmt: skip
def test_what_became_of_the_claim_is_said(verdict, said):
    assert said in trainium_text.first_token(pd.DataFrame([row(verdict=verdict)]))


def test_without_rows_nothing_is_said_of_ttft():
    assert "nothing is said of TTFT" in trainium_text.first_token(pd.DataFrame(columns=traffic.FIRST))


def test_published_pairs_are_derived_from_their_rows():
    said = trainium_text.published_first_token()
    assert "814.2 → 870.1 ms (+7 %)" in said
    assert "51.07 → 63.65 ms (+25 %)" in said
    assert "3 of 3 moved by more than 5 %" in said


def test_published_rows_are_those_of_the_chips_and_no_prices():
    found = trainium_text.published_rows()
    assert {one.hardware[:4] for one in found} == {"trn2"}
    assert not any("usd" in one.metric for one in found)
    assert len(trainium_text.others()) == len(found)


def test_an_ideal_step_by_hand():
    chip = trainium_text.chips()[0]
    shape = trainium_text.ModelShape.from_config(models.config(trainium_text.TARGET))
    read = shape.weight_bytes(2.0, trainium_text.BATCH) + trainium_text.BATCH * shape.kv_bytes(
        trainium_text.CONTEXT, 2.0
    )
    assert trainium_text.step(chip, 0).least_s == pytest.approx(read / 2.9e12 / 8)
    draft = models.load(trainium_text.TARGET).heads[trainium_text.HEAD].weight_bytes
    assert trainium_text.price_of_step(chip, 7) == pytest.approx(
        (trainium_text.step(chip, 7).least_s + 7 * draft / 2.9e12 / 8) / (read / 2.9e12 / 8)
    )


def test_a_step_without_peaks_has_no_price():
    chip = trainium_text.chips()[0]
    unknown = roofline.StepCost(bytes_read=1, flops=1, memory_s=None, compute_s=None)
    assert roofline.speculative_cost(unknown, trainium_text.step(chip, 7), 0.1, 7) is None
    assert (
        roofline.speculative_cost(trainium_text.step(chip, 0), trainium_text.step(chip, 7), None, 7) is None
    )


def test_a_chapter_outside_the_table_of_contents_has_no_page():
    assert set(render.chapters_of("cpu")) == set(render.chapters()) & set(config.chapters(["all"], "cpu"))


def test_the_full_plan_draws_and_claims_what_its_records_say(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    synthetic.write(config.load("06_trainium", "cpu", "full"), world=synthetic.World(verify={1: 1.0, 8: 1.0}))
    said = chapters.run("06_trainium")
    assert "**Not measured yet on a Neuron chip:**" in said
    assert "the speed-up of structured prompts is" in said
    assert '**"TTFT unchanged"**' in said
