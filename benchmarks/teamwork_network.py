"""A search over a team of a thousand peers.

The peers are machines on clients' machines over simulated brokers, each with a real index of its profiles in a file of
its own, and real signatures. Virtual time passes on wires; the time that a peer's processor takes to answer is measured
and added to it. Presence and the exchange of changes are left out: they are not part of a search.
"""

import resource
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from random import Random

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from benchmarks.reporting import Anchor, Row
from benchmarks.teamwork_profiles import ProfileWorkload
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Notify
from godwit.client import Client, ClientConfig
from godwit.filters.events import Event
from godwit.languages import parse_query
from godwit.simulator.world import World
from godwit.teamwork.device_keys import is_signature
from godwit.teamwork.machine.bus import Found, Wanted, context_of, filter_for
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.machine.peer_effects import (
    EventCame,
    Input,
    Publish,
    SearchAnswered,
    StartSearch,
)
from godwit.teamwork.machine.search import Asking
from godwit.teamwork.machine.store import MemoryStore
from godwit.teamwork.profile_index import ProfileIndex, Rights
from godwit.testing.broker_factory import broker, neighbours, topology

__all__ = ["FULL_SEARCH", "SearchScale", "search_over_peers"]

TEAM = "team/u0.0"
ACCESS_S, LINK_S = 0.010, 0.020  # from a peer to its broker, and between brokers
BEYOND_MS, MESSAGES_MAX = 200.0, 2.2

Log = Callable[[str, float], None]


class SearchScale(msgspec.Struct, frozen=True):
    """How large the search is."""

    peers: int = 1_000
    profiles: int = 100_000
    searches: int = 20
    brokers: int = 10


FULL_SEARCH = SearchScale()


# ------------------------------------------------------------ search


class _Keys:
    """Real signatures of all devices, known to everybody."""

    def __init__(self, device: str, public: dict[str, str]) -> None:
        self._key = Ed25519PrivateKey.generate()
        self._public = public
        public[device] = self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)

    def check(self, device: str, user: str, data: bytes, signature: bytes) -> str:
        return "" if is_signature(self._public.get(device), data, signature) else "no signature"


class _Index:
    """Finds profiles of one peer by its real index."""

    def __init__(self, path: Path) -> None:
        self.index = ProfileIndex(path)

    def find(self, wanted: Wanted, scopes: Collection[str], user: str, *, only_made_here: bool) -> list[Found]:
        rights = Rights(None, lambda scope, record: True)  # asked for each profile that is found
        found = self.index.search(parse_query(wanted.query, wanted.language), rights, limit=wanted.limit)
        return [Found(each.scope, each.record, each.document, each.score) for each in found.results]


class _Searcher:
    """One peer in the simulated network."""

    def __init__(self, net: "_SearchNetwork", place: int, at: str) -> None:
        self.net, self.at, self.device = net, at, f"d{place}"
        self.index = _Index(net.folder / f"{place}.sqlite")
        self.client = Client(self.device, ClientConfig(buffer_events_max=10_000))
        identity = Identity(TEAM, f"u{place}", self.device)
        self.machine = Peer(identity, MemoryStore(), _Keys(self.device, net.public), self.index)
        net.world.add_client(self.device, self.client)
        net.world.wire(self.device, at, ACCESS_S, None)
        net.world.connect(self.device, at)
        wanted = filter_for(TEAM, self.device, identity.user, ())
        context = context_of(TEAM, identity.user, self.device)
        net.world.command(self.device, lambda client, now: client.set_context(context, now))
        net.world.command(self.device, lambda client, now: client.subscribe("team", wanted, now))

    def tell(self, input: Input) -> None:
        """Let the machine work; what it wants happens when its processor has done it."""
        start = time.process_time()
        effects = self.machine.handle(input, self.net.world.now)
        took_s = time.process_time() - start
        for effect in effects:
            if isinstance(effect, Publish):
                self.net.world.clock.call_at(self.net.world.now + took_s, self._publish, effect)
            elif isinstance(effect, SearchAnswered) and effect.progress.device != self.device:
                self.net.answers.append((self.net.world.now, effect.progress.device, len(effect.progress.found)))

    def _publish(self, wanted: Publish) -> None:
        event = Event(wanted.attributes, payload=wanted.payload, expires_at=wanted.until)
        to = wanted.to or None
        self.net.world.command(self.device, lambda client, now: client.publish(event, now, to=to))


