"""The graph family delivers what flooding with filtering at the edge delivers, whatever happens to links and brokers.

A drawn script says what happens, step by step. Then faults stop, everything settles, and the laws must hold:

- between brokers that kept their memory nothing is lost, nothing comes twice, order is kept, nothing is recorded lost;
- nothing is ever delivered twice or out of order, or to a subscription that it does not match;
- a round of events published afterwards reaches every matching subscription, also at brokers that began anew.

The routing under test is a parameter, so the same law is also run on routings with a planted fault.
"""

import itertools
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from godwit.broker.channels import Channels, HandedOn
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import ChannelStart, Message, NodeId, Packet, Publish
from godwit.broker.routing import Answer
from godwit.filters.events import Event
from godwit.filters.filters import some
from godwit.filters.sets import at_least
from tests.hash_seeds import outputs
from tests.property.routing_network import NEWBORN_S, GraphNetwork
from tests.seeds import slow

OVERLAYS: dict[str, list[tuple[str, str]]] = {
    "pair": [("a", "b")],
    "line": [("a", "b"), ("b", "c"), ("c", "d")],
    "ring": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")],
    "diamond": [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "d")],
    "bridge": [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "d")],
}

GENTLE = (
    "publish",
    "publish",
    "deliver",
    "deliver",
    "deliver",
    "acknowledge",
    "down",
    "up",
    "give up",
    "timer",
    "churn",
)
ROUGH = (*GENTLE, "restart", "forget")


