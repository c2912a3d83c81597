"""Checks of messages from a broker to its client, before anything is changed.

What a broker says of itself the client says again to the next one (`Attached.broker`, `origin`, `renewed_at` and the
number of the receipt): if it were taken as it comes, one bad broker could have the client shut out by all others.
Whatever is wrong raises `PeerFault`, and closes that connection only. Types are checked by the decoder: see
`broker/message_checks.py`.
"""

from collections.abc import Callable
from typing import Any

from godwit.broker.message_checks import check_event, check_receipt, is_number, is_whole, shown
from godwit.broker.messages import Accepted, Attached, Delivery, ReceiptUpdate, Refused
from godwit.errors import PeerFault

__all__ = ["CHECKS", "check_delivery"]


def check_attached(message: Attached) -> None:
    """`PeerFault` unless the client can go on from this, here and at the next broker."""
    if not is_whole(message.accepted) or message.accepted < 0:
        raise PeerFault(f"Attached.accepted is {shown(message.accepted)}: it must be a number of requests")
    if not is_number(message.renewed_at):
        raise PeerFault(f"Attached.renewed_at is {shown(message.renewed_at)}: it must be a time in seconds")
    check_receipt(message.receipt)


def check_delivery(message: Delivery) -> None:
    """`PeerFault` unless this is an event with a number, and a predecessor that is earlier."""
    if not is_whole(message.number):
        raise PeerFault(f"Delivery.number is {shown(message.number)}: it does not fit the wire")
    check_event(message.event)
    publisher, sequence = message.event.id
    if not -1 <= message.predecessor < max(sequence, 0):
        raise PeerFault(f"event {sequence} of {publisher} names {shown(message.predecessor)} as the one before it")


def check_answer(message: Accepted | Refused) -> None:
    """`PeerFault` unless this answers a request."""
    if not is_whole(message.number):
        raise PeerFault(f"{shown(message)}: it needs the number of a request")


CHECKS: dict[type, Callable[[Any], None]] = {
    Accepted: check_answer,
    Attached: check_attached,
    Delivery: check_delivery,
    ReceiptUpdate: lambda message: check_receipt(message.receipt),
    Refused: check_answer,
}
"""By type, what is checked of a message from a broker; of others the types of their fields say enough."""
