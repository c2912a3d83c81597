"""Positions of clients, from their context or from their last event with a position.

*Rules.*
1. A client's context takes precedence over its events, and `location` (`myloc`) over other names. A location that is
   the name of a place stands for that place, if its position is known.
2. At most `POSITIONS_MAX` clients are returned.
3. A map asks often, so all recorded events are examined only every `COMPLETE_S`; in between, only new ones. Nothing is
   done without a question, and publishers whose events are no longer recorded are forgotten.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from math import inf
from typing import Any, NamedTuple, Protocol

from godwit.filters.events import Event
from godwit.filters.references import LOCATION
from godwit.filters.values import Point, Value

__all__ = ["POSITIONS_MAX", "EventPlaces", "Position", "point_in", "positions_of"]

POSITIONS_MAX = 20_000
EVENTS_LOOKED_AT = 5_000
COMPLETE_S = 10.0
OVERLAP_S = 0.5  # the time of an event may be a little before it was handled


class Position(NamedTuple):
    """The position of a client; `at`: the time of the event with the position, None if it is from the context."""

    client: str
    lon: float
    lat: float
    attached: bool
    at: float | None


class PublishedEvents(Protocol):
    """A source of the last events, such as `ActivityMonitor`."""

    def latest_events(self, since: float) -> Iterable[tuple[float, Event]]:
        """The events since then, each with its time, the latest first."""


class EventPlaces:
    """The positions of publishers in their last events. (rule 3)"""

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Point]] = {}
        self._complete_at = -inf
        self._seen_at = -inf

    def of(self, source: PublishedEvents, places: Mapping[str, Point], now: float) -> Mapping[str, tuple[float, Point]]:
        """By publisher, time and position."""
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
    """Each client whose position is known here; `published`: time and position of their last events."""
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
    """The first position among attributes. `places`: named places."""
    location = attributes.get(LOCATION)
    if type(location) is Point:
        return location
    if type(location) is str and location in places:
        return places[location]
    if type(location) is tuple and (found := _first_point(location)) is not None:
        return found
    for value in attributes.values():  # a map asks often: this is the fastest loop
        if type(value) is Point:
            return value
        if type(value) is tuple and (found := _first_point(value)) is not None:
            return found
    return None


def _first_point(values: tuple[Value, ...]) -> Point | None:
    return next((value for value in values if isinstance(value, Point)), None)
