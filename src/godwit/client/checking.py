"""Is this a message that an honest broker sends its client? Checked before anything is changed.

What a broker says of itself the client says again to the next one (`Attached.broker`, `origin`, `renewed_at` and the
number of the receipt): if it were taken as it comes, one bad broker could have the client shut out by all others.
Whatever is wrong raises `PeerFault`, and closes that connection only.
"""

from collections.abc import Callable
from typing import Any

from godwit.broker.checking import check_event, check_filter, check_receipt, is_number, is_whole, shown
from godwit.broker.messages import Accepted, Attached, Bye, Delivery, Quench, Refused
from godwit.errors import PeerFault
from godwit.mobility.messages import Strike

__all__ = ["CHECKS", "check_delivery"]


def check_attached(message: Attached) -> None:
    """`PeerFault` unless the client can go on from this, here and at the next broker."""
    if not is_whole(message.accepted) or message.accepted < 0 or type(message.fresh) is not bool:
        raise PeerFault("Attached needs a number of requests, and a bool")
    if [type(name) for name in (message.session, message.broker, message.origin)] != [str] * 3:
        raise PeerFault("Attached needs the names of a session and of brokers")
    if not is_number(message.renewed_at):
        raise PeerFault(f"Attached.renewed_at is {shown(message.renewed_at)}: it must be a time in seconds")
    check_receipt(message.receipt)


def check_delivery(message: Delivery) -> None:
    """`PeerFault` unless this is an event with a number, and a predecessor that is earlier."""
    names: Any = message.subscriptions
    if not is_whole(message.number) or type(names) is not tuple or any(type(name) is not str for name in names):
        raise PeerFault("a Delivery needs a number, an event and the names of subscriptions")
    check_event(message.event)
    publisher, sequence = message.event.id
    predecessor = message.predecessor
    if not is_whole(predecessor) or not -1 <= predecessor < max(sequence, 0):
        raise PeerFault(f"event {sequence} of {publisher} names {shown(predecessor)} as the one before it")


def check_answer(message: Accepted | Refused) -> None:
    """`PeerFault` unless this answers a request."""
    if not is_whole(message.number) or type(getattr(message, "reason", "")) is not str:
        raise PeerFault(f"{shown(message)}: it needs the number of a request, and a reason if it is refused")


def check_quench(message: Quench) -> None:
    """`PeerFault` unless events can be matched with this."""
    check_filter(message.filter)


def check_strike(message: Strike) -> None:
    """`PeerFault` unless these are names of brokers."""
    if type(message.brokers) is not tuple or any(type(broker) is not str for broker in message.brokers):
        raise PeerFault("a Strike needs a tuple of brokers")


def check_bye(message: Bye) -> None:
    """`PeerFault` unless the application can be told the reason."""
    if type(message.reason) is not str:
        raise PeerFault(f"a reason is a text, and not {shown(message.reason)}")


CHECKS: dict[type, Callable[[Any], None]] = {
    Accepted: check_answer,
    Attached: check_attached,
    Bye: check_bye,
    Delivery: check_delivery,
    Quench: check_quench,
    Refused: check_answer,
    Strike: check_strike,
}
"""By type, what is checked of a message from a broker."""
