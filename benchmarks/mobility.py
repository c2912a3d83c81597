"""What a move costs, by mode, overlay and distance. `make bench`, or this file with `--help`.

Two overlays: the city of [pubmob §4], 85 brokers in a tree of degree 4, and a random tree of 1,000 brokers. For each
mode some clients move again and again, one at a time, each time to a broker drawn at random: the same ways for all
modes of subscribers, and for all modes of publishers. Before and after there is nothing of control under way, so that
all that is counted belongs to the move. Counted are messages between brokers, each hop, acknowledgements and events
apart; a session that is sent counts as a message, with the bytes of its events.
The gap is from the moment a client is connected to its new broker to the first event that then comes to it (or, where
the publisher moves, that comes from it to anybody). PREFETCHING and `presubscribe` know the next broker; proxies are
the five nearest.

The curve moves one subscriber over a given number of hops, in overlays from 40 to 1,093 brokers: the messages must
depend on the hops alone.
"""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated, Any

import typer

import godwit.baselines  # noqa: F401 - the mode naive is registered

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import one_core, this_machine
from benchmarks.reporting import Row, json_line, print_tables
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Notify
from godwit.client.client import Client, ClientConfig
from godwit.filters.language import parse
from godwit.mobility import mobile_broker
from godwit.mobility.extensions import attach_policy_names
from godwit.mobility.modes import MODES
from godwit.mobility.predictors import Itineraries, NoisyPredictor
from godwit.mobility.publisher_presence import PublisherConfig
from godwit.reproduce.trace_tables import CONTROL
from godwit.simulator.topologies import Overlay, balanced_tree, leaves, random_tree
from godwit.simulator.world import World
from godwit.trace import Record

SEED = 1
STAYING = 100  # clients that do not move
MOVING = 10
VISITS = 20  # of each
PROXIES = 5
AWAY_S = 3.0
CALM_S = 15.0  # after a move, until nothing of it is under way any more
EVERY_S = 0.1  # a publisher publishes


class Town:
    """An overlay with publishers and subscribers, of whom some can be moved."""

    def __init__(
        self, overlay: Overlay, mode: str, reduction: str = "covering", *, seed: int = SEED, wrong_rate: float = 0.0
    ) -> None:
        self.overlay, self.mode = overlay, mode
        self.moves_publisher = MODES[mode].for_publishers
        drawn_as = "standard" if self.moves_publisher else "relocate"  # one draw for all modes that are compared
        self.rng = Random(f"{seed}/{drawn_as}")
        self.world = World(seed)
        self.world.on_notify = self._on_notify
        self.messages = self.bytes = 0
        self.waits_for: str | None = None  # the client whose next event ends the gap
        self.connected_at = 0.0
        self.gap: float | None = None
        self.homes: dict[str, str] = {}
        beside: dict[str, dict[str, float]] = {broker: {} for broker in overlay.brokers}
        for link in overlay.links:
            beside[link.a][link.b] = beside[link.b][link.a] = link.cost
        self.neighbours = {broker: tuple(others) for broker, others in beside.items()}
        places = leaves(overlay)
        self.visits = {f"{who}{k}": self._way(places) for who in "ps" for k in range(MOVING)}
        further = tuple(name for name in attach_policy_names() if name == mode)
        config = BrokerConfig(advertisements="required", reduction=reduction, attach_policies=further)
        nearest = {place: self._nearest(place, set(places)) for place in places} if mode == "proxy" else {}
        predictor = NoisyPredictor(Itineraries(self.visits), wrong_rate, places)
        moving = PublisherConfig(nearest=nearest, predictor=predictor)
        for name in overlay.brokers:
            make = partial(mobile_broker, name, beside[name], config, moving=moving)
            self.world.add_broker(name, make, journaled=False)
        for link in overlay.links:
            self.world.wire(link.a, link.b, link.latency_s, None)
            self.world.connect(link.a, link.b)
        self.world.run(20.0)
        self._populate()

    def _way(self, places: tuple[str, ...]) -> tuple[str, ...]:
        """The brokers that a client visits, none twice in a row: known beforehand, so that they can be predicted."""
        way = [self.rng.choice(places)]
        while len(way) <= VISITS:
            way.append(self.rng.choice([place for place in places if place != way[-1]]))
        return tuple(way)

    def _nearest(self, start: str, places: set[str]) -> tuple[str, ...]:
        """The nearest brokers of some, in hops, the first one first."""
        found: list[str] = []
        seen, frontier = {start}, [start]
        while frontier and len(found) < PROXIES:
            found += [broker for broker in frontier if broker in places]
            frontier = [n for broker in frontier for n in self.neighbours[broker] if n not in seen]
            seen.update(frontier)
        return tuple(found[:PROXIES])

    def _populate(self) -> None:
        """As many publishers as move, each with a publication; each is wanted by some of those who stay and by one."""
        for k in range(MOVING):
            self._come(f"p{k}", self.mode if self.moves_publisher else "relocate")
            self._command(f"p{k}", "advertise", "all", parse(f"publication = {k}"))
        for k in range(MOVING + STAYING):
            moves = k < MOVING and not self.moves_publisher
            self._come(f"s{k}", self.mode if moves else "relocate")
            self._command(f"s{k}", "subscribe", "one", parse(f"publication = {k % MOVING}"))
        self.world.run(self.world.now + 20.0)

    def _come(self, name: str, mode: str) -> None:
        self.world.add_client(name, Client(name, ClientConfig(mode=mode)))
        way = self.visits.get(name)
        self.go_to(name, self.rng.choice(leaves(self.overlay)) if way is None else way[0])

    def go_to(self, name: str, broker: str) -> None:
        """Connect a client."""
        self.homes[name] = broker
        if broker not in self.world.nodes[name].wires:
            self.world.wire(name, broker, 0.01, None)
        self.world.connect(name, broker)

    def _command(self, name: str, what: str, *arguments: Any) -> None:
        self.world.command(name, lambda client, now: getattr(client, what)(*arguments, now))

    def move(self, k: int, to: str) -> None:
        """The k-th mobile client goes out of reach, and turns up at another broker; events are published all along."""
        name = f"p{k}" if self.moves_publisher else f"s{k}"
        if self.mode == "explicit":
            self._command(name, "move_out")
            self.world.run(self.world.now + 0.1)
        begins = self.world.now
        self.world.disconnect(name, self.homes[name])
        self.gap = None
        for number in range(int((AWAY_S + CALM_S / 3) / EVERY_S)):
            self.world.at(begins + number * EVERY_S, self._publish, f"p{k}", k)
        self.world.run(begins + AWAY_S)
        self.waits_for, self.connected_at = name, self.world.now
        self.go_to(name, to)
        self.world.run(begins + AWAY_S + CALM_S)
        self.waits_for = None

    def move_on(self, k: int, number: int) -> None:
        """The k-th mobile client moves to the next broker on its way."""
        self.move(k, self.visits[f"p{k}" if self.moves_publisher else f"s{k}"][number])

    def _publish(self, name: str, k: int, _: Any) -> None:
        machine = self.world.nodes[name].machine
        assert isinstance(machine, Client)
        if machine.connection is not None:
            self._command(name, "publish", {"publication": k})

    def _on_notify(self, client: str, notify: Notify, now: float) -> None:
        if self.waits_for is None or self.gap is not None:
            return
        who = notify.event.publisher if self.moves_publisher else client
        if who == self.waits_for and (
            (notify.event.published_at or 0.0) >= self.connected_at or not self.moves_publisher
        ):
            self.gap = now - self.connected_at

    def count(self, node: str, record: Record, _now: float) -> None:
        """Count what brokers tell each other."""
        is_control = record.kind == "handled" and record.message in CONTROL
        if is_control and node in self.neighbours and record.peer in self.neighbours:
            self.messages += 1
            self.bytes += record.size

    def brokers_at(self, distance: int, start: str) -> list[str]:
        """All brokers so many hops away."""
        seen, frontier = {start}, [start]
        for _ in range(distance):
            frontier = [n for broker in frontier for n in self.neighbours[broker] if n not in seen]
            seen.update(frontier)
        return frontier


