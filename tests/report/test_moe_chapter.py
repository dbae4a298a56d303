"""The chapter on mixtures of experts: what it draws and claims follows its records, or it claims nothing."""

import re

import pytest

import chapters
import mixtures
import synthetic
from pocket import catalogue
from specbook import config
from specbook.analysis import moe_tables as analysis
from specbook.bench import experiments
from specbook.report.figures import acceptance_figures as draw
from specbook.stats.estimate import Estimate


@pytest.fixture
def full(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    return config.load("05_moe", "cpu", "full")


def test_the_full_plan_draws_and_claims_what_its_records_say(full):
    usual = synthetic.World(most_requests=12)
    quick_to_verify = synthetic.World(verify={1: 0.9, 8: 0.9, 32: 0.9}, most_requests=12)
    for sweep, world in zip(full.parts(), (usual, quick_to_verify), strict=True):
        synthetic.write(sweep, world=world)
    mixtures.write(full, harm=0.1)
    mixtures.write(config.load("appendix_mixture_step", "cpu", "full"))
    said = chapters.run("05_moe")
    assert "8 experts, 2 of them for each token" in said
    assert "spread of the router's logits over the experts of a layer: 1.50" in said
    assert re.search(r"batch 32 json +mixture +P-EAGLE K=8", said)
    assert re.search(r"pocket-moe, P-EAGLE K=8 +no thread kept back +1\.00×", said)
    assert re.search(r"target's pass +4\.0 +8\.0", said)
    assert not re.search(r"[Nn]ot measured yet:|\bnan\b|Empty DataFrame", said)


@pytest.fixture
def quick(full):
    return config.load("05_moe", "cpu", "quick")


def test_what_was_not_measured_is_named(quick):
    synthetic.write(quick)
    undisturbed = [one for one in quick.experiments if one.parameters.get("router_noise") == 0.0]
    mixtures.write(quick.model_copy(update={"experiments": tuple(undisturbed)}))
    said = chapters.run("05_moe", group="quick")
    assert "**Not measured yet:** the dense target, experts touched and noise in the router." in said
    assert "nothing measured" in said
    assert "Takeaway" not in said
    assert "With the same arms" not in said


def test_noise_that_harms_takes_acceptance_where_answers_pass(full):
    mixtures.write(full, harm=0.1)
    _, disturbed = analysis.results(experiments.replay(full, partial=True))
    moved = analysis.moved_by_noise(analysis.noise(disturbed))
    assert moved["acceptance_fell"].all()
    assert not moved["experts_rose"].any()


def test_noise_that_adds_experts_leaves_acceptance(full):
    mixtures.write(full, harm=0.0, more_experts=1.0)
    _, disturbed = analysis.results(experiments.replay(full, partial=True))
    moved = analysis.moved_by_noise(analysis.noise(disturbed))
    assert moved["experts_rose"].all()
    assert not moved["acceptance_fell"].any()


def test_answers_that_fail_or_loop_say_nothing_of_noise(full):
    mixtures.write(full, harm=0.0)
    _, disturbed = analysis.results(experiments.replay(full, partial=True))
    table = analysis.noise(disturbed)
    assert len(analysis.moved_by_noise(table)) == 30
    table.loc[table["router_noise"] == 4.0, "passed_high"] = 0.0
    assert len(analysis.moved_by_noise(table)) == 24
    table.loc[table["router_noise"] == 2.0, "looped"] = 0.6
    assert len(analysis.moved_by_noise(table)) == 18


def test_the_plans_experiments_have_fitting_parameters(full):
    for group in ("quick", "full"):
        experiments.check(config.load("05_moe", "cpu", group))
    strengths = {(p["router_noise"], p.get("head_noise")) for e in full.experiments
                 if "router_noise" in (p := e.parameters)}  # fmt: skip
    noise = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
    assert strengths == {*((s, None) for s in noise), *((s, s) for s in noise)}
    heads = {e.parameters["speculation"]["model"] for e in full.experiments if "router_noise" in e.parameters}
    assert heads == {"models/pocket-moe-eagle3", *map(catalogue.noise_head, catalogue.NOISE)}


def test_the_dense_target_has_the_same_traffic(full):
    of_mixture, of_dense = full.parts()
    asked = {(str(p.arm), p.load, p.traffic) for p in of_mixture.points()}
    assert {(str(p.arm), p.load, p.traffic) for p in of_dense.points()} < asked
    assert max(len(sweep.arms()) for sweep in full.parts()) <= 7  # of two cores' 24 GB, up together


def test_cells_without_intervals_or_experts_claim_nothing(quick):
    mixtures.write(quick)
    _, disturbed = analysis.results(experiments.replay(quick, partial=True))
    one = Estimate(value=3.0, low=None, high=None, n=1, unit_of_n="prompts", method="none")
    bare = [
        found.model_copy(
            update={"domains": tuple(d.model_copy(update={"experts": experts}) for d in found.domains)}
        )
        for found, experts in zip(disturbed, (one, None), strict=True)
    ]
    table = analysis.noise(bare)
    assert analysis.moved_by_noise(table).empty
    assert draw.router_noise(table)
