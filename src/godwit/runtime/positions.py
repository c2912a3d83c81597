"""Where clients are: by their context, or by the last event in which they said so.

*Rules.*
1. A client's context counts before its events, and `location` (`myloc`) before other names. A location that is the name
   of a place counts as that place, where its position is known.
2. At most `POSITIONS_MAX` clients are told of.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from godwit.filters.events import Event, values_of
from godwit.filters.references import LOCATION
from godwit.filters.values import Point

__all__ = ["POSITIONS_MAX", "Position", "point_in", "positions_of"]

POSITIONS_MAX = 20_000
EVENTS_LOOKED_AT = 5_000


class Position(NamedTuple):
    """Where a client is; `at`: when it said so in an event, None if its context says so."""

    client: str
    lon: float
    lat: float
    attached: bool
    at: float | None


def positions_of(
    sessions: Iterable[Any], events: Iterable[tuple[float, Event]], places: Mapping[str, Point] = {}
) -> list[Position]:
    """Each client whose place is known here."""
    rows: dict[str, Position] = {}
    attached: set[str] = set()
    for session in islice(sessions, POSITIONS_MAX):
        if session.connection is not None:
            attached.add(session.client)
        if (point := point_in(session.whole_context(), places)) is not None:
            is_attached = session.connection is not None
            rows[session.client] = Position(session.client, point.lon, point.lat, is_attached, None)
    for at, event in islice(events, EVENTS_LOOKED_AT):
        is_new = event.publisher not in rows and len(rows) < POSITIONS_MAX
        if is_new and (point := point_in(event.attributes, places)) is not None:
            is_attached = event.publisher in attached
            rows[event.publisher] = Position(event.publisher, point.lon, point.lat, is_attached, at)
    return list(rows.values())


def point_in(attributes: Mapping[str, Any], places: Mapping[str, Point] = {}) -> Point | None:
    """The first place among attributes. `places`: those that are known by name."""
    location = attributes.get(LOCATION)
    if type(location) is Point:
        return location
    if type(location) is str and location in places:
        return places[location]
    names = [LOCATION, *attributes] if LOCATION in attributes else attributes
    found = (value for name in names for value in values_of(attributes[name]) if isinstance(value, Point))
    return next(found, None)
