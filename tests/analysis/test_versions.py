"""A draft one version behind: whose runs are whose, and what is held against what."""

import pandas as pd
import pytest

import drifting
import factories
from specbook import config as plans
from specbook.analysis import drift, versions
from specbook.analysis.versions import BEFORE, BEHIND, RETRAINED, VERSIONS
from specbook.config import Chapter, Plan
from specbook.config.chapter import Experiment
from specbook.config.plan import PlannedDraft
from specbook.report.text import answers_text

OLD, NEW = factories.target(), factories.target(name="next", model="build/next")
PER_POS = {BEFORE: (90, 80), BEHIND: (60, 30), RETRAINED: (80, 70)}
DOMAINS = ("json", "chat")


def sweep(target, *heads, domains=DOMAINS) -> Plan:
    drafts = tuple(PlannedDraft(method="eagle3", model=head) for head in heads)
    return Plan(
        chapter="test", hardware="cpu", group="full", target=target, baselines=("compiled",), drafts=drafts,
        num_speculative_tokens=(2,), domains=domains, concurrency=(1,), num_requests={1: 4}, max_tokens=128,
        restarts=3,
    )  # fmt: skip


def experiment(target) -> Experiment:
    return Experiment(name="drift", parameters={"target": target.model_dump(mode="json")})


