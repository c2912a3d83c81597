"""The words of explanations: what of a filter an event fails, why a client did not get it, how it left a queue.

*Rules.*
1. A sentence names the part of a filter that failed, and what the event has in its place.
2. Of many subscriptions, those are named that the event comes closest to: of which most parts hold.
3. Nothing is decided here: the caller knows what is on record.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from godwit.broker.limits import Limits
from godwit.filters.events import Attributes
from godwit.filters.filters import And, Filter, literals
from godwit.filters.reasons import failing
from godwit.runtime.question_parts import cut_values, moment, shown

__all__ = [
    "ENDS", "FAILING_SHOWN", "RULES", "asked_of", "end_words", "has_ended", "may_only", "not_held", "unrecorded",
    "why_not", "without_session",
]  # fmt: skip

FAILING_SHOWN = 20
CLOSEST_SHOWN = 3
VALUE_MAX = 80

ENDS = {
    "purged": "it was removed from the client's queue by a rule of the subscription",
    "expired": "it expired before the client connected",
    "lost": "it was lost",
    "dropped": "it waited in the client's queue when the session ended",
    "not_addressed": "it was not addressed to the client: its context of that moment did not match the event's to",
    "out_of_context": "the subscription did not match in the client's context of that moment",
    "suppressed": "it came a second time, and was delivered when it came first",
}
"""Other ends of an event for a client, by the kind of its record."""

RULES = {
    "age": "age_s_max",
    "count": "count_max",
    "bytes": "bytes_max",
    "newest_per": "newest_per",
    "high_water": "high_water",
}
"""The field of `QueueRules` for each rule that a record names."""

BOUNDS = {
    "count": ("the queue was full", "queue_events_max"),
    "bytes": ("the queue was full", "queue_bytes_max"),
    "user_bytes": ("the queues of the user's clients were full", "user_bytes_max"),
    "memory": ("the broker's process used too much memory", ""),
}
"""The bounds that remove an event from a queue, by what a record names, each with its setting."""

PURGED_BY = {
    "administrator": "an administrator dropped it from the client's queue",
    "rights": "it was removed from the client's queue because the rights of its user have ended",
}
"""What else has purged an event, if it was no rule of a subscription."""


def end_words(kind: str, detail: str, rules: str, limits: Limits, expired_at: float | None = None) -> str:
    """How an event ended, from its record. `rules`: the rule of the subscription that the record names, if any."""
    if kind == "expired":
        return f"{ENDS[kind]}: its lifetime ended at {moment(expired_at)}" if expired_at is not None else ENDS[kind]
    if kind == "purged" and detail in PURGED_BY:
        return PURGED_BY[detail]
    if kind == "purged" and rules:
        return f"{ENDS[kind]}: {rules}"
    if kind in ("purged", "lost") and detail in BOUNDS:
        words, setting = BOUNDS[detail]
        bound = f" (limits.{setting} = {getattr(limits, setting)})" if setting else ""
        return f"it was removed from the client's queue: {words}{bound}"
    return f"{ENDS[kind]}: {detail}" if detail and kind != "not_addressed" else ENDS[kind]


def has_ended(at: float) -> str:
    """That an event that still waits will not be delivered."""
    return f"it expired before the client connected: its lifetime ended at {moment(at)}"


# ---------------------------------------------------------------- filters and events


def asked_of(filter: Filter, attributes: Attributes) -> dict[str, Any]:
    """What of a filter an event fails: the parts (`fails`), what the event has there (`has`), and of a conjunction how
    many parts hold (`holds`)."""
    parts = tuple(islice(failing(filter, attributes), FAILING_SHOWN))
    names = dict.fromkeys(literal.attribute for part in parts for literal in literals(part))
    holds = max(0, sum(1 for _ in literals(filter)) - len(parts)) if isinstance(filter, And) else 0
    return {"fails": [shown(part) for part in parts], "has": _values(names, attributes), "holds": holds}


def _values(names: Iterable[str], attributes: Attributes) -> str:
    """What an event has of some attributes."""
    told = cut_values({name: attributes[name] for name in names if name in attributes})
    has = [f"{name} = {_short(told[name])}" if name in told else f"no {name}" for name in names]
    return _listed(has)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= VALUE_MAX else f"{text[:VALUE_MAX]}…"


def _listed(texts: list[str]) -> str:
    *others, last = texts or [""]
    return f"{', '.join(others)} and {last}" if others else last


def not_held(parts: list[str]) -> str:
    """That parts of a filter do not hold, as a sentence."""
    return f"{_listed(parts)} {'do' if len(parts) > 1 else 'does'} not hold"


def _fails(asked: Mapping[str, Any]) -> str:
    """What an event fails, and what it has there. (rule 1)"""
    has = f" (the event has {asked['has']})" if asked.get("has") else ""
    return f"{not_held(asked['fails'])}{has}"


def may_only(right: Mapping[str, Any], verb: str) -> str:
    """That a right is missing, and what the event has of it."""
    user = f"user {right['user']}" if right["user"] else "the client"
    has = f", and the event has {right['has']}" if right.get("has") else f": {not_held(right['fails'])}"
    return f"the right is missing: {user} may {verb} only what matches {right['grant']}{has}"


# ---------------------------------------------------------------- why not


def why_not(told: Mapping[str, Any], subscription: str = "") -> str:
    """Why the session of a client does not match an event, by the present state; "" if it does."""
    right = told.get("right")
    if right and right["fails"]:
        return may_only(right, "subscribe to")
    if not told.get("is_addressed", True):
        return f"the event is not to this client: {not_held(told['to_fails'])} of its context"
    rows = told.get("subscriptions") or []
    if not rows:
        refused = f"; a request of it was refused: {told['refusals'][-1]}" if told.get("refusals") else ""
        wants = f"the client has no subscription {subscription!r}" if subscription else "the client has no subscription"
        return f"{wants}{refused}"
    if any(row.get("matches", True) for row in rows):
        return ""
    for row in rows:
        if row.get("suspended") and not row["fails"]:
            return f"the subscription {row['name']!r} is suspended: {row['suspended']}"
    return f"no subscription of the client matches the event{_closest(rows)}"


def _closest(rows: list[Mapping[str, Any]]) -> str:
    """Of the subscriptions that an event fails, those that it comes closest to, and why it fails them. (rule 2)"""
    most = max(row.get("holds", 0) for row in rows)
    found = [row for row in rows if row["fails"] and row.get("holds", 0) == most]
    fewest = min((len(row["fails"]) for row in found), default=0)
    found = [row for row in found if len(row["fails"]) == fewest]
    texts = [f"{_fails(row)}{_meaning(row)}" for row in found[:CLOSEST_SHOWN]]
    if len(rows) == 1:
        return f": {texts[0]}" if texts else ""
    named = [f"{row['name']!r}, where {text}" for row, text in zip(found, texts, strict=False)]
    if not named:
        return ""
    more = f", and {len(found) - len(named)} more" if len(found) > len(named) else ""
    return f"; the closest {'is' if len(found) == 1 else 'are'} {'; '.join(named)}{more}"


def _meaning(row: Mapping[str, Any]) -> str:
    """What a filter on the client's own context says at present."""
    return f" (in the client's context, {row['filter']} is {row['now']})" if "now" in row else ""


