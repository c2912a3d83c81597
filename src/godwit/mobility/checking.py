"""Is this a message about a client that moves which an honest broker sends? Checked before anything is changed."""

from typing import Any

from godwit.broker.checking import check_event, check_filter, check_id, check_state, shown
from godwit.broker.messages import Advertise, Receipt, Refused, SessionState, Subscribe, Waiting
from godwit.errors import PeerFault
from godwit.filters.references import is_open
from godwit.mobility.messages import Prefetch, Proxy, Replay

__all__ = ["check_move"]

COUNTS = ("accepted", "taken", "sent_up_to", "confirmed", "expired", "suppressed", "lost_more", "accepted_then")
ADVERTISEMENTS_MAX = 1_000


def check_move(message: Any) -> None:
    """`PeerFault` unless client, brokers, attempt and all it carries are what they must be."""
    names = [getattr(message, field) for field in ("client", "home", "to", "via", "by") if hasattr(message, field)]
    if any(type(name) is not str or not name for name in names):
        raise PeerFault(f"{shown(message)}: clients and brokers have names")
    if any(type(getattr(message, field, 0)) is not int for field in ("attempt", "latest", "life")):
        raise PeerFault(f"{shown(message)}: attempts are whole numbers")
    if isinstance(message, Replay):
        _check_replay(message)
    if isinstance(message, Prefetch | Proxy):
        _check_advertisements(message)


def _check_advertisements(message: Prefetch | Proxy) -> None:
    """`PeerFault` unless these can be advertised for the client."""
    said = message.advertisements
    if type(said) is not tuple or len(said) > ADVERTISEMENTS_MAX or any(type(each) is not Advertise for each in said):
        raise PeerFault(f"{shown(message)}: it needs at most {ADVERTISEMENTS_MAX} advertisements")
    for advertise in said:
        check_id(advertise.id)
        check_filter(advertise.filter)
        if advertise.id[0] != message.client or is_open(advertise.filter):
            raise PeerFault(f"{shown(advertise)} is no advertisement of {message.client!r} that can be routed")


def _check_replay(message: Replay) -> None:
    """`PeerFault` unless a session and its queue can be restored from this."""
    if [type(message.items), type(message.is_last), type(message.has_published)] != [tuple, bool, bool]:
        raise PeerFault("a Replay needs a tuple of items, and two bools")
    for item in message.items:
        kinds = (type(item), type(getattr(item, "number", None)), type(getattr(item, "subscriptions", None)))
        if kinds != (Waiting, int, tuple) or type(item.queued_at) not in (int, float):
            raise PeerFault(f"an item of a Replay is {shown(item)}")
        check_event(item.event)
        if any(type(name) is not str for name in item.subscriptions):
            raise PeerFault("an item of a Replay is for subscriptions that have no names")
    if message.state is not None:
        _check_state(message.state, message.client)


def _check_state(state: SessionState, client: str) -> None:
    if type(state) is not SessionState or state.client != client or type(state.name) is not str:
        raise PeerFault(f"the state in a Replay is {shown(state)}")
    if any(type(getattr(state, field)) is not int or getattr(state, field) < 0 for field in COUNTS):
        raise PeerFault(f"the counts of a session are whole numbers: {shown(state)}")
    if type(state.purged) is not dict or type(state.settled) is not Receipt or type(state.told) is not Receipt:
        raise PeerFault(f"the receipts of a session are {shown(state)}")
    tuples: tuple[Any, ...] = (state.refusals, state.subscriptions, state.advertisements, state.lost, state.seen)
    if any(type(each) is not tuple for each in tuples) or any(
        type(refusal) is not Refused for refusal in state.refusals
    ):
        raise PeerFault(f"the lists of a session are tuples: {shown(state)}")
    for kind, wishes in ((Subscribe, state.subscriptions), (Advertise, state.advertisements)):
        for wish in wishes:
            if type(wish) is not kind:
                raise PeerFault(f"a session that holds {shown(wish)}")
            check_id(wish.id)
            check_filter(wish.filter)
    if state.state is not None:
        check_state(state.state)
    for seen in state.seen:
        if type(seen) is not tuple or [type(part) for part in seen] != [str, int, int]:
            raise PeerFault(f"a session that has seen {shown(seen)}")
