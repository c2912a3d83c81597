"""Is this a message about a client that moves which an honest broker sends? Checked before anything is changed."""

from typing import Any

from godwit.broker.checking import (
    check_context,
    check_event,
    check_filter,
    check_id,
    check_lost,
    check_purged,
    check_receipt,
    check_size,
    check_values,
    check_wish,
    is_number,
    is_whole,
    shown,
)
from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, Attach, Refused, SessionState, Subscribe, Waiting
from godwit.errors import PeerFault
from godwit.filters.references import is_open
from godwit.mobility.messages import Collected, Prefetch, Proxy, Replay, Wishes

__all__ = ["check_move", "check_wanted"]

WISHES_MAX = 10_000
NOTES_MAX = 10_000
COUNTS = ("accepted", "taken", "sent_up_to", "confirmed", "expired", "suppressed", "lost_more", "accepted_then")
ADVERTISEMENTS_MAX = 1_000
SEEN_BYTES_MAX = 2**11  # bits of the longest memory (handoffs.SEEN_WINDOW)


def check_move(message: Any) -> None:
    """`PeerFault` unless client, brokers, attempt and all it carries are what they must be."""
    names = [getattr(message, field) for field in ("client", "home", "to", "via", "by") if hasattr(message, field)]
    if any(type(name) is not str or not name for name in names):
        raise PeerFault(f"{shown(message)}: clients and brokers have names")
    if not all(is_whole(getattr(message, field, 0)) for field in ("attempt", "latest", "life")):
        raise PeerFault(f"{shown(message)}: attempts are whole numbers")
    if isinstance(message, Replay | Collected):
        _check_items(message)
    if isinstance(message, Replay):
        if type(message.has_published) is not bool:
            raise PeerFault("Replay.has_published must be a bool")
        if message.state is not None:
            _check_state(message.state, message.client)
    if isinstance(message, Collected):
        _check_seen(message.seen)
    if isinstance(message, Wishes):
        _check_held(message.wanted, (Subscribe, Advertise), message.client)
    if isinstance(message, Prefetch | Proxy):
        _check_advertisements(message)


def check_wanted(message: Attach, limits: Limits) -> None:
    """`PeerFault` unless a session of the client can hold what it brings."""
    if len(message.wanted) > 2 * (limits.subscriptions_max + limits.advertisements_max):
        raise PeerFault("Attach.wanted is longer than what a client may ask for")
    if any(wish.id[0] != message.client for wish in message.wanted):
        raise PeerFault("Attach.wanted holds what the client itself has asked for")


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


def _check_items(message: Replay | Collected) -> None:
    """`PeerFault` unless a queue can be restored from this."""
    kind = type(message).__name__
    if type(message.items) is not tuple or type(message.is_last) is not bool:
        raise PeerFault(f"a {kind} needs a tuple of items, and a bool")
    for item in message.items:
        if type(item) is not Waiting or not is_whole(item.number) or not is_number(item.queued_at):
            raise PeerFault(f"an item of a {kind} is {shown(item)}")
        check_event(item.event)
        if type(item.subscriptions) is not tuple or any(type(name) is not str for name in item.subscriptions):
            raise PeerFault(f"an item of a {kind} is for subscriptions that have no names")


def _check_state(state: SessionState, client: str) -> None:
    if type(state) is not SessionState or state.client != client or type(state.name) is not str:
        raise PeerFault(f"the state in a Replay is {shown(state)}")
    if [type(state.has_advertised), type(state.named)] != [bool, bool]:
        raise PeerFault("whether a session has advertised, and whether it is found by name, are bools")
    if any(not is_whole(getattr(state, field)) or getattr(state, field) < 0 for field in COUNTS):
        raise PeerFault(f"the counts of a session are whole numbers: {shown(state)}")
    if not state.confirmed <= state.sent_up_to <= state.taken:
        raise PeerFault(f"a session that has confirmed or sent what it has not taken in: {shown(state)}")
    check_purged(state.purged)
    check_receipt(state.settled)
    check_receipt(state.told)
    check_lost(state.lost)
    if type(state.refusals) is not tuple or len(state.refusals) > WISHES_MAX:
        raise PeerFault(f"the refusals of a session are a tuple of at most {WISHES_MAX}")
    for refusal in state.refusals:
        if type(refusal) is not Refused or not is_whole(refusal.number) or type(refusal.reason) is not str:
            raise PeerFault(f"a session that has refused with {shown(refusal)}")
    _check_held(state.subscriptions, (Subscribe,), client)
    _check_held(state.advertisements, (Advertise,), client)
    if state.context is not None:
        check_context(state.context)
        check_size(state.context.values)
    check_values(state.asserted)
    check_size(state.asserted)
    _check_notes(state)
    _check_seen(state.seen)


def _check_notes(state: SessionState) -> None:
    """`PeerFault` unless a client can have left these with its session."""
    notes, linger_s = state.notes, state.linger_s
    if type(notes) is not dict or len(notes) > NOTES_MAX:
        raise PeerFault(f"a session has at most {NOTES_MAX} notes")
    if any(type(key) is not str or type(value) is not bytes for key, value in notes.items()):
        raise PeerFault("a session's notes are bytes by name")
    if linger_s is not None and not (is_number(linger_s) and linger_s >= 0):
        raise PeerFault(f"a session that stays for {shown(linger_s)} seconds")


def _check_seen(data: Any) -> None:
    if type(data) is not tuple:
        raise PeerFault(f"what a session has seen is a tuple, and not {shown(data)}")
    for seen in data:
        if (
            type(seen) is not tuple
            or [type(part) for part in seen] != [str, int, bytes]
            or len(seen[2]) > SEEN_BYTES_MAX
        ):
            raise PeerFault(f"a session that has seen {shown(seen)}")


def _check_held(wishes: Any, kinds: tuple[type, ...], client: str) -> None:
    """`PeerFault` unless a session of the client can hold these."""
    if type(wishes) is not tuple or len(wishes) > WISHES_MAX:
        raise PeerFault(f"what a client wants must be a tuple of at most {WISHES_MAX}")
    for wish in wishes:
        if type(wish) not in kinds:
            raise PeerFault(f"a client that wants {shown(wish)}")
        check_wish(wish)
        if wish.id[0] != client:
            raise PeerFault(f"{shown(wish.id)} is nothing that {client!r} itself has asked for")
        if type(wish) is Advertise and is_open(wish.filter):
            raise PeerFault("an advertisement on the client's own state, which no broker accepts")
