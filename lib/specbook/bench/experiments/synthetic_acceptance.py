"""Is acceptance that is played as good as a draft's own, where only times are asked for?

A real draft's acceptance is counted; a second server plays these rates with the same models, and both take
turns with the same prompts. Where times agree, a map of played acceptance can be believed.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import NamedTuple

from specbook.bench import traffic_phases
from specbook.bench.experiments import Work, register
from specbook.bench.traffic_phases import WARM_SEED, ClosedLoops, Phases, in_turns
from specbook.config.schema import Speculation, Target
from specbook.engine import counters
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.experiment_results import AcceptanceComparison, Pair, TimedArm
from specbook.records.run import SpecDecodeCounters


class SyntheticAcceptance(ClosedLoops):
    """One method on one kind of traffic."""

    target: Target
    """Two of its servers are up at once: on an accelerator each may take less than half of the memory."""
    speculation: Speculation


class _Turn(NamedTuple):
    """What one turn of one server gave."""

    counted: SpecDecodeCounters
    step_s: float
    tpot_s: tuple[float, ...]


def _work(asked: SyntheticAcceptance) -> Work:
    each = [
        point for batch in asked.concurrency
        for point in asked.phases(batch).points(asked.target, asked.speculation)
    ]  # fmt: skip
    return Work(starts=2, points=each * (3 * asked.turns + 2))


@register("playback", SyntheticAcceptance, AcceptanceComparison, _work)
def compare_acceptance(asked: SyntheticAcceptance) -> AcceptanceComparison:
    """Count with the real draft, then let both servers take turns.

    Raises:
        ConfigError: if the models cannot work.
        EngineError: if a server does not start or answer, or drafts nothing.
    """
    with ExitStack() as stack:
        real = _warm(stack.enter_context(Server(asked.target, asked.speculation)), asked)
        # With the prompts of the turns to come: those of the largest batch, which hold the others'.
        largest = asked.phases(max(asked.concurrency))
        rates = _rates([_turn(real, largest, turn).counted for turn in range(asked.turns)])
        real.pause()
        how = asked.speculation.model_copy(update={"synthetic_acceptance_rates": rates})
        played = _warm(stack.enter_context(Server(asked.target, how)), asked)
        played.pause()
        pairs = [_pair(asked, batch, real, played) for batch in asked.concurrency]
    return AcceptanceComparison(rates=rates, pairs=tuple(pairs))


def _warm(server: Server, asked: SyntheticAcceptance) -> Server:
    """At every batch: the first steps after a start pay for it."""
    for batch in asked.concurrency:
        _turn(server, asked.phases(batch), WARM_SEED)
    return server


def _pair(asked: SyntheticAcceptance, batch: int, *servers: Server) -> Pair:
    how = asked.phases(batch)
    real, played = map(_arm, in_turns(servers, asked.turns, lambda server, turn: _turn(server, how, turn)))
    return Pair(concurrency=batch, real=real, played=played)


def _turn(server: Server, how: Phases, seed: int) -> _Turn:
    before = server.counters()
    result, step_s = traffic_phases.timed(server, how, seed)
    after = counters.settled(server.counters, before, how.num_requests)
    counted = counters.delta(before, after).spec_decode
    if counted is None:
        raise EngineError(f"{server.target.name} drafted nothing: {server.last_words()}")
    each = zip(result["latencies"], result["ttfts"], result["output_lens"], strict=True)
    tpot_s = tuple(round((e2e - ttft) / (n - 1), 6) for e2e, ttft, n in each if n > 1)
    return _Turn(counted, step_s, tpot_s)


def _rates(counted: Sequence[SpecDecodeCounters]) -> tuple[float, ...]:
    """Joint acceptance by position over several windows."""
    drafts = sum(one.num_drafts for one in counted)
    if not drafts:
        raise EngineError("nothing was drafted: there is no acceptance to play")
    accepted = map(sum, zip(*(one.num_accepted_tokens_per_pos for one in counted), strict=True))
    return tuple(round(n / drafts, 4) for n in accepted)


def _arm(turns: Sequence[_Turn]) -> TimedArm:
    return TimedArm(
        rates=_rates([turn.counted for turn in turns]),
        length=tuple(1 + turn.counted.num_accepted_tokens / turn.counted.num_drafts for turn in turns),
        step_s=tuple(turn.step_s for turn in turns), tpot_s=tuple(turn.tpot_s for turn in turns),
    )  # fmt: skip
