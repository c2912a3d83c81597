"""Runs of ad hoc networks: devices move in a square, islands separate and merge, and every law is checked.

*Theory.* Devices move to random points, each at its own speed (random waypoint), for `move_s`; then all rest for
`rest_s`, alternately. Devices nearer than `range_m` are in range. While they rest islands become stable, and the laws
of `adhoc_world.py` are checked. At the end they form a line in which each is in range of the next, so that all queued
events must arrive, unless a lease has ended.

*Rules.*
1. The same scenario and seed give the same trace. Movement, workload and devices have generators of their own.
2. If messages are lost, delays are not checked; duplicates, order and losses are.
"""

from collections.abc import Callable, Iterable
from math import dist
from time import perf_counter
from typing import Any

from godwit.adhoc.device import AdHocConfig
from godwit.simulator.adhoc_world import AdHocWorld, Pair
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Scenario
from godwit.simulator.summary import Summary, percentile_ms
from godwit.simulator.workloads import workload_of
from godwit.trace import TraceSink

__all__ = ["AdHocSimulation", "WaypointWalk", "ad_hoc_run"]

STEP_S = 0.5
TIME_LAWS = ("all of an island", "one event broker", "everything in force", "leases end", "sessions follow")
VIOLATIONS_MAX = 100


class WaypointWalk:
    """Devices moving in a square."""

    def __init__(self, names: Iterable[str], side_m: float, speed_mps: float, streams: RandomStreams) -> None:
        self._side_m, self._speed_mps, self._streams = side_m, speed_mps, streams
        self.at = {name: self._point(name) for name in names}
        self._goals = {name: (self._point(name), self._speed(name)) for name in self.at}

    def _point(self, name: str) -> tuple[float, float]:
        rng = self._streams.stream("waypoints", name)
        return (rng.uniform(0, self._side_m), rng.uniform(0, self._side_m))

    def _speed(self, name: str) -> float:
        return self._streams.stream("speeds", name).uniform(0.3, 1.0) * self._speed_mps

    def step(self, seconds: float) -> None:
        """Move all devices; one that has arrived gets a new target."""
        for name, (x, y) in self.at.items():
            (goal_x, goal_y), speed = self._goals[name]
            left = dist((x, y), (goal_x, goal_y))
            share = min(speed * seconds / left, 1.0) if left else 1.0
            self.at[name] = (x + share * (goal_x - x), y + share * (goal_y - y))
            if share == 1.0:
                self._goals[name] = (self._point(name), self._speed(name))

    def pairs(self, range_m: float) -> list[Pair]:
        """The pairs in range."""
        names = list(self.at)
        return [
            (one, other)
            for place, one in enumerate(names)
            for other in names[place + 1 :]
            if dist(self.at[one], self.at[other]) <= range_m
        ]


def ad_hoc_run(
    scenario: Scenario, seed: int, progress: Callable[[float], None] | None = None, trace: TraceSink | None = None
) -> Summary:
    """Run a scenario whose overlay is of kind `radio` to its end."""
    return AdHocSimulation(scenario, seed, trace).run(progress)


