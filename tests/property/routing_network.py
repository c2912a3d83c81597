"""Networks of routing families alone, without links, sessions and brokers around them: `godwit.testing` is the driver.

A routing family is no machine: its methods are called by a broker. `Routed` makes it one, and `RoutingNetwork` speaks
to it as a broker would. Wires keep: what is under way stays while a link is closed, and is taken back by whoever gives
the link up or hears that its neighbour has lost its memory, as `links.py` does it.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from godwit.baselines.hop_messages import ContextPacket
from godwit.baselines.hop_routing import HopRouting
from godwit.broker.effects import Arrived, LinkDown, LinkUp, Send, TimerDue
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import EntryId, Message, NodeId
from godwit.broker.routing import Answer, DeliverLocally, Forward
from godwit.broker.tree import TreeRouting
from godwit.filters.contexts import stamped
from godwit.filters.events import Attributes, Event, event
from godwit.filters.filters import Filter
from godwit.testing import Machines, neighbours
from godwit.trace import Record
from tests.snapshots import restored

GAP_WAIT_S = 5.0
NEWBORN_S = 1_000.0
TIMERS_MAX = 1_000
STEPS_MAX = 100_000

Link = tuple[NodeId, NodeId]


class Routed:
    """A routing family as a machine."""

    def __init__(self, network: "RoutingNetwork", name: NodeId) -> None:
        self.network = network
        self.name = name

    def handle(self, input: Any, now: float) -> list[Any]:
        routing = self.network.brokers[self.name]
        match input:
            case LinkUp(peer=peer):
                forgot = self.network.hear_of_loss(self.name, peer)
                return [*forgot, *self.network.effects(self.name, routing.on_peer_up(peer, now))]
            case LinkDown(peer=peer):
                return self.network.effects(self.name, routing.on_peer_down(peer, now))
            case Arrived(peer=peer, frame=message):
                return self.network.effects(self.name, routing.on_message(peer, message, now))
            case TimerDue(key=key):
                return self.network.effects(self.name, routing.on_timer_due(key, now))
        raise AssertionError(f"{input} is nothing that a routing family hears")


class RoutingNetwork:
    """`make(name)` gives the routing of a broker. Nothing is joined yet."""

    def __init__(self, links: Iterable[Link], make: Callable[[NodeId], Any]) -> None:
        self.links = list(links)
        self.make = make
        self.wires = Machines(keeps=True)
        self.wires.on_effect = self.on_answer
        self.lives = dict.fromkeys(sorted({name for link in self.links for name in link}), 1)
        self.brokers: dict[NodeId, Any] = {}
        self.forgotten: set[Link] = set()  # (who has to hear it, who has lost its memory)
        for name in self.lives:
            self.brokers[name] = make(name)
            self.wires.add_broker(name, partial(self._routed, name))

    def _routed(self, name: NodeId, _: int) -> Routed:
        return Routed(self, name)

    @property
    def now(self) -> float:
        return self.wires.now

    @property
    def records(self) -> list[Record]:
        return self.wires.records

    def neighbours(self, name: NodeId) -> list[NodeId]:
        return list(neighbours(name, self.links))

    def effects(self, name: NodeId, answers: Iterable[Answer]) -> list[Any]:
        """What a driver can do about the answers of a routing."""
        return [Send(each.peer, each.message) if isinstance(each, Forward) else each for each in answers]  # type: ignore[arg-type]

    def carry_out(self, name: NodeId, answers: Iterable[Answer]) -> None:
        self.wires.carry_out(name, self.effects(name, answers))

    def on_answer(self, name: NodeId, answer: Any) -> None:
        """What is none of a machine's effects: most often `DeliverLocally`."""

    def deliver(self, a: NodeId, b: NodeId) -> Any:
        return self.wires.deliver(a, b)

    def ready(self) -> list[Link]:
        return self.wires.ready()

    # ------------------------------------------------------------ lives

    def hear_of_loss(self, name: NodeId, peer: NodeId) -> list[Any]:
        """A link opens: if the peer has lost its memory meanwhile, it is told what it has missed."""
        if (name, peer) not in self.forgotten:
            return []
        self.forgotten.discard((name, peer))
        undelivered = self.wires.undelivered(name, peer)
        return self.effects(name, self.brokers[name].on_peer_forgot(peer, undelivered, self.now))

    def stop(self, name: NodeId, *, is_noticed: bool) -> None:
        for peer in self.neighbours(name):
            self.wires.cut(name, peer, noticed_by=[peer] if is_noticed else [])
        self.wires.timers = {timer: at for timer, at in self.wires.timers.items() if timer[0] != name}

    def lose_memory(self, name: NodeId) -> None:
        self.lives[name] += 1
        for peer in self.neighbours(name):
            self.forgotten.add((peer, name))
            self.forgotten.discard((name, peer))
            self.wires.undelivered(name, peer)
        self.brokers[name] = self.make(name)

    def again(self, name: NodeId) -> None:
        """Go on from a snapshot."""
        self.brokers[name] = restored(self.brokers[name], self.make(name))


