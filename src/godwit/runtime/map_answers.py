"""What a map shows besides clients: hand-overs and events as they happen, named places, regions of subscriptions.

*Rules.*
1. All is read when somebody asks, from the machine and from what the watch has kept: nothing is written down for it.
2. "Lately" is a number of seconds before now by this broker's clock, so that brokers whose clocks differ can be asked
   together. Whoever asks more often than that sees a thing twice, and knows it by its time and name.
3. Answers are bounded: `HAND_OVERS_MAX`, `EVENTS_MAX`, `REGIONS_MAX`, `PLACES_MAX`; what was left out is said.
"""

from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from typing import Any

from godwit.filters.events import Event
from godwit.filters.filters import Filter, literals
from godwit.filters.regions import Region
from godwit.filters.values import Point
from godwit.runtime.dashboard_settings import point_told, region_told
from godwit.runtime.positions import point_in
from godwit.trace import Record

__all__ = ["LATELY_S_MAX", "events_told", "hand_overs_lately", "places_told", "regions_of"]

LATELY_S_MAX = 60
HAND_OVERS_MAX = 500
EVENTS_MAX = 200
REGIONS_MAX = 500
SUBSCRIPTIONS_LOOKED_AT = 20_000
PLACES_MAX = 2_000
HANDED_OVER = "replayed"
DIRECTION = "to "  # before the name of the broker, in the detail of such a record


def hand_overs_lately(records: Iterable[tuple[float, Record]], since: float) -> list[dict[str, Any]]:
    """The sessions that went from here to another broker since then; `records`: the latest first."""
    lately = takewhile(lambda row: row[0] >= since, records)
    moved = (row for row in lately if row[1].kind == HANDED_OVER)
    return [
        {"at": at, "client": record.peer, "to": record.detail.removeprefix(DIRECTION), "events": max(0, record.number)}
        for at, record in islice(moved, HAND_OVERS_MAX)
    ]


def events_told(events: Iterable[tuple[float, Event]]) -> dict[str, Any]:
    """Those of some events that have a place; `events`: the latest first."""
    placed = ((at, event, point_in(event.attributes)) for at, event in events)
    rows = list(islice(((at, event, point) for at, event, point in placed if point), EVENTS_MAX + 1))
    told = [
        {"at": at, "event": f"{event.publisher}:{event.sequence}", **point_told(point)} for at, event, point in rows
    ]
    return {"rows": told[:EVENTS_MAX], "is_cut": len(told) > EVENTS_MAX}


def places_told(places: Mapping[str, Point]) -> dict[str, Any]:
    """Named places whose position is known."""
    rows = [{"name": name, **point_told(point)} for name, point in islice(places.items(), PLACES_MAX)]
    return {"places": rows, "more": max(0, len(places) - PLACES_MAX)}


def regions_of(sessions: Iterable[Any]) -> dict[str, Any]:
    """The regions in clients' subscriptions, each once: how many have it, and one of them."""
    rows: dict[Region, dict[str, Any]] = {}
    more = 0
    subscribed = ((session, name) for session in sessions for name in session.subscriptions)
    for session, name in islice(subscribed, SUBSCRIPTIONS_LOOKED_AT):
        filter = session.exact.get(name, session.subscriptions[name].filter)  # in the client's context of now
        for region in _regions_in(filter):
            if region in rows:
                rows[region]["count"] += 1
            elif len(rows) < REGIONS_MAX:
                said = {"client": session.client, "subscription": name, "count": 1}
                rows[region] = {"region": region_told(region), **said}
            else:
                more += 1
    return {"regions": list(rows.values()), "more": more}


def _regions_in(filter: Filter) -> set[Region]:
    found = (getattr(each, "values", None) for each in literals(filter))
    return {values for values in found if isinstance(values, Region)}
