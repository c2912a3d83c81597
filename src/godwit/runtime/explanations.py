"""Why a client did or did not receive an event: the findings of all brokers of a network, combined.

*Theory.* Each broker reports its part (`event_explanations.py`): where the event came from, where it was sent, and
whether the session of the client matches. The parts are sorted along the path of the event, and the first decisive
finding is the verdict. An event that was stopped on its path never reaches the client's broker, which then cannot tell
which part of a filter fails; but another broker has the event, so this module evaluates the filter.

A hypothetical event is followed from broker to broker by their present tables: from the broker where its publisher has
a session, or else from the one that was asked. It has the publisher's present context, which is requested first.

*Rules.*
1. A verdict names the literal that failed, if there is one, and says whether it is based on records or on the present
   tables.
2. Brokers that have not answered are named: their findings are missing.
3. A transmission between brokers counts as recorded only if the receiving broker has recorded the arrival.
4. A broker without an arrival on record has not got the event if its records begin before the first arrival elsewhere.
   Otherwise it may have got it. If that could change the answer, the verdict is `UNKNOWN`. This compares the clocks of
   brokers, which are assumed to agree.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from godwit.errors import GodwitError
from godwit.filters.events import Attributes, event
from godwit.filters.language import parse
from godwit.runtime.event_explanations import RECORD, TABLES, UNKNOWN, Verdict
from godwit.runtime.explanation_words import ENDS, asked_of, not_held, unrecorded, why_not, without_session
from godwit.runtime.network_questions import Answers
from godwit.runtime.question_parts import moment

__all__ = ["explained", "explanation", "is_delivered", "verdict_of", "with_reasons"]

Hop = dict[str, Any]
Ask = Callable[[str, Mapping[str, str]], Awaitable[Answers]]
"""Asks every broker of the network."""


async def explained(ask: Ask, asked: Mapping[str, str], origin: str) -> dict[str, Any]:
    """The explanation of an event and a client, from all brokers."""
    question = dict(asked)
    if question.get("written") and question.get("publisher"):
        found = await ask("session", {"client": question["publisher"]})
        context: Mapping[str, Any] = next((session["context"] for session in found.answers.values() if session), {})
        question["written"] = _with_context(question["written"], context)
    return explanation(await ask("explain", question), origin)


def _with_context(written: str, context: Mapping[str, Any]) -> str:
    """A hypothetical event, with its publisher's context if it has none itself."""
    try:
        said = msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return written  # invalid: the brokers report it
    if not isinstance(said, dict) or not context:
        return written
    whole = said if isinstance(said.get("attributes"), dict) else {"attributes": said}
    return msgspec.json.encode({"context": context, **whole}).decode()


def explanation(found: Answers, origin: str = "") -> dict[str, Any]:
    """The combined answer from the answers of all brokers. `origin`: the first broker of a hypothetical event."""
    hops = with_reasons([{"broker": broker, **answer} for broker, answer in found.answers.items()])
    if any(hop.get("is_written") for hop in hops):
        return _of_written(hops, found.unanswered, origin)
    hops.sort(key=lambda hop: (not hop.get("arrivals"), _first_arrival(hop), hop.get("session") is None))
    verdict = verdict_of(hops, found.unanswered)
    return {
        "delivered": any(map(is_delivered, hops)),
        "waits": any(row.get("waits") for hop in hops for row in hop.get("deliveries") or []),
        "is_written": False,
        "verdict": verdict.words,
        "basis": verdict.basis,
        "hops": hops,
        "unanswered": found.unanswered,
    }


def is_delivered(hop: Mapping[str, Any]) -> bool:
    """Whether this broker has delivered the event to the client, or will."""
    return bool(hop.get("deliveries")) and not hop.get("is_withheld", False)


# ---------------------------------------------------------------- what brokers know of each other's parts