class _SearchNetwork:
    """Brokers in two levels, and peers spread over them."""

    def __init__(self, scale: SearchScale, folder: Path, log: Log) -> None:
        self.folder, self.world, self.public = folder, World(1), dict[str, str]()
        self.answers: list[tuple[float, str, int]] = []
        self.delivered = 0
        links = topology(f"star {scale.brokers}")
        self.names = sorted({end for link in links for end in link})
        for name in self.names:
            made = partial(broker, name, neighbours(name, links), BrokerConfig())
            self.world.add_broker(name, made, journaled=False)
        for a, b in links:
            self.world.wire(a, b, LINK_S, None)
            self.world.connect(a, b)
        self.world.on_notify = self._on_notify
        each = scale.profiles // scale.peers
        entries = ProfileWorkload(scale.profiles).entries()
        self.peers: list[_Searcher] = []
        for place in range(scale.peers):
            peer = _Searcher(self, place, self.names[place % len(self.names)])
            peer.index.index.put_many(next(entries) for _ in range(each))
            self.peers.append(peer)
            if place % 100 == 99:
                log(f"network: {place + 1:,} peers", 0.8 * place / scale.peers)
        self._by_device = {peer.device: peer for peer in self.peers}
        self.world.run(self.world.now + 30.0)

    def _on_notify(self, device: str, notify: Notify, now: float) -> None:
        self.delivered += 1
        self.world.clock.call_at(now, self._by_device[device].tell, EventCame(notify.event.payload or b""))

    def round_trip_s(self, one: "_Searcher", other: "_Searcher") -> float:
        """What an event and an answer take between two peers, by wires alone."""
        centre = self.names[0]
        links = 0 if one.at == other.at else 1 if centre in (one.at, other.at) else 2
        return 2 * (2 * ACCESS_S + links * LINK_S)

    def close(self) -> None:
        for peer in self.peers:
            peer.index.index.close()


def search_over_peers(scale: SearchScale, folder: Path, log: Log) -> Iterator[Row]:
    """Searches over all peers, one after another."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # each index has files of its own
    net = _SearchNetwork(scale, folder, log)
    try:
        yield from _searched(net, scale, log)
    finally:
        net.close()


def _searched(net: _SearchNetwork, scale: SearchScale, log: Log) -> Iterator[Row]:
    beyond: list[float] = []
    whole: list[float] = []
    messages: list[float] = []
    count = answered = 0
    random, queries = Random(1), ProfileWorkload(scale.profiles).queries(10 * scale.searches)
    while len(beyond) < scale.searches:
        _, query = next(queries)
        asker, start = random.choice(net.peers), net.world.now
        net.answers.clear()
        net.delivered = 0
        name = f"s{count}"
        count += 1
        asker.tell(StartSearch(Asking(name, Wanted(("artefact", "user"), query=query), start + 60.0)))
        net.world.run(start + 30.0)
        messages.append(net.delivered / (scale.peers - 1))
        answered += len(net.answers)
        whole.append((net.answers[-1][0] - start) * 1_000)
        with_results = [(at, device) for at, device, found in net.answers if found]
        if with_results:  # otherwise nobody else has it
            at, device = with_results[0]
            beyond.append((at - start - net.round_trip_s(asker, net._by_device[device])) * 1_000)
        log(f"network: search {len(beyond)} of {scale.searches}", 0.8 + 0.2 * len(beyond) / scale.searches)
    if answered != count * (scale.peers - 1):
        raise AssertionError(f"{answered:,} answers to {count} searches of {scale.peers - 1:,} peers")
    is_full, what = scale == FULL_SEARCH, f"search over {scale.peers:,} peers, {scale.profiles:,} profiles"
    note = f"the slowest of {len(beyond)} searches; all peers have answered after {max(whole):,.0f} ms"
    yield Row(
        "search-first", f"{what}: first result, beyond a round trip", max(beyond), "ms", Anchor(BEYOND_MS),
        at_most=True, is_full=is_full, note=note,
    )  # fmt: skip
    yield Row(
        "search-messages", f"{what}: messages for each peer asked", max(messages), "messages", Anchor(MESSAGES_MAX),
        at_most=True, is_full=is_full, note="events delivered to peers: the question, and the answer",
    )  # fmt: skip
