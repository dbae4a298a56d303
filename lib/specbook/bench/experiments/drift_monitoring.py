"""Drift: traffic that moves from one domain to another, while the counters of one server are read."""

from collections.abc import Iterator

from pydantic import Field

from specbook.bench import stall, traffic_phases
from specbook.bench.experiments.registry import Work, register, weights_of
from specbook.bench.traffic_phases import Phases, Reader
from specbook.config.schema import Frozen, Speculation, Target
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.drift_results import Drifted, Episode


class Drift(Frozen):
    """One phase is traffic without drift, which says how often a monitor cries wolf."""

    target: Target
    speculation: Speculation
    traffic: Phases
    episodes: int = Field(ge=1)
    """Each draws its prompts anew."""
    seed: int = 0


def work(asked: Drift) -> Work:
    """One server, and a window for each episode."""
    return Work(1, asked.episodes * asked.traffic.points(asked.target, asked.speculation))


@register("drift", Drift, Drifted, work)
def drift(asked: Drift) -> Drifted:
    """Episode after episode on one server.

    Raises:
        EngineError: if the server does not start, ends, hangs, or loses a request.
    """
    weights = weights_of(asked)
    with Server(asked.target, asked.speculation) as server:
        traffic_phases.warm(asked.traffic, asked.target, server.client.url, server.api_key)
        return Drifted(episodes=tuple(_episodes(server, asked)), weights_sha256=weights)


def _episodes(server: Server, asked: Drift) -> Iterator[Episode]:
    how = asked.traffic
    for number in range(asked.episodes):
        reader, alive = Reader(server.counters, how.scrape_s), stall.Watch(server, how.load)

        def watch(reader: Reader = reader, alive: stall.Watch = alive) -> None:
            alive()
            reader()

        seed = asked.seed + number
        result = traffic_phases.send(how, asked.target, server.client.url, server.api_key, seed, watch)
        found = traffic_phases.episode(how, result, reader)
        if (lost := found.requests.sent - len(found.requests.start_s)) > 0:
            raise EngineError(f"{lost} of {found.requests.sent} requests failed in episode {number}")
        yield found
