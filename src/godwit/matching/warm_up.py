"""Loads the compiled kernels before the first event.

*Theory.* Numba compiles a kernel when it is first called (seconds, once for each installation), and loads it from a
file in every later process (tens of milliseconds each). In a broker both would fall into the first time that a table
is laid out, grows or is compacted, and everybody would wait. So a small index is taken through its whole life first.
Shapely is loaded, too, which the first polygon would load.
"""

from functools import cache

from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.filters.regions import load_shapely
from godwit.matching.index_matcher import DEAD_SPARE, IndexMatcher

__all__ = ["warm_up"]

ROWS = 300  # so many that the index is laid out again
PLACED_AT_ONCE = 8
ROOM = 40  # numbers between two others, each nearer to the first: labels must move to make room for so many


@cache
def warm_up() -> None:
    """Call every kernel that matches single events. The second call does nothing."""
    load_shapely()
    matcher = IndexMatcher()
    matcher.add(0, parse("price < 10"))
    one = event({"price": 1, "size": "s1", "tags": ["a", "b"]})
    matcher.match(one)
    for i in range(1, ROWS):
        in_stock = f"size = 's{i}' AND (tags = 'a' OR note LIKE '%{i}_')"
        matcher.add(i, parse(f"(price > {i} AND price < {i + 9}) OR ({in_stock})"))
    matcher.match(one)
    for i in range(ROOM):
        matcher.add(ROWS + i, parse(f"price < {1 + 2.0**-i}"))
        matcher.match(one)
    for i in range(ROWS + ROOM, 3 * ROWS):  # their constants do not fit into the table of buckets
        matcher.add(i, parse(f"size = 's{i}' AND colour = 'c{i}'"))
        if i % PLACED_AT_ONCE == 0:
            matcher.match(one)
    nothing = parse("size = 'none'")
    for i in range(3 * ROWS, 4 * ROWS + DEAD_SPARE):
        matcher.add(i, nothing)
    for i in range(4 * ROWS + DEAD_SPARE):
        matcher.remove(i)
    matcher.prepare()
    matcher.match(one)
