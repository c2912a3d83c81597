"""Checks of messages about moving clients, before anything is changed.

Types are checked by the decoder: see `broker/message_checks.py`.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import structs

from godwit.broker.gossip import STAMP_MAX
from godwit.broker.held_filters import entry_size
from godwit.broker.limits import Limits
from godwit.broker.message_checks import (
    check_context,
    check_event,
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
from godwit.broker.messages import Advertise, Attach, RetainedRest, SessionState, Subscribe
from godwit.broker.retained import AFTER_CHARS_MAX
from godwit.errors import PeerFault
from godwit.filters.references import is_open
from godwit.mobility.move_messages import Collected, FetchSession, Interests, Prefetch, Presubscribe, Proxy, Replay

__all__ = ["ROUNDS_MAX", "check_move", "check_wanted", "within_budget"]

WISHES_MAX = 10_000
NOTES_MAX = 10_000
ROUNDS_MAX = 1_000  # of looking for one session
COUNTS = ("accepted", "taken", "sent_up_to", "confirmed", "expired", "suppressed", "lost_more", "accepted_then")
ADVERTISEMENTS_MAX = 1_000
SEEN_BYTES_MAX = 2**11  # bits of the longest memory (modes.SEEN_WINDOW)


def check_move(message: Any) -> None:
    """`PeerFault` unless client, brokers, attempt and all it carries are what they must be."""
    if any(getattr(message, field, None) == "" for field in ("client", "home", "to", "via", "by")):
        raise PeerFault(f"{shown(message)}: clients and brokers have names")
    if not all(
        is_whole(getattr(message, field, 0)) for field in ("attempt", "latest", "to_incarnation", "followed", "round")
    ):
        raise PeerFault(f"{shown(message)}: attempts are whole numbers")
    if isinstance(message, Replay | Collected):
        _check_items(message)
    if isinstance(message, Replay) and message.state is not None:
        _check_state(message.state, message.client)
    if isinstance(message, Collected):
        _check_seen(message.seen)
        _check_rests(message.retained_rests)
    if isinstance(message, FetchSession):
        _check_fetch(message)
    if isinstance(message, Presubscribe) and message.context is not None:
        check_context(message.context)
        check_size(message.context.values)
    if isinstance(message, Interests | Presubscribe):
        _check_held(message.wanted, message.client)
    if isinstance(message, Prefetch | Proxy):
        _check_advertisements(message)


def check_wanted(message: Attach, limits: Limits) -> None:
    """`PeerFault` unless a session of the client can hold what it brings."""
    if len(message.wanted) > 2 * (limits.subscriptions_max + limits.advertisements_max):
        raise PeerFault("Attach.wanted is longer than what a client may ask for")
    if any(wish.id[0] != message.client for wish in message.wanted):
        raise PeerFault("Attach.wanted holds what the client itself has asked for")


def within_budget(message: Attach, limits: Limits) -> Attach:
    """The greeting without filters that are too large, or more than a user may have.

    An honest client brings such a filter if it moves before it hears that it is refused. It will ask for it again.
    """
    left = limits.user_filter_bytes_max
    kept: list[Subscribe | Advertise] = []
    for wish in message.wanted:
        size = 0 if left is None else entry_size(wish.id[1], wish.filter)
        if wish.filter.size > limits.filter_literals_max or (left is not None and size > left):
            continue
        left = None if left is None else left - size
        kept.append(wish)
    return message if len(kept) == len(message.wanted) else structs.replace(message, wanted=tuple(kept))


def _check_fetch(message: FetchSession) -> None:
    """`PeerFault` unless these are subscriptions of the client that can be routed, and those that are told are."""
    if not 0 <= message.round <= ROUNDS_MAX:
        raise PeerFault(f"round {message.round} of a FetchSession: allowed are 0 to {ROUNDS_MAX}")
    if len(message.subscriptions) > WISHES_MAX or len(message.told) > WISHES_MAX:
        raise PeerFault(f"what a client wants must be a tuple of at most {WISHES_MAX}")
    for each in message.subscriptions:
        if not is_whole(each.received) or each.received < 0 or is_open(each.filter):
            raise PeerFault(f"{shown(each)} is not a subscription of {message.client!r} that can be routed")
    if not {each.name for each in message.subscriptions}.issuperset(message.told):
        raise PeerFault(f"{shown(message.told)}: every told filter must be among the subscriptions")


def _check_advertisements(message: Prefetch | Proxy) -> None:
    """`PeerFault` unless these can be advertised for the client."""
    if len(message.advertisements) > ADVERTISEMENTS_MAX:
        raise PeerFault(f"{shown(message)}: it needs at most {ADVERTISEMENTS_MAX} advertisements")
    for advertise in message.advertisements:
        if advertise.id[0] != message.client or is_open(advertise.filter):
            raise PeerFault(f"{shown(advertise)} is not an advertisement of {message.client!r} that can be routed")


def _check_items(message: Replay | Collected) -> None:
    """`PeerFault` unless a queue can be restored from this."""
    for item in message.items:
        if not is_whole(item.number) or not is_number(item.queued_at):
            raise PeerFault(f"an item of a {type(message).__name__} is {shown(item)}")
        check_event(item.event)


def _check_state(state: SessionState, client: str) -> None:
    if state.client != client:
        raise PeerFault(f"the state in a Replay is {shown(state)}")
    if any(not is_whole(getattr(state, field)) or getattr(state, field) < 0 for field in COUNTS):
        raise PeerFault(f"the counts of a session are whole numbers: {shown(state)}")
    # Not `confirmed <= sent_up_to`: a client that came back without its memory is sent everything from 0 on again.
    if max(state.confirmed, state.sent_up_to) > state.taken:
        raise PeerFault(f"a session that has confirmed or sent what it has not taken in: {shown(state)}")
    if state.lost_since is not None and not is_number(state.lost_since):
        raise PeerFault(f"a session that has lost something since {shown(state.lost_since)}")
    check_purged(state.purged)
    check_receipt(state.settled)
    check_receipt(state.told)
    check_lost(state.lost)
    if len(state.refusals) > WISHES_MAX:
        raise PeerFault(f"the refusals of a session are a tuple of at most {WISHES_MAX}")
    for refusal in state.refusals:
        if not is_whole(refusal.number):
            raise PeerFault(f"a session that has refused with {shown(refusal)}")
    _check_held(state.subscriptions, client)
    _check_held(state.advertisements, client)
    if state.context is not None:
        check_context(state.context)
        check_size(state.context.values)
    check_values(state.asserted)
    check_size(state.asserted)
    _check_notes(state)
    _check_seen(state.seen)
    _check_rests(state.retained_rests)


def _check_notes(state: SessionState) -> None:
    """`PeerFault` unless a client can have left these with its session."""
    if len(state.notes) > NOTES_MAX:
        raise PeerFault(f"a session has at most {NOTES_MAX} notes")
    if state.linger_s is not None and not (is_number(state.linger_s) and state.linger_s >= 0):
        raise PeerFault(f"a session that stays for {shown(state.linger_s)} seconds")


def _check_seen(data: tuple[tuple[str, int, bytes], ...]) -> None:
    for seen in data:
        if len(seen[2]) > SEEN_BYTES_MAX:
            raise PeerFault(f"a session that has seen {shown(seen)}")


def _check_rests(rests: tuple[RetainedRest, ...]) -> None:
    if len(rests) > WISHES_MAX:
        raise PeerFault(f"the rests of a session are a tuple of at most {WISHES_MAX}")
    for rest in rests:
        if len(rest.after) > AFTER_CHARS_MAX or not 0 <= rest.asked <= STAMP_MAX:
            raise PeerFault(f"a session that has still to look at {shown(rest)}")


def _check_held(wishes: Sequence[Subscribe | Advertise], client: str) -> None:
    """`PeerFault` unless a session of the client can hold these."""
    if len(wishes) > WISHES_MAX:
        raise PeerFault(f"what a client wants must be a tuple of at most {WISHES_MAX}")
    for wish in wishes:
        check_wish(wish)
        if wish.id[0] != client:
            raise PeerFault(f"{shown(wish.id)} is not a request of {client!r} itself")
        if type(wish) is Advertise and is_open(wish.filter):
            raise PeerFault("an advertisement on the client's own state, which no broker accepts")
