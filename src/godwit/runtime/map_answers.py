"""Fixed things on a map: named places, and regions of subscriptions.

*Rules.*
1. Answers are read from the machine on request: nothing is stored for them.
2. Answers are bounded by `REGIONS_MAX` and `PLACES_MAX`, and tell how much was left out.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from godwit.filters.filters import Filter, literals
from godwit.filters.regions import Region
from godwit.filters.values import Point
from godwit.runtime.dashboard_settings import point_told, region_told

__all__ = ["places_told", "regions_of"]

REGIONS_MAX = 500
SUBSCRIPTIONS_LOOKED_AT = 20_000
PLACES_MAX = 2_000


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
        filter = session.exact.get(name, session.subscriptions[name].filter)  # in the client's present context
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