@pytest.fixture
def plan():
    sweeps = (sweep(OLD, "models/eagle3", "models/other"), sweep(NEW, "models/eagle3", "models/again"))
    asked = (experiment(OLD), experiment(NEW))
    return Chapter(chapter="test", hardware="cpu", group="full", sweeps=sweeps, experiments=asked)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Baselines of both targets, three heads of three versions, and one that is none of them."""
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    heads = {
        BEFORE: (OLD, "models/eagle3", 200.0), BEHIND: (NEW, "models/eagle3", 120.0),
        RETRAINED: (NEW, "models/again", 180.0), "other": (OLD, "models/other", 500.0),
    }  # fmt: skip
    found = []
    for restart in range(3):
        for domain in DOMAINS:
            where = {"domain": domain, "restart": restart}
            found += [factories.write_run(factories.point(target=t, **where), 100.0) for t in (OLD, NEW)]
            for name, (target, head, speed) in heads.items():
                point = factories.point(factories.eagle3(2, model=head), target=target, **where)
                counters = factories.counters(PER_POS.get(name, (10, 5)))
                found.append(factories.write_run(point, speed, spec_decode=counters))
    return found


def test_each_version_has_its_head_and_its_baseline(plan, runs):
    found = versions.split(plan, runs)
    assert {name: len(part) for name, part in found.items()} == dict.fromkeys(VERSIONS, 3 * 2 * 2)
    for name, target in ((BEFORE, "models/pocket"), (BEHIND, "build/next"), (RETRAINED, "build/next")):
        assert {run.point.target.model for run in found[name]} == {target}
    heads = {run.point.speculation.model for run in found[RETRAINED] if run.point.speculation}
    assert heads == {"models/again"}


def test_lengths_and_gains_stand_side_by_side(plan, runs):
    found = versions.split(plan, runs)
    lengths, gains = versions.lengths(found), versions.gains(found)
    by_version = lengths[lengths["domain"] == "json"].set_index("version")["length"]
    assert by_version.to_dict() == pytest.approx({BEFORE: 2.7, BEHIND: 1.9, RETRAINED: 2.5})
    faster = gains[gains["domain"] == "chat"].set_index("version")["speedup"]
    assert faster.to_dict() == pytest.approx({BEFORE: 2.0, BEHIND: 1.2, RETRAINED: 1.8})
    said = answers_text.outdated(gains[(gains["domain"] == "json") | (gains["version"] != BEHIND)])
    assert "worst on json at batch 1: with it a server had 1.20× [" in said
    assert "and 1.80× [" in said


def test_a_k_of_the_old_version_alone_is_not_compared(plan, runs):
    deeper = [
        factories.write_run(
            factories.point(factories.eagle3(8, model="models/eagle3"), target=OLD, restart=restart), 300.0,
            spec_decode=factories.counters((90, 80, 70)),
        )
        for restart in range(3)
    ]  # fmt: skip
    found = versions.split(plan, [*runs, *deeper])
    lengths, gains = versions.lengths(found), versions.gains(found)
    assert set(lengths["num_speculative_tokens"]) == set(gains["num_speculative_tokens"]) == {2}
    assert len(lengths) == len(VERSIONS) * len(DOMAINS)


def test_only_domains_of_all_versions_are_compared(plan, runs):
    fewer = [r for r in runs if not (r.point.target == NEW and r.point.traffic.domain == "chat")]
    assert set(versions.lengths(versions.split(plan, fewer))["domain"]) == {"json"}
    lacking = [r for r in runs if not (r.point.speculation and r.point.speculation.model == "models/again")]
    found = versions.split(plan, lacking)
    assert versions.lengths(found).empty
    assert versions.gains(found).empty


def test_the_parts_of_a_plan_are_told_apart_by_their_targets(plan):
    mine, later = versions.parts(plan)
    assert [part.sweeps[0].target.name for part in (mine, later)] == ["pocket", "next"]
    assert [len(part.experiments) for part in (mine, later)] == [1, 1]
    assert {point.target.model for point in mine.points()} == {"models/pocket"}


def test_the_shipped_plan_has_all_three_versions():
    plan = plans.load("04_domain_drift", "cpu", "full")
    mine, later = versions.parts(plan)
    old, new = mine.sweeps[0], later.sweeps[0]
    assert set(new.domains) <= set(old.domains)
    assert new.num_requests.items() <= old.num_requests.items()
    assert set(new.concurrency) <= set(old.concurrency)
    assert {one.num_speculative_tokens for one in new.speculations()} <= {
        one.num_speculative_tokens for one in old.speculations() if "eagle3" in one.model
    }
    assert len({draft.model for draft in old.drafts} & {draft.model for draft in new.drafts}) == 1


# the roll-out in the counters


def test_a_rollout_drifts_from_its_first_reading():
    before, after = drifting.quiet(1).episodes[0], drifting.behind(1).episodes[0]
    warm = after.readings.model_copy(
        update={"num_drafts": tuple(n + 10**6 for n in after.readings.num_drafts)}
    )
    made = drift.rolled_out(before, after.model_copy(update={"readings": warm}))
    assert made.growth.intervals == 120 + 60
    assert (made.growth.drafts == drifting.DRAFTS).all()
    late = made.growth.between(made.drift_s, 1e9)
    assert late.intervals == 60
    assert 1 + late.accepted.sum() / late.drafts.sum() == pytest.approx(2.2, abs=0.1)


def test_monitors_fire_only_on_a_version_that_accepts_less():
    found = drift.Recordings.of([(False, drifting.quiet(3)), (False, drifting.abrupt(8))])
    compared = drift.compare(found, replays=5, days=0.02)
    fallen = drift.rollouts(found, drifting.behind(2).episodes, compared)
    assert (fallen["fired"] == 2).all()
    assert (fallen["rollouts"] == 2).all()
    assert (fallen["delay_s"] < 60).all()
    high = compared.assign(threshold=1e6)
    silent = drift.rollouts(found, drifting.behind(2).episodes, high)
    assert (silent["fired"] == 0).all()
    assert silent["delay_s"].isna().all()
    assert drift.rollouts(found, [], compared).empty


def test_without_an_abrupt_drift_there_is_no_threshold():
    found = drift.Recordings.of([(False, drifting.quiet(3))])
    nothing = pd.DataFrame(columns=list(drift.COMPARED))
    assert drift.rollouts(found, drifting.behind(1).episodes, nothing).empty
