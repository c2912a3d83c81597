"""What is written down of a broker whose clients roam, a state for each part of moving.

*Theory.* Sessions that come and go, ways to other brokers, the barrier of a transfer, publishers that are here or were,
and what is collected from elsewhere are parts of their own. Each has a state of its own in `BrokerState.components`,
under the name in `COMPONENTS`. Where sessions of named clients are stands in the table that all brokers have
(`gossip.py`), and what is followed of clients' contexts in the routing tables: these need no state here.

*Rules.*
1. A state says all of its part that does not follow from the broker's settings and other states.
2. Orders are kept: what is forgotten first when there is no room, and who is told first.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from godwit.broker.messages import Attach, NodeId, Subscribe
from godwit.broker.queues import event_size
from godwit.broker.state_types import AnyMessage, AnyState
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.mobility.arrivals import Arrival
from godwit.mobility.graph_roaming import FlushKey
from godwit.mobility.handoffs import Collecting
from godwit.mobility.messages import Relocate, Replay
from godwit.mobility.publishers import Holding, Predicted, Present, PublisherSettings

if TYPE_CHECKING:
    from godwit.mobility.roaming import MobileBroker

__all__ = [
    "ArrivalState",
    "CarryState",
    "CollectingState",
    "HoldingState",
    "OverlayRoutesState",
    "PresentState",
    "PublisherPresenceState",
    "RelocationState",
    "TransferBarrierState",
    "collected",
    "restored",
]


# ------------------------------------------------------------ relocation (roaming.py, arrivals.py)


class ArrivalState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client that is here and whose session is not yet."""

    attach: Attach
    connection: str | None = None
    asserted: Attributes | None = None
    subscriptions: tuple[Subscribe, ...] = ()
    advertisements: dict[str, Filter] = {}
    buffer: tuple[tuple[Event, tuple[str, ...]], ...] = ()
    parts: tuple[Replay, ...] = ()
    next: Relocate | None = None
    gives_up_at: float = 0.0
    asks: int = 0
    trail: tuple[NodeId, ...] = ()
    is_superseded: bool = False
    superseded_by: NodeId = ""
    flushes: FlushKey | None = None
    knows_wishes: bool = True


class RelocationState(msgspec.Struct, frozen=True, tag=True):
    """Sessions that are awaited, those that went elsewhere, and those that have come."""

    version: ClassVar[int] = 1
    arrivals: dict[NodeId, ArrivalState]
    moved: dict[NodeId, Relocate]
    had: dict[NodeId, int]


def _relocation(broker: "MobileBroker") -> RelocationState:
    arrivals = {client: _arrival_state(arrival) for client, arrival in broker.arrivals.items()}
    return RelocationState(arrivals, dict(broker.moved), dict(broker.had))


def _set_relocation(broker: "MobileBroker", state: RelocationState) -> None:
    broker.arrivals = {client: _arrival(each) for client, each in state.arrivals.items()}
    broker.moved, broker.had = dict(state.moved), dict(state.had)


def _arrival_state(arrival: Arrival) -> ArrivalState:
    return ArrivalState(
        arrival.attach,
        arrival.connection,
        None if arrival.asserted is None else dict(arrival.asserted),
        tuple(arrival.subscriptions.values()),
        dict(arrival.advertisements),
        tuple(arrival.buffer),
        tuple(arrival.parts),
        arrival.next,
        arrival.gives_up_at,
        arrival.asks,
        tuple(arrival.trail),
        arrival.is_superseded,
        arrival.superseded_by,
        arrival.flushes,
        arrival.knows_wishes,
    )


def _arrival(state: ArrivalState) -> Arrival:
    arrival = Arrival(state.attach, state.connection, state.asserted)
    arrival.subscriptions = {subscribe.id[1]: subscribe for subscribe in state.subscriptions}
    arrival.advertisements = dict(state.advertisements)
    arrival.buffer, arrival.parts, arrival.trail = list(state.buffer), list(state.parts), list(state.trail)
    sizes = [event_size(item.event) for part in state.parts for item in part.items]
    arrival.events, arrival.bytes = len(sizes), sum(sizes)
    arrival.next, arrival.gives_up_at, arrival.asks = state.next, state.gives_up_at, state.asks
    arrival.is_superseded, arrival.superseded_by = state.is_superseded, state.superseded_by
    arrival.flushes, arrival.knows_wishes = state.flushes, state.knows_wishes
    return arrival


# ------------------------------------------------------------ ways to other brokers (ways.py)


class OverlayRoutesState(msgspec.Struct, frozen=True, tag=True):
    """Who is reached through whom, and messages that wait for a way or for whole tables."""

    version: ClassVar[int] = 1
    ways: dict[NodeId, NodeId]
    news: tuple[NodeId, ...]
    held: tuple[tuple[NodeId, AnyMessage], ...]
    unsent: dict[NodeId, tuple[AnyMessage, ...]]


def _overlay_routes(broker: "MobileBroker") -> OverlayRoutesState:
    unsent = {name: tuple(messages) for name, messages in broker.unsent.items()}
    return OverlayRoutesState(dict(broker.ways), tuple(broker.news), tuple(broker.held), unsent)


