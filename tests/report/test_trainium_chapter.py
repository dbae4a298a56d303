"""The Trainium chapter: ideal steps by hand, no claim without records."""

import re

import pytest

import chapters
import synthetic
from specbook import config
from specbook.config import models
from specbook.report import neuron_chips, render
from specbook.stats import roofline
from specbook.stats.shape import ModelShape


def test_an_ideal_step_by_hand():
    chip = neuron_chips.chips()[0]
    shape = ModelShape.from_config(models.config(neuron_chips.TARGET))
    read = shape.weight_bytes(2.0, neuron_chips.BATCH) + neuron_chips.BATCH * shape.kv_bytes(
        neuron_chips.CONTEXT, 2.0
    )
    assert neuron_chips.step(chip, 0).least_s == pytest.approx(read / 2.9e12 / 8)
    draft = models.load(neuron_chips.TARGET).heads[neuron_chips.HEAD].weight_bytes
    assert neuron_chips.price_of_step(chip, 7) == pytest.approx(
        (neuron_chips.step(chip, 7).least_s + 7 * draft / 2.9e12 / 8) / (read / 2.9e12 / 8)
    )


def test_a_step_without_peaks_has_no_price():
    chip = neuron_chips.chips()[0]
    unknown = roofline.StepCost(bytes_read=1, flops=1, memory_s=None, compute_s=None)
    assert roofline.speculative_cost(unknown, neuron_chips.step(chip, 7), 0.1, 7) is None
    assert roofline.speculative_cost(neuron_chips.step(chip, 0), neuron_chips.step(chip, 7), None, 7) is None


def test_a_chapter_outside_the_table_of_contents_has_no_page():
    assert set(render.chapters_of("cpu")) == set(render.chapters()) & set(config.chapters(["all"], "cpu"))


def test_the_full_plan_draws_and_claims_what_its_records_say(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    synthetic.write(config.load("06_trainium", "cpu", "full"), world=synthetic.World(verify={1: 1.0, 8: 1.0}))
    said = chapters.run("06_trainium")
    assert "**Not measured yet on a Neuron chip:**" in said
    assert "structured over open-ended" in said
    assert "verdict" in said
    assert re.search(
        r"first token by [+-]\d+( to [+-]\d+)? ms, shown to be more than 5 % in \d of 4 cases\.", said
    )