class TreeNetwork(RoutingNetwork):
    """Of tree routings. `links` are pairs of one-letter names: "ab bc" is a line of three."""

    def __init__(self, links: Iterable[str], **options: Any) -> None:
        self.delivered: dict[str, list[int]] = defaultdict(list)  # by client, the numbers of events
        self.published = 0
        self.options = options
        super().__init__([(pair[0], pair[1]) for pair in links], self._made)

    def _made(self, name: NodeId) -> TreeRouting:
        return TreeRouting(name, self.neighbours(name), incarnation=self.lives[name], **self.options)

    def on_answer(self, name: NodeId, answer: Any) -> None:
        assert isinstance(answer, DeliverLocally)
        for client in dict.fromkeys(client for client, _ in answer.subscriptions):
            self.delivered[client].append(answer.event.sequence)

    def subscribe(self, name: NodeId, client: str, filter: Filter) -> None:
        self.carry_out(name, self.brokers[name].subscribe((client, "s"), filter, self.now))

    def unsubscribe(self, name: NodeId, client: str) -> None:
        self.carry_out(name, self.brokers[name].unsubscribe((client, "s"), self.now))

    def advertise(self, name: NodeId, client: str, filter: Filter) -> None:
        self.carry_out(name, self.brokers[name].advertise((client, "a"), filter, self.now))

    def unadvertise(self, name: NodeId, client: str) -> None:
        self.carry_out(name, self.brokers[name].unadvertise((client, "a"), self.now))

    def publish(self, name: NodeId, **attributes: Any) -> Event:
        self.published += 1
        published = event(attributes, publisher="p", sequence=self.published)
        self.carry_out(name, self.brokers[name].publish(published, self.now))
        return published

    def connect(self, *links: str) -> None:
        """Neighbours greet each other, for the first time or again: these, or all."""
        for a, b in [(pair[0], pair[1]) for pair in links or self.links]:
            if not self.wires.join(a, b):
                self.wires.give(a, LinkUp(b))
                self.wires.give(b, LinkUp(a))

    def deliver(self, a: NodeId, b: NodeId) -> Any:
        message = super().deliver(a, b)
        self.wires.acknowledge(a, b)
        return message

    def settle(self) -> "TreeNetwork":
        self.wires.run()
        return self

    def start(self) -> "TreeNetwork":
        self.connect()
        return self.settle()

    def messages(self, kind: type | None = None) -> list[Link]:
        """Who sent a message (of this kind) to whom, since the last time this was asked."""
        return self.wires.messages(kind)

    def forget(self, *names: NodeId) -> None:
        """These brokers start again without a memory; nobody has noticed yet."""
        for name in names:
            self.stop(name, is_noticed=False)
            self.lose_memory(name)

    def meet(self, one: NodeId, newcomer: NodeId) -> None:
        """`one` hears that `newcomer` has lost its memory, and each hears that the link is open."""
        self.forgotten.add((one, newcomer))
        self.connect(one + newcomer)

    def sizes(self) -> dict[str, int]:
        """All tables of all brokers together."""
        total: dict[str, int] = {}
        for broker in self.brokers.values():
            for table, size in broker.sizes().items():
                total[table] = total.get(table, 0) + size
        return total


