"""Where clients are: by their context, or by the last event in which they said so.

*Rules.*
1. A client's context counts before its events, and `location` (`myloc`) before other names. A location that is the name
   of a place counts as that place, where its position is known.
2. At most `POSITIONS_MAX` clients are told of.
3. A map asks often, so all events that are kept are looked through only every `COMPLETE_S`; in between, those that are
   new. Without a question nothing is done, and publishers whose events are no longer kept are forgotten.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf
from typing import Any, NamedTuple, Protocol

from godwit.filters.events import Event, values_of
from godwit.filters.references import LOCATION
from godwit.filters.values import Point

__all__ = ["POSITIONS_MAX", "EventPlaces", "Position", "point_in", "positions_of"]

POSITIONS_MAX = 20_000
EVENTS_LOOKED_AT = 5_000
COMPLETE_S = 10.0
OVERLAP_S = 0.5  # an event may bear a time a little before it was handled


class Position(NamedTuple):
    """Where a client is; `at`: when it said so in an event, None if its context says so."""

    client: str
    lon: float
    lat: float
    attached: bool
    at: float | None


class PublishedEvents(Protocol):
    """What knows the last events, as `ActivityMonitor` does."""

    def latest_events(self, since: float) -> Iterable[tuple[float, Event]]:
        """Those since then, each with when it came, the latest first."""


class EventPlaces:
    """Where publishers said they were in their last events. (rule 3)"""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Point]] = {}
        self._complete_at = -inf
        self._seen_at = -inf

    def of(self, source: PublishedEvents, places: Mapping[str, Point], now: float) -> Mapping[str, tuple[float, Point]]:
        """By publisher, when it said so and where it was."""
        is_old = not 0 <= now - self._complete_at < COMPLETE_S
        since = -inf if is_old else self._seen_at - OVERLAP_S
        new: dict[str, tuple[float, Point]] = {}
        for at, event in islice(source.latest_events(since), EVENTS_LOOKED_AT):
            if event.publisher not in new and (point := point_in(event.attributes, places)) is not None:
                new[event.publisher] = (at, point)
        self._found = new if is_old else self._found | new
        self._seen_at = now
        if is_old:
            self._complete_at = now
        return self._found


def positions_of(
    sessions: Iterable[Any], published: Mapping[str, tuple[float, Point]], places: Mapping[str, Point] = {}
) -> list[Position]:
    """Each client whose place is known here; `published`: by their last events, when and where."""
    rows: dict[str, Position] = {}
    attached: set[str] = set()
    for session in islice(sessions, POSITIONS_MAX):
        if session.connection is not None:
            attached.add(session.client)
        if (point := point_in(session.whole_context(), places)) is not None:
            is_attached = session.connection is not None
            rows[session.client] = Position(session.client, point.lon, point.lat, is_attached, None)
    for client, (at, point) in published.items():
        if client not in rows and len(rows) < POSITIONS_MAX:
            rows[client] = Position(client, point.lon, point.lat, client in attached, at)
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
