"""What brokers exchange where events are matched at every hop (`hop_stream.py`). [spcf §3.1.1]

*Rules.*
1. A `HopPacket` goes from neighbour to neighbour, unchanged but for its targets. The others are carried by packets.
2. A view is named by a number that brokers with the same link states have in common (`Topology.view`).
"""

from typing import Any

import msgspec

from godwit.broker.messages import NodeId, Publish
from godwit.broker.state_types import AnyMessage

__all__ = ["ConfirmStream", "HopPacket", "SentAgain", "StreamConfirmed", "ViewReached", "event_message"]


class HopPacket(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A message on its way down the tree of `source`. [spcf §3.1.1: (source, context, message, filter, Bloom filter)]

    The context of the publisher and the filter over the receivers' contexts are in the event.
    """

    source: NodeId
    incarnation: int  # of the source
    view: int  # of the source: a broker with another view does not know its tree
    number: int  # counts what this life of the source sends so
    message: AnyMessage
    targets: tuple[NodeId, ...] | None = None  # who gets it; None: each hop finds out who wants the event
    bloom: bytes | None = None  # of an event: the subscribers it may be meant for, as bloom.py writes them; None: all


class ViewReached(msgspec.Struct, frozen=True, tag=True):
    """I have this view, and have told you all that it asks for. `complete`: and so has everybody told me."""

    view: int
    complete: bool = False


class SentAgain(msgspec.Struct, frozen=True, tag=True):
    """What I have sent you in a `HopPacket`: take it, unless that has come."""

    incarnation: int  # of mine
    number: int  # of the HopPacket
    message: AnyMessage


class ConfirmStream(msgspec.Struct, frozen=True, tag=True):
    """All my `HopPacket`s of this view up to this number have come before this: confirm it, if that is your view."""

    incarnation: int  # of mine
    view: int
    number: int


class StreamConfirmed(msgspec.Struct, frozen=True, tag=True):
    """All your `HopPacket`s for me up to this number have come."""

    incarnation: int  # of yours
    number: int


def event_message(message: Any) -> Publish | None:
    """The event that a packet carries, for the first time or again; None: it carries none."""
    if type(message) is SentAgain:
        message = message.message
    return message if isinstance(message, Publish) else None
