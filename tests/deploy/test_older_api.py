"""What an older API server calls by another name."""

import pytest

from specbook.deploy.manifests import FIELDS, find, overlay, pod_templates, render, served, translated

GPU = render(overlay("gpu"))


@pytest.mark.parametrize(("minor", "want"), [(20, "autoscaling/v2beta2"), (23, "autoscaling/v2")])
def test_autoscaler_is_renamed_below_1_23(minor, want):
    assert served("autoscaling/v2", "HorizontalPodAutoscaler", minor) == want


def test_current_servers_take_manifests_unchanged():
    assert translated(GPU, 34) == (GPU, [])


def test_each_word_for_1_20_is_listed_once():
    changed, notes = translated(GPU, 20)
    assert len(notes) == len(set(notes)) == 4
    text = str(changed)
    assert "unhealthyPodEvictionPolicy" not in text
    assert "'sleep': {" not in text
    assert "['sleep', '20']" in text


def test_given_manifests_stay_as_they_are():
    before = str(GPU)
    translated(GPU, 20)
    assert str(GPU) == before


def test_an_indexed_job_is_one_job_for_each_index(with_component):
    indexed = with_component("campaign")
    changed, notes = translated(indexed, 20)
    jobs = find(changed, "Job")
    indices = [pod.spec["containers"][0]["env"][-1] for pod in pod_templates(jobs) if "campaign" in pod.name]
    assert indices == [{"name": "JOB_COMPLETION_INDEX", "value": value} for value in "01"]
    assert not [job for job in jobs if {field for _, field in FIELDS} & set(job["spec"])]
    assert "Job specbook-campaign: one Job for each index" in notes
    assert translated(indexed, 34) == (indexed, [])
