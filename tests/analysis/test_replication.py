"""A speed-up in other campaigns: the same arm, load, domain and weights, and nothing else."""

import pytest

from factories import PROVENANCE, eagle3, point, target, write_run
from specbook.analysis import speedup


def campaign(speed, *, day, drafted=None, **more):
    """Three restarts of a baseline at 100 tokens/s and of an arm."""
    fields = {"started_at": f"2026-01-0{day}", "provenance": more.pop("provenance", PROVENANCE)}
    return [
        write_run(point(how, restart=i, **more), pace, run_id=f"{day}-{i}-{pace}", **fields)
        for i in range(3)
        for how, pace in ((None, 100.0), (drafted or eagle3(5), speed))
    ]


def test_a_replication_has_the_same_arm_and_weights(monkeypatch, tmp_path):
    monkeypatch.setenv("SPECBOOK_RESULTS", str(tmp_path))
    shown = campaign(300.0, day=1)
    (best,) = [row for _, row in speedup.best_k(shown).iterrows()]
    others = [
        *campaign(250.0, day=2, num_requests=8),
        *campaign(240.0, day=6, num_requests=9, target=target(dtype="bfloat16")),
        *campaign(200.0, day=3, num_requests=5, domain="chat"),
        *campaign(190.0, day=4, num_requests=6, drafted=eagle3(3)),
        *campaign(
            180.0, day=5, num_requests=7,
            provenance=PROVENANCE.model_copy(update={"weights_sha256": {"target": "1"}}),
        ),
    ]  # fmt: skip
    found = speedup.replicated(best, shown, [*shown, *others])
    assert found["speedup"].tolist() == pytest.approx([2.5, 2.4])
    assert speedup.replicated(best, shown, shown).empty