def _set_overlay_routes(broker: "MobileBroker", state: OverlayRoutesState) -> None:
    broker.ways, broker.news, broker.held = dict(state.ways), dict.fromkeys(state.news), list(state.held)
    broker.unsent = {name: list(messages) for name, messages in state.unsent.items()}
    broker.unsent_count = sum(map(len, broker.unsent.values()))


# ------------------------------------------------------------ the barrier of a transfer (graph_roaming.py)


class TransferBarrierState(msgspec.Struct, frozen=True, tag=True):
    """Sessions that go when everybody has flushed, who has, and who is not waited for."""

    version: ClassVar[int] = 1
    leaving: dict[NodeId, Relocate]
    flushed: dict[FlushKey, tuple[NodeId, ...]]
    absent: tuple[NodeId, ...]


def _transfer_barrier(broker: "MobileBroker") -> TransferBarrierState:
    flushed = {key: tuple(names) for key, names in broker.flushed.items()}
    return TransferBarrierState(dict(broker.leaving), flushed, tuple(broker.absent))


def _set_transfer_barrier(broker: "MobileBroker", state: TransferBarrierState) -> None:
    broker.leaving, broker.absent = dict(state.leaving), dict.fromkeys(state.absent)
    broker.flushed = {key: dict.fromkeys(names) for key, names in state.flushed.items()}


# ------------------------------------------------------------ publishers (publishers.py)


class PresentState(msgspec.Struct, frozen=True):
    """A publisher that is here. Not what is read only while its greeting is handled: `renewed_at` and `brings`."""

    mode: str
    origin: NodeId
    told: dict[str, Filter]
    before: NodeId | None


class HoldingState(msgspec.Struct, frozen=True):
    """Advertisements that stand here for a publisher that is not. Until when is the driver's, in a timer."""

    kind: str
    advertisements: dict[str, Filter]
    attempt: int


class PublisherPresenceState(msgspec.Struct, frozen=True, tag=True):
    """Publishers that are here, held for, or said to come; and the settings, if they are not as they were first."""

    version: ClassVar[int] = 1
    settings: PublisherSettings | None
    publishers: dict[NodeId, PresentState]
    holdings: dict[NodeId, HoldingState]
    predicted: dict[NodeId, Predicted]


def _publisher_presence(broker: "MobileBroker") -> PublisherPresenceState:
    publishers = {
        client: PresentState(p.mode, p.origin, dict(p.told), p.before) for client, p in broker.publishers.items()
    }
    holdings = {
        client: HoldingState(held.kind, dict(held.advertisements), held.attempt)
        for client, held in broker.holdings.items()
    }
    return PublisherPresenceState(broker.resettled, publishers, holdings, dict(broker.predicted))


def _set_publisher_presence(broker: "MobileBroker", state: PublisherPresenceState) -> None:
    if state.settings is not None:
        broker.resettled, broker.moving = state.settings, state.settings.config()
    broker.publishers = {
        client: Present(p.mode, p.origin, 0.0, dict(p.told), False, p.before) for client, p in state.publishers.items()
    }
    broker.holdings = {
        client: Holding(held.kind, dict(held.advertisements), held.attempt, 0.0)
        for client, held in state.holdings.items()
    }
    broker.predicted = dict(state.predicted)


# ------------------------------------------------------------ carry (handoffs.py)


class CollectingState(msgspec.Struct, frozen=True):
    """The brokers that may still keep something for a client."""

    brokers: dict[NodeId, int]
    pause_s: float
    gives_up_at: float | None


class CarryState(msgspec.Struct, frozen=True, tag=True):
    """For whom something is collected from elsewhere."""

    version: ClassVar[int] = 1
    collecting: dict[NodeId, CollectingState]


def _carry(broker: "MobileBroker") -> CarryState:
    return CarryState(
        {
            client: CollectingState(dict(each.brokers), each.pause_s, each.gives_up_at)
            for client, each in broker.collecting.items()
        }
    )


def _set_carry(broker: "MobileBroker", state: CarryState) -> None:
    broker.collecting = {}
    for client, each in state.collecting.items():
        collecting = broker.collecting[client] = Collecting()
        collecting.brokers, collecting.pause_s = dict(each.brokers), each.pause_s
        collecting.gives_up_at = each.gives_up_at


# ------------------------------------------------------------ all of them

COMPONENTS: dict[str, tuple[Any, Any]] = {
    "relocation": (_relocation, _set_relocation),
    "overlay_routes": (_overlay_routes, _set_overlay_routes),
    "transfer_barrier": (_transfer_barrier, _set_transfer_barrier),
    "publisher_presence": (_publisher_presence, _set_publisher_presence),
    "carry": (_carry, _set_carry),
}
"""By name, how a part's state is taken from a broker, and given to one."""


def collected(broker: "MobileBroker") -> dict[str, AnyState]:
    """The states of all parts of moving."""
    return {name: take(broker) for name, (take, _) in COMPONENTS.items()}


def restored(broker: "MobileBroker", states: Mapping[str, AnyState]) -> None:
    """Have all parts of moving go on from these."""
    for name, (_, give) in COMPONENTS.items():
        give(broker, states[name])
