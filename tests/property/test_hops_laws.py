"""SPCF and GSF, matched at every hop, deliver what asking everybody would, and their tables are what the paper defines.

A drawn script says what clients do and which message arrives next; links are FIFO and otherwise unordered. When all is
quiet the laws must hold:

- the tables of every broker are those of [spcf §3.1], worked out from scratch;
- an event reaches exactly the subscriptions that match it and whose clients are meant, each once, with SPCF as with
  GSF, and each broker gets it once at most;
- when everybody has left nothing remains.

Routings with a planted fault break the law.
"""

import itertools
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from godwit.baselines import hop_routing
from godwit.baselines.hop_messages import ContextBegins, SubscribePacket
from godwit.baselines.hop_routing import Contexts, HopRouting
from godwit.broker.bloom import BloomFilter
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.routing import Answer
from godwit.broker.topology import shortest_path_trees
from godwit.filters.contexts import content_part, key_of, of_sender, sender_part
from godwit.filters.filters import TRUE, Filter, all_of, any_of, missing, some
from godwit.filters.sets import at_least, one_of
from godwit.matching import NaiveMatcher
from tests.property.routing_network import HopNetwork

OVERLAYS: dict[str, list[tuple[str, str]]] = {
    "pair": [("a", "b")],
    "line": [("a", "b"), ("b", "c"), ("c", "d")],
    "ring": [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")],
    "diamond": [("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("a", "d")],
    "bridge": [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "f"), ("f", "d")],
}
CLIENTS = ("p", "q", "r", "s", "t")
CONTEXTS: tuple[dict[str, Any], ...] = ({}, {"f": 1}, {"f": 2}, {"f": (1, 2)}, {"f": 2, "g": 1})
ASKS: tuple[Filter, ...] = (
    *(TRUE, some("f", one_of([1])), some("f", at_least(2)), some("g", one_of([1])), missing("f")),
    any_of(some("f", one_of([1])), some("g", one_of([1]))),
)
CONTENTS = (TRUE, some("x", at_least(1)), some("x", at_least(2)))
FILTERS: tuple[Filter, ...] = (
    *(all_of(content, of_sender(asks)) for content in CONTENTS for asks in ASKS),
    any_of(some("x", at_least(2)), of_sender(some("f", one_of([1])))),
)

KINDS = ("context", "context", "subscribe", "subscribe", "unsubscribe", "publish", "leave", "restart", *["deliver"] * 8)
STEP = st.tuples(st.sampled_from(KINDS), st.integers(0, 50), st.integers(0, 50))
SCRIPTS = st.lists(STEP, max_size=40) | st.lists(STEP, min_size=40, max_size=120)


class Run:
    """A network that follows a script."""

    def __init__(
        self, links: list[tuple[str, str]], costs: list[float], make: type[HopRouting], **options: Any
    ) -> None:
        overlay = [(a, b, costs[number % len(costs)]) for number, (a, b) in enumerate(links)]
        self.network = HopNetwork(overlay, make=make, **options)
        self.names = sorted(self.network.brokers)
        for number, client in enumerate(CLIENTS):
            self.network.homes[client] = self.names[number % len(self.names)]

    def follow(self, script: list[tuple[str, int, int]]) -> None:
        network = self.network
        for kind, one, other in script:
            client = CLIENTS[one % len(CLIENTS)]
            match kind:
                case "context":
                    network.set_context(client, CONTEXTS[other % len(CONTEXTS)])
                case "subscribe":
                    network.subscribe(client, FILTERS[other % len(FILTERS)], f"s{one % 2}")
                case "unsubscribe":
                    network.unsubscribe(client, f"s{one % 2}")
                case "publish":
                    self.publish(client, other)
                case "leave":
                    self.leave(client)
                case "restart":
                    network.restart(self.names[one % len(self.names)])
                case "deliver":
                    ready = network.ready()
                    if ready:
                        network.deliver(*ready[one % len(ready)])

    def publish(self, client: str, drawn: int) -> Any:
        to = (None, *ASKS)[drawn % (len(ASKS) + 1)]
        return self.network.publish(client, to, x=drawn % 3)

    def leave(self, client: str) -> None:
        for name in ("s0", "s1"):
            self.network.unsubscribe(client, name)
        if client in self.network.contexts:
            self.network.set_context(client, None)


def check_tables(network: HopNetwork, strategy: str) -> None:
    """The context and content table of every broker, by their definitions. [spcf §3.1, Fig. 1]"""
    trees = shortest_path_trees(network.overlay)
    for name, broker in network.brokers.items():
        for other in network.brokers:
            if strategy == "spcf":
                theirs = {key_of(c) for client, c in network.contexts.items() if network.homes[client] == other}
                lazy = {key_of({})} if _has_lazy(network, other) else set()
                assert {key_of(c) for c in broker.contexts[other].live.values()} == theirs | lazy
            for number, context in broker.contexts[other].live.items():
                rows: dict[str, dict[Any, Any]] = {}
                for id, filter in network.wishes.items():
                    home = network.homes[id[0]]
                    asks = sender_part(filter) if strategy == "spcf" else TRUE
                    if home == other or not asks.holds(context):
                        continue
                    below = home  # the neighbour of `name` on the way down the tree of `other` to the subscriber
                    while below != other and trees[other][below] != name:
                        below = trees[other][below]
                    if below != other:
                        content = content_part(filter) if strategy == "spcf" else filter
                        c_s = network.brokers[home].clients.get(id[0], 1)
                        rows.setdefault(below, {})[home, id] = (content, f"{c_s}/{home}")
                for neighbour in network.neighbours(name):
                    held = broker.content(other, number, neighbour)
                    found = {key: (pair.filter, pair.subscriber) for key, pair in held.items()}
                    assert found == rows.get(neighbour, {}), (name, other, number, neighbour)


def _has_lazy(network: HopNetwork, broker: str) -> bool:
    """Whether a client of whom nobody has said anything has subscribed or published there."""
    return any(client not in network.contexts for client in network.brokers[broker].clients)


def check_law(
    links: list[tuple[str, str]],
    costs: list[float],
    script: list[tuple[str, int, int]],
    make: type[HopRouting] = HopRouting,
    **options: Any,
) -> None:
    got: dict[str, list[list[Any]]] = {}
    for strategy in ("spcf", "gsf"):
        run = Run(links, costs, make, strategy=strategy, **options)
        network = run.network
        run.follow(script)
        network.settle()
        check_tables(network, strategy)
        for ids in network.delivered.values():  # whatever happened meanwhile
            assert len(ids) == len(set(ids))
        got[strategy] = []
        for number, client in enumerate(CLIENTS * 7):
            published = run.publish(client, number)
            network.settle()
            assert network.got(published) == network.meant(published)
            got[strategy].append(network.got(published))
        for visited in network.visits.values():
            assert len(visited) == len(set(visited)), "a packet came to a broker twice"
        for client in CLIENTS:
            run.leave(client)
            if client in network.brokers[network.homes[client]].clients:  # known by what it did alone
                network.contexts[client] = {}
                network.set_context(client, None)
        network.settle()
        assert not any(sum(broker.sizes().values()) for broker in network.brokers.values())
        assert not any(broker.routes[name] for broker in network.brokers.values() for name in run.names)
        assert all(broker.is_settled() for broker in network.brokers.values())
    assert got["spcf"] == got["gsf"]


costs = st.lists(st.sampled_from([1.0, 1.0, 2.0, 0.5]), min_size=1, max_size=8)


@given(st.sampled_from(sorted(OVERLAYS)), costs, SCRIPTS)
def test_spcf_delivers_what_gsf_delivers_and_what_asking_everybody_would(name, costs, script):
    check_law(OVERLAYS[name], costs, script, matcher=NaiveMatcher)


@settings(max_examples=settings().max_examples // 2)
@given(st.sampled_from(sorted(OVERLAYS)), costs, SCRIPTS, st.sampled_from([0.01, 0.9]))
def test_the_law_holds_with_an_index_in_every_row_and_with_bloom_filters_that_are_mostly_wrong(
    name, costs, script, rate
):
    check_law(OVERLAYS[name], costs, script, matcher_from=0, bloom_rate=rate)


@given(st.integers(2, 9), st.integers(0, 10**6), costs, SCRIPTS)
def test_the_law_holds_on_random_overlays(count, drawn, costs, script):
    check_law([(a, b) for a, b, _ in overlay_of(count, drawn, costs)], costs, script, matcher=NaiveMatcher)


def overlay_of(count: int, drawn: int, costs: list[float]) -> tuple[tuple[str, str, float], ...]:
    """A tree and some links more."""
    names = [f"b{number}" for number in range(count)]
    links = [(names[drawn % child], names[child]) for child in range(1, count)]
    pairs = itertools.combinations(names, 2)
    more = [(a, b) for a, b in pairs if (a, b) not in links and hash_of(a, b, drawn) % 4 == 0]
    return tuple((a, b, costs[number % len(costs)]) for number, (a, b) in enumerate([*links, *more]))


def hash_of(a: str, b: str, drawn: int) -> int:
    return (int(a[1:]) * 31 + int(b[1:]) * 17 + drawn) * 2_654_435_761 % 2**32 >> 7


@given(st.integers(2, 12), st.integers(0, 10**6), costs)
def test_the_way_between_two_brokers_is_the_same_in_the_trees_of_both(count, drawn, costs):
    overlay = overlay_of(count, drawn, costs)
    trees = shortest_path_trees(overlay)

    def way(root: str, node: str) -> list[str]:
        return [node] if node == root else [*way(root, trees[root][node]), node]

    cost = {frozenset((a, b)): cost for a, b, cost in overlay}
    length = {(a, b): 0.0 if a == b else float("inf") for a in trees for b in trees}
    length |= {pair: cost for a, b, cost in overlay for pair in ((a, b), (b, a))}
    for via in trees:
        for a in trees:
            for b in trees:
                length[a, b] = min(length[a, b], length[a, via] + length[via, b])
    for a in trees:
        for b in trees:
            path = way(a, b)
            assert path == way(b, a)[::-1]
            assert sum(cost[frozenset(link)] for link in itertools.pairwise(path)) == length[a, b]


@given(st.integers(2, 12), st.integers(0, 10**6), costs)
def test_a_subscription_for_everybody_crosses_as_many_links_as_a_flood_along_a_tree(count, drawn, costs):
    for strategy in ("spcf", "gsf"):
        network = HopNetwork(overlay_of(count, drawn, costs), strategy=strategy)
        for name in network.brokers:
            network.set_context(f"client of {name}", {}, name)
        network.settle().messages()
        network.subscribe("client of b0", some("x", at_least(1)))
        sent = network.settle().messages()
        assert len(sent) == count - 1 == len({b for _, b, _ in sent})


# ------------------------------------------------------------ planted faults


class AttractsNothing(HopRouting):
    def _attracted(self, table: Contexts, context: Any) -> list[EntryId]:
        return []


class AttractsEvenWhatIsThere(HopRouting):
    """Harmless: the same again replaces itself."""

    def _attracted(self, table: Contexts, context: Any) -> list[EntryId]:
        return [id for id, asks in self.asks.items() if asks.holds(context)]


class DoesNotFillTheRowsOfANewContext(HopRouting):
    def _begin(self, message: ContextBegins) -> list[Answer]:
        kept, self.routes[message.broker] = self.routes[message.broker], {}
        answers = super()._begin(message)
        self.routes[message.broker] = kept
        return answers


class KeepsTheOldContextOfASubscriber(HopRouting):
    def set_context(self, client: NodeId, context: Any, now: float) -> list[Answer]:
        return [
            answer
            for answer in super().set_context(client, context, now)
            if type(getattr(answer, "message", None)) is not SubscribePacket
        ]


class KeepsWhatNobodyIsLeftFor(HopRouting):
    def _forget(self, broker: NodeId, number: int) -> None:
        kept = dict(self.routes[broker])
        super()._forget(broker, number)
        self.routes[broker] = kept


class ForgetsTheOthersOfAContext(HopRouting):
    def _leave(self, number: int) -> list[Answer]:
        self.users[number] = 1
        return super()._leave(number)


def refute(make: type[HopRouting] = HopRouting) -> None:
    @settings(max_examples=2_000, phases=[Phase.generate])
    @given(st.sampled_from(["line", "ring", "bridge"]), costs, SCRIPTS)
    def law(name, costs, script) -> None:
        check_law(OVERLAYS[name], costs, script, make, matcher=NaiveMatcher)

    with pytest.raises((AssertionError, KeyError)):
        law()


@pytest.mark.parametrize(
    "planted",
    [
        AttractsNothing,
        DoesNotFillTheRowsOfANewContext,
        KeepsTheOldContextOfASubscriber,
        KeepsWhatNobodyIsLeftFor,
        ForgetsTheOthersOfAContext,
    ],
)
def test_a_planted_fault_breaks_the_law(planted: type[HopRouting]) -> None:
    refute(planted)


@given(st.sampled_from(sorted(OVERLAYS)), costs, SCRIPTS)
def test_to_reissue_what_has_reached_a_broker_already_is_useless_and_harmless(name, costs, script):
    check_law(OVERLAYS[name], costs, script, AttractsEvenWhatIsThere, matcher=NaiveMatcher)


@pytest.mark.slow
def test_a_hop_that_looks_at_the_present_alone_keeps_what_is_over(monkeypatch):
    monkeypatch.setattr(Contexts, "have_matched_since", lambda self, asks, changes: self.match(asks))
    refute()


def test_a_bloom_filter_that_loses_somebody_breaks_the_law(monkeypatch):
    class Losing(BloomFilter):
        def __contains__(self, element: str) -> bool:
            return super().__contains__(element) and not element.startswith("2/")

    monkeypatch.setattr(hop_routing, "BloomFilter", Losing)
    refute()