def with_reasons(hops: list[Hop]) -> list[Hop]:
    """Add the failing parts of filters and rights at brokers that the event never reached; and rule 3."""
    came = {(arrival["from"], hop["broker"]) for hop in hops for arrival in hop.get("arrivals") or []}
    came_first = min((_first_arrival(hop) for hop in hops if hop.get("arrivals")), default=0.0)
    for hop in hops:
        for row in hop.get("sent_on") or []:
            is_known = row.get("basis") == RECORD or (hop["broker"], row["peer"]) in came
            row["basis"] = RECORD if is_known else TABLES
        if hop.get("basis") == UNKNOWN and not hop.get("arrivals") and hop["records_begin"] < came_first:  # rule 4
            hop["has_not_come"], hop["basis"] = True, RECORD
            hop["verdict"] = unrecorded(hop)
        if hop.get("passes_on"):
            hop["verdict"] = without_session(hop)
    known = next((hop for hop in hops if hop.get("attributes")), None)
    if known is None:
        return hops
    attributes = event(known["attributes"]).attributes
    for hop in hops:
        if "attributes" in hop:
            continue
        for row in hop.get("subscriptions") or []:
            asked = _asked_of(row.get("now") or row["filter"], attributes)
            if asked is not None:
                row |= {**asked, "matches": not asked["fails"] and not row.get("suspended")}
        for right in (hop.get("right"), (hop.get("publisher") or {}).get("right")):
            if right:
                asked = _asked_of(right["grant"], attributes) or {"fails": [], "has": ""}
                right["fails"], right["has"] = asked["fails"], asked["has"]
        if known.get("to") and hop.get("context") is not None:
            asked = _asked_of(known["to"], event(hop["context"]).attributes)
            hop["to_fails"] = [] if asked is None else asked["fails"]
            hop["is_addressed"] = not hop["to_fails"]
    return hops


def _asked_of(text: str, attributes: Attributes) -> dict[str, Any] | None:
    """What of a filter an event fails; None if that cannot be determined, because the text was cut or the filter is
    open."""
    try:
        return asked_of(parse(text), attributes)
    except GodwitError:
        return None


def _first_arrival(hop: Hop) -> float:
    return min((came["at"] for came in hop.get("arrivals") or []), default=0.0)


# ---------------------------------------------------------------- an event that was published


def verdict_of(hops: list[Hop], unanswered: list[str]) -> Verdict:
    """The first finding that decides. (rule 1)"""
    said = [hop for hop in hops if "verdict" in hop]
    for is_decisive in (lambda hop: hop.get("refused"), is_delivered, _ended):
        for hop in said:
            if is_decisive(hop):
                parts = hop.get("to_fails") or []
                is_about_it = any(record["kind"] == "not_addressed" for record in hop.get("records") or [])
                joined = "; now, " if is_about_it else "; nor is the event addressed to the client: "
                because = f"{joined}{not_held(parts)} of its context" if parts else ""
                return Verdict(f"{hop['broker']}: {hop['verdict']}{because}", RECORD)
    missing = _missing(unanswered)
    at = next((hop for hop in said if hop.get("session") is not None), None)
    came = [hop for hop in said if hop.get("arrivals")]
    if not came:
        away = "" if at is not None else f"; {_nowhere(said, '')}"
        words = f"no broker that answered has recorded the event{missing}{_records_begin(said)}"
        return Verdict(f"{words}{away}{_refused_before(said)}", UNKNOWN)
    if gap := _gap(said, came, unanswered):
        return Verdict(gap, UNKNOWN)
    if at is None:
        undecided = [hop["broker"] for hop in came if not hop.get("is_recorded", True)]
        if undecided:
            return Verdict(f"what {undecided[0]} decided about the event is not recorded any more", UNKNOWN)
        return Verdict(_nowhere(said, missing), TABLES)
    if at in came:
        return Verdict(f"{at['broker']}: {at['verdict']}", at.get("basis", TABLES))
    if why := why_not(at):
        return Verdict(f"{at['broker']}: {why}", TABLES)
    last = came[-1]["broker"]
    words = f"the event reached {last}, which knew of no further subscriber for it at that moment{missing}"
    return Verdict(f"{words}{_matches_now(at)}", RECORD)


def _matches_now(at: Hop) -> str:
    """That subscriptions of the client match an event that they did not attract."""
    names = [repr(row["name"]) for row in at.get("subscriptions") or [] if row.get("matches")]
    if not names:
        return ""
    many = "match it now: they were" if len(names) > 1 else "matches it now: it was"
    return f"; {', '.join(names)} of the client {many} made later, or not yet known there"


