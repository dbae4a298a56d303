"""Made-up records of two sides that are compared. Nothing here was measured."""

from factories import IDLE, PROVENANCE, counters, eagle3, point, rows, write_run
from specbook import records
from specbook.analysis import comparison
from specbook.records import selection
from specbook.records.run import Round

STEADY, NOISY = (100.0, 102.0, 98.0), (90.0, 100.0, 112.0)
DAYS = {"A": "2026-01-01", "B": "2026-01-02"}


def side(name, speeds=STEADY, *, shared=False, per_pos=(80, 50, 30), step_s=0.01, busy=0.0, **more):
    """Restarts of EAGLE-3 at these tokens/s, or of no draft where it accepts at no position, written on the
    side's day and read back by it.
    """
    weights = {"target": "0", "draft": more.pop("draft", "0")}
    prompts = {"prompts_sha256": more.pop("prompts", "0")}
    origin = PROVENANCE.model_copy(update={"weights_sha256": weights, **prompts})
    used = IDLE.model_copy(update={"foreign_cpu_cores": busy})
    draft, counted = (eagle3(len(per_pos)), counters(per_pos)) if per_pos else (None, None)
    for restart, speed in enumerate(speeds):
        own = "both" if shared else name
        run = write_run(
            point(draft, restart=restart, **more), speed, requests=rows(4, step_s),
            run_id=f"{name}-{restart}-{speed:g}-{len(more)}", started_at=f"{DAYS[name]}T00:00:00+00:00",
            spec_decode=counted, together=Round(id=f"{own}-{restart}"), provenance=origin,
        )  # fmt: skip
        assert run.measurement
        records.append(run.model_copy(update={
            "measurement": run.measurement.model_copy(update={"utilisation": used})
        }))  # fmt: skip
    return read(name)


def read(name):
    return comparison.read(selection.read(f"date={DAYS[name]}"))


def slower(share, speeds=STEADY):
    """The same restarts, slower by this share, give or take half a percent."""
    jitter = (1.005, 1.0, 0.995)
    return tuple(speed * (1 - share) * own for speed, own in zip(speeds, jitter, strict=True))
