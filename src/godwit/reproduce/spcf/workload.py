"""The workload of [spcf §4], with exact selectivities.

*Theory.* A message is of one of as many kinds as a client has subscriptions, and has a value from 0 to 1. Each client
subscribes once to each kind, and asks for a range of values whose width is the *content selectivity*. So of the
subscriptions of one client at most one matches, and a message matches, on average, exactly this share of all clients.

A client's context is its place `x` from 0 to 1, no two alike and all equally far apart. A context filter asks for a
range of places that holds exactly the share of clients that is its *context selectivity*. In a subscription it is asked
of the publisher; in a publication, of the receivers. Both are drawn apart from the content, so the share of clients
that are given a message is the product of the two.

| locality | who is near whom |
|---|---|
| `none` | places are dealt out to clients by lot [spcf §4.3: "no locality in the system"] |
| `contexts` | clients with places near each other are at one broker, or at brokers near each other |
| `interests` | the same, and a context filter asks for places around the place of the client that asks |

*Rules.*
1. The same seed gives the same clients, filters and messages, whatever the strategy.
2. What a filter asks of the sender's context stands in it as `sender.x`: the encoding of [spcf Table 1] for ASF and
   GSF, and for SPCF its context filter (`filters/contexts.py`).
"""

from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Literal

import msgspec

from godwit.broker.messages import NodeId
from godwit.filters.contexts import of_sender, stamped
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, all_of, some
from godwit.filters.sets import between, one_of
from godwit.reproduce.spcf.routing_net import Net
from godwit.simulator.topologies import Overlay, random_graph

__all__ = ["Locality", "Workload", "WorkloadSize", "range_of"]

Locality = Literal["none", "contexts", "interests"]


class WorkloadSize(msgspec.Struct, frozen=True):
    """How large the network is. [spcf §4] has 20 brokers of degree 6, 100 clients, 30 subscriptions each."""

    brokers: int = 20
    degree: int = 6
    clients: int = 100
    subscriptions: int = 30


def range_of(start: float, width: float) -> Filter:
    """A context filter: places from `start` on, over a width."""
    return some("x", between(start, start + width))


class Workload:
    """Clients, where they are and in what context, what they want, and what they say."""

    def __init__(
        self,
        size: WorkloadSize,
        seed: int,
        *,
        content: float = 0.1,
        context: float = 1.0,
        asks: Literal["subscriptions", "publications", "both"] = "subscriptions",
        locality: Locality = "none",
    ) -> None:
        assert 0 < content <= 1
        assert 0 < context <= 1
        self.size, self.seed, self.locality = size, seed, locality
        self.content, self.context, self.asks = content, context, asks
        self.overlay: Overlay = random_graph(size.brokers, size.degree, Random(f"{seed}/overlay"))
        names = [f"c{number}" for number in range(size.clients)]
        brokers = self.overlay.brokers if locality == "none" else _walk(self.overlay)
        if locality == "none":
            self.homes: dict[NodeId, NodeId] = {c: brokers[i % len(brokers)] for i, c in enumerate(names)}
        else:
            self.homes = {c: brokers[i * len(brokers) // len(names)] for i, c in enumerate(names)}
        places = list(range(size.clients))
        if locality == "none":
            Random(f"{seed}/places").shuffle(places)
        self.contexts: dict[NodeId, Attributes] = {
            client: {"x": (place + 0.5) / size.clients} for client, place in zip(names, places, strict=True)
        }

    # ------------------------------------------------------------ filters

    def context_filter(self, rng: Random, around: NodeId | None = None) -> Filter:
        """A filter that exactly this share of the clients' contexts match: a range of places."""
        held = max(1, round(self.context * self.size.clients))
        free = self.size.clients - held
        first = rng.randint(0, free)
        if around is not None and self.locality == "interests":
            here = self.contexts[around]["x"]
            assert isinstance(here, float)
            first = min(max(round(here * self.size.clients - held / 2), 0), free)
        return range_of(first / self.size.clients, held / self.size.clients)

    def subscription(self, client: NodeId, kind: int, rng: Random) -> Filter:
        """One of a client's filters."""
        start = rng.random() * (1 - self.content)
        wanted = all_of(some("kind", one_of([kind])), some("value", between(start, start + self.content)))
        asked = self.context_filter(rng, client)
        return wanted if self.asks == "publications" else all_of(wanted, of_sender(asked))

    def subscriptions(self) -> Iterator[tuple[NodeId, str, Filter]]:
        """All of them: the client, a name, the filter."""
        rng = Random(f"{self.seed}/subscriptions")
        for kind in range(self.size.subscriptions):
            for client in self.homes:
                yield client, f"s{kind}", self.subscription(client, kind, rng)

    def events(self, count: int) -> list[Event]:
        """Messages, from every client in turn."""
        rng = Random(f"{self.seed}/events")
        clients = list(self.homes)
        rng.shuffle(clients)
        return [self.event(clients[number % len(clients)], number, rng) for number in range(count)]

    def event(self, client: NodeId, number: int, rng: Random) -> Event:
        """One message of a client, with the context that it has in this workload."""
        said = {"kind": rng.randrange(self.size.subscriptions), "value": rng.random()}
        to = self.context_filter(rng, client)
        event = Event(said, client, number, to=None if self.asks == "subscriptions" else to)
        return stamped(event, self.contexts[client])

    # ------------------------------------------------------------ in a net

    def deploy(self, net: Net) -> None:
        """Let every client come, say its context, and subscribe."""
        self.deploy_contexts(net)
        self.deploy_subscriptions(net)

    def deploy_contexts(self, net: Net) -> None:
        for client, home in self.homes.items():
            net.set_context(client, self.contexts[client], home)

    def deploy_subscriptions(self, net: Net) -> None:
        for client, name, filter in self.subscriptions():
            net.subscribe(client, name, filter)

    def newcomer(self, rng: Random) -> tuple[NodeId, float]:
        """Where a new client comes, and its place: no client's; with locality, one of those that are near there."""
        if self.locality == "none":
            return rng.choice(self.overlay.brokers), rng.random()
        client = rng.choice(list(self.homes))
        return self.homes[client], self.place_near(client, rng)

    def place_near(self, client: NodeId, rng: Random) -> float:
        """Another place for a client: anywhere, or with locality not far from where it was first."""
        if self.locality == "none":
            return rng.random()
        here = self.contexts[client]["x"]
        assert isinstance(here, float)
        return min(max(here + rng.uniform(-0.5, 0.5) / self.size.brokers, 0.0), 1.0)

    def meant(self, events: list[Event]) -> list[set[NodeId]]:
        """By brute force, who must be given each event: flooding, with filters at both edges."""
        wanted = list(self.subscriptions())
        return [
            {
                client
                for client, _, filter in wanted
                if filter.holds(event.attributes) and (event.to is None or event.to.holds(self.contexts[client]))
            }
            for event in events
        ]


def _walk(overlay: Overlay) -> list[NodeId]:
    """All brokers, each as near as can be to the one before."""
    neighbours = overlay.neighbours()
    walk = [overlay.brokers[0]]
    left = dict.fromkeys(overlay.brokers[1:])
    while left:
        seen, queue = {walk[-1]}, deque([walk[-1]])
        while queue:
            here = queue.popleft()
            if here in left:
                del left[here]
                walk.append(here)
                break
            fresh = [other for other in neighbours[here] if other not in seen]
            seen.update(fresh)
            queue += fresh
    return walk
