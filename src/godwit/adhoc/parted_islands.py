"""Parted islands: what an event broker keeps for another one that it has lost contact with.

*Theory.* While two event brokers coordinate, each sends the other what the clients there want, over their trunk. When
the trunk is lost, the wishes and the unacknowledged events of the trunk become a session here: that of the other
*island*. It takes what is accepted from now on, as the session of a client does that is away, for the time of a lease.
When the other event broker is back, all that waits goes first over the new trunk, and the wishes stay in force until it
has told them again. When it is back behind others, it fetches the session over their trunks (`session_following.py`).
A client that comes from that island by itself gets what it had asked for there.

*Rules.*
1. An event that was sent over a trunk is here until the other end has acknowledged it. What is acknowledged is in the
   queues of clients there, and on their trunks.
2. What is sent again may come twice: sessions and clients know events by their numbers.
3. An island's session is named after its event broker, with a slash at the end. No device has a slash in its name.
4. What waits is bounded as in every session, and by the lease, which begins when the other event broker was last heard
   of. At most `ISLANDS_MAX` islands have sessions, and for others nothing is kept; each has at most `WISHES_MAX`
   subscriptions, and instead of more one to everything. What a bound drops is recorded as lost.
5. Events come in any order, over several trunks, and those of a publisher's earlier life behind those of a later one,
   whose numbers are far above. So none may count as too old (`seen.py`, rule 2): the numbers of a publisher are
   remembered in blocks as long as the window, each block by itself.

*Paper.* [mobile §3.1] "both could operate in a coordinated fashion"; queueing for a client that is out of reach.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect
from godwit.broker.host import Host
from godwit.broker.messages import Attach, EntryId, NodeId, Publish, Subscribe
from godwit.broker.session import Session
from godwit.filters.events import Event
from godwit.filters.filters import TRUE, Filter
from godwit.filters.references import is_open
from godwit.matching.caching_matcher import CachingMatcher

__all__ = [
    "ISLANDS_MAX",
    "WISHES_MAX",
    "PartedIslands",
    "events_of",
    "is_island",
    "island_of",
    "of_client",
    "put",
    "subscriptions_of",
]

ISLANDS_MAX = 32
WISHES_MAX = 1_000


def island_of(leader: NodeId) -> NodeId:
    """The name of the session of the island of an event broker. Rule 3."""
    return f"{leader}/"


def is_island(client: NodeId) -> bool:
    """Whether a session of this name is that of an island."""
    return client.endswith("/")


def subscriptions_of(island: NodeId, wanted: Iterable[Filter]) -> list[Subscribe]:
    """What the session of an island wants. Rule 4."""
    filters = list(dict.fromkeys(wanted))
    if len(filters) > WISHES_MAX:
        filters = [TRUE]
    return [Subscribe((island, str(number)), filter) for number, filter in enumerate(filters)]


def events_of(outbox: Iterable[object]) -> list[Event]:
    """The events among messages that wait on a trunk."""
    return [message.event for message in outbox if type(message) is Publish]


def of_client(events: Iterable[Event], greeting: Attach) -> Iterator[tuple[Event, tuple[str, ...]]]:
    """Those events that a client had asked for where it was before, with the names of its subscriptions."""
    matcher = CachingMatcher()
    for number, wish in enumerate(greeting.wanted):
        if type(wish) is Subscribe and not is_open(wish.filter):
            matcher.add((number, wish.id[1]), wish.filter)
    for event in events:
        ids: list[Any] = matcher.match(event)
        if ids:
            yield event, tuple(sorted({name for _, name in ids}))


class PartedIslands:
    """The component that puts events into the queues of parted islands. Contexts of clients there are tested there."""

    label = "islands"
    host: Host

    def join(self, host: Host) -> Handlers:
        self.host = host
        host.intercept_local(self.label, self._on_local)
        return Handlers()

    def _on_local(self, event: Event, ids: list[EntryId], effects: list[Effect], now: float) -> list[EntryId]:
        islands = dict.fromkeys(client for client, _ in ids if is_island(client))
        if not islands:
            return ids
        for client in islands:
            session = self.host.sessions.session(client)
            if session is not None:
                effects += put(session, [event], now)
        return [id for id in ids if id[0] not in islands]

    def snapshot(self) -> None:
        return None

    def restore(self, state: object) -> None:
        return None


def put(session: Session, events: Iterable[Event], now: float) -> list[Effect]:
    """Let events wait for an island, each once. Rule 5."""
    seen = session.seen
    for event in events:
        publisher, sequence = event.id
        if seen.add(f"{sequence // seen.window} {publisher}", sequence):
            session.queue.put(event, (), now)
    return session.gone()
