"""The chapter on mixtures of experts: what it draws and claims follows its records, or it claims nothing."""

import re

import pytest

import chapters
import mixtures
import synthetic
from pocket import catalogue
from specbook import config, records
from specbook.analysis import moe_tables as analysis
from specbook.bench import experiments
from specbook.report.figures import acceptance_figures as draw
from specbook.report.text import draft_text, moe_text
from specbook.stats.estimate import Estimate


@pytest.fixture
def full(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    return config.load("05_moe", "cpu", "full")


def test_another_machines_fastest_arm_has_its_own_numbers(full, monkeypatch):
    synthetic.write(full.parts()[0])
    page = records.replay(full.parts()[0])
    assert "Not measured on another machine yet" in moe_text.again(
        page, records.of_chapter(moe_text.AGAIN, "cpu")
    )
    monkeypatch.setattr(synthetic, "HARDWARE", synthetic.HARDWARE.model_copy(update={"id": "cpu-other-4c"}))
    synthetic.write(config.load(moe_text.AGAIN, "cpu", "full").parts()[0])
    found = records.of_chapter(moe_text.AGAIN, "cpu")
    assert {run.hardware.id for run in found} == {"cpu-other-4c"}  # it has the two restarts more
    told = moe_text.again(page, found)
    assert re.search(
        r"At batch 1 P-EAGLE K=8 brings \d\.\d\d× \[.*n=\d restarts × \d+ prompts on json, over \d+ tokens/s",
        told,
    )
    assert "The same as without speculation: " in told
    assert not records.of_chapter(moe_text.AGAIN, "h100")


def test_the_full_plan_draws_and_claims_what_its_records_say(full):
    quick_to_verify = synthetic.World(verify={1: 0.9, 8: 0.9, 32: 0.9})
    for sweep, world in zip(full.parts(), (synthetic.USUAL, quick_to_verify), strict=True):
        synthetic.write(sweep, world=world)
    mixtures.write(full, harm=0.1)
    mixtures.write(config.load(draft_text.MIXTURE_STEP, "cpu", "full"))
    said = chapters.run("05_moe")
    assert "8 experts, 2 of them for each token" in said
    assert "spread of the router's logits over the experts of a layer: 1.50" in said
    assert "lower from 0.25 on" in said
    assert "the claim that the draft loses its target, not that more is read" in said
    assert re.search(r"It loses on the mixture and wins on the dense target on .* at batch 32", said)
    assert "The target itself gets worse, or loops: json" in said
    assert re.search(
        r"mixture decodes, in tokens/s of the dense target's, (0\.9|1\.0)\d to 1\.\d\d times at", said
    )
    assert "**pocket-moe, P-EAGLE K=8**: 10.0 ms, 2.00 times as long" in said
    assert "*no thread kept back* changes nothing beyond its interval for pocket-moe, baseline" in said
    assert not re.search(r"not measured yet|\bnan\b|Empty DataFrame", said)


@pytest.fixture
def quick(full):
    return config.load("05_moe", "cpu", "quick")


def test_more_experts_and_no_harm_support_the_other_claim(quick):
    synthetic.write(quick)
    mixtures.write(quick, harm=0.0, more_experts=0.5)
    said = chapters.run("05_moe", group="quick")
    assert "this supports the claim that more experts are read" in said
    assert "not lower beyond its interval at any strength" in said
    assert "At no strength do fewer answers pass" in said
    assert moe_text.NO_DENSE in said


def test_without_experiments_the_page_claims_nothing(quick):
    synthetic.write(quick)
    said = chapters.run("05_moe", group="quick")
    for words in (
        moe_text.NOT_COUNTED,
        moe_text.NO_NOISE,
        moe_text.NO_PRICE,
        moe_text.NO_DENSE,
        "nothing measured",
        f"specbook run {draft_text.MIXTURE_STEP}",
    ):
        assert words in said
    assert "supports" not in said


def test_one_strength_of_one_reading_is_enough(full):
    few = tuple(one for one in full.experiments if one.parameters.get("head_noise", 0) == 2.0)
    quiet = tuple(one for one in full.experiments if one.parameters.get("router_noise") == 0.0)
    some = full.model_copy(update={"experiments": (*quiet, *few)})
    mixtures.write(some)
    _, disturbed = moe_text.results(experiments.replay(some, partial=True))
    said = moe_text.noise(analysis.noise(disturbed))
    assert "head trained on with that noise.** json: lower from 2 on" in said
    assert "without noise.**" not in said


def test_parts_in_few_cells_or_of_loops_are_not_claimed(full):
    mixtures.write(full, harm=0.0)
    _, disturbed = moe_text.results(experiments.replay(full, partial=True))
    table = analysis.noise(disturbed)
    one = table.index[table["router_noise"] == 1.0][0]
    table.loc[one, "length_high"] = 1.0
    assert "falls beyond its interval in 1 of 30 cells" in moe_text.noise(table)
    assert "neither explanation shows" in moe_text.noise(table)
    table.loc[table["router_noise"] == 4.0, ["length_high", "passed_high"]] = 0.0
    said = moe_text.noise(table)
    assert "falls beyond its interval in 1 of 24 cells" in said
    assert "neither explanation shows" in said


def test_a_router_that_was_never_disturbed_claims_nothing(full):
    quiet = [one for one in full.experiments if one.parameters.get("router_noise") == 0.0]
    mixtures.write(full.model_copy(update={"experiments": tuple(quiet)}))
    _, disturbed = moe_text.results(experiments.replay(full, partial=True))
    assert moe_text.noise(analysis.noise(disturbed)) == moe_text.NO_NOISE


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
    _, disturbed = moe_text.results(experiments.replay(quick, partial=True))
    one = Estimate(value=3.0, low=None, high=None, n=1, unit_of_n="prompts", method="none")
    bare = [
        found.model_copy(
            update={"domains": tuple(d.model_copy(update={"experts": experts}) for d in found.domains)}
        )
        for found, experts in zip(disturbed, (one, None), strict=True)
    ]
    table = analysis.noise(bare)
    assert "Nothing yet: no cell has both intervals" in moe_text.noise(table)
    assert draw.router_noise(table)
    assert set(moe_text.strengths(table)["experts touched"]) == {"3.00 (no interval)", ""}
