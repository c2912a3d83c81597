"""Is this a message that an honest client sends? Checked before anything is changed.

A message that was decoded from the wire has the right shape already; one that a gateway or a hostile peer of a
simulated network made may hold anything. Whatever is wrong raises `PeerFault` with a reason that the client can read.
"""

from typing import Any

from godwit.broker.messages import (
    Advertise,
    Attach,
    Between,
    Connection,
    Context,
    Denied,
    Linger,
    Note,
    Publish,
    QueueRules,
    Receipt,
    Received,
    Request,
    Retain,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from godwit.errors import BadValue, PeerFault
from godwit.filters.contexts import CONTEXT_NAME_MAX, why_no_name, why_too_large
from godwit.filters.events import ATTRIBUTES_MAX, NAME_LENGTH_MAX, Event
from godwit.filters.filters import And, Missing, Only, Or, Some, literals
from godwit.filters.references import is_open
from godwit.filters.sets import EVERYTHING, ValueSet
from godwit.filters.values import checked_value

__all__ = [
    "TRIED_MAX",
    "check_attach",
    "check_between",
    "check_context",
    "check_dwell",
    "check_event",
    "check_filter",
    "check_id",
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

FILTER_TYPES = (Some, Only, Missing, And, Or)
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


def check_attach(message: Attach) -> None:
    """Raise `PeerFault` unless this is a well-formed Attach."""
    if type(message) is not Attach:
        raise PeerFault(f"the first message is {_kind(message)}: it must be Attach")
    _check_name("the client's name", message.client)
    if not is_whole(message.received) or message.received < 0:
        raise PeerFault(f"Attach.received is {shown(message.received)}: it must be a whole number, 0 or more")
    if [type(message.session), type(message.quench)] != [str, bool] or not is_whole(message.receipt):
        raise PeerFault("Attach.session must be a text, Attach.quench a bool and Attach.receipt a whole number")
    if [type(message.replicated), type(message.fresh_start)] != [bool, bool]:
        raise PeerFault("Attach.replicated and fresh_start must be bools")
    if message.fresh_start and message.mode != "named":
        raise PeerFault("Attach.fresh_start is for the mode named: in others a client says Bye to end its session")
    if type(message.log) is not tuple or not all(map(_is_connection, message.log)):
        raise PeerFault("Attach.log must be a tuple of connections: a broker's name, an attempt and a time each")
    kinds = [type(value) for value in (message.home, message.mode, message.wanted, message.tried)]
    if kinds != [str, str, tuple, tuple] or not (is_whole(message.attempt) and is_whole(message.since)):
        raise PeerFault("Attach.home and mode must be texts, attempt and since whole numbers, wanted and tried tuples")
    if len(message.tried) > TRIED_MAX or any(type(name) is not str or not name for name in message.tried):
        raise PeerFault(f"Attach.tried names brokers, {TRIED_MAX} at most")
    if type(message.origin) is not str or not is_number(message.renewed_at):
        raise PeerFault("Attach.origin must be a text and renewed_at a time in seconds")
    for wish in message.wanted:
        if type(wish) is not Subscribe and type(wish) is not Advertise:
            raise PeerFault("Attach.wanted holds subscriptions and advertisements")
        check_wish(wish)
        if type(wish) is Advertise and is_open(wish.filter):
            raise PeerFault("Attach.wanted holds what was accepted, and an advertisement on the own state never was")
    if message.context is not None:
        check_context(message.context)
        check_size(message.context.values)


def check_received(message: Received, sent_up_to: int) -> None:
    """Raise `PeerFault` unless this confirms something that was sent."""
    if type(message) is not Received or not is_whole(message.number) or message.number <= 0:
        raise PeerFault("Received.number must be a whole number above 0")
    if message.number > sent_up_to:
        raise PeerFault(f"Received({message.number}), but the last delivery that was sent is {sent_up_to}")


def check_between(message: Between) -> None:
    """Raise `PeerFault` unless this asks for some events of a publisher."""
    if type(message.publisher) is not str or not is_whole(message.after) or not is_whole(message.through):
        raise PeerFault("Between needs the name of a publisher and two whole numbers")
    if not 0 <= message.after < message.through:
        raise PeerFault(f"Between {message.after} and {message.through} there is nothing to ask for")


def check_request(message: Request) -> None:
    """Raise `PeerFault` unless this is a well-formed Request."""
    if type(message) is not Request:
        raise PeerFault(f"{_kind(message)} is no message of a client")
    if not is_whole(message.number) or message.number <= 0:
        raise PeerFault(f"Request.number is {shown(message.number)}: it must be a whole number above 0")
    wish: Any = message.wish
    kind = type(wish)
    if kind is Publish:
        check_event(wish.event)
    elif kind is Retain:
        check_event(wish.event)
        _check_text(wish.key, "Retain.key")
        if type(wish.clear) is not bool:
            raise PeerFault("Retain.clear must be true or false")
    elif kind is Note:
        _check_text(wish.key, "Note.key")
        if wish.value is not None and type(wish.value) is not bytes:
            raise PeerFault("Note.value must be bytes")
    elif kind is Linger:
        if wish.seconds is not None and not (is_number(wish.seconds) and wish.seconds >= 0):
            raise PeerFault(f"Linger.seconds is {shown(wish.seconds)}: it must be a number, 0 or more")
    elif kind is Denied:
        _check_text(wish.reason, "Denied.reason")
    elif kind is Subscribe or kind is Advertise:
        check_wish(wish)
    elif kind is Unsubscribe or kind is Unadvertise:
        _check_own_id(wish.id)
    elif kind is Context:
        check_context(wish)
    else:
        raise PeerFault(f"{_kind(wish)} is nothing that a client can ask for")


def check_context(context: Any) -> None:
    """Raise `PeerFault` unless this is a client's context."""
    if type(context) is not Context:
        raise PeerFault(f"a context is {_kind(context)}")
    check_values(context.values)
    check_dwell(context.dwell_s)


def check_values(values: Any) -> None:
    """Raise `PeerFault` unless these are named values of a client's context, one or several of each name."""
    if type(values) is not dict:
        raise PeerFault(f"a context is {_kind(values)}: it must be a table of values")
    for name, value in values.items():
        if type(name) is not str or not 0 < len(name) <= CONTEXT_NAME_MAX:
            raise PeerFault(f"a name in a context must be a text of 1 to {CONTEXT_NAME_MAX} characters")
        try:
            checked_value(name)
        except BadValue as error:
            raise PeerFault(f"a name in a context: {shown(name)}: {error}") from None
        if (reason := why_no_name(name)) is not None:  # else a neighbour that hears of it would fault this broker
            raise PeerFault(f"a name in a context: {reason}")
        try:
            _check_value(value)
        except BadValue as error:
            raise PeerFault(f"my.{name}: {error}") from None


def check_size(values: Any, *, authors: int = 1) -> None:
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


def check_dwell(dwell_s: Any) -> None:
    """Raise `PeerFault` unless this is a time that a context lasts, or nothing."""
    if dwell_s is not None and not (is_number(dwell_s) and dwell_s > 0):
        raise PeerFault(f"a context that lasts for {shown(dwell_s)}: it must be seconds above 0, or nothing")


def check_wish(wish: Subscribe | Advertise) -> None:
    """Raise `PeerFault` unless this is a well-formed subscription or advertisement of a client."""
    _check_own_id(wish.id)
    check_filter(wish.filter)
    if isinstance(wish, Subscribe):
        if wish.expires is not None and not is_number(wish.expires):
            raise PeerFault(f"Subscribe.expires is {shown(wish.expires)}: it must be a time in seconds, or nothing")
        if wish.queue is not None:
            _check_rules(wish.queue)
        if type(wish.share) is not str or len(wish.share) > NAME_LENGTH_MAX:
            raise PeerFault(f"Subscribe.share must be a text of at most {NAME_LENGTH_MAX} characters")
        if type(wish.retained) is not bool:
            raise PeerFault("Subscribe.retained must be a bool")


def check_filter(filter: Any) -> None:
    """Raise `PeerFault` unless this is a filter through and through."""
    if not isinstance(filter, FILTER_TYPES):
        raise PeerFault(f"{_kind(filter)} is no filter")
    for literal in literals(filter):
        if type(literal.attribute) is not str or not isinstance(getattr(literal, "values", EVERYTHING), ValueSet):
            raise PeerFault(f"a filter with {shown(literal)} in it, which is no literal")


def check_id(id: Any) -> None:
    """Raise `PeerFault` unless this names an entry."""
    if type(id) is not tuple or [type(part) for part in id] != [str, str]:
        raise PeerFault(f"an entry named {shown(id)}: a name is a pair of texts")


def is_whole(value: Any) -> bool:
    """Whether this is a whole number that fits the wire: any longer one may not even be written down."""
    return type(value) is int and -WHOLE_MAX <= value <= WHOLE_MAX


def is_number(value: Any) -> bool:
    """Whether this is a number that can be reckoned with: finite, and its sums and multiples are, too."""
    return type(value) in (int, float) and -NUMBER_MAX <= value <= NUMBER_MAX  # not so for NaN


def check_receipt(receipt: Any) -> None:
    """Raise `PeerFault` unless the figures of a receipt can be added up."""
    if type(receipt) is not Receipt or type(receipt.session_lost) is not bool:
        raise PeerFault(f"a receipt is {shown(receipt)}")
    counts = (receipt.replayed, receipt.suppressed, receipt.expired, receipt.lost_more, receipt.number)
    if any(not is_whole(count) or count < 0 for count in counts):
        raise PeerFault(f"the counts of a receipt are whole numbers, 0 or more: {shown(receipt)}")
    check_purged(receipt.purged)
    check_lost(receipt.lost)


def check_purged(purged: Any) -> None:
    """Raise `PeerFault` unless this says how many events each rule has purged."""
    if type(purged) is not dict or len(purged) > PURGED_MAX:
        raise PeerFault(f"a table of at most {PURGED_MAX} rules is needed, not {shown(purged)}")
    for rule, count in purged.items():
        if type(rule) is not str or not is_whole(count) or count < 0:
            raise PeerFault(f"a rule {shown(rule)} that has purged {shown(count)} events")


def check_lost(lost: Any) -> None:
    """Raise `PeerFault` unless these are the ids of events that were lost."""
    if type(lost) is not tuple or len(lost) > LOST_MAX:
        raise PeerFault(f"the events that were lost are a tuple of at most {LOST_MAX}")
    for id in lost:
        if type(id) is not tuple or len(id) != 2 or type(id[0]) is not str or not is_whole(id[1]):
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
    if type(event) is not Event or type(event.attributes) is not dict or len(event.attributes) > ATTRIBUTES_MAX:
        raise PeerFault(f"Publish.event must be an event of at most {ATTRIBUTES_MAX} attributes")
    for name, value in event.attributes.items():
        if type(name) is not str or not 0 < len(name) <= NAME_LENGTH_MAX:
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
    if type(event.publisher) is not str or not is_whole(event.sequence):
        raise PeerFault("an event's publisher must be a text and its sequence a whole number")
    if event.payload is not None and type(event.payload) is not bytes:
        raise PeerFault("an event's payload must be bytes, or nothing")
    if event.content_type is not None and type(event.content_type) is not str:
        raise PeerFault("an event's content type must be a text, or nothing")
    for at in (event.published_at, event.expires_at):
        if at is not None and not is_number(at):
            raise PeerFault(f"an event's time is {shown(at)}: it must be in seconds, or nothing")
    if event.to is not None:
        check_filter(event.to)
        if is_open(event.to):
            raise PeerFault(
                "an event's `to` refers to a client's own context (my.x, myloc): its publisher fills that in"
            )
    return is_small and (event.payload is None or len(event.payload) <= SMALL)


def _check_rules(rules: QueueRules) -> None:
    if type(rules) is not QueueRules:
        raise PeerFault("Subscribe.queue must be rules of a queue")
    for attribute in (rules.newest_per, rules.high_water, rules.importance):
        if attribute is not None:
            _check_name("an attribute that a rule of the queue names", attribute)
    if rules.age_s_max is not None and not (is_number(rules.age_s_max) and rules.age_s_max >= 0):
        raise PeerFault(f"age_s_max is {shown(rules.age_s_max)}: it must be seconds, 0 or more")
    for budget in (rules.count_max, rules.bytes_max):
        if budget is not None and (not is_whole(budget) or budget < 0):
            raise PeerFault(f"a budget of a queue is {shown(budget)}: it must be a whole number, 0 or more")


def _check_own_id(id: tuple[str, str]) -> None:
    check_id(id)
    _check_name("the client in an id", id[0])
    _check_name("the name in an id", id[1])


def _check_text(text: Any, what: str) -> None:
    if type(text) is not str or len(text) > TEXT_MAX:
        raise PeerFault(f"{what} must be a text of at most {TEXT_MAX} characters")


def _check_name(what: str, name: str) -> None:
    if type(name) is not str or not 0 < len(name) <= NAME_LENGTH_MAX:
        raise PeerFault(f"{what} must be a text of 1 to {NAME_LENGTH_MAX} characters")


def _is_connection(entry: Any) -> bool:
    return (
        type(entry) is Connection
        and type(entry.broker) is str
        and entry.broker != ""
        and is_whole(entry.attempt)
        and is_number(entry.at)
    )


def _kind(thing: object) -> str:
    return f"a {type(thing).__name__}"