class GraphNetwork(RoutingNetwork):
    """Of graph routings: links go down and up, and are given up by either end."""

    def __init__(
        self,
        links: Iterable[Link],
        costs: Mapping[Link, float] | None = None,
        make: Callable[..., GraphRouting] = GraphRouting,
    ) -> None:
        self.costs = costs or {}
        self.make_routing = make
        self.deliveries: dict[tuple[NodeId, EntryId], list[tuple[str, int]]] = defaultdict(list)
        self.sequences: dict[str, int] = defaultdict(int)
        sorted_links = [(min(link), max(link)) for link in links]
        self.given_up = {pair for a, b in sorted_links for pair in [(a, b), (b, a)]}
        super().__init__(sorted_links, self._made)

    def _made(self, name: NodeId) -> GraphRouting:
        costs = {b if a == name else a: cost for (a, b), cost in self.costs.items() if name in (a, b)}
        return self.make_routing(name, self.lives[name], costs, GAP_WAIT_S, NEWBORN_S)

    def effects(self, name: NodeId, answers: Iterable[Answer]) -> list[Any]:
        effects = super().effects(name, answers)
        for each in effects:
            is_given_up = isinstance(each, Send) and (name, each.peer) in self.given_up
            assert not is_given_up, f"{name} sends to {each.peer}, whose link it has given up"
        return effects

    def on_answer(self, name: NodeId, answer: Any) -> None:
        if isinstance(answer, DeliverLocally):
            for id in answer.subscriptions:
                self.deliveries[name, id].append(answer.event.id)

    def subscribe(self, name: NodeId, id: EntryId, filter: Filter) -> None:
        self.carry_out(name, self.brokers[name].subscribe(id, filter, self.now))

    def unsubscribe(self, name: NodeId, id: EntryId) -> None:
        self.carry_out(name, self.brokers[name].unsubscribe(id, self.now))

    def publish(self, name: NodeId, **attributes: Any) -> Event:
        publisher = f"publisher at {name}"
        self.sequences[publisher] += 1
        published = event(attributes, publisher=publisher, sequence=self.sequences[publisher])
        self.carry_out(name, self.brokers[name].publish(published, self.now))
        return published

    # ------------------------------------------------------------ links and lives

    def under_way(self) -> list[tuple[Link, list[Message]]]:
        wires = [wire for link in self.links for wire in (link, link[::-1])]
        return [(wire, self.wires.under_way(*wire)) for wire in sorted(wires)]

    def can_deliver(self) -> list[Link]:
        ready = set(self.ready())
        return [wire for link in self.links for wire in (link, link[::-1]) if wire in ready]

    def acknowledge(self, a: NodeId, b: NodeId) -> None:
        self.wires.acknowledge(a, b)

    def take_down(self, link: Link) -> None:
        self.wires.cut(*link)

    def give_up(self, a: NodeId, b: NodeId) -> None:
        if not self.wires.is_joined(a, b) and (a, b) not in self.given_up:
            self.given_up.add((a, b))
            undelivered = self.wires.undelivered(a, b)
            self.carry_out(a, self.brokers[a].on_link_dead(b, undelivered, self.now))

    def bring_up(self, link: Link) -> None:
        self.given_up -= {link, link[::-1]}
        self.wires.join(*link)

    def restart(self, name: NodeId) -> None:
        """Stop, and start again from a snapshot."""
        self.stop(name, is_noticed=True)
        self.again(name)
        for peer in self.neighbours(name):
            self.carry_out(name, self.brokers[name].on_peer_down(peer, self.now))

    def forget(self, name: NodeId) -> None:
        """Stop, and start again with nothing."""
        self.stop(name, is_noticed=True)
        self.lose_memory(name)
        self.given_up |= {(name, peer) for peer in self.neighbours(name)}

    # ------------------------------------------------------------ time

    def fire_timer(self, until: float = math.inf) -> bool:
        """The time of the next timer comes; whether there was one by `until`."""
        return self.wires.fire_next(until)

    def drain(self) -> None:
        """Deliver all that is under way on links that are up; timers do not run."""
        for _ in range(STEPS_MAX):
            if not self.wires.step():
                return
        raise AssertionError("packets go round for ever")

    def settle(self) -> None:
        """Faults are over: all links come up, and everything comes to its end."""
        for link in self.links:
            self.bring_up(link)
        self.drain()
        for _ in range(TIMERS_MAX):
            if not self.fire_timer():
                return
            self.drain()
        raise AssertionError(f"timers run for ever: {sorted(self.wires.timers)}")

    def start(self) -> "GraphNetwork":
        self.settle()
        return self


