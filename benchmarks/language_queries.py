"""Queries for measuring languages: forms to parse, and twins in our own language.

A form is a text with a number in it, so that no two are the same. Twins are drawn: a query of a language whose filter
says all, and the native filter that means the same, over events with a kind, a name, a price and a speed.
"""

import random
from collections.abc import Callable

from godwit.filters import Event, event

KINDS = [f"K{number}" for number in range(200)]

Form = Callable[[int], str]
Twins = Callable[[random.Random], tuple[str, str]]

CAP = 'declare namespace c = "urn:oasis:names:tc:emergency:cap:1.2"; '
FORMS: dict[str, dict[str, Form]] = {
    "xpath": {
        "path": lambda n: f"/bus/journey/line = 'L{n}'",
        "predicates": lambda n: f"{CAP}/c:alert/c:info[c:severity = 'S{n}' and c:area/c:altitude > 4.5]",
        "alternatives": lambda n: f"/bus[line = 'L{n}' or stop = 'Main' or delay > 5]",
        "negation": lambda n: f"/bus/journey[not(line = {n})]/stop",
        "descendants": lambda n: f"//stop[. = 'S{n}']",
        "function": lambda n: f"/bus/journey[contains(line, 'L{n}')]",
    },
    "xql": {
        "path": lambda n: f"bus/journey/line = 'L{n}'",
        "filter": lambda n: f"bus?[at/lon $gt$ {n} $and$ kind = 'night']/line",
        "alternatives": lambda n: f"bus[line = {n} $or$ stop = 'Main' $or$ name $contains$ 'abc']",
        "negation": lambda n: f"bus/journey[$not$ line = {n}]",
        "quantifier": lambda n: f"$all$ bus/delay $lt$ {n}",
        "descendants": lambda n: f"//stop[. = 'S{n}']",
    },
    "cesql": {
        "equality": lambda n: f"type = 'T{n}' AND source LIKE '/bus/%'",
        "numbers": lambda n: f"sequence > {n} AND subject IN ('a', 'b')",
        "alternatives": lambda n: f"type = 'T{n}' OR (source = 'b' AND sequence < 5)",
        "negation": lambda n: f"NOT (type = 'T{n}') OR EXISTS subject",
        "function": lambda n: f"LOWER(type) = 't{n}'",
    },
    "cql2-text": {
        "comparison": lambda n: f"kind = 'K{n}' AND speed > 5.5",
        "range": lambda n: f"speed BETWEEN {n} AND 100000 AND kind IN ('a', 'b')",
        "pattern": lambda n: f"name LIKE 'x{n}%'",
        "negation": lambda n: f"NOT (speed = {n} OR kind = 'x')",
        "case": lambda n: f"CASEI(name) = CASEI('ab{n}')",
        "spatial": lambda n: f"S_INTERSECTS(geometry, POLYGON((0 0, {n % 90 + 1} 0, 10 10, 0 10, 0 0)))",
        "temporal": lambda n: f"T_AFTER(updated, TIMESTAMP('2017-04-10T12:{n % 60:02}:00Z'))",
        "arithmetic": lambda n: f"speed * 2 + 1 > {n}",
        "array": lambda n: f"A_CONTAINS(tags, ('a', 'b{n}'))",
    },
    "cql2-json": {
        "comparison": lambda n: (
            f'{{"op": "and", "args": [{{"op": "=", "args": [{{"property": "kind"}}, "K{n}"]}}, '
            '{"op": ">", "args": [{"property": "speed"}, 5.5]}]}'
        ),
        "spatial": lambda n: (
            '{"op": "s_intersects", "args": [{"property": "geometry"}, {"type": "Polygon", '
            f'"coordinates": [[[0, 0], [{n % 90 + 1}, 0], [10, 10], [0, 10], [0, 0]]]}}]}}'
        ),
    },
}  # fmt: skip


def _cesql(draw: random.Random) -> tuple[str, str]:
    kind, name = draw.choice(KINDS), f"N{draw.randrange(2_000)}"
    return draw.choice(
        [
            (f"kind = '{kind}' AND name = '{name}'", f"kind = '{kind}' AND name = '{name}'"),
            (f"kind = '{kind}' AND name LIKE '{name}%'", f"kind = '{kind}' AND name LIKE '{name}%'"),
            (f"kind = '{kind}' AND EXISTS price", f"kind = '{kind}' AND price IS NOT NULL"),
        ]
    )


def _cql2(draw: random.Random) -> tuple[str, str]:
    kind, low = draw.choice(KINDS), draw.uniform(0, 90)
    return draw.choice(
        [
            (f"kind = '{kind}' AND price BETWEEN {low:.2f} AND {low + 5:.2f}",) * 2,
            (f"kind = '{kind}' AND speed > {low:.2f}",) * 2,
            (f"kind IN ('{kind}', 'other') AND speed < {low / 10:.2f}",) * 2,
        ]
    )


NATIVE_TWINS: dict[str, Twins] = {"cesql": _cesql, "cql2-text": _cql2}


def twin_events(count: int) -> list[Event]:
    """Events that twins want some of."""
    draw = random.Random(4)
    return [
        event(
            {
                "kind": draw.choice(KINDS),
                "name": f"N{draw.randrange(2_000)}{draw.choice(['', 'x'])}",
                "price": round(draw.uniform(0, 100), 2),
                "speed": round(draw.uniform(0, 100), 2),
            }
        )
        for _ in range(count)
    ]
