"""Traffic that drifts from one domain to another: the counters of one server, and fallback to a second one.

Fallback has a server that drafts and one that does not, both up behind a router.
"""

import random
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Literal, Self, get_args

from pydantic import Field, model_validator

from specbook.bench import stall, traffic_phases
from specbook.bench.experiments import Work, register, weights_of
from specbook.bench.traffic_phases import Phases, Reader
from specbook.config.schema import Frozen, Speculation, Target
from specbook.engine.router import Router
from specbook.engine.server import Server
from specbook.errors import EngineError
from specbook.records.experiment_results import (
    ArmName,
    DriftEpisodes,
    Episode,
    FallbackArms,
    RoutedArm,
    ServerSwitch,
)
from specbook.stats.fallback import Fallback, Policy
from specbook.stats.monitors import Growth

ARMS: tuple[ArmName, ...] = get_args(ArmName)
NAMES = ("drafting", "plain")
"""Names of the two servers."""


class Drift(Frozen):
    """One phase is traffic without drift, which says how often a monitor raises a false alarm."""

    target: Target
    speculation: Speculation
    traffic: Phases
    episodes: int = Field(ge=1)
    """Each draws its prompts anew."""
    seed: int = 0


def _drift_work(asked: Drift) -> Work:
    """One server, and a window for each episode."""
    return Work(1, asked.episodes * asked.traffic.points(asked.target, asked.speculation))


@register("drift", Drift, DriftEpisodes, _drift_work)
def drift(asked: Drift) -> DriftEpisodes:
    """Episodes on one server; EngineError if it does not start, ends, hangs, or loses a request."""
    weights = weights_of(asked)
    with Server(asked.target, asked.speculation) as server:
        traffic_phases.warm(asked.traffic, server)
        episodes = tuple(_episode(server, asked, number) for number in range(asked.episodes))
    return DriftEpisodes(episodes=episodes, weights_sha256=weights)


def _episode(server: Server, asked: Drift, number: int) -> Episode:
    how = asked.traffic
    reader, alive = Reader(server.counters, how.scrape_s), stall.Watch(server, how.load)
    result = traffic_phases.send(how, server, asked.seed + number, lambda: (alive(), reader()))
    episode = traffic_phases.episode(how, result, reader)
    if (lost := episode.requests.sent - len(episode.requests.start_s)) > 0:
        raise EngineError(f"{lost} of {episode.requests.sent} requests failed in episode {number}")
    return episode


class FallbackEpisodes(Frozen):
    """Arms are measured in turns, in an order drawn for each repeat."""

    target: Target
    speculation: Speculation
    instead: Speculation | None = None
    """How the other server drafts, e.g. by ngram; None: not at all."""
    policy: Policy
    traffic: Phases
    repeats: int = Field(ge=1)
    variables: Mapping[Literal["drafting", "plain"], Mapping[str, str]] = Field(default_factory=dict)
    """Variables for each server's environment: two on one machine may want a processor each."""
    seed: int = 0

    @model_validator(mode="after")
    def _comes_back(self) -> Self:
        trials = self.traffic.num_requests // len(self.traffic.phases) // self.policy.trial_every
        most = trials * self.traffic.max_tokens  # a draft yields a token at least
        if most < self.policy.min_drafts:
            raise ValueError(
                f"{trials} trials of a phase make {most} drafts at most, and min_drafts is "
                f"{self.policy.min_drafts}: it would never come back. Lower it or trial_every, or send more"
            )
        return self


class Controller:
    """Called again and again: reads the drafting server's counters, and turns the router as the policy says.

    Metrics that vanish change nothing; a counter that was reset goes on from 0.
    """

    def __init__(self, router: Router, reader: Reader, policy: Policy | None) -> None:
        self._router, self._reader = router, reader
        self._fallback = Fallback(policy) if policy else None
        self.switches: list[ServerSwitch] = []
        """By the clock of `time.perf_counter`."""

    def __call__(self) -> None:
        """Look, if it is time to."""
        if not self._reader() or self._fallback is None:
            return
        readings = [row for row in self._reader.rows if row[1] is not None][-2:]
        if len(readings) < 2 or self._reader.rows[-1][1] is None:
            return
        grown = Growth.of(*zip(*readings, strict=True))
        before = len(self._fallback.switches)
        self._fallback.see(readings[-1][0], grown.drafts.sum(), grown.accepted.sum())
        for switch in self._fallback.switches[before:]:
            self._router.preferred = "drafting" if switch.drafting else "plain"
            now = {"at_s": time.perf_counter(), "in_flight": dict(+self._router.in_flight)}
            self.switches.append(ServerSwitch(**switch._asdict() | now))


def _fallback_work(asked: FallbackEpisodes) -> Work:
    """Two servers; the arm with fallback is taken for one that always drafts."""
    drafting, plain = (asked.traffic.points(asked.target, how) for how in (asked.speculation, asked.instead))
    return Work(2, asked.repeats * (2 * drafting + plain))


@register("fallback", FallbackEpisodes, FallbackArms, _fallback_work)
def fallback(asked: FallbackEpisodes) -> FallbackArms:
    """Every arm through the same router to the same two servers, both up in all arms.

    Raises:
        EngineError: if a server does not start, has ended before an arm begins, or nothing is answered.
            Requests that are lost are a result.
    """
    weights = weights_of(asked)
    with ExitStack() as stack:
        pair = [Server(asked.target, how) for how in (asked.speculation, asked.instead)]
        for server, name in zip(pair, NAMES, strict=True):
            server.environment |= asked.variables.get(name, {})
            stack.enter_context(server)
        for server in pair:
            traffic_phases.warm(asked.traffic, server)
        return FallbackArms(arms=tuple(_arms(asked, pair)), weights_sha256=weights)


def _arms(asked: FallbackEpisodes, pair: Sequence[Server]) -> list[RoutedArm]:
    made = []
    for repeat in range(asked.repeats):
        order = list(ARMS)
        random.Random(asked.seed + repeat).shuffle(order)
        for name in order:
            # With one of them gone the router serves by the other, and an arm would bear the wrong name.
            if ended := next((server for server in pair if not server.is_alive()), None):
                raise EngineError(
                    f"a server ended between two arms: {ended.obituary()} (log: {ended.log_path})"
                )
            made.append(one_arm(asked, pair, name, repeat))
    return made


def one_arm(asked: FallbackEpisodes, pair: Sequence[Server], name: ArmName, repeat: int) -> RoutedArm:
    """One window through a router of its own; EngineError if nothing is answered."""
    how = asked.traffic
    urls = dict(zip(NAMES, (server.client.url for server in pair), strict=True))
    trial = ("drafting", asked.policy.trial_every) if name == "fallback" else None
    reader = Reader(pair[0].counters, how.scrape_s)
    with Router(urls, trial=trial) as router:
        router.preferred = "plain" if name == "plain" else "drafting"
        control = Controller(router, reader, asked.policy if name == "fallback" else None)
        result = traffic_phases.send(how, pair[0], asked.seed + repeat, control, router.url)
    zero = min(result["start_times"])
    return RoutedArm(
        arm=name, repeat=repeat, episode=traffic_phases.episode(how, result, reader),
        switches=tuple(one.model_copy(update={"at_s": one.at_s - zero}) for one in control.switches),
        served=dict(+router.served), broken=sum(router.broken.values()),
    )  # fmt: skip
