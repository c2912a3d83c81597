"""Why a client did or did not get an event: what all brokers of a network know of it, put together.

*Theory.* Each broker tells its part (`Inspection.explain`): where the event came from, whom it was sent on to, what the
session of the client says to it. The parts are put in the order of the event's way, and the first thing that decides is
the verdict. An event that was stopped on its way never comes to the client's broker, which then cannot say which part
of a filter fails; but some other broker has the event, so that is made up for here.

*Rules.*
1. A verdict names the very literal that failed, where one did.
2. Brokers that have not answered are named: what they know is missing.
"""

from collections.abc import Mapping
from typing import Any

from godwit.errors import GodwitError
from godwit.filters.events import event
from godwit.filters.language import parse, to_text
from godwit.filters.reasons import failing
from godwit.runtime.inspection import ENDS
from godwit.runtime.network_questions import Answers

__all__ = ["explanation", "is_delivered", "with_reasons"]

Hop = dict[str, Any]


def explanation(found: Answers) -> dict[str, Any]:
    """What the answers to `explain` of all brokers come to."""
    hops = with_reasons([{"broker": broker, **answer} for broker, answer in found.answers.items()])
    hops.sort(key=lambda hop: (not hop.get("arrivals"), _first_arrival(hop), hop.get("session") is None))
    return {
        "delivered": any(map(is_delivered, hops)),
        "verdict": _verdict(hops, found.unanswered),
        "hops": hops,
        "unanswered": found.unanswered,
    }


def is_delivered(hop: Mapping[str, Any]) -> bool:
    """Whether this broker has given the event to the client, or is going to."""
    return bool(hop.get("deliveries"))


def with_reasons(hops: list[Hop]) -> list[Hop]:
    """Where the event never came: what of the client's filters it would have failed, as another broker knows it."""
    known = next((hop["attributes"] for hop in hops if hop.get("attributes")), None)
    if known is None:
        return hops
    attributes = event(known).attributes
    for hop in hops:
        for row in hop.get("subscriptions") or []:
            if "matches" not in row:
                try:
                    fails = [to_text(part) for part in failing(parse(row.get("now") or row["filter"]), attributes)]
                except GodwitError:  # cut because it is long, or open
                    continue
                row["fails"], row["matches"] = fails, not fails
    return hops


def _first_arrival(hop: Hop) -> float:
    return min((came["at"] for came in hop.get("arrivals") or []), default=0.0)


def _verdict(hops: list[Hop], unanswered: list[str]) -> str:
    """The first thing that decides. (rule 1)"""
    said = [hop for hop in hops if "verdict" in hop]
    for is_decisive in (lambda hop: hop.get("refused"), is_delivered, _ended):
        for hop in said:
            if is_decisive(hop):
                parts = hop.get("to_fails") or []
                because = f": {', '.join(parts)} does not hold of its context" if parts else ""
                return f"{hop['broker']}: {hop['verdict']}{because}"
    missing = f" ({', '.join(unanswered)} did not answer)" if unanswered else ""
    at = next((hop for hop in said if hop.get("session") is not None), None)
    if at is None:
        return f"the client has no session at any broker that answered{missing}"
    came = [hop for hop in said if hop.get("arrivals")]
    if at in came:
        return f"{at['broker']}: {at['verdict']}"
    if not came:
        return f"no broker remembers the event{missing}"
    rows = at.get("subscriptions") or []
    if not rows:
        return f"{at['broker']}: the client has no subscription"
    if all(row.get("matches") is False for row in rows):
        because = ", ".join(dict.fromkeys(part for row in rows for part in row["fails"]))
        return f"no subscription of the client at {at['broker']} matches the event: {because} does not hold"
    last = came[-1]["broker"]
    return f"the event went as far as {last}, which knew of nobody behind it who wanted it at that moment{missing}"


def _ended(hop: Hop) -> bool:
    """Whether something is on record of the event and the client: a queue rule, an expiry, a loss."""
    client, kinds = hop.get("client"), (*ENDS, "residue")
    return any(each["client"] == client and each["kind"] in kinds for each in hop.get("records") or [])
