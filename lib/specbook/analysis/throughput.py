"""Speeds of one server's arms over restarts, and how busy its processor was: tables -> means."""

import pandas as pd

from specbook.stats import ratios

MEANS = ("domain", "arm", "concurrency", "value", "low", "high", "estimate", "records")


def over_restarts(speeds: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean of output tokens/s over restarts, with its interval: a row per domain, arm and batch.

    Made from `summaries.throughput`. Columns: MEANS; records are the ids behind it. Poisson arrivals have no
    batch, and no row.
    """
    rows = []
    for key, own in speeds.groupby(["domain", "arm", "concurrency"]):
        mean = ratios.geometric_mean_ci(own["output_tokens_per_s"])
        rows.append((*key, mean.value, mean.low, mean.high, mean, tuple(own["run_id"])))
    return pd.DataFrame(rows, columns=list(MEANS))


def busy(utilisation: pd.DataFrame) -> pd.DataFrame:
    """Mean busy percent of the processor (or the GPU) by arm and batch, from `steps.utilisation`.

    Columns: arm, concurrency, `engine`, of all cores, or of the GPU's time where that was read; `client`, the
    load generator, of all cores.
    """
    gpu, cores = utilisation["gpu_utilisation"].notna().any(), utilisation["cores"]
    engine = utilisation["gpu_utilisation"] if gpu else utilisation["engine_cpu_cores"] / cores
    client = 100 * utilisation["client_cpu_cores"].astype(float) / cores
    shares = utilisation.assign(engine=100 * engine.astype(float), client=client)
    return shares.groupby(["arm", "concurrency"])[["engine", "client"]].mean().reset_index()