def scripts(kinds: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    step = st.tuples(st.sampled_from(kinds), st.integers(0, 50), st.integers(0, 9))
    return st.lists(step, max_size=40) | st.lists(step, min_size=40, max_size=100)


class Run:
    """A network that follows a script, and what must come of it."""

    def __init__(self, links: list[tuple[str, str]], costs: list[float], make: Callable[..., GraphRouting]) -> None:
        self.network = GraphNetwork(links, dict(zip(links, costs, strict=False)), make)
        self.names = sorted(self.network.brokers)
        self.wants: dict[NodeId, int] = {}  # the settled subscription of each broker: x >= this
        self.published: dict[NodeId, list[tuple[tuple[str, int], int, int]]] = {name: [] for name in self.names}
        for number, name in enumerate(self.names):
            self.subscribe(name, number % 4)
        self.network.start()
        self.started_at = self.network.now
        self.first_lives = dict(self.network.lives)

    def subscribe(self, name: NodeId, least: int) -> None:
        self.wants[name] = least
        self.network.subscribe(name, (f"client of {name}", "settled"), some("x", at_least(least)))

    def publish(self, name: NodeId, x: int) -> None:
        published = self.network.publish(name, x=x)
        self.published[name].append((published.id, x, self.network.lives[name]))

    def follow(self, script: Iterable[tuple[str, int, int]]) -> None:
        network = self.network
        for kind, which, x in script:
            name = self.names[which % len(self.names)]
            link: Any = network.links[which % len(network.links)]
            match kind:
                case "publish":
                    self.publish(name, x)
                case "deliver" if pairs := network.can_deliver():
                    for _ in range(x + 1):
                        if pairs[which % len(pairs)] in network.can_deliver():
                            network.deliver(*pairs[which % len(pairs)])
                case "acknowledge":
                    network.acknowledge(*(link if x % 2 else link[::-1]))
                case "down":
                    network.take_down(link)
                case "up":
                    network.bring_up(link)
                case "give up":
                    network.give_up(*(link if x % 2 else link[::-1]))
                case "timer":
                    network.fire_timer(until=self.started_at + NEWBORN_S)  # faults do not last so long
                case "churn":
                    id = ("passing", str(x % 3))
                    if which % 2:
                        network.subscribe(name, id, some("x", at_least(x)))
                    else:
                        network.unsubscribe(name, id)
                case "restart":
                    network.restart(name)
                case "forget":
                    network.forget(name)
                    self.subscribe(name, self.wants[name])

    def settled(self, name: NodeId) -> list[tuple[str, int]]:
        return self.network.deliveries[name, (f"client of {name}", "settled")]

    def check(self) -> None:
        network = self.network
        for target in self.names:
            kept_memory = network.lives[target] == self.first_lives[target]
            for source in self.names:
                came = [id for id in self.settled(target) if id[0] == f"publisher at {source}"]
                matching = [(id, life) for id, x, life in self.published[source] if x >= self.wants[target]]
                allowed = [id for id, _ in matching]
                assert came == [id for id in allowed if id in came], (
                    f"{source} to {target}: order, doubles, or no match"
                )
                if kept_memory:
                    due = [id for id, life in matching if life == network.lives[source]]
                    assert [id for id in due if id not in came] == [], f"lost from {source} to {target}"
        if network.lives == self.first_lives:
            assert network.records == []

    def check_afterwards(self) -> None:
        """What flooding with filtering at the edge gives for a last round of events, everyone being there."""
        self.network.deliveries.clear()
        for name in self.names:
            for x in (0, 3, 9):
                self.publish(name, x)
        self.network.settle()
        for target in self.names:
            flooded = [id for name in self.names for id, x, _ in self.published[name][-3:] if x >= self.wants[target]]
            assert sorted(self.settled(target)) == sorted(flooded)
        for broker in self.network.brokers.values():  # tables agree, and nothing is left anywhere
            for other in self.network.brokers.values():
                if other is not broker:
                    assert broker.remote.get(other.broker, {}) == other.local
            assert not broker.channels.parked
            assert not broker.untold
            assert not broker.stale
            assert all(not incoming.held for incoming in broker.channels.incoming.values())


def run(overlay: str, costs: list[float], script: list[tuple[str, int, int]], make: Any = GraphRouting) -> Run:
    made = Run(OVERLAYS[overlay], costs, make)
    made.follow(script)
    made.network.settle()
    made.check()
    made.check_afterwards()
    return made


COSTS = st.lists(st.sampled_from([1.0, 1.0, 2.5, 0.1]), min_size=7, max_size=7)


@given(st.sampled_from(sorted(OVERLAYS)), COSTS, scripts(GENTLE))
def test_with_links_that_die_and_return_everything_comes_once_and_in_order(overlay, costs, script) -> None:
    run(overlay, costs, script)


@given(st.sampled_from(sorted(OVERLAYS)), COSTS, scripts(ROUGH))
def test_a_broker_that_forgets_everything_loses_nothing_between_others(overlay, costs, script) -> None:
    run(overlay, costs, script)


class HasLittleRoom(GraphRouting):
    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.channels = Channels(self.topology, self.channels.gap_wait_s, history_max=4, parked_max=3, held_max=3)


@given(st.sampled_from(sorted(OVERLAYS)), COSTS, scripts(GENTLE))
def test_with_too_little_room_what_is_lost_is_recorded_and_the_tables_are_whole_again(overlay, costs, script) -> None:
    made = Run(OVERLAYS[overlay], costs, HasLittleRoom)
    made.network.wires.trace.clear()
    made.follow(script)
    made.network.settle()
    lost = {(record.publisher, record.sequence) for record in made.network.records}
    unknown = any(record.message == "Packet" for record in made.network.records)
    for target, source in itertools.permutations(made.names, 2):
        came = [id for id in made.settled(target) if id[0] == f"publisher at {source}"]
        matching = [id for id, x, _ in made.published[source] if x >= made.wants[target]]
        assert came == [id for id in matching if id in came]
        assert unknown or {*matching} - {*came} <= lost
    made.check_afterwards()


@pytest.mark.parametrize("seed", range(4))
def test_long_scripts_on_a_random_overlay_hold_too(seed: int) -> None:
    random_ = random.Random(seed)
    names = [f"n{number}" for number in range(9)]
    links = [(names[at], names[random_.randrange(at)]) for at in range(1, len(names))]
    links += [(a, b) for a, b in (random_.sample(names, 2) for _ in range(9)) if not {(a, b), (b, a)} & {*links}]
    made = Run(links, [random_.choice([1.0, 2.0, 0.5]) for _ in links], GraphRouting)
    made.follow((random_.choice(ROUGH), random_.randrange(51), random_.randrange(10)) for _ in range(600))
    made.network.settle()
    made.check()
    made.check_afterwards()


DIGEST = """
import hashlib, random
from tests.property.test_graph_laws import OVERLAYS, ROUGH, GraphRouting, Run

random_ = random.Random(5)
made = Run(OVERLAYS["bridge"], [1.0] * 7, GraphRouting)
made.follow((random_.choice(ROUGH), random_.randrange(51), random_.randrange(10)) for _ in range(300))
seen = [*made.network.under_way()]
made.network.settle()
seen.append((made.network.deliveries, made.network.records, len(made.network.wires.log)))
print(hashlib.sha256(repr(seen).encode()).hexdigest())
"""


def test_the_same_script_gives_the_same_packets_under_any_hash_seed() -> None:
    assert len(outputs(DIGEST)) == 1


# ------------------------------------------------------------ planted faults


class DropsWhatWaitedForADeadLink(GraphRouting):
    def on_link_dead(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        return super().on_link_dead(peer, [], now)


class HandsOnEarly(Channels):
    def on_packet(self, packet: Packet, now: float) -> tuple[list[Answer], list[HandedOn]]:
        answers, handed_on = super().on_packet(packet, now)
        incoming = self.incoming.get(packet.source)
        number = packet.targets.get(self.broker)
        if incoming and incoming.life and number in incoming.held and isinstance(packet.message, Publish):
            incoming.held[number] = None
            handed_on.append((packet.source, packet.message))
        return answers, handed_on


class DoesNotPutBackInOrder(GraphRouting):
    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.channels = HandsOnEarly(self.topology, self.channels.gap_wait_s)


class TakesTwice(Channels):
    def on_packet(self, packet: Packet, now: float) -> tuple[list[Answer], list[HandedOn]]:
        incoming = self.incoming.get(packet.source)
        came_before = incoming is not None and 0 < packet.targets.get(self.broker, 0) < incoming.next
        answers, handed_on = super().on_packet(packet, now)
        if came_before and isinstance(packet.message, Publish):
            handed_on.append((packet.source, packet.message))
        return answers, handed_on


class TakesWhatComesTwice(GraphRouting):
    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.channels = TakesTwice(self.topology, self.channels.gap_wait_s)


class TrustsAnEmptyTable(GraphRouting):
    def publish(self, event: Event, now: float) -> list[Answer]:
        self.untold.clear()
        return super().publish(event, now)


class KeepsWhatAPastLifeWanted(GraphRouting):
    def take(self, source: NodeId, message: Any, now: float) -> list[Answer]:
        return [] if isinstance(message, ChannelStart) else super().take(source, message, now)


class ParksForEver(Channels):
    def on_topology_changed(self, now: float) -> list[Answer]:
        return []


class NeverSendsOnWhatIsParked(GraphRouting):
    def __init__(self, *options: Any) -> None:
        super().__init__(*options)
        self.channels = ParksForEver(self.topology, self.channels.gap_wait_s)


@pytest.mark.parametrize(
    "planted",
    [
        slow(DropsWhatWaitedForADeadLink),
        slow(DoesNotPutBackInOrder),
        slow(TakesWhatComesTwice),
        TrustsAnEmptyTable,
        slow(KeepsWhatAPastLifeWanted),
        NeverSendsOnWhatIsParked,
    ],
)
def test_a_planted_fault_breaks_the_law(planted: type[GraphRouting]) -> None:
    @settings(max_examples=2_000, phases=[Phase.generate])
    @given(st.sampled_from(["ring", "diamond", "bridge"]), COSTS, scripts(ROUGH))
    def law(overlay, costs, script) -> None:
        run(overlay, costs, script, planted)

    with pytest.raises(AssertionError):
        law()
