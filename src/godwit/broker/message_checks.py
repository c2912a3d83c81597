"""Checks of messages from clients, before anything is changed.

*Theory.* The decoder (`runtime/wire.py`) lets only messages through whose fields are of the types that their classes
declare, all the way down: ids are pairs of texts, filters are filters. Gateways make messages of those types, too. So
nothing here asks for a type, but where the decoder has none to check: for the values of an event or a context. What is
checked is what a type does not say: bounds of numbers and lengths, names that are empty, how fields go together.

*Rules.*
1. Whatever is wrong raises `PeerFault` with a reason that the client can read.
2. The decoder reads numbers that others cannot work with (NaN, infinities, ints of more than 63 bits): every number is
   passed through `is_whole` or `is_number`.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from godwit.broker.messages import (
    Advertise,
    Attach,
    Context,
    Denied,
    EntryId,
    FetchEvents,
    Note,
    PastConnection,
    Publish,
    QueueRules,
    Receipt,
    Received,
    Request,
    Retain,
    SetSessionExpiry,
    Subscribe,
    SubscribeQuery,
    Unadvertise,
    Unsubscribe,
)
from godwit.errors import BadValue, PeerFault
from godwit.filters.contexts import CONTEXT_NAME_MAX, why_no_name, why_too_large
from godwit.filters.events import ATTRIBUTES_MAX, NAME_LENGTH_MAX, Event
from godwit.filters.references import is_open
from godwit.filters.values import checked_value

__all__ = [
    "TRIED_MAX",
    "check_attach",
    "check_context",
    "check_dwell",
    "check_event",
    "check_fetch_events",
    "check_lost",
    "check_purged",
    "check_receipt",
    "check_received",
    "check_request",
    "check_size",
    "check_values",
    "check_wish",
    "is_number",
    "is_whole",
    "shown",
]

SHOWN_CHARS_MAX = 200
KNOWN_MAX = 4_096  # small events that were checked lately
SMALL = 1_024  # texts and payloads

WHOLE_MAX = 2**63 - 1
NUMBER_MAX = 2.0**63
TEXT_MAX = 65_535
PURGED_MAX = 64  # rules
LOST_MAX = 10_000  # events named in one receipt
TRIED_MAX = 16

_known: dict[int, Event] = {}  # events that were checked lately, by their address


def check_attach(message: Any) -> None:
    """Raise `PeerFault` unless this is an Attach that a client may begin with."""
    if type(message) is not Attach:
        raise PeerFault(f"the first message is {_kind(message)}: it must be Attach")
    _check_name("the client's name", message.client)
    if not is_whole(message.received) or message.received < 0:
        raise PeerFault(f"Attach.received is {shown(message.received)}: it must be a whole number, 0 or more")
    if not all(map(is_whole, (message.receipt, message.attempt, message.since))):
        raise PeerFault(f"Attach.receipt, attempt and since must lie between {-WHOLE_MAX} and {WHOLE_MAX}")
    if not all(is_whole(number) and number >= 0 for number in message.numbers.values()):
        raise PeerFault("Attach.numbers must be whole numbers, 0 or more")
    if message.fresh_start and message.mode != "named":
        raise PeerFault("Attach.fresh_start is for the mode named: in others a client says Bye to end its session")
    if not all(map(_is_possible, message.log)):
        raise PeerFault("Attach.log must be a tuple of connections: a broker's name, an attempt and a time each")
    if len(message.tried) > TRIED_MAX or "" in message.tried:
        raise PeerFault(f"Attach.tried names brokers, {TRIED_MAX} at most")
    if not is_number(message.renewed_at):
        raise PeerFault(f"Attach.renewed_at is {shown(message.renewed_at)}: it must be a time in seconds")
    for wish in message.wanted:
        check_wish(wish)
        if type(wish) is Advertise and is_open(wish.filter):
            raise PeerFault("Attach.wanted has an advertisement on the client's own state, which no broker accepts")
    if message.context is not None:
        check_context(message.context)
        check_size(message.context.values)


def check_received(message: Received, sent_up_to: int) -> None:
    """Raise `PeerFault` unless this confirms something that was sent."""
    if not 0 < message.number <= WHOLE_MAX:
        raise PeerFault("Received.number must be a whole number above 0")
    if message.number > sent_up_to:
        raise PeerFault(f"Received({message.number}), but the last delivery that was sent is {sent_up_to}")


def check_fetch_events(message: FetchEvents) -> None:
    """Raise `PeerFault` unless this asks for some events of a publisher."""
    if not 0 <= message.after < message.through <= WHOLE_MAX:
        raise PeerFault(f"Between {shown(message.after)} and {shown(message.through)} there is nothing to ask for")


def check_request(message: Request) -> None:
    """Raise `PeerFault` unless this asks for something that a client can ask for."""
    if not 0 < message.number <= WHOLE_MAX:
        raise PeerFault(f"Request.number is {shown(message.number)}: it must be a whole number above 0")
    wish = message.wish
    match wish:
        case Publish():  # most of what comes
            check_event(wish.event)
        case Retain():
            check_event(wish.event)
            _check_text(wish.key, "Retain.key")
        case Note():
            _check_text(wish.key, "Note.key")
        case SetSessionExpiry(seconds=seconds):
            if seconds is not None and not (is_number(seconds) and seconds >= 0):
                raise PeerFault(f"SetSessionExpiry.seconds is {shown(seconds)}: it must be a number, 0 or more")
        case Denied():
            _check_text(wish.reason, "Denied.reason")
        case Subscribe() | Advertise():
            check_wish(wish)
        case SubscribeQuery():
            check_wish(wish.subscribe)
            for language, _ in wish.queries:
                _check_text(language, "SubscribeQuery.queries")
        case Unsubscribe() | Unadvertise():
            _check_own_id(wish.id)
        case Context():
            check_context(wish)
        case _:
            assert_never(wish)


def check_context(context: Context) -> None:
    """Raise `PeerFault` unless this is a client's context."""
    check_values(context.values)
    check_dwell(context.dwell_s)