class HopNetwork(RoutingNetwork):
    """Of routings that match at every hop, and clients that are at one broker each.

    The exact test of `Event.to` against the receiver's context, which is the sessions' work, is done where an event is
    handed over.
    """

    def __init__(self, overlay: Iterable[tuple[NodeId, NodeId, float]], **options: Any) -> None:
        self.overlay = tuple(overlay)
        self.options = options
        self.make_routing = options.pop("make", HopRouting)
        self.homes: dict[str, NodeId] = {}
        self.contexts: dict[str, Attributes] = {}
        self.wishes: dict[EntryId, Filter] = {}
        self.delivered: dict[EntryId, list[tuple[str, int]]] = defaultdict(list)
        self.not_addressed: list[tuple[EntryId, tuple[str, int]]] = []  # dropped at the last hop
        self.sequence = 0
        super().__init__([(a, b) for a, b, _ in self.overlay], self._made)
        for a, b in self.links:
            self.wires.join(a, b)

    def _made(self, name: NodeId) -> Any:
        return self.make_routing(name, self.neighbours(name), self.overlay, **self.options)

    def neighbours(self, name: NodeId) -> list[NodeId]:
        return sorted(super().neighbours(name))

    def on_answer(self, name: NodeId, answer: Any) -> None:
        assert isinstance(answer, DeliverLocally)
        for id in answer.subscriptions:
            if answer.event.to is None or answer.event.to.holds(self.contexts.get(id[0], {})):
                self.delivered[id].append(answer.event.id)
            else:
                self.not_addressed.append((id, answer.event.id))

    def set_context(self, client: str, context: Attributes | None, home: NodeId | None = None) -> None:
        if home is not None:
            self.homes[client] = home
        name = self.homes[client]
        if context is None:
            del self.contexts[client]
        else:
            self.contexts[client] = context
        self.carry_out(name, self.brokers[name].set_context(client, context, 0.0))

    def subscribe(self, client: str, filter: Filter, name: str = "s") -> None:
        self.wishes[client, name] = filter
        home = self.homes[client]
        self.carry_out(home, self.brokers[home].subscribe((client, name), filter, 0.0))

    def unsubscribe(self, client: str, name: str = "s") -> None:
        self.wishes.pop((client, name), None)
        home = self.homes[client]
        self.carry_out(home, self.brokers[home].unsubscribe((client, name), 0.0))

    def publish(self, client: str, to: Filter | None = None, **attributes: Any) -> Event:
        self.sequence += 1
        bare = event(attributes, publisher=client, sequence=self.sequence, to=to)
        published = stamped(bare, self.contexts.get(client, {}))
        home = self.homes[client]
        self.carry_out(home, self.brokers[home].publish(published, 0.0))
        return published

    def meant(self, published: Event) -> list[EntryId]:
        """Who must get it now, asking everybody. (brute force)"""
        return [
            id
            for id, filter in sorted(self.wishes.items())
            if filter.matches(published) and (published.to is None or published.to.holds(self.contexts.get(id[0], {})))
        ]

    def got(self, published: Event) -> list[EntryId]:
        """Who has got it, once for each time."""
        return [id for id, events in sorted(self.delivered.items()) for each in events if each == published.id]

    @property
    def visits(self) -> dict[tuple[str, int], list[NodeId]]:
        """By event, the brokers that it has come to."""
        visits: dict[tuple[str, int], list[NodeId]] = defaultdict(list)
        for _, node, input, _ in self.wires.log:
            if isinstance(input, Arrived) and isinstance(input.frame, ContextPacket):
                visits[input.frame.event.id].append(node)
        return visits

    def settle(self) -> "HopNetwork":
        self.wires.run()
        return self

    def restart(self, name: NodeId) -> None:
        """A broker stops and comes back with its disk."""
        self.again(name)

    def messages(self, kind: type | None = None) -> list[tuple[NodeId, NodeId, Any]]:
        """What was sent (of this kind) by whom to whom, since the last time this was asked."""
        found = [(a, b, message) for a, b, message in self.wires.sent if kind is None or type(message) is kind]
        self.wires.sent.clear()
        return found
