"""The story of the tour: six vans, parking spots and a few alerts on a morning in Zürich. The same on every run."""

from collections.abc import Iterator
from typing import Any

__all__ = ["SHOWN", "SUBSCRIPTIONS", "event_data"]

SUBSCRIPTIONS = [
    ("Radio", "every alert", "kind LIKE 'alert/%'"),
    ("Police", "severe alerts", "kind LIKE 'alert/%' AND severity >= 3"),
    ("Kreis 3", "what concerns its zips", "zip BETWEEN 8003 AND 8004"),
    ("Bruno", "a spot for car or van", "kind = 'parking' AND cost < 3 AND size IN ('compact', 'van')"),
    ("Anna", "a cheap spot for her van", "kind = 'parking' AND cost < 2 AND size = 'van'"),
    ("Elena", "a cheap spot for her truck", "kind = 'parking' AND cost < 2 AND size = 'truck'"),
    ("Chiara", "a spot near the station", "kind = 'parking' AND position WITHIN circle(8.54, 47.378, 600)"),
    ("Dario", "a spot, but no compact one", "kind = 'parking' AND NOT size = 'compact'"),
    ("Dispatch", "vans that must charge", "kind = 'van' AND battery < 20"),
    ("Old town", "vans in its lanes", "kind = 'van' AND position WITHIN box(8.539, 47.366, 8.547, 47.376)"),
    ("Cold chain", "cold cargo that gets warm", "cargo = 'cold' AND temperature > 6"),
    ("Post", "vans with parcels only", "ALL cargo = 'parcels'"),
    ("Robotics", "vans without a driver", "kind = 'van' AND driver IS NULL"),
]
"""Subscriber, wish in plain words, filter."""

SHOWN = ("alert 4 at 07:18", "spot 9 at 07:18", "van 6 at 07:50")
"""The events that the tour explains."""

STATION, LAKE, STADIUM, OERLIKON = (8.5402, 47.3779), (8.5417, 47.3664), (8.5042, 47.3826), (8.5442, 47.4113)
UNIVERSITY, WIEDIKON = (8.5481, 47.3744), (8.5194, 47.3713)
ROUTES = [
    (STATION, LAKE, UNIVERSITY),
    (OERLIKON, STATION, WIEDIKON),
    (STADIUM, WIEDIKON, LAKE),
    (LAKE, UNIVERSITY, OERLIKON),
    (WIEDIKON, STADIUM, STATION),
    (UNIVERSITY, STATION, STADIUM),
]
CARGO: list[Any] = ["parcels", ["cold", "parcels"], "flowers", ["parcels", "cold"], "parcels", ["cold", "flowers"]]
DRIVERS = ["Reto", "Ueli", None, "Mia", "Lea", None]
SIZES = ["compact", "van", "compact", "truck", "van"]
DANGERS = ["traffic", "weather", "flood"]
ZIPS: list[Any] = [8001, [8001, 8005], 8003, [8002, 8004], 8005, [8001, 8008]]
MINUTES = range(0, 60, 2)


def event_data() -> Iterator[tuple[str, dict[str, Any]]]:
    """A name for the reader, and the attributes, of each event of an hour from seven."""
    for minute in MINUTES:
        clock = f"07:{minute:02}"
        for van in range(6):
            if (minute // 2 + van) % 6 != 5:  # now and then a report is lost
                yield f"van {van + 1} at {clock}", _van(van, minute)
        yield f"spot {minute // 2} at {clock}", _spot(minute // 2)
        if minute % 6 == 0:
            yield f"alert {minute // 6 + 1} at {clock}", _alert(minute // 6)


def _van(van: int, minute: int) -> dict[str, Any]:
    data = {
        "kind": "van",
        "number": van + 1,
        "position": _on_the_way(ROUTES[van], minute / 60),
        "battery": 88 - 9 * van - minute // 2,
        "cargo": CARGO[van],
        "driver": DRIVERS[van],
    }
    return data | {"temperature": round(2.5 + 0.1 * minute - van / 2, 1)} if "cold" in CARGO[van] else data


def _spot(number: int) -> dict[str, Any]:
    lon, lat = (STATION, LAKE, WIEDIKON)[number % 3]
    return {
        "kind": "parking",
        "cost": 1 + number * 7 % 30 / 10,
        "size": SIZES[number % 5],
        "position": {"lon": round(lon + number * 1e-4, 5), "lat": lat},
        "is_covered": number % 4 == 0,
    }


def _alert(number: int) -> dict[str, Any]:
    return {"kind": f"alert/{DANGERS[number % 3]}", "severity": 1 + number * 2 % 5, "zip": ZIPS[number % 6]}


def _on_the_way(route: tuple[tuple[float, float], ...], part: float) -> dict[str, float]:
    """The position of a van after that share of its route."""
    leg, within = divmod(part * (len(route) - 1), 1)
    (lon, lat), (to_lon, to_lat) = route[int(leg)], route[min(int(leg) + 1, len(route) - 1)]
    return {"lon": round(lon + (to_lon - lon) * within, 5), "lat": round(lat + (to_lat - lat) * within, 5)}