def _gap(said: list[Hop], came: list[Hop], unanswered: list[str]) -> str:
    """The broker that may have got the event and does not know it any more; "" if there is none. (rule 4)"""
    reached: dict[str, str] = {}
    for hop in came:
        for row in hop.get("sent_on") or []:
            has = "has" if row.get("basis") == RECORD else "may have"
            reached[row["peer"]] = f"{hop['broker']} {has} sent the event to {row['peer']}"
    for hop in said:
        if hop["broker"] in reached and hop not in came and hop.get("basis") == UNKNOWN:
            begin = moment(hop["records_begin"])
            return f"{reached[hop['broker']]}, whose records begin at {begin}"
    silent = next((broker for broker in unanswered if broker in reached), None)
    return "" if silent is None else f"{reached[silent]}, which did not answer"


def _records_begin(said: list[Hop]) -> str:
    begin = [hop["records_begin"] for hop in said if "records_begin" in hop]
    return f" (all records begin by {moment(max(begin))})" if begin else ""


def _ended(hop: Hop) -> bool:
    """Whether there is a record of the event and the client: a queue rule, an expiry, a loss."""
    client, kinds = hop.get("client"), (*ENDS, "residue")
    return any(each["client"] == client and each["kind"] in kinds for each in hop.get("records") or [])


def _missing(unanswered: list[str]) -> str:
    return f" ({', '.join(unanswered)} did not answer)" if unanswered else ""


def _nowhere(said: list[Hop], missing: str) -> str:
    """That the client has no session, and the recorded moves of its session."""
    words = f"the client has no session at any broker that answered{missing}"
    for hop in said:
        if hop.get("moved_to"):
            return f"{words}; from {hop['broker']} it went to {hop['moved_to']}"
        for record in hop.get("client_records") or []:
            if record["kind"] == "session_ended":
                return f"{words}; at {hop['broker']} it ended: {record['detail']}"
    return words


def _refused_before(said: list[Hop]) -> str:
    """Refused requests of the publisher: an event that is not granted never gets a number."""
    for hop in said:
        refusals = (hop.get("publisher") or {}).get("refusals")
        if refusals:
            return f"; {hop['broker']} has refused a request of its publisher: {refusals[-1]}"
    return ""


# ---------------------------------------------------------------- an event that was written


def _of_written(hops: list[Hop], unanswered: list[str], origin: str) -> dict[str, Any]:
    named = {hop["broker"]: hop for hop in hops}
    home = next((hop["broker"] for hop in hops if hop.get("publisher")), origin)
    way = _way(named, home)
    at = next((hop for hop in hops if hop.get("session") is not None), None)
    words = _written_verdict(named, way, home, at, _missing(unanswered))
    places = {broker: place for place, broker in enumerate(way)}
    hops.sort(key=lambda hop: (places.get(hop["broker"], len(places)), hop.get("session") is None))
    for hop in hops:
        hop["is_on_way"] = hop["broker"] in places
    is_got = at is not None and at["broker"] in places and bool(at.get("would_get")) and not _refusing(named, home)
    return {
        "delivered": is_got,
        "is_written": True,
        "verdict": words,
        "basis": TABLES,
        "hops": hops,
        "unanswered": unanswered,
    }


def _way(named: Mapping[str, Hop], home: str) -> list[str]:
    """The brokers that the event would reach, in order."""
    way = [home] if home in named and not _refusing(named, home) else []
    for broker in way:  # it grows
        for row in named[broker].get("sent_on") or []:
            if row["peer"] in named and row["peer"] not in way:
                way.append(row["peer"])
    return way


def _refusing(named: Mapping[str, Hop], home: str) -> str:
    return str(named.get(home, {}).get("refused") or "")


def _written_verdict(named: Mapping[str, Hop], way: list[str], home: str, at: Hop | None, missing: str) -> str:
    if _refusing(named, home):
        return f"{home}: {named[home]['verdict']}"
    if at is None:
        return _nowhere(list(named.values()), missing)
    if at["broker"] in way:
        return f"{at['broker']}: {at['verdict']}"
    if why := why_not(at):
        return f"{at['broker']}: {why}"
    last = way[-1] if way else home
    return f"the event would reach {last}, which knows of no further subscriber for it{missing}"