def check_values(values: Mapping[str, Any]) -> None:
    """Raise `PeerFault` unless these are named values of a client's context, one or several of each name."""
    for name, value in values.items():
        if not 0 < len(name) <= CONTEXT_NAME_MAX:
            raise PeerFault(f"a name in a context must be a text of 1 to {CONTEXT_NAME_MAX} characters")
        try:
            checked_value(name)
        except BadValue as error:
            raise PeerFault(f"a name in a context: {shown(name)}: {error}") from None
        if (reason := why_no_name(name)) is not None:  # else a neighbour that gets it would fault this broker
            raise PeerFault(f"a name in a context: {reason}")
        try:
            _check_value(value)
        except BadValue as error:
            raise PeerFault(f"my.{name}: {error}") from None


def check_size(values: dict[str, Any], *, authors: int = 1) -> None:
    """Raise `PeerFault` when a context is larger than so many authors could have made it."""
    reason = why_too_large(values, authors=authors)
    if reason is not None:
        raise PeerFault(reason)


def _check_value(value: Any) -> None:
    """Raise `BadValue` unless this is one value, or several."""
    if type(value) is not tuple:
        checked_value(value)
    elif len(value) < 2:
        raise BadValue(f"a tuple of {len(value)}: one value stands alone, none is absent")
    else:
        for one in value:
            checked_value(one)


def check_dwell(dwell_s: float | None) -> None:
    """Raise `PeerFault` unless this is a time that a context lasts, or nothing."""
    if dwell_s is not None and not (is_number(dwell_s) and dwell_s > 0):
        raise PeerFault(f"a context that lasts for {shown(dwell_s)}: it must be seconds above 0, or nothing")


def check_wish(wish: Subscribe | Advertise) -> None:
    """Raise `PeerFault` unless a client may subscribe to, or advertise, this."""
    _check_own_id(wish.id)
    if isinstance(wish, Subscribe):
        if wish.expires is not None and not is_number(wish.expires):
            raise PeerFault(f"Subscribe.expires is {shown(wish.expires)}: it must be a time in seconds, or nothing")
        if wish.queue is not None:
            _check_rules(wish.queue)
        if len(wish.share) > NAME_LENGTH_MAX:
            raise PeerFault(f"Subscribe.share must be a text of at most {NAME_LENGTH_MAX} characters")


def is_whole(number: int) -> bool:
    """Whether a whole number fits the wire: any longer one may not even be written down."""
    return -WHOLE_MAX <= number <= WHOLE_MAX


def is_number(number: float) -> bool:
    """Whether a number can be computed with: finite, and its sums and multiples are, too."""
    return -NUMBER_MAX <= number <= NUMBER_MAX  # not so for NaN


def check_receipt(receipt: Receipt) -> None:
    """Raise `PeerFault` unless the figures of a receipt can be added up."""
    counts = (receipt.replayed, receipt.suppressed, receipt.expired, receipt.lost_more, receipt.number)
    if not all(map(_is_count, counts)):
        raise PeerFault(f"the counts of a receipt are whole numbers, 0 or more: {shown(receipt)}")
    check_purged(receipt.purged)
    check_lost(receipt.lost)


