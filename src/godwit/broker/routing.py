"""The interface between a broker and its routing family.

*Theory.* A broker looks after links and sessions and knows nothing of routes. A routing family knows nothing of frames,
connections and queues: it is told what clients of this broker want and say (`subscribe`, `publish`, …) and what came
from a neighbour (`on_message`), and answers with what is to be forwarded to which neighbour and handed to which local
subscriptions. `tree.py` and `graph.py` are the two families; `families.py` has them by name.

*Rules.*
1. Answers are carried out in their order: what is forwarded to a neighbour first arrives there first. `RelayedMessage`
   and `BrokerMet` come from the graph family alone, and only where the broker has named further messages that packets
   carry.
2. A neighbour's messages come exactly once and in order while it keeps its memory (`links.py` sees to that). When it
   has lost it, the family hears `on_peer_forgot`, and then whatever the neighbour says from its new beginning.
3. A message that no honest neighbour sends raises `PeerFault`, before anything is changed.
4. A family that has `watch: EntryWatch | None` calls it after each change of a subscription in its tables. The driver
   sets it, and what is called changes nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from godwit.broker.effects import StartTimer, StopTimer, TimerKey, Trace
from godwit.broker.messages import EntryId, Message, NodeId
from godwit.broker.state_types import AnyState
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter

__all__ = [
    "Answer",
    "BrokerMet",
    "CountsSteps",
    "DeliverLocally",
    "Demand",
    "EntryWatch",
    "Forward",
    "RelayedMessage",
    "Routing",
    "steps_taken",
]


EntryWatch = Callable[[NodeId, EntryId, Filter | None], None]
"""Hears of a change: the source of the entry ("": a client here), its id, and its filter before; None: it is new."""


class Forward(msgspec.Struct, frozen=True, gc=False):
    """Send `message` to the neighbour `peer`."""

    peer: NodeId
    message: Message


class DeliverLocally(msgspec.Struct, frozen=True, gc=False):
    """Hand `event` to these subscriptions of clients here."""

    event: Event
    subscriptions: list[EntryId]


class RelayedMessage(msgspec.Struct, frozen=True, gc=False):
    """A message from the broker `source`, anywhere, that is none of the family's: the broker knows what to do."""

    source: NodeId
    message: Any


class BrokerMet(msgspec.Struct, frozen=True, gc=False):
    """A broker that was unknown, or starts another life (`again`), has been told everything."""

    broker: NodeId
    again: bool


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What is wanted in the network has changed: by this filter more, if there is one, and perhaps by others less."""

    added: Filter | None = None


Answer = Forward | DeliverLocally | RelayedMessage | BrokerMet | Demand | StartTimer | StopTimer | Trace


@runtime_checkable
class CountsSteps(Protocol):
    """A routing family that counts the steps of what takes long, for those who work in slices."""

    steps: int
    """How many it has taken so far. Only differences count, within one input."""


def steps_taken(routing: object) -> int:
    """How many steps a routing family has taken so far; 0 if it does not count them."""
    return routing.steps if isinstance(routing, CountsSteps) else 0


class Routing(Protocol):
    """What a broker asks of its routing family."""

    def subscribe(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        """A client here wants what `filter` matches; an id that already exists gets this filter instead."""

    def unsubscribe(self, id: EntryId, now: float) -> list[Answer]:
        """A client here wants nothing more under `id`."""

    def advertise(self, id: EntryId, filter: Filter, now: float) -> list[Answer]:
        """A client here is going to publish what `filter` matches."""

    def unadvertise(self, id: EntryId, now: float) -> list[Answer]:
        """A client here publishes nothing more under `id`."""

    def set_context(self, client: NodeId, context: Attributes | None, now: float) -> list[Answer]:
        """The context of a client here is this from now on; None: it is no longer here. [spcf §3]"""

    def publish(self, event: Event, now: float) -> list[Answer]:
        """A client here publishes `event`."""

    def set_neighbour(self, peer: NodeId, cost: float, is_new: bool) -> list[Answer]:
        """The link to `peer` costs so much; if it is new, there was none before."""

    def on_message(self, peer: NodeId, message: Message, now: float) -> list[Answer]:
        """A message came from the neighbour `peer`."""

    def demand_of(self, message: Message) -> Demand | None:
        """How a message that came has changed what is wanted; None: not at all."""

    def on_peer_up(self, peer: NodeId, now: float) -> list[Answer]:
        """The link to `peer` is open."""

    def on_restarted(self, now: float) -> None:
        """This broker was started again from its disk, which may have lost the last inputs unnoticed."""

    def note_past_life(self) -> None:
        """A neighbour or a client has known a life of this broker that it does not remember."""

    def on_peer_down(self, peer: NodeId, now: float) -> list[Answer]:
        """The link to `peer` is closed for now; what is sent to it waits in its outbox."""

    def on_peer_forgot(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """`peer` came back without its memory: `undelivered` was never acknowledged, and is queued no longer."""

    def begin_life(self, incarnation: int, undelivered: Mapping[NodeId, list[Message]], now: float) -> list[Answer]:
        """The disk has lost what came last: go on as another life, with links that begin again and are down.

        All is told to everybody again, and what others told stays in force until they have told it again.
        `undelivered`: what was not acknowledged, by neighbour; it is queued no longer.
        """

    def on_link_dead(self, peer: NodeId, undelivered: Iterable[Message], now: float) -> list[Answer]:
        """The link to `peer` has been closed for so long that it is given up, and so is what was queued for it."""

    def on_timer_due(self, key: TimerKey, now: float) -> list[Answer]:
        """A timer of this family has come due."""

    def local_filter(self, id: EntryId) -> Filter | None:
        """What a client here wants under `id`, as it was said last."""

    def hops_max(self) -> int | None:
        """How many links lie between this broker and the farthest; None: this family does not know."""

    def wanted(self) -> list[Filter]:
        """Every filter that a subscription known here has, from clients and neighbours: for quenching."""

    def held_back(self) -> list[Message]:
        """Messages that are in this family's hands and in no outbox."""

    def is_whole(self) -> bool:
        """Whether it knows enough to send events where they must go; until then it holds them back."""

    def is_settled(self) -> bool:
        """Whether its tables are whole, as far as it can tell."""

    def sizes(self) -> dict[str, int]:
        """How many entries each table holds; none when nobody is there."""

    def remote_bytes(self) -> int:
        """About how many bytes are held for other brokers: filters that they have told, events that wait for them."""

    def snapshot(self) -> AnyState:
        """All of its state, as a tagged struct of a kind that is registered with `godwit.codec`."""

    def restore(self, state: Any) -> None:
        """Go on from that state, in a family freshly made with the same settings."""
