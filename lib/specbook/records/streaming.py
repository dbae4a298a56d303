"""First chunks that came late: the stream stood still while the engine wrote on.

Chunks are a step apart. Where the first ones come together, they waited somewhere between the engine and the
client, and TTFT says how long; in the worst case the whole answer comes at once, TTFT is nearly E2E, and TPOT
next to nothing. E2E, and with it the speed of the window, is what a reader waited, as ever.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from specbook.stats import windows

TOGETHER = 3
"""Chunks: the first one, and as many on its heels, that came as one. Two may be a hiccup."""


def first_chunks(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """[n] Whether the first TOGETHER chunks came as one, of one window's requests (REQUEST_COLUMNS).

    A step is that of this window, by `stats.windows`.
    """
    step_s = np.nan_to_num(windows.step_s(rows["itl_s"]))  # where all streams stood still there is none
    longest_s = max(windows.TOGETHER * step_s, windows.LEAST_S)
    first = (list(own[: TOGETHER - 1]) for own in rows["itl_s"])
    return np.array([len(own) == TOGETHER - 1 and max(own) < longest_s for own in first], dtype=bool)