def by_mode(
    overlay: Overlay, where: str, mode: str, moves: int, reduction: str = "covering", *, is_timed: bool = True
) -> Iterator[Row]:
    """What a move costs in one mode."""
    counted = Town(overlay, mode, reduction)
    counted.world.on_record = counted.count
    counted.world.traces_messages = True
    gaps: list[float] = []
    for number in range(moves):
        counted.move_on(number % MOVING, number // MOVING + 1)
        if counted.gap is not None:
            gaps.append(counted.gap)
    name = f"{where} {mode}" if reduction == "covering" else f"{where} {mode}, {reduction}"
    yield Row(name, "control messages a move", counted.messages / moves, "messages")
    yield Row(name, "bytes of control a move", counted.bytes / moves, "bytes")
    if gaps:
        yield Row(name, "gap until the first event", sorted(gaps)[len(gaps) // 2] * 1_000, "ms")
    if is_timed:
        timed = Town(overlay, mode, reduction)
        started = perf_counter()
        for number in range(moves):
            timed.move_on(number % MOVING, number // MOVING + 1)
        yield Row(name, "time of the simulator a move", (perf_counter() - started) / moves * 1_000, "ms")


def curve(sizes: tuple[int, ...], moves: int) -> Iterator[Row]:
    """Control messages of a relocation, by hops and by size of the network."""
    for height in sizes:
        overlay = balanced_tree(height, 3)
        town = Town(overlay, "relocate")
        town.world.on_record = town.count
        town.world.traces_messages = True
        for hops in range(2, 2 * height - 1, 2):
            before = town.messages
            for number in range(moves):
                k = number % MOVING
                places = [b for b in town.brokers_at(hops, town.homes[f"s{k}"]) if len(town.neighbours[b]) == 1]
                town.move(k, town.rng.choice(places))
            what = f"control messages of a relocation over {hops} hops, {len(overlay.brokers):,} brokers"
            yield Row("distance", what, (town.messages - before) / moves, "messages")


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few moves, small overlays; figures are rough.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
    counts: Annotated[bool, typer.Option("--counts", help="Counts alone, which are the same everywhere.")] = False,
    only: Annotated[str | None, typer.Option(metavar="MODE", help="One mode alone.")] = None,
) -> None:
    """Measure moves."""
    moves = 5 if quick else 40
    city, large = balanced_tree(4, 4), random_tree(100 if quick else 1_000, Random(SEED))
    rows: list[Row] = []
    with one_core():
        for where, overlay in (("city", city), ("large", large)):
            for mode in MODES if only is None else (only,):
                rows += by_mode(overlay, where, mode, moves, is_timed=not counts)
            for mode in ("relocate", "junction"):  # with entries of each client's own the tables lead straight to it
                if only in (None, mode):
                    rows += by_mode(overlay, where, mode, moves, "simple", is_timed=not counts)
        rows += [] if counts else curve((4, 5) if quick else (4, 5, 6, 7), moves)
    machine = this_machine()
    if json or not sys.stdout.isatty():
        for row in rows:
            print(json_line(row, machine))
    else:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