def check_purged(purged: dict[str, int]) -> None:
    """Raise `PeerFault` unless this says how many events each rule has purged."""
    if len(purged) > PURGED_MAX:
        raise PeerFault(f"a table of at most {PURGED_MAX} rules is needed, not {shown(purged)}")
    for rule, count in purged.items():
        if not _is_count(count):
            raise PeerFault(f"a rule {shown(rule)} that has purged {shown(count)} events")


def check_lost(lost: tuple[tuple[str, int], ...]) -> None:
    """Raise `PeerFault` unless these are the ids of events that were lost."""
    if len(lost) > LOST_MAX:
        raise PeerFault(f"the events that were lost are a tuple of at most {LOST_MAX}")
    for id in lost:
        if not is_whole(id[1]):
            raise PeerFault(f"an event named {shown(id)} that was lost")


def shown(thing: object) -> str:
    """What a peer sent, short enough to be said back to it."""
    try:
        text = repr(thing)
    except (ValueError, RecursionError):  # a number of too many digits, or too much within each other
        return _kind(thing)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def check_event(event: Event) -> None:
    """Raise `PeerFault` unless this is an event that matchers, queues and neighbours can work with.

    In a simulated network one object goes through every hop, and is looked at once.
    """
    if _known.get(id(event), _known) is event:
        return
    if _is_small(event):
        if len(_known) >= KNOWN_MAX:
            _known.clear()
        _known[id(event)] = event


def _is_small(event: Event) -> bool:
    """Whether an event may be kept in mind. Raise `PeerFault` as `check_event` says."""
    is_small = True
    if len(event.attributes) > ATTRIBUTES_MAX:
        raise PeerFault(f"Publish.event must be an event of at most {ATTRIBUTES_MAX} attributes")
    value: Any
    for name, value in event.attributes.items():
        if not 0 < len(name) <= NAME_LENGTH_MAX:
            raise PeerFault(f"an attribute's name must be a text of 1 to {NAME_LENGTH_MAX} characters")
        kind = type(value)
        if kind is str and len(value) <= SMALL and value.isascii():
            continue  # these three are most of what comes
        if (kind is int or kind is float) and -NUMBER_MAX < value < NUMBER_MAX:
            continue
        is_small = is_small and kind is not str and kind is not tuple
        try:
            _check_value(value)
        except BadValue as error:
            raise PeerFault(f"attribute {name!r}: {error}") from None
    if not is_whole(event.sequence):
        raise PeerFault(f"an event's sequence must lie between {-WHOLE_MAX} and {WHOLE_MAX}")
    for at in (event.published_at, event.expires_at):
        if at is not None and not is_number(at):
            raise PeerFault(f"an event's time is {shown(at)}: it must be in seconds, or nothing")
    if event.to is not None and is_open(event.to):
        raise PeerFault("an event's `to` refers to a client's own context (my.x, myloc): its publisher fills that in")
    return is_small and (event.payload is None or len(event.payload) <= SMALL)


def _check_rules(rules: QueueRules) -> None:
    for attribute in (rules.newest_per, rules.high_water, rules.importance):
        if attribute is not None:
            _check_name("an attribute that a rule of the queue names", attribute)
    if rules.age_s_max is not None and not (is_number(rules.age_s_max) and rules.age_s_max >= 0):
        raise PeerFault(f"age_s_max is {shown(rules.age_s_max)}: it must be seconds, 0 or more")
    for budget in (rules.count_max, rules.bytes_max):
        if budget is not None and not _is_count(budget):
            raise PeerFault(f"a budget of a queue is {shown(budget)}: it must be a whole number, 0 or more")


def _check_own_id(id: EntryId) -> None:
    _check_name("the client in an id", id[0])
    _check_name("the name in an id", id[1])


def _check_text(text: str, what: str) -> None:
    if len(text) > TEXT_MAX:
        raise PeerFault(f"{what} must be a text of at most {TEXT_MAX} characters")


def _check_name(what: str, name: str) -> None:
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise PeerFault(f"{what} must be a text of 1 to {NAME_LENGTH_MAX} characters")


def _is_possible(entry: PastConnection) -> bool:
    return entry.broker != "" and is_whole(entry.attempt) and is_number(entry.at)


def _is_count(number: int) -> bool:
    return 0 <= number <= WHOLE_MAX


def _kind(thing: object) -> str:
    return f"a {type(thing).__name__}"