def unrecorded(told: Mapping[str, Any]) -> str:
    """That there is no arrival on record, and whether this shows that the event did not come."""
    if told.get("has_not_come"):
        return "the event has not reached this broker"
    return f"the event is not recorded here (records begin at {moment(told['records_begin'])})"


def without_session(told: Mapping[str, Any]) -> str:
    """What a broker without a session of the client does with an event, as far as it is recorded or can be computed."""
    if told["is_awaited"]:
        return "the client is connected here, but its session has not arrived yet"
    where = f" (it went to {told['moved_to']})" if told["moved_to"] else ""
    if not told["arrivals"] and not told["is_written"]:
        return f"{unrecorded(told)}, and the client has no session here{where}"
    matched = [repr(row["name"]) for row in told.get("matched") or [] if row["basis"] == "record"]
    if matched:
        where = f"{where}; the event matched {', '.join(matched)} of it when it came"
    rows = told.get("sent_on", [])
    sent = [row["peer"] for row in rows if row.get("basis") == "record"]
    may = [row["peer"] for row in rows if row["peer"] not in sent]
    further = [f"the event was forwarded to {', '.join(sent)}"] if sent else []
    if may:
        goes = (
            "the event would be forwarded to"
            if told["is_written"]
            else "by the present tables the event is forwarded to"
        )
        further.append(f"{goes} {', '.join(may)}")
    if further or told["is_written"]:
        nobody = "no subscriber behind this broker wants the event"
    else:
        nobody = (
            "it was sent to no other broker" if told.get("is_recorded") else "what was decided is not recorded any more"
        )
    return f"the client has no session here{where}; {'; '.join(further) or nobody}"
