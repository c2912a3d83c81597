"""Messages between brokers that match events at every hop (`hop_routing.py`). [spcf §3.1]

*Rules.*
1. Each names the broker that it is from; neighbours pass it on unchanged, but for the targets.
2. A context is named by its broker and its number there, which `ContextBegins` has told before.
"""

from typing import Any

import msgspec

from godwit.broker.bloom import check_bloom
from godwit.broker.message_checks import check_event, is_whole, shown
from godwit.broker.messages import EntryId, NodeId
from godwit.errors import BadValue, PeerFault
from godwit.filters.contexts import AUTHORS, checked_context
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.references import is_open
from godwit.filters.values import Value

__all__ = [
    "ContextBegins",
    "ContextEnds",
    "ContextPacket",
    "HopMessage",
    "SubscribePacket",
    "UnsubscribePacket",
    "check_hop_message",
]


class ContextPacket(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An event on its way down the tree of `source`; its `to` says whom it is meant for. [spcf §3.1.1]"""

    source: NodeId
    context: int  # of its publisher; 0: none that was told, so nobody can tell who wants it
    event: Event
    bloom: bytes | None = None  # the contexts that `event.to` matches, as bloom.py writes them; None: all


class SubscribePacket(msgspec.Struct, frozen=True, tag=True):
    """`id`, of a client of `home`, wants what `filter` matches from clients whose context `asks` matches.

    `targets` are the brokers with such clients on whose trees the receiver lies above the sender, each with how many
    changes of its contexts `home` has heard of. The same id again replaces it. [spcf §3.1.2]
    """

    home: NodeId
    context: int  # of the subscriber
    id: EntryId
    filter: Filter
    asks: Filter
    targets: dict[NodeId, int]


class UnsubscribePacket(msgspec.Struct, frozen=True, tag=True):
    """`id`, of a client of `home`, wants nothing more from clients of `targets`. [spcf §3.1.2]"""

    home: NodeId
    id: EntryId
    targets: tuple[NodeId, ...]


class ContextBegins(msgspec.Struct, frozen=True, tag=True):
    """A client of `broker` is in a context that none was in: its number, and what it says. [spcf §3.1.2]"""

    broker: NodeId
    number: int
    values: dict[str, Value | tuple[Value, ...]]


class ContextEnds(msgspec.Struct, frozen=True, tag=True):
    """No client of `broker` is in its context `number` any more. [spcf §3.1.2]"""

    broker: NodeId
    number: int


HopMessage = ContextPacket | SubscribePacket | UnsubscribePacket | ContextBegins | ContextEnds
"""What travels in a frame between brokers that match at every hop."""


def check_hop_message(message: Any) -> None:
    """`PeerFault` unless an honest broker may send this; who may send it where is asked elsewhere."""
    match message:
        case ContextPacket(context=number):
            check_event(message.event)
            if message.bloom is not None:
                check_bloom(message.bloom)
            _check_number(number, 0)
        case SubscribePacket(targets=targets):
            for filter in (message.filter, message.asks):
                if is_open(filter):
                    raise PeerFault(f"a filter that cannot be routed: {shown(filter)}")
            _check_number(message.context, 1)
            if not targets:
                raise PeerFault("SubscribePacket.targets names no broker")
            for changes in targets.values():
                _check_number(changes, 0)
        case UnsubscribePacket(targets=targets):
            if not targets:
                raise PeerFault("UnsubscribePacket.targets names no broker")
        case ContextBegins(values=values):
            _check_number(message.number, 1)
            try:
                if checked_context(values, authors=AUTHORS) != values:
                    raise PeerFault(f"ContextBegins.values is not a context: {shown(values)}")
            except BadValue as error:
                raise PeerFault(str(error)) from None
        case ContextEnds():
            _check_number(message.number, 1)
        case _:
            raise PeerFault(f"sends a {type(message).__name__}, which brokers that match at every hop do not exchange")


def _check_number(number: Any, least: int) -> None:
    if not is_whole(number) or number < least:
        raise PeerFault(f"a context, or a count of changes, numbered {shown(number)}: it must be {least} or more")
