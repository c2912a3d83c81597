"""Where clients are: by their context, or by the last event in which they said so.

*Rules.*
1. A client's context counts before its events, and `location` (`myloc`) before other names.
2. At most `POSITIONS_MAX` clients are told of.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from godwit.filters.events import Event, values_of
from godwit.filters.references import LOCATION
from godwit.filters.values import Point

__all__ = ["POSITIONS_MAX", "positions_of"]

POSITIONS_MAX = 20_000
EVENTS_LOOKED_AT = 5_000


def positions_of(sessions: Iterable[Any], events: Iterable[tuple[float, Event]]) -> list[dict[str, Any]]:
    """Each client whose place is known here: its name, place, and whether it is attached; `at`: when its event came."""
    rows: dict[str, dict[str, Any]] = {}
    attached: set[str] = set()
    for session in islice(sessions, POSITIONS_MAX):
        if session.connection is not None:
            attached.add(session.client)
        if (point := point_in(session.whole_context())) is not None:
            rows[session.client] = _row(session.client, point, session.connection is not None, None)
    for at, event in islice(events, EVENTS_LOOKED_AT):
        is_new = event.publisher not in rows and len(rows) < POSITIONS_MAX
        if is_new and (point := point_in(event.attributes)) is not None:
            rows[event.publisher] = _row(event.publisher, point, event.publisher in attached, at)
    return list(rows.values())


def point_in(attributes: Mapping[str, Any]) -> Point | None:
    """The first place among attributes."""
    names = [LOCATION, *attributes] if LOCATION in attributes else attributes
    found = (value for name in names for value in values_of(attributes[name]) if isinstance(value, Point))
    return next(found, None)


def _row(client: str, point: Point, is_attached: bool, at: float | None) -> dict[str, Any]:
    return {"client": client, "lon": point.lon, "lat": point.lat, "attached": is_attached, "at": at}
