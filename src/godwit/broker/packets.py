"""Packets that no honest broker sends are told apart here, before anything is changed by them.

*Rules.*
1. What passes is safe to number, hold, route, match and keep.
2. Every hop checks every packet: the neighbour that passes a bad one on is at fault, wherever it came from.
"""

from collections.abc import Callable, Mapping
from typing import Any

from godwit.broker.checking import check_event, check_filter, check_id, shown
from godwit.broker.messages import Nack, Packet, Publish, Start, Subscribe, Synced, Tail, Unsubscribe, Void
from godwit.broker.topology import INCARNATION_MAX
from godwit.errors import PeerFault
from godwit.filters.filters import TRUE
from godwit.filters.references import is_open

__all__ = ["NACK_MAX", "check_packet"]

NACK_MAX = 1_000
"""How many numbers a `Nack` or a `Void` names at most."""


Further = Mapping[type, Callable[[Any], None]]
"""What else a packet may carry, and how that is checked."""


def check_packet(packet: Packet, targets_max: int, further: Further | None = None) -> None:
    """`PeerFault` when no honest broker sends this packet."""
    if type(packet.source) is not str or not packet.source or not _is_number(packet.incarnation):
        raise PeerFault(f"a packet of life {packet.incarnation!r} of {packet.source!r}")
    if type(packet.targets) is not dict or not 0 < len(packet.targets) <= targets_max:
        raise PeerFault(f"a packet of {packet.source} with no targets, or too many")
    for target, number in packet.targets.items():
        if type(target) is not str or not _is_number(number):
            raise PeerFault(f"a packet of {packet.source} to {target!r} numbered {number!r}")
    if packet.source in packet.targets:
        raise PeerFault(f"a packet of {packet.source} to itself")
    check = (further or {}).get(type(packet.message))
    if check is not None:
        check(packet.message)
    elif fault := _fault(packet.message):
        raise PeerFault(f"a packet of {packet.source} that carries {fault}")


def _is_number(value: object) -> bool:
    """Whether a packet or a life can have this number."""
    return type(value) is int and 0 < value <= INCARNATION_MAX


def _fault(message: Any) -> str | None:
    """What is wrong with what a packet carries; None for what brokers send."""
    match message:
        case Publish():
            check_event(message.event)
            return None
        case Subscribe() | Unsubscribe():
            check_id(message.id)
            filter: Any = getattr(message, "filter", TRUE)
            check_filter(filter)
            return f"{shown(filter)}, which cannot be routed" if is_open(filter) else None
        case Start():
            return None if _is_number(message.incarnation) else f"a life numbered {message.incarnation!r}"
        case Nack() | Void():
            numbers = message.numbers
            well = type(numbers) is tuple and len(numbers) <= NACK_MAX and all(map(_is_number, numbers))
            return None if well and _is_number(message.incarnation) else f"a {type(message).__name__} of {numbers!r}"
        case Synced() | Tail():
            return None
    return f"a {type(message).__name__}"
