"""SPCF delivers what flooding with filtering at both edges delivers, and its tables hold what they must and no more.

A drawn script says what happens, step by step: clients set contexts and subscribe, replace, unsubscribe and publish;
links and brokers fail; messages come in any order that channels allow. At each broker one subscriber never changes.
Then faults stop, everything settles, and the laws must hold:

- each event reaches every subscriber that never changes, if its subscription matches the event with the context that
  it was published from and `to` matches the subscriber's; also an event published right after its context was set;
- of the present life of a broker nothing comes twice, and all comes in order;
- every table is exactly what D says: nobody is told what it does not need, and nothing is left behind;
- of a last round of events, with no summaries about, each goes to the brokers where somebody gets it, and to no other;
- when everyone has left, all tables are empty.

The routing under test is a parameter, so the same laws are also run on routings with a planted fault.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from godwit.broker.channels import Channels
from godwit.broker.context_table import OtherBroker
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import Carried, DropSubscriptions, EntryId, InContext, NodeId, Packet, Publish, Subscribe
from godwit.broker.routing import Answer, Forward, RelayedMessage
from godwit.broker.spcf import CONTEXTS_MAX, ContextForwarding, spcf_routing
from godwit.broker.stream_messages import HopPacket
from godwit.filters.contexts import context_of, may_match, sender_part, stamped
from godwit.filters.events import Attributes, Event, event
from godwit.filters.filters import TRUE, Filter
from godwit.filters.language import parse
from godwit.mobility.move_messages import Flush
from tests.hash_seeds import outputs
from tests.property.routing_network import NEWBORN_S, GraphNetwork
from tests.seeds import few, slow

OVERLAYS: dict[str, list[tuple[str, str]]] = {
    "pair": [("a", "b")],
    "line": [("a", "b"), ("b", "c"), ("c", "d")],
    "ring": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")],
    "bridge": [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "c")],
}
CONTEXTS: list[Attributes] = [{}, {"x": 1}, {"x": 2}, {"x": 3}, {"x": 1, "role": "guard"}, {"role": "guest"}]
WANTS = [
    TRUE,
    parse("v >= 2"),
    parse("sender.x = 1"),
    parse("v >= 1 AND sender.x = 1"),
    parse("sender.x >= 2"),
    parse("v >= 1 AND sender.x <= 2"),
    parse("sender.role = 'guard' OR sender.x = 3"),
    parse("v = 3 OR sender.x = 2"),
    parse("sender.x IS NULL"),
]
MEANT = [None, None, parse("role = 'guard'"), parse("x <= 1"), parse("role IS NULL"), parse("x = 9")]
FIXED: list[tuple[Filter, Attributes]] = [
    (parse("v >= 1 AND sender.x = 1"), {"role": "guard"}),
    (parse("sender.x >= 2"), {"x": 1}),
    (parse("v >= 2"), {}),
    (parse("sender.role = 'guard' OR sender.x = 3"), {"x": 9, "role": "guest"}),
    (parse("sender.x IS NULL"), {"role": "guard", "x": 1}),
]
GENTLE = (
    "context",
    "context",
    "context",
    "subscribe",
    "subscribe",
    "unsubscribe",
    "publish",
    "publish",
    "publish",
    "publish old",
    "deliver",
    "deliver",
    "deliver",
    "deliver",
    "acknowledge",
    "down",
    "up",
    "give up",
    "timer",
)
ROUGH = (*GENTLE, "restart", "forget")


def scripts(kinds: tuple[str, ...]) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    step = st.tuples(st.sampled_from(kinds), st.integers(0, 50), st.integers(0, 99))
    return st.lists(step, max_size=40) | st.lists(step, min_size=40, max_size=100)


class Run:
    """A network that follows a script, and what must come of it."""

    def __init__(self, links: list[tuple[str, str]], contexts_max: int, make: Any = spcf_routing) -> None:
        self.network = GraphNetwork(links, make=lambda *options: make(*options, contexts_max=contexts_max))
        self.brokers: dict[NodeId, Any] = self.network.brokers
        self.contexts_max = contexts_max
        self.names = sorted(self.brokers)
        self.contexts: dict[tuple[NodeId, str], Attributes] = {}
        self.published: list[tuple[NodeId, int, Event]] = []  # where, in which life of that broker, and what
        self.sequences: dict[NodeId, int] = {}
        for name in self.names:
            self.begin(name)
        self.network.start()
        self.started_at = self.network.now
        self.first_lives = dict(self.network.lives)

    def fixed(self, name: NodeId) -> tuple[Filter, Attributes]:
        return FIXED[self.names.index(name) % len(FIXED)]

    def begin(self, name: NodeId) -> None:
        """The subscriber that never changes comes to a broker."""
        filter, context = self.fixed(name)
        self.set_context(name, "fixed", context)
        self.network.subscribe(name, ("fixed", "s"), filter)

    def set_context(self, name: NodeId, client: str, context: Attributes | None) -> None:
        if context is None:
            self.contexts.pop((name, client), None)
        else:
            self.contexts[name, client] = context
        self.carry_out(name, self.brokers[name].set_context(client, context, self.network.now))

    def carry_out(self, name: NodeId, answers: list[Answer]) -> list[NodeId]:
        """Let it happen; where an event in it goes."""
        self.network.carry_out(name, answers)
        packets: list[Any] = [answer.message for answer in answers if isinstance(answer, Forward)]
        if any(isinstance(each, HopPacket) for each in packets):  # hops find out; its source knows whom they must find
            return sorted(self.brokers[name].hops.unconfirmed[-1].targets)
        events = [each for each in packets if isinstance(each, Packet) and isinstance(each.message, Publish)]
        return sorted(target for packet in events for target in packet.targets)

    def publish(self, name: NodeId, context: Attributes, v: int, to: Filter | None) -> list[NodeId]:
        self.sequences[name] = self.sequences.get(name, 0) + 1
        said = event({"v": v}, publisher=f"at {name}", sequence=self.sequences[name], to=to)
        said = stamped(said, context)
        self.published.append((name, self.network.lives[name], said))
        return self.carry_out(name, self.brokers[name].publish(said, self.network.now))

    def follow(self, script: Iterable[tuple[str, int, int]]) -> None:
        network = self.network
        for kind, which, x in script:
            name = self.names[which % len(self.names)]
            link: Any = network.links[which % len(network.links)]
            client, context = f"c{which % 3}", CONTEXTS[x % len(CONTEXTS)]
            match kind:
                case "context":
                    self.set_context(name, client, None if x % 7 == 0 else context)
                case "subscribe":
                    network.subscribe(name, (client, f"s{x % 2}"), WANTS[x % len(WANTS)])
                case "unsubscribe":
                    network.unsubscribe(name, (client, f"s{x % 2}"))
                case "publish":
                    self.publish(name, self.contexts.get((name, client), {}), x % 4, MEANT[x % len(MEANT)])
                case "publish old":
                    self.publish(name, context, x % 4, MEANT[x % len(MEANT)])
                case "deliver" if pairs := network.can_deliver():
                    for _ in range(x % 10 + 1):
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
                case "restart":
                    network.restart(name)
                case "forget":
                    network.forget(name)
                    self.contexts = {key: known for key, known in self.contexts.items() if key[0] != name}
                    self.begin(name)

    # ------------------------------------------------------------ laws

    def is_owed(self, target: NodeId, said: Event) -> bool:
        """Whether flooding with filtering at both edges delivers it."""
        filter, context = self.fixed(target)
        return filter.matches(said) and (said.to is None or said.to.holds(context))

    def check_deliveries(self) -> None:
        """Of what a past life of a broker had under way, sessions drop what comes twice (channels.py, rule 6)."""
        network = self.network
        for target in self.names:
            came = network.deliveries[target, ("fixed", "s")]
            kept_memory = network.lives[target] == self.first_lives[target]
            for source in self.names:
                said = [each for name, life, each in self.published if name == source and life == network.lives[name]]
                ids = [each.id for each in said]
                taken = [id for id in came if id in ids]
                assert taken == [id for id in ids if id in taken], f"{source} to {target}: order, or doubles"
                missing = [each.id for each in said if self.is_owed(target, each) and each.id not in taken]
                assert not (kept_memory and missing), f"lost from {source} to {target}"

    def check_tables(self) -> None:
        for home in self.brokers.values():
            for broker in self.brokers.values():
                if broker is not home:
                    self.check_pair(home, broker)
            assert home.is_settled()
            assert home.forwarding.awaiting == home.stale == home.untold == {}
            assert sorted(home.forwarding.class_of) == sorted(home.local)
            assert sum(len(group.ids) for group in home.forwarding.classes.values()) == len(home.local)
            assert len(home.forwarding.own) <= self.contexts_max
            for client, key in home.forwarding.own.keys.items():
                exact = home.forwarding.own.exact[key]
                assert exact == self.contexts[home.broker, client]
                assert may_match(TRUE, home.forwarding.own.described[home.forwarding.own.numbers[key]])

    def check_pair(self, home: Any, broker: Any) -> None:
        """What `broker` holds of `home` is what D says; matched at hops, also what D says of those behind it."""
        told = {
            id: filter
            for id, filter in home.local.items()
            if broker.broker in (asked := self.asked_for(home, sender_part(filter)))
            or broker.broker in home.between(asked)
        }
        assert broker.remote.get(home.broker, {}) == told
        other = broker.forwarding.others.get(home.broker, OtherBroker())
        assert dict(other.described.values()) == home.forwarding.own.described
        clients: dict[str, int] = {}
        for client, _ in told:
            clients[client] = clients.get(client, 0) + 1
        assert other.counts == clients
        assert {
            client: counts[broker.broker]
            for client, counts in home.forwarding.held_by.items()
            if broker.broker in counts
        } == (clients)
        for client in clients:
            placed = other.context_of(client)
            assert (0 if placed is None else placed[0]) == home.forwarding.own.number_of_client(client)
        assert set(other.places) <= set(clients)
        by_class: dict[Filter, set[EntryId]] = {}
        for id, filter in told.items():
            by_class.setdefault(sender_part(filter), set()).add(id)
        assert {asked: set(ids) for asked, ids in other.classes.items()} == by_class
        told_to = {asked for asked, group in home.forwarding.classes.items() if broker.broker in group.told}
        assert told_to == set(by_class)

    def asked_for(self, home: Any, asked: Filter) -> list[NodeId]:
        """D: the other brokers that have a client whose context may match."""
        return [
            name
            for name, broker in self.brokers.items()
            if broker is not home
            and any(may_match(asked, described) for described in broker.forwarding.own.described.values())
        ]

    def check_afterwards(self) -> None:
        """A last round from contexts that are known everywhere."""
        self.network.deliveries.clear()
        for (name, _), context in list(self.contexts.items()):
            for to in MEANT:
                targets = self.publish(name, context, 2, to)
                said = self.published[-1][2]
                wanted = [each for each in self.names if each != name and self.gets(each, said)]
                missing = [each for each in wanted if each not in targets]
                assert not missing
                if self.contexts_max >= len(CONTEXTS) + len(FIXED):
                    assert targets == wanted
        last_round = self.published[-len(self.contexts) * len(MEANT) :]
        self.network.settle()
        for target, broker in self.brokers.items():
            for id, filter in broker.local.items():
                there = self.contexts.get((target, id[0]))
                due = [
                    said.id
                    for _, _, said in last_round
                    if filter.matches(said) and (said.to is None or there is None or said.to.holds(there))
                ]
                came = self.network.deliveries[target, id]
                assert [each for each in due if came.count(each) != 1] == []

    def gets(self, target: NodeId, said: Event) -> bool:
        """Whether some client there gets it, or may, as far as routing can know."""
        broker = self.brokers[target]
        clients = {client: None for (client, _), filter in broker.local.items() if filter.matches(said)}
        known = [(self.contexts.get((target, client)), client) for client in clients]
        return any(said.to is None or context is None or said.to.holds(context) for context, _ in known)

    def leave(self) -> None:
        for name in self.names:
            for id in list(self.brokers[name].local):
                self.network.unsubscribe(name, id)
            for _, client in [key for key in self.contexts if key[0] == name]:
                self.set_context(name, client, None)
        self.network.settle()
        for broker in self.brokers.values():
            assert not any(broker.sizes().values()), broker.sizes()
            assert broker.forwarding.classes == broker.forwarding.held_by == broker.forwarding.awaiting == {}


def run(overlay: str, contexts_max: int, script: list[tuple[str, int, int]], make: Any = spcf_routing) -> Run:
    made = Run(OVERLAYS[overlay], contexts_max, make)
    made.follow(script)
    made.network.settle()
    made.check_deliveries()
    made.check_tables()
    made.check_afterwards()
    made.leave()
    return made


LIMITS = st.sampled_from([1, 2, 64, 64])


@given(st.sampled_from(sorted(OVERLAYS)), LIMITS, scripts(GENTLE))
def test_with_links_that_die_and_return_every_event_comes_and_every_table_is_what_d_says(
    overlay, limit, script
) -> None:
    run(overlay, limit, script)


@given(st.sampled_from(sorted(OVERLAYS)), LIMITS, scripts(ROUGH))
def test_with_brokers_that_forget_everything_too(overlay, limit, script) -> None:
    run(overlay, limit, script)


class Flushing(GraphNetwork):
    """Takes down who has taken a `Flush` of whom."""

    def __init__(self, *overlay: Any, **options: Any) -> None:
        self.flushed: set[tuple[NodeId, NodeId, int]] = set()
        super().__init__(*overlay, **options)

    def on_answer(self, name: NodeId, answer: Any) -> None:
        if isinstance(answer, RelayedMessage):
            self.flushed.add((name, answer.source, answer.message.attempt))
        super().on_answer(name, answer)


def run_flushes(script: list[tuple[int, int]], make: Any = spcf_routing) -> None:
    """n subscribes and sends a `Flush` behind it, as for a client that comes; x and y change contexts and publish."""
    further = {Flush: lambda message: None}
    network = Flushing([("n", "x"), ("x", "y"), ("y", "n")], make=lambda *options: make(*options, further=further))
    network.start()
    made = Run.__new__(Run)
    made.network, made.brokers, made.contexts, made.published, made.sequences = network, network.brokers, {}, [], {}
    id, wanted, due = ("client", "s"), None, list[Any]()
    for attempt, (which, x) in enumerate(script):
        name = "xyn"[which % 3]
        match which % 7:
            case 0 | 1 if name != "n":
                made.set_context(name, "p", CONTEXTS[x % len(CONTEXTS)] if x % 7 else None)
            case 2 if wanted is None:
                wanted = WANTS[x % len(WANTS)]
                network.subscribe("n", id, wanted)
                network.carry_out("n", made.brokers["n"].send(["x", "y"], Flush("client", "o", 1), network.now))
            case 3 | 4 if name != "n":
                made.publish(name, made.contexts.get((name, "p"), CONTEXTS[attempt % len(CONTEXTS)]), x % 4, None)
                said = made.published[-1][2]
                if wanted is not None and (name, "n", 1) in network.flushed and wanted.matches(said):
                    due.append(said.id)
            case _ if pairs := network.can_deliver():
                network.deliver(*pairs[x % len(pairs)])
    network.settle()
    came = network.deliveries["n", id]
    assert [each for each in due if each not in came] == []


FLUSHES = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 99)), min_size=10, max_size=80)


@given(FLUSHES)
def test_what_is_published_after_a_flush_goes_where_that_came_from(script) -> None:
    """What transfer_barrier.py rests on."""
    run_flushes(script)


def with_little_room(made: GraphRouting) -> GraphRouting:
    made.channels = Channels(made.topology, made.channels.gap_wait_s, history_max=4, parked_max=3, held_max=3)
    return made


def run_with_little_room(overlay: str, script: list[tuple[str, int, int]], make: Any = spcf_routing) -> None:
    made = Run(OVERLAYS[overlay], 64, lambda *options, **more: with_little_room(make(*options, **more)))
    made.follow(script)
    made.network.settle()
    made.check_tables()
    made.check_afterwards()
    made.leave()


@given(st.sampled_from(sorted(OVERLAYS)), scripts(GENTLE))
def test_with_too_little_room_for_what_is_under_way_the_tables_are_whole_again(overlay, script) -> None:
    run_with_little_room(overlay, script)


@pytest.mark.parametrize("seed", few(range(4), 2))
def test_long_scripts_on_a_random_overlay_hold_too(seed: int) -> None:
    random_ = random.Random(seed)
    names = [f"n{number}" for number in range(8)]
    links = [(names[at], names[random_.randrange(at)]) for at in range(1, len(names))]
    links += [(a, b) for a, b in (random_.sample(names, 2) for _ in range(8)) if not {(a, b), (b, a)} & {*links}]
    made = Run(links, random_.choice([2, 64]))
    made.follow((random_.choice(ROUGH), random_.randrange(51), random_.randrange(100)) for _ in range(500))
    made.network.settle()
    made.check_deliveries()
    made.check_tables()
    made.check_afterwards()
    made.leave()


DIGEST = """
import hashlib, random
from tests.property.test_spcf_laws import OVERLAYS, ROUGH, Run