class AdHocSimulation:
    """One run of an ad hoc network."""

    def __init__(self, scenario: Scenario, seed: int, trace: TraceSink | None) -> None:
        self.scenario = scenario
        self.seed = seed
        radio, clients = scenario.radio, scenario.clients
        self.names = [f"d{k}" for k in range(radio.devices)]
        self.streams = RandomStreams(seed)
        configs = {
            name: AdHocConfig(
                priority=self.streams.single_use("priority", name).randint(0, 10) / 10,
                lease_s=radio.lease_s,
                poll_s=min(2.0, radio.lease_s / 3),
                meeting=radio.meeting,
            )
            for name in self.names
        }
        self.adhoc = AdHocWorld(
            seed,
            configs,
            trace,
            latency_ms=scenario.overlay.latency_ms,
            has_disks=radio.keeps_disk,
            buffer_events_max=clients.buffer_events_max,
        )
        self.adhoc.world.traces_messages = trace is not None
        self.adhoc.set_loss(radio.loss)
        self.walk = WaypointWalk(self.names, radio.side_m, radio.speed_mps, self.streams)
        publishers = self.streams.stream("publishers-of-workload")
        self.workload = workload_of(scenario.workload, clients.publishers, publishers)
        self.said = 0
        self.back_at: dict[str, float] = {}  # devices that are down
        self.checked = 0
        self.longest_island = 1

    def run(self, progress: Callable[[float], None] | None) -> Summary:
        """Move, rest, meet; then run the final checks."""
        started = perf_counter()
        scenario, adhoc = self.scenario, self.adhoc
        radio, world = scenario.radio, self.adhoc.world
        for k, name in enumerate(self.names[-scenario.clients.subscribers :] if scenario.clients.subscribers else ()):
            for number in range(scenario.clients.subscriptions):
                total = k * scenario.clients.subscriptions + number
                filter = self.workload.filter(total, self.streams.single_use("filter", str(total)))
                adhoc.subscribe(name, f"s{number}", filter)
        for k in range(scenario.clients.publishers):
            share = self.streams.stream("first-event", self.names[k]).random()
            self._plan(k, scenario.run.warmup_s + share / scenario.clients.publish_per_s)
        adhoc.set_links(self.walk.pairs(radio.range_m))
        steps = int(scenario.ends_s / STEP_S)
        for step in range(steps):
            now = step * STEP_S
            if now >= scenario.publishing_ends_s:
                adhoc.set_links(zip(self.names, self.names[1:], strict=False))
            elif now % (radio.move_s + radio.rest_s) < radio.move_s:
                self.walk.step(STEP_S)
                adhoc.set_links(self.walk.pairs(radio.range_m))
            self._crash_some(now)
            world.run(now + STEP_S)
            self.checked += adhoc.check_islands()
            self.longest_island = max(self.longest_island, *map(len, adhoc.islands.values()))
            if progress is not None:
                progress((step + 1) / steps)
        adhoc.judge()
        return self._summary(perf_counter() - started)

    def _crash_some(self, now: float) -> None:
        """Devices crash while events are published, and restart after a time."""
        radio, adhoc = self.scenario.radio, self.adhoc
        for name, back_at in list(self.back_at.items()):
            if now >= back_at:
                del self.back_at[name]
                adhoc.restart(name)
                self._relink()
        if not radio.crashes_per_s or now >= self.scenario.publishing_ends_s - radio.down_s:
            return
        rng = self.streams.stream("crashes")
        if rng.random() < radio.crashes_per_s * STEP_S:
            name = rng.choice(self.names)
            if name not in self.back_at:
                adhoc.crash(name)
                self.back_at[name] = now + radio.down_s

    def _relink(self) -> None:
        self.adhoc.set_links(self.walk.pairs(self.scenario.radio.range_m))

    def _plan(self, k: int, at: float) -> None:
        if at < self.scenario.publishing_ends_s:
            self.adhoc.world.at(at, self._publish, k)

    def _publish(self, k: int, _b: Any, _c: Any) -> None:
        self.said += 1
        name = self.names[k]
        if name in self.back_at:
            self._plan(k, self.back_at[name] + STEP_S)
            return
        self.adhoc.publish(name, self.workload.attributes(k, self.said, self.streams.stream("content", name)))
        share = self.streams.stream("publishing", name).uniform(0.5, 1.5)
        self._plan(k, self.adhoc.world.now + share / self.scenario.clients.publish_per_s)

    def _summary(self, wall_s: float) -> Summary:
        adhoc, counts = self.adhoc, self.adhoc.counts
        broken = list(adhoc.violations)
        if self.scenario.radio.loss > 0:  # rule 2
            broken = [violation for violation in broken if violation.law not in TIME_LAWS]
        latencies = sorted(adhoc.latencies)
        missing = [key for key in adhoc.held if key[1] not in adhoc.delivered[key[0]]]
        excuses = [adhoc.excused[key] for key in missing if key in adhoc.excused]
        return Summary(
            scenario=self.scenario.name,
            seed=self.seed,
            published=len(adhoc.said),
            owed=len({**adhoc.held, **adhoc.due}),
            delivered=counts.get("delivered", 0),
            lost=len({(violation.node, violation.text) for violation in broken if "lost" in violation.law}),
            duplicated=adhoc.duplicated,
            out_of_order=adhoc.out_of_order,
            excused=len(excuses),
            messages=dict(sorted((kind.__name__, count) for kind, count in adhoc.world.handled.items())),
            bytes_sent=adhoc.world.bytes_sent,
            latency_p50_ms=percentile_ms(latencies, 0.5),
            latency_p99_ms=percentile_ms(latencies, 0.99),
            islands={
                "elected": counts.get("elected", 0),
                "merged": counts.get("merged", 0),
                "coordinated": counts.get("coordinated", 0),
                "joined": counts.get("joined", 0),
                "crashed": counts.get("crashed", 0),
                "links_up": counts.get("link_up", 0),
                "links_down": counts.get("link_down", 0),
                "sessions_handed_over": counts.get("relocated", 0),
                "leases_ended": counts.get("session_ended", 0),
                "overtaken": excuses.count("overtaken"),
                "checked": self.checked,
                "largest": self.longest_island,
            },
            simulated_s=adhoc.world.now,
            wall_s=wall_s,
            violations=tuple(broken[:VIOLATIONS_MAX]),
        )
