"""The interface between the graph family and its strategies: targets of a subscription, and targets of an event.

*Theory.* `GraphRouting` (`graph.py`) has the tables and the channels to all brokers. A *forwarding* decides whom it
tells of a subscription, what a broker hears that is met for the first time, and which brokers get an event. Besides
that it may exchange messages of its own. There are three: `gsf.py` tells everyone of everything, `spcf.py` goes by
contexts, `advertised.py` by advertisements.

*Rules.*
1. A forwarding touches the tables only as `GraphTables` says. A hook is called when the tables have changed already.
2. Whatever it decides, an event reaches every broker that has a subscription which matches it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from godwit.broker.messages import Carried, EntryId, NodeId
from godwit.broker.packet_checks import Further
from godwit.broker.routing import Answer
from godwit.broker.state_types import AnyState
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter

__all__ = ["Forwarding", "GraphTables"]


class GraphTables(Protocol):
    """What a forwarding sees of its broker."""

    @property
    def incarnation(self) -> int:
        """The number of this broker's life."""

    @property
    def incarnations(self) -> Mapping[NodeId, int]:
        """The brokers that are known, and the number of the life of each."""

    @property
    def local(self) -> Mapping[EntryId, Filter]:
        """The subscriptions of clients here."""

    @property
    def remote(self) -> Mapping[NodeId, Mapping[EntryId, Filter]]:
        """The subscriptions that other brokers have told, by broker."""

    def tell(self, targets: Sequence[NodeId], message: Any) -> list[Answer]:
        """Send a message to brokers that are known, behind all that was sent to each before."""

    def between(self, targets: Iterable[NodeId]) -> list[NodeId]:
        """The brokers on the way to these that must know of what these are told; none with matching at the source."""

    def remove(self, source: NodeId, id: EntryId) -> None:
        """Forget a subscription that another broker has told, if it is there."""


class Forwarding(Protocol):
    """Who hears of what in the graph family."""

    @property
    def checks(self) -> Further:
        """The types of the messages that it exchanges with its like, and how each is checked."""

    def join(self, tables: GraphTables) -> None:
        """Become part of a broker."""

    def on_subscribe(self, id: EntryId, filter: Filter) -> list[Answer]:
        """A local client has subscribed, or changed a filter: tell the brokers that must know."""

    def on_unsubscribe(self, id: EntryId) -> list[Answer]:
        """A local client has ended the subscription `id`: tell the brokers that know of it."""

    def on_advertise(self, id: EntryId, filter: Filter) -> list[Answer]:
        """A client here is going to publish something, or something else."""

    def on_unadvertise(self, id: EntryId) -> list[Answer]:
        """A client here publishes nothing more under `id`."""

    def set_context(self, client: NodeId, context: Attributes | None) -> list[Answer]:
        """The context of a client here is this from now on; None: it is no longer here."""

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        """The brokers that must get an event published here, which matches these subscriptions of theirs."""

    def knows_all(self, event: Event) -> bool:
        """Whether no broker gets an event only because its subscriptions are unknown."""

    def meant(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> list[tuple[NodeId, NodeId]] | None:
        """Of the subscriptions that match, home and client of those that `Event.to` may be meant for; None: all."""

    def settle_ways(self) -> list[Answer]:
        """The ways to other brokers have changed: tell those on them what they must know now, and no others."""

    def everything(self, broker: NodeId) -> Iterable[Carried]:
        """All that a broker must hear between `ChannelStart` and `Synced`."""

    def on_meet(self, broker: NodeId) -> None:
        """A broker that was unknown, or starts another life, is going to be told everything."""

    def on_start(self, source: NodeId) -> None:
        """A broker begins to tell everything."""

    def on_synced(self, source: NodeId) -> list[Answer]:
        """A broker has told everything."""

    def on_message(self, source: NodeId, message: Any) -> list[Answer]:
        """A message of one of the types in `checks` came."""

    def on_remote(self, source: NodeId, id: EntryId, before: Filter | None, after: Filter | None) -> None:
        """A subscription of another broker has changed; None: it was not there, or is there no longer."""

    def is_awaiting(self) -> bool:
        """Whether brokers may want what they have not told yet."""

    def is_settled(self) -> bool:
        """Whether its tables are whole, as far as it can tell."""

    def sizes(self) -> dict[str, int]:
        """How many entries each of its tables holds."""

    def remote_bytes(self) -> int:
        """About how many bytes the filters take that other brokers have told it, beside subscriptions."""

    def snapshot(self) -> AnyState:
        """All of its state, as a struct of a kind that is registered with `godwit.codec`."""

    def restore(self, state: Any) -> None:
        """Go on from that state. The tables of the broker are restored already."""
