"""A map of the town in characters, and sparklines, for the live screen."""

from collections import deque
from collections.abc import Iterable, Mapping

from godwit.cli.fleet.town import BROKERS, LINKS, Place
from godwit.cli.terminal import Text

__all__ = ["COLUMNS", "ROWS", "History", "sparkline", "town_map"]

ROWS, COLUMNS = 15, 56
WEST, EAST, SOUTH, NORTH = 8.500, 8.580, 47.348, 47.402
BARS = "▁▂▃▄▅▆▇█"
COLOURS = {"centre": "cyan", "north": "green", "east": "magenta", "south": "yellow", "west": "blue"}
"""The colour of each broker and of its cars."""


def cell(place: Place) -> tuple[int, int]:
    """Row and column of a position; a position outside the map is moved to the edge."""
    lon, lat = place
    column = round((lon - WEST) / (EAST - WEST) * (COLUMNS - 1))
    row = round((NORTH - lat) / (NORTH - SOUTH) * (ROWS - 1))
    return min(max(row, 0), ROWS - 1), min(max(column, 0), COLUMNS - 1)


def town_map(cars: Iterable[tuple[Place, str]], dead: Iterable[str]) -> "Text":
    """The map: links, cars (a place and a broker each) as dots in the colour of their broker, brokers as names."""

    signs: dict[tuple[int, int], tuple[str, str]] = {}
    for a, b in LINKS:
        (row, column), (to_row, to_column) = cell(BROKERS[a]), cell(BROKERS[b])
        steps = max(abs(to_row - row), abs(to_column - column))
        for step in range(steps + 1):
            at = (round(row + (to_row - row) * step / steps), round(column + (to_column - column) * step / steps))
            signs[at] = ("·", "dim")
    for place, broker in cars:
        signs[cell(place)] = ("●", COLOURS.get(broker, "white"))
    gone = set(dead)
    for name, place in BROKERS.items():
        row, column = cell(place)
        first = min(max(column - len(name) // 2, 0), COLUMNS - len(name))
        style = "bold white on red" if name in gone else f"bold reverse {COLOURS[name]}"
        signs |= {(row, first + k): (letter, style) for k, letter in enumerate(name)}
    drawn = Text()
    for row in range(ROWS):
        for column in range(COLUMNS):
            drawn.append(*signs.get((row, column), (" ", "")))
        drawn.append("\n" if row < ROWS - 1 else "")
    return drawn


def sparkline(values: Iterable[float]) -> str:
    """A bar for each value, as high as its share of the largest."""
    known = list(values)
    highest = max(known, default=0.0)
    return "".join(BARS[round(value / highest * (len(BARS) - 1))] if highest > 0 else BARS[0] for value in known)


class History:
    """The growth of some counters between samples, for the last samples."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._last: dict[str, int] = {}
        self.growth: dict[str, deque[float]] = {}

    def look(self, counters: Mapping[str, int]) -> None:
        """Add a sample of the counters."""
        for name, count in counters.items():
            if name in self._last:
                self.growth.setdefault(name, deque(maxlen=self._length)).append(max(count - self._last[name], 0))
            self._last[name] = count
