"""Comparisons of answers: where they part, against which control, and the record that keeps it."""

import pytest
from pydantic import ValidationError
from scipy import stats

from factories import HARDWARE, PROVENANCE, eagle3, point, target, write_run
from specbook import records
from specbook.errors import RecordError
from specbook.records.lossless import LosslessRecord, MarginsRecord, beside, fullest
from specbook.report import tables
from specbook.stats import equality as lossless
from specbook.stats import wilson

ARMS = ("baseline", "speculation", "control")
FORK = lossless.Divergence(prompt_id="q", index=1, token_a=4, token_b=5)


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


def test_the_share_over_prompts_is_wilsons():
    got, want = lossless.share_over_prompts([1] * 9 + [0]), wilson(9, 10)
    assert (got.value, got.n) == (want.value, want.n)
    assert (got.low, got.high) == (pytest.approx(want.low), pytest.approx(want.high))
    every = lossless.share_over_prompts([1.0] * 10)
    assert (every.value, every.high) == (1.0, 1.0)


@pytest.mark.parametrize("shares", [[], [1.2], [-0.1], [float("nan")]])
def test_shares_lie_between_none_and_all(shares):
    with pytest.raises(ValueError, match="shares"):
        lossless.share_over_prompts(shares)


@pytest.mark.parametrize(("a", "b"), [([], []), ([[1]], [])])
def test_compare_needs_the_same_prompts(a, b):
    with pytest.raises(ValueError, match="same prompts"):
        lossless.compare(a, b)


def test_divergences_name_the_prompt_and_both_tokens():
    got = lossless.divergences(["p", "q", "r"], [[1, 2], [3, 4], [5]], [[1, 2], [3, 7], [5, 6]])
    assert [(d.prompt_id, d.index, d.token_a, d.token_b) for d in got] == [("q", 1, 4, 7), ("r", 1, None, 6)]


def test_the_test_of_excess_is_mcnemars():
    speculation, control = [True] * 9 + [False] * 91, [False] * 8 + [True] * 2 + [False] * 90
    got = lossless.excess_p_value(speculation, control)  # discordant: 8 only speculation, 1 only the control
    assert got == pytest.approx(stats.binomtest(8, 9, 0.5, alternative="greater").pvalue)


def test_fewer_divergences_than_the_control_is_no_harm():
    assert lossless.excess_p_value([False] * 98 + [True] * 2, [True] * 22 + [False] * 78) > 0.99
    assert lossless.excess_p_value([False] * 5, [False] * 5) == 1.0


