"""Comparisons of answers: where they part, against which control, and the record that keeps it."""

import pytest
from pydantic import ValidationError
from scipy import stats

from factories import HARDWARE, PROVENANCE, eagle3, target
from specbook import lossless, records, tables
from specbook.errors import RecordError
from specbook.lossless_record import LosslessRecord, fullest

ARMS = ("baseline", "speculation", "control")


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ([1, 2, 3], [1, 2, 3], None),
        ([1, 2, 3], [1, 9, 3], 1),
        ([1, 2], [1, 2, 3], 2),
        ([], [], None),
        ("abc", "abd", 2),
    ],
)
def test_first_divergence(a, b, want):
    assert lossless.first_divergence(a, b) == want
    assert lossless.first_divergence(b, a) == want


def test_compare_counts_equal_answers():
    got = lossless.compare([[1, 2], [3], [4]], [[1, 2], [5], [4, 4]])
    assert (got.n, got.equal, got.first_divergence_index) == (3, 1, (None, 0, 1))
    assert got.diverged == (False, True, True)
    assert got.share_equal().value == pytest.approx(1 / 3)


@pytest.mark.parametrize(("a", "b"), [([], []), ([[1]], [])])
def test_compare_needs_the_same_prompts(a, b):
    with pytest.raises(ValueError, match="same prompts"):
        lossless.compare(a, b)


def test_divergences_name_the_prompt_and_both_tokens():
    got = lossless.divergences(["p", "q", "r"], [[1, 2], [3, 4], [5]], [[1, 2], [3, 7], [5, 6]])
    assert [(d.prompt_id, d.index, d.token_a, d.token_b) for d in got] == [("q", 1, 4, 7), ("r", 1, None, 6)]


def test_largest_margin_ignores_what_was_not_computed():
    made = [
        lossless.Divergence(prompt_id="p", index=0, token_a=1, token_b=2, margin_logits=m)
        for m in (-0.4, None, 0.1)
    ]
    assert lossless.largest_margin(made) == pytest.approx(0.4)
    assert lossless.largest_margin([]) is None


def test_paired_test_is_mcnemars():
    speculation, control = [True] * 9 + [False] * 91, [False] * 8 + [True] * 2 + [False] * 90
    got = lossless.against_control(speculation, control)  # discordant: 8 only speculation, 1 only the control
    assert got.p_value == pytest.approx(stats.binomtest(8, 9, 0.5, alternative="greater").pvalue)
    assert (got.test, got.speculation.value, got.control.value) == ("mcnemar-exact", 0.09, 0.02)


def test_unpaired_test_is_fishers():
    got = lossless.against_control([True, False] * 10, [False] * 30, paired=False)
    assert got.p_value == pytest.approx(stats.fisher_exact([[10, 10], [0, 30]], alternative="greater").pvalue)


def test_fewer_divergences_than_the_control_is_no_evidence_of_harm():
    assert lossless.against_control([False] * 98 + [True] * 2, [True] * 22 + [False] * 78).p_value > 0.99
    assert lossless.against_control([False] * 5, [False] * 5).p_value == 1.0


@pytest.mark.parametrize(("speculation", "control"), [([], []), ([True], [True, False])])
def test_a_paired_test_needs_pairs(speculation, control):
    with pytest.raises(ValueError, match="need prompts"):
        lossless.against_control(speculation, control)


def test_accuracy_per_domain():
    rows = [
        {"domain": "math", "want": "1"},
        {"domain": "math", "want": "2"},
        {"domain": "json", "want": "{}"},
    ]
    got = lossless.accuracy(rows, ["1", "3", "{}"], lambda row, text: row["want"] == text)
    assert {name: (e.value, e.n) for name, e in got.items()} == {"math": (0.5, 2), "json": (1.0, 1)}
    with pytest.raises(ValueError, match="zip"):
        lossless.accuracy(rows, ["1"], lambda row, text: True)


def made(**changes) -> LosslessRecord:
    base, fast, control = [[1, 2], [3, 4]], [[1, 2], [3, 5]], [[1, 2], [3, 4]]
    body = {
        "schema_version": 1, "run_id": "made-up", "kind": "measured",
        "started_at": "2026-01-01T00:00:00+00:00", "hardware": HARDWARE,
        "provenance": dict.fromkeys(ARMS, PROVENANCE), "target": target(), "speculation": eagle3(),
        "control_execution": "eager", "max_tokens": 2, "concurrency": 1, "prompt_ids": ("p", "q"),
        "equality": lossless.compare(base, fast), "control": lossless.compare(base, control),
        "divergences": tuple(lossless.divergences(["p", "q"], base, fast)), "control_divergences": (),
        "accuracy": {"baseline": lossless.accuracy([{"domain": "json"}], ["x"], lambda row, text: True)},
    }  # fmt: skip
    return LosslessRecord(**{**body, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"divergences": ()}, "contradict"),
        ({"prompt_ids": ("p",)}, "contradict"),
        ({"control_execution": "compiled"}, "controls nothing"),
        ({"provenance": {"baseline": PROVENANCE}}, "one per arm"),
        ({"kind": "published"}, "measured"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        made(**changes)


def test_the_check_of_most_prompts_stands_for_a_precision_and_among_equals_the_newest():
    one = {
        "prompt_ids": ("p",), "equality": lossless.compare([[1]], [[1]]), "divergences": (),
        "control": lossless.compare([[1]], [[1]]),
    }  # fmt: skip
    exact = target(dtype="float32")
    small, old, new, other = made(run_id="1", **one), made(run_id="2"), made(run_id="3"), made(target=exact)
    eager = {"target": target(execution="eager"), "control_execution": "compiled"}
    assert fullest([small, old, new, other, made(run_id="4", **one, **eager)]) == [new, other]
    assert len(tables.lossless([old, new])) == 1


def test_a_check_of_older_weights_does_not_stand_for_a_model_trained_again():
    again = PROVENANCE.model_copy(update={"weights_sha256": {"target": "trained again"}})
    small = {
        "prompt_ids": ("p",), "equality": lossless.compare([[1]], [[1]]), "divergences": (),
        "control": lossless.compare([[1]], [[1]]), "provenance": dict.fromkeys(ARMS, again),
    }  # fmt: skip
    assert fullest([made(), made(**small)]) == [made(**small)]


def test_the_record_lives_beside_the_runs_and_is_told_apart(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    path = records.append(made())
    assert path == tmp_path / HARDWARE.id / "lossless" / "made-up.json"
    assert records.read(path) == made()
    assert records.load() == []
    assert records.load_lossless() == [made()]
    assert list(records.validate_all()) == [(path, None)]
    assert records.load_lossless()[0].comparison().p_value == 0.5
    with pytest.raises(RecordError, match="append-only"):
        records.append(made())
