"""Means of speeds over restarts, and how busy the machine was."""

import numpy as np
import pandas as pd
import pytest

from specbook.analysis import steps, summaries

SPEEDS = pd.DataFrame(
    [
        ("json", arm, batch, execution, float(speed), f"run-{i}")
        for i, (arm, batch, execution, speed) in enumerate(
            [("a", 1, "eager", 100), ("a", 1, "eager", 400), ("b", 1, "compiled", 300),
             ("a", 8, "eager", 800), ("b", np.nan, "compiled", 5)]
        )
    ],
    columns=["domain", "arm", "concurrency", "execution", "output_tokens_per_s", "run_id"],
)  # fmt: skip


def test_restarts_are_averaged_geometrically_without_poisson():
    means = summaries.over_restarts(SPEEDS).set_index(["arm", "concurrency"])
    assert means["value"].to_dict() == pytest.approx({("a", 1): 200, ("a", 8): 800, ("b", 1): 300})
    assert means.loc[("a", 1), "records"] == ("run-0", "run-1")


@pytest.mark.parametrize(("gpu", "engine"), [(None, 50.0), (0.9, 90.0)], ids=["processor", "gpu"])
def test_busy_is_of_all_cores_or_of_the_gpus_time(gpu, engine):
    row = {"arm": "a", "concurrency": 8, "cores": 4, "engine_cpu_cores": 2.0, "client_cpu_cores": 1.0}
    busy = steps.busy(pd.DataFrame([row | {"gpu_utilisation": gpu}]))
    assert busy[["engine", "client"]].iloc[0].tolist() == [engine, 25.0]