@pytest.mark.parametrize(("speculation", "control"), [([], []), ([True], [True, False])])
def test_the_test_of_excess_needs_pairs(speculation, control):
    with pytest.raises(ValueError, match="need the same prompts"):
        lossless.excess_p_value(speculation, control)


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
        "accuracy": dict.fromkeys(ARMS, lossless.accuracy([{"domain": "json"}], ["x"], lambda *row: True)),
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
        ({"repeat": lossless.compare([[1], [2]], [[1], [2]])}, "one per arm"),
        ({"repeat_divergences": (FORK,)}, "contradict"),
        ({"repeat": lossless.compare([[1], [2]], [[1], [3]])}, "contradict"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        made(**changes)


def test_the_fullest_then_newest_check_stands():
    one = {
        "prompt_ids": ("p",), "equality": lossless.compare([[1]], [[1]]), "divergences": (),
        "control": lossless.compare([[1]], [[1]]),
    }  # fmt: skip
    exact = target(dtype="float32")
    small, old, new, other = made(run_id="1", **one), made(run_id="2"), made(run_id="3"), made(target=exact)
    eager = {"target": target(execution="eager"), "control_execution": "compiled"}
    assert fullest([small, old, new, other, made(run_id="4", **one, **eager)]) == [new, other]
    assert [len(table) for table in tables.same([old, new])] == [2]


def test_a_check_of_older_weights_does_not_stand():
    again = PROVENANCE.model_copy(update={"weights_sha256": {"target": "trained again"}})
    small = {
        "prompt_ids": ("p",), "equality": lossless.compare([[1]], [[1]]), "divergences": (),
        "control": lossless.compare([[1]], [[1]]), "provenance": dict.fromkeys(ARMS, again),
    }  # fmt: skip
    assert fullest([made(), made(**small)]) == [made(**small)]


def test_the_record_lives_beside_the_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    path = records.append(made())
    assert path == tmp_path / HARDWARE.id / "lossless" / "made-up.json"
    assert records.read(path) == made()
    assert records.load() == []
    assert records.load_lossless() == [made()]
    assert list(records.validate_all()) == [(path, None)]
    assert records.load_lossless()[0].p_value() == 0.5
    with pytest.raises(RecordError, match="append-only"):
        records.append(made())


def test_margins_are_read_with_their_check(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    records.append(made())
    margins = MarginsRecord(
        schema_version=1, run_id="made-up-margins", kind="measured", check="made-up", hardware=HARDWARE,
        margins_logits={"speculation": {"q": 0.125}},
    )  # fmt: skip
    path = records.append(margins)
    assert records.read(path) == margins
    assert [problem for _, problem in records.validate_all()] == [None, None]
    (check,) = records.load_lossless()
    assert [fork.margin_logits for fork in check.divergences] == [0.125]
    assert records.load() == []
    (table,) = tables.same([check])
    assert list(table["largest margin"]) == ["0.125", "-"]


def test_a_margin_that_was_not_rated_is_said():
    (table,) = tables.same([made()])
    assert list(table["largest margin"]) == ["- (0 of 1 rated)", "-"]


def test_a_check_stands_beside_runs_of_its_kind_only(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    weights = {"target": "t", "draft": "d"}
    origin = PROVENANCE.model_copy(update={"weights_sha256": weights})
    runs = [write_run(point(), 100.0), write_run(point(eagle3()), 100.0, provenance=origin)]
    same = made(run_id="same", provenance=dict.fromkeys(ARMS, origin))
    other_draft = PROVENANCE.model_copy(update={"weights_sha256": weights | {"draft": "trained again"}})
    upgraded = origin.model_copy(update={"versions": {"vllm": "99"}})
    own_traffic = origin.model_copy(update={"prompts_sha256": "mine"})
    others = [
        made(provenance=dict.fromkeys(ARMS, other_draft)), made(),
        made(provenance=dict.fromkeys(ARMS, upgraded)), made(provenance=dict.fromkeys(ARMS, own_traffic)),
        same.model_copy(update={"kind": "simulated"}),
    ]  # fmt: skip
    assert beside([*others, same], runs) == [same]
    assert beside(others, runs) == []


def test_a_check_of_another_machine_counts_and_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    origin = PROVENANCE.model_copy(update={"weights_sha256": {"target": "t", "draft": "d"}})
    runs = [write_run(point(eagle3()), 100.0, provenance=origin)]
    elsewhere = HARDWARE.model_copy(update={"id": "cpu-other-2c"})
    check = made(provenance=dict.fromkeys(ARMS, origin)).model_copy(update={"hardware": elsewhere})
    assert beside([check], runs) == [check]
    (table,) = tables.same([check])
    assert list(table["machine"]) == ["cpu-other-2c", ""]


def test_without_a_check_there_is_no_table():
    assert (tables.same([]), tables.right([])) == ([], [])


def test_the_table_has_both_controls():
    again = lossless.compare([[1, 2], [3, 4]], [[1, 2], [3, 4]])
    check = made(repeat=again, provenance=dict.fromkeys((*ARMS, "repeat"), PROVENANCE))
    (table,) = tables.same([check])
    assert list(table["the same"]) == ["1 of 2", "2 of 2", "2 of 2"]
    assert list(table["p"]) == ["0.5", "", ""]
    (accuracy,) = tables.right([check])
    assert list(accuracy["with speculation"]) == ["1.00 [0.21, 1.00], n=1 prompt"]
    (table,) = tables.same([made()])
    assert list(table.index.get_level_values("arm")) == ["EAGLE-3 K=5", "control: other mode"]
