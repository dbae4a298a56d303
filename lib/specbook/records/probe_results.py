"""What one prompt of a probe gave: kept in the results of experiments, and printed by `specbook probe`."""

from specbook.config.schema import Frozen
from specbook.records.run import SpecDecodeCounters


class Probed(Frozen):
    """One prompt and what its answer took."""

    prompt_id: str
    domain: str
    output_tokens: int
    e2e_s: float
    spec_decode: SpecDecodeCounters | None
    """The server's counters over this answer; None where it was refused, or others were served meanwhile."""
    refused: str | None = None
    """Why the server did not answer."""