random_ = random.Random(5)
made = Run(OVERLAYS["bridge"], 2)
made.follow((random_.choice(ROUGH), random_.randrange(51), random_.randrange(100)) for _ in range(300))
seen = [*made.network.under_way()]
made.network.settle()
seen.append((made.network.deliveries, made.network.records, len(made.network.wires.log)))
print(hashlib.sha256(repr(seen).encode()).hexdigest())
"""


def test_the_same_script_gives_the_same_packets_under_any_hash_seed() -> None:
    assert len(outputs(DIGEST)) == 1


# ------------------------------------------------------------ planted faults


class AwaitsNobody(ContextForwarding):
    """An event published before its context has attracted anything goes only where something is known."""

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        if self.own.number_of(context_of(event)):
            return {home for home, _ in found}
        return super().homes(event, found)


class TrustsOldStamps(ContextForwarding):
    """An event from a context that is none of ours goes only where something is known."""

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        return super().homes(event, found) & {home for home, _ in found}


class NeverTakesBack(ContextForwarding):
    def _dismiss(self, source: NodeId, other: OtherBroker) -> list[Answer]:
        return []


class IgnoresUnneeded(ContextForwarding):
    def on_message(self, source: NodeId, message: Any) -> list[Answer]:
        return [] if isinstance(message, DropSubscriptions) else super().on_message(source, message)


class KeepsItsClass(ContextForwarding):
    """A replaced filter goes where the old one went."""

    def on_subscribe(self, id: EntryId, filter: Filter) -> list[Answer]:
        if id in self.class_of:
            return self.tables.tell(sorted(self.classes[self.class_of[id]].reach), Subscribe(id, filter))
        return super().on_subscribe(id, filter)


class SaysNotWhereClientsAre(GraphRouting):
    """The first context that is told of a client is the last."""

    def tell(self, targets: Any, message: Any) -> list[Answer]:
        known: Any = self.forwarding
        if isinstance(message, InContext) and message.client in known.held_by and len(known.own) > 1:
            return []
        return super().tell(targets, message)


class MeansTheWrongOnes(ContextForwarding):
    """Whoever is in no known context is taken not to be meant."""

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        if event.to is not None:
            found = [(home, id) for home, id in found if self.others[home].context_of(id[0]) is not None]
        return super().homes(event, found)


class KeepsOldContexts(ContextForwarding):
    """Whoever tells everything from the start tells what it had before, too."""

    def on_start(self, source: NodeId) -> None:
        super().on_start(source)
        self.others[source].stale = {}


class RemembersWhatAPastLifeWasTold(ContextForwarding):
    """Whoever starts a new life is told everything, and thought to have all that its past life was told."""

    def __init__(self, contexts_max: int) -> None:
        super().__init__(contexts_max)
        self.before: dict[NodeId, tuple[Any, Any]] = {}

    def on_meet(self, broker: NodeId) -> None:
        reach = {asked: dict(group.reach) for asked, group in self.classes.items()}
        self.before[broker] = reach, {client: dict(counts) for client, counts in self.held_by.items()}
        super().on_meet(broker)

    def everything(self, broker: NodeId) -> Iterable[Carried]:
        yield from super().everything(broker)
        if broker in self.before:
            reach, self.held_by = self.before.pop(broker)
            for asked, told in reach.items():
                self.classes[asked].reach = told


def routing_with(planted: Any) -> Callable[..., GraphRouting]:
    """Makes brokers that have a fault, in their tables or in whom they tell."""

    def make(*options: Any, contexts_max: int = CONTEXTS_MAX, **more: Any) -> GraphRouting:
        of_tables = issubclass(planted, GraphRouting)
        forwarding = ContextForwarding(contexts_max) if of_tables else planted(contexts_max)
        made: GraphRouting = (planted if of_tables else GraphRouting)(*options, forwarding=forwarding, **more)
        return made

    return make


PLANTED = [
    AwaitsNobody,
    TrustsOldStamps,
    slow(NeverTakesBack),
    slow(IgnoresUnneeded),
    KeepsItsClass,
    SaysNotWhereClientsAre,
    MeansTheWrongOnes,
    slow(KeepsOldContexts),
    RemembersWhatAPastLifeWasTold,
]


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_fault_breaks_a_law(planted: type) -> None:
    @settings(max_examples=2_000, phases=[Phase.generate])
    @given(st.sampled_from(["line", "ring", "bridge"]), LIMITS, scripts(ROUGH))
    def law(overlay, limit, script) -> None:
        if planted is KeepsOldContexts:
            run_with_little_room(overlay, script, routing_with(planted))
        else:
            run(overlay, limit, script, routing_with(planted))

    with pytest.raises((AssertionError, KeyError)):
        law()


@pytest.mark.parametrize("planted", [AwaitsNobody, TrustsOldStamps])
def test_a_planted_fault_breaks_what_moving_rests_on(planted: type) -> None:
    @settings(max_examples=2_000, phases=[Phase.generate])
    @given(FLUSHES)
    def law(script) -> None:
        run_flushes(script, routing_with(planted))

    with pytest.raises(AssertionError):
        law()
