"""Workloads of our own: a small mix that needs no shared files, and one that grows while matches stay as they are."""

import random
from collections.abc import Iterator
from itertools import islice
from math import sqrt
from typing import Any

from benchmarks.workloads import Expression, Workload

MATCHES = 20  # of each event of the growing workload, on average
WORDS = [f"{first}{last}" for first in ("rate", "bank", "oil", "chip") for last in ("", "s", "-up", "-down", "-news")]


def own_workload(subscriptions: int, events: int, seed: int = 7) -> Workload:
    """A third each stocks, parking, vehicles: equality, ranges, lists, patterns, boxes, several values, negation."""
    draw = random.Random(seed)
    stocks, cities = [f"S{n}" for n in range(2_000)], [f"Town{n}" for n in range(200)]
    kinds, tags = ["van", "truck", "car", "bike"], ["cold", "late", "night", "school", "fragile"]

    def amount(high: float) -> float:
        return round(draw.uniform(0, high), 2)

    def wanted() -> Expression:
        match draw.randrange(3):
            case 0:
                low = amount(100)
                parts = [["=", "stock", draw.choice(stocks)], ["between", "price", low, low + 20]]
                more = [["contains", "news", draw.choice(WORDS)], ["or", [">", "change", 2.0], ["<", "change", -2.0]]]
            case 1:
                parts = [["=", "city", draw.choice(cities)], ["<=", "fee", amount(8)]]
                more = [["prefix", "zone", f"Z{draw.randrange(9)}"], ["=", "covered", True], ["!=", "zone", "Z5-1"]]
            case _:
                lat, lon = draw.uniform(46, 48), draw.uniform(6, 10)
                parts = [["between", "lat", lat, lat + 0.1], ["between", "lon", lon, lon + 0.1]]
                more = [["in", "vehicle", draw.sample(kinds, 2)], ["not", ["=", "tags", draw.choice(tags)]]]
        return ["and", *parts, *draw.sample(more, draw.randrange(len(more)))]

    def published() -> dict[str, Any]:
        match draw.randrange(3):
            case 0:
                news = " ".join(draw.choices(WORDS, k=6))
                return {"stock": draw.choice(stocks), "price": amount(110), "change": amount(8) - 4, "news": news}
            case 1:
                zone = f"Z{draw.randrange(9)}-{draw.randrange(20)}"
                return {"city": draw.choice(cities), "fee": amount(9), "zone": zone, "covered": draw.random() < 0.5}
            case _:
                place = {"lat": draw.uniform(46, 48), "lon": draw.uniform(6, 10)}
                some_tags = draw.sample(tags, draw.randrange(3))
                return {"vehicle": draw.choice(kinds), **place, **({"tags": some_tags} if some_tags else {})}

    return Workload([wanted() for _ in range(subscriptions)], [published() for _ in range(events)])


def growing_subscriptions(count: int, seed: int = 11) -> Iterator[Expression]:
    """Half stocks, half boxes. There are more stocks and smaller boxes the more subscriptions there are."""
    draw = random.Random(seed)
    stocks, side = _stocks(count), _side(count)
    for number in range(count):
        if number % 2:
            low = draw.uniform(0, 50)
            yield [
                "and",
                ["=", "stock", f"S{draw.randrange(stocks)}"],
                ["between", "price", low, low + 50],
                [">=", "volume", draw.randrange(1_000)],
            ]
        else:
            lat, lon = draw.uniform(-side, 1), draw.uniform(-side, 1)
            yield [
                "and",
                ["between", "lat", lat, lat + side],
                ["between", "lon", lon, lon + side],
                [">", "speed", draw.randrange(130)],
            ]


def growing_workload(subscriptions: int, events: int, seed: int = 12) -> Workload:
    """The events, and of the subscriptions only the first few thousand: the others are too many to keep."""
    draw = random.Random(seed)
    stocks = _stocks(subscriptions)

    def published(number: int) -> dict[str, Any]:
        if number % 2:
            return {
                "stock": f"S{draw.randrange(stocks)}",
                "price": 50 + draw.gauss(0, 1),
                "volume": draw.randrange(1_000),
            }
        return {"lat": draw.random(), "lon": draw.random(), "speed": draw.randrange(130)}

    few = list(islice(growing_subscriptions(subscriptions), 10_000))
    return Workload(few, [published(number) for number in range(events)])


def _stocks(count: int) -> int:
    """So many that `MATCHES` of the count/2 subscriptions pass stock, price (nearly all) and volume (half)."""
    return max(1, round(count / 2 / 2 / MATCHES))


def _side(count: int) -> float:
    """A point of the unit square lies in count/2 × (side / (1 + side))² boxes, and half of these pass on speed."""
    share = sqrt(2 * MATCHES / (count / 2))
    return share / (1 - share)
