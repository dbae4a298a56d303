"""The cluster that a chapter's experiments run on, as a parameter."""

from specbook.config.chapter import Chapter
from specbook.config.plan_files import build, settable

BODY = {"full": {"experiments": [{"name": "cluster"}]}}


def test_context_is_a_parameter_of_a_chapter():
    plan = build("07_hpa", BODY, hardware="cpu", group="full", overrides={"context": "kind-kind"})
    assert plan.context == "kind-kind"
    assert "context" in settable(Chapter)


def test_context_changes_no_experiment_key():
    keys = {
        build("07_hpa", BODY, hardware="cpu", group="full", overrides=given).experiments[0].key
        for given in ({}, {"context": "kind-kind"})
    }
    assert len(keys) == 1
