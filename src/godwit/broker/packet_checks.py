"""Checks of packets between brokers of a graph, before anything is changed.

*Rules.*
1. What passes is safe to number, hold, route, match and keep.
2. Every hop checks every packet: the neighbour that passes a bad one on is at fault, wherever it came from.
"""

from collections.abc import Callable, Mapping
from typing import Any

from godwit.broker.message_checks import check_event, shown
from godwit.broker.messages import (
    AdvertisementAdded,
    AdvertisementRemoved,
    ChannelStart,
    ChannelTail,
    ContextAdded,
    ContextRemoved,
    DropSubscriptions,
    InContext,
    LostNumbers,
    Nack,
    Packet,
    Publish,
    Subscribe,
    SubscriptionsComplete,
    Synced,
    Unsubscribe,
)
from godwit.broker.topology import INCARNATION_MAX
from godwit.errors import BadValue, PeerFault
from godwit.filters.contexts import AUTHORS, CONTEXT_MAX, LISTED_MAX, Bound, checked_context
from godwit.filters.events import NAME_LENGTH_MAX
from godwit.filters.references import is_open
from godwit.filters.sets import OneOf, Places

__all__ = [
    "ADVERTISEMENT_CHECKS",
    "CONTEXT_CHECKS",
    "NACK_MAX",
    "Further",
    "check_carried",
    "check_packet",
    "is_number",
]

NACK_MAX = 1_000
"""How many numbers a `Nack` or a `LostNumbers` names at most."""


Further = Mapping[type, Callable[[Any], None]]
"""What else a packet may carry, and how that is checked."""


def check_packet(packet: Packet, targets_max: int, further: Further | None = None) -> None:
    """`PeerFault` when no honest broker sends this packet."""
    if not packet.source or not is_number(packet.incarnation):
        raise PeerFault(f"a packet of incarnation {packet.incarnation!r} of {packet.source!r}")
    if not 0 < len(packet.targets) <= targets_max:
        raise PeerFault(f"a packet of {packet.source} with no targets, or too many")
    for target, number in packet.targets.items():
        if not is_number(number):
            raise PeerFault(f"a packet of {packet.source} to {target!r} numbered {number!r}")
    if packet.source in packet.targets:
        raise PeerFault(f"a packet of {packet.source} to itself")
    check_carried(packet.source, packet.message, further or {})


def check_carried(source: str, message: Any, further: Further) -> None:
    """`PeerFault` unless packets carry this."""
    check = further.get(type(message))
    if check is not None:
        check(message)
    elif fault := _fault(message):
        raise PeerFault(f"a packet of {source} that carries {fault}")


def is_number(value: int) -> bool:
    """Whether a packet or a life can have this number."""
    return 0 < value <= INCARNATION_MAX


def _fault(message: Any) -> str | None:
    """What is wrong with what a packet carries; None for what brokers send."""
    match message:
        case Publish():
            check_event(message.event)
            return None
        case Subscribe(filter=filter):
            return f"{shown(filter)}, which cannot be routed" if is_open(filter) else None
        case ChannelStart():
            return None if is_number(message.incarnation) else f"an incarnation numbered {message.incarnation!r}"
        case Nack() | LostNumbers():
            numbers = message.numbers
            well = len(numbers) <= NACK_MAX and all(map(is_number, numbers))
            return None if well and is_number(message.incarnation) else f"a {type(message).__name__} of {numbers!r}"
        case Unsubscribe() | Synced() | ChannelTail():
            return None
    return f"a {type(message).__name__}"


# ------------------------------------------------------------ contexts (spcf.py)


def check_context_added(message: ContextAdded) -> None:
    """`PeerFault` unless this describes contexts, and is numbered."""
    if not is_number(message.incarnation) or not is_number(message.number):
        raise PeerFault(f"a context numbered {shown(message.number)} of incarnation {shown(message.incarnation)}")
    replaces = message.replaces
    if replaces != 0 and not (is_number(replaces) and replaces < message.number):
        raise PeerFault(f"a context numbered {message.number} instead of {shown(replaces)}")
    described = message.described
    if isinstance(described, dict):
        try:
            well = checked_context(described, authors=AUTHORS) == described
        except BadValue as error:
            raise PeerFault(f"a broker's context: {error}") from None
        if not well:
            raise PeerFault(f"a broker's context is {shown(described)}: it must be a flat table of values")
        return
    if len(described) > CONTEXT_MAX or not all(map(_is_bound, described)):
        raise PeerFault(f"bounds of contexts are {shown(described)}: {CONTEXT_MAX} at most, each of one attribute")
    names = [bound.attribute for bound in described]
    if names != sorted(set(names)):
        raise PeerFault(f"bounds of contexts must be sorted, one for each attribute: {shown(names)}")


def _is_bound(bound: Bound) -> bool:
    values = bound.values
    if values.is_open or not 0 < len(bound.attribute) <= NAME_LENGTH_MAX:
        return False
    return not isinstance(values, OneOf | Places) or len(values.members) <= LISTED_MAX


def check_context_removed(message: ContextRemoved) -> None:
    """`PeerFault` unless a context can have this number."""
    if not is_number(message.number):
        raise PeerFault(f"a context numbered {shown(message.number)}")


def check_in_context(message: InContext) -> None:
    """`PeerFault` unless this names a context, or none."""
    if not (is_number(message.number) or message.number == 0):
        raise PeerFault(f"a client {shown(message.client)} in a context numbered {shown(message.number)}")


def check_subscriptions_complete(message: SubscriptionsComplete) -> None:
    """`PeerFault` unless this names a context of a life."""
    if not is_number(message.incarnation) or not is_number(message.number):
        raise PeerFault(f"a context numbered {shown(message.number)} of incarnation {shown(message.incarnation)}")


def check_drop_subscriptions(message: DropSubscriptions) -> None:
    """`PeerFault` unless this is what a filter can ask of its sender."""
    if is_open(message.filter):
        raise PeerFault(f"{shown(message.filter)} is unneeded, which cannot be routed")


CONTEXT_CHECKS: dict[type, Callable[[Any], None]] = {
    ContextAdded: check_context_added,
    ContextRemoved: check_context_removed,
    InContext: check_in_context,
    SubscriptionsComplete: check_subscriptions_complete,
    DropSubscriptions: check_drop_subscriptions,
}
"""What packets carry besides where subscriptions go by contexts."""


# ------------------------------------------------------------ advertisements (advertised.py)


def check_advertisement_added(message: AdvertisementAdded) -> None:
    """`PeerFault` unless this advertises what can be routed, and is numbered."""
    if not is_number(message.incarnation) or not is_number(message.number):
        raise PeerFault(
            f"an advertisement numbered {shown(message.number)} of incarnation {shown(message.incarnation)}"
        )
    if is_open(message.filter):
        raise PeerFault(f"{shown(message.filter)} is advertised, which cannot be routed")


def check_advertisement_removed(message: AdvertisementRemoved) -> None:
    """`PeerFault` unless an advertisement can have this number."""
    if not is_number(message.number):
        raise PeerFault(f"an advertisement numbered {shown(message.number)}")


ADVERTISEMENT_CHECKS: dict[type, Callable[[Any], None]] = {
    AdvertisementAdded: check_advertisement_added,
    AdvertisementRemoved: check_advertisement_removed,
    SubscriptionsComplete: check_subscriptions_complete,
    DropSubscriptions: check_drop_subscriptions,
}
"""What packets carry besides where subscriptions go by advertisements."""
