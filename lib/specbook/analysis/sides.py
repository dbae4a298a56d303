"""A side of a comparison: the closed loops of one selection of records, with all that is compared of them."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from specbook import paths
from specbook.analysis import acceptance, summaries
from specbook.config.schema import digest
from specbook.errors import ConfigError
from specbook.records.run import RunRecord
from specbook.records.selection import Selection, facts

CELL = ("kind", "hardware", "target", "dtype", "execution", "arm", "draft", "load", "domain")
"""What both sides of a cell share, less what they were chosen to differ by."""
METRICS = ("tokens_per_s", "length", "step_s", "ttft_s")
"""Output tokens/s over all sequences; acceptance length; median seconds of a step, and to the first token."""


class Side(NamedTuple):
    """One selection, and its closed loops, a row each.

    Columns: CELL, restart, round, METRICS, `asked` (digest of prompts and requests), `disturbed`,
    `spec_decode` (counters, or None) and `facts`. A Poisson load has no row: its tokens/s are its own rate.
    """

    selection: Selection
    windows: pd.DataFrame


def read(selection: Selection) -> Side:
    """The windows of a selection. Raises ConfigError if it has none."""
    runs = selection.runs().closed
    if not runs:
        raise ConfigError(f"{selection.text}: only Poisson loads, whose tokens/s are their own rate")
    with paths.results_of(selection.folder):
        table = summaries.throughput(runs).drop(columns="arm")
        ttft_s = [float(pd.Series(summaries.first_tokens_s(run)).median()) for run in runs]
    known = [facts(run) for run in runs]
    counted = [run.measurement.spec_decode for run in runs if run.measurement]
    named = table.rename(columns={"label": "arm", "output_tokens_per_s": "tokens_per_s"})
    return Side(selection, named.assign(
        ttft_s=ttft_s, length=[acceptance.length(one) if one else np.nan for one in counted],
        asked=[_asked(run) for run in runs], disturbed=[run.disturbed for run in runs],
        spec_decode=counted, facts=known, draft=[one["draft"] for one in known],
    ))  # fmt: skip


def _asked(run: RunRecord) -> str:
    point, prompts = run.point, run.provenance.prompts_sha256
    if run.lacks:  # its cap is not known, and time may have bounded its requests
        return digest([point.load.label, prompts], 8)
    how = point.traffic.model_dump(mode="json", exclude={"prompts"})
    return digest([how, point.load.model_dump(mode="json"), prompts], 8)
