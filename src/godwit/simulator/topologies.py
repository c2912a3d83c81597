"""Overlays: brokers and the links between them.

*Theory.* An overlay is a list of brokers and a list of links; everything else (who is a leaf, whether it is a tree) is
computed from these. Builders name their brokers `b0`, `b1`, …: in a line from one end to the other, in a star with `b0`
as its centre, in a balanced tree breadth first from the root. [pubmob §4] uses the balanced tree of height 4 and degree
4: 85 brokers, 64 of them leaves. [spcf §4] uses random graphs of 20 brokers with degree 6.

*Rules.*
1. Randomness comes from the caller's `Random`, and no result depends on the order of a set.
2. Every builder's overlay is connected, has no link twice and none from a broker to itself.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Annotated, Any

import msgspec

from godwit import settings
from godwit.errors import ScenarioError

__all__ = [
    "BROKERS_MAX",
    "LinkSpec",
    "Overlay",
    "balanced_tree",
    "components",
    "degrees",
    "from_file",
    "is_tree",
    "leaves",
    "line",
    "random_graph",
    "random_tree",
    "star",
]

BROKERS_MAX = 10_000
LATENCY_S_DEFAULT = 0.010
REPAIRS_MAX = 200  # tries to put a graph's last link somewhere


class LinkSpec(msgspec.Struct, frozen=True):
    """A link between two brokers, the same in both directions. Without a bandwidth, size does not matter."""

    a: str
    b: str
    latency_s: float = LATENCY_S_DEFAULT
    bandwidth_bps: float | None = None
    cost: float = 1.0  # of going over it, for shortest paths


class Overlay(msgspec.Struct, frozen=True):
    """Brokers and links, each in a fixed order."""

    brokers: tuple[str, ...]
    links: tuple[LinkSpec, ...]

    def neighbours(self) -> dict[str, list[str]]:
        """The neighbours of each broker, in the order of the links."""
        found: dict[str, list[str]] = {broker: [] for broker in self.brokers}
        for link in self.links:
            found[link.a].append(link.b)
            found[link.b].append(link.a)
        return found


# ---------------------------------------------------------------- builders


def line(n: int, *, latency_s: float = LATENCY_S_DEFAULT, bandwidth_bps: float | None = None) -> Overlay:
    """`n` brokers in a row."""
    return _overlay(n, pairwise(range(n)), latency_s, bandwidth_bps)


def star(n: int, *, latency_s: float = LATENCY_S_DEFAULT, bandwidth_bps: float | None = None) -> Overlay:
    """A centre, and `n - 1` brokers around it."""
    return _overlay(n, ((0, other) for other in range(1, n)), latency_s, bandwidth_bps)


def balanced_tree(
    height: int, degree: int, *, latency_s: float = LATENCY_S_DEFAULT, bandwidth_bps: float | None = None
) -> Overlay:
    """A tree of `height` levels where each broker above the last level has `degree` below it. [pubmob §4]"""
    if height < 1 or degree < 1:
        raise ScenarioError(f"a tree of height {height} and degree {degree}: both must be at least 1")
    n = width = 1
    for _ in range(height - 1):
        width *= degree
        n += width
        _check_size(n)
    return _overlay(n, (((below - 1) // degree, below) for below in range(1, n)), latency_s, bandwidth_bps)


def random_tree(
    n: int, rng: Random, *, latency_s: float = LATENCY_S_DEFAULT, bandwidth_bps: float | None = None
) -> Overlay:
    """`n` brokers, each linked to one that was there before it."""
    return _overlay(n, ((rng.randrange(new), new) for new in range(1, n)), latency_s, bandwidth_bps)


def random_graph(
    n: int, degree: int, rng: Random, *, latency_s: float = LATENCY_S_DEFAULT, bandwidth_bps: float | None = None
) -> Overlay:
    """A connected graph where each broker has `degree` neighbours, as nearly as can be. [spcf §4]

    A ring through all brokers makes it connected and gives each two neighbours; the other ends are paired at random.
    """
    _check_size(n)
    if degree < 1 or (n > 1 and degree >= n):
        raise ScenarioError(f"a graph of {n} brokers and degree {degree}: the degree must be from 1 to {max(n - 1, 1)}")
    ring = list(range(n))
    rng.shuffle(ring)
    beside: list[dict[int, None]] = [{} for _ in range(n)]
    for a, b in pairwise(ring):
        _join(beside, a, b)
    if degree > 1 and n > 2:
        _join(beside, ring[-1], ring[0])
        _fill(beside, degree, rng)
    pairs = sorted((a, b) for a in range(n) for b in beside[a] if a < b)
    return _overlay(n, pairs, latency_s, bandwidth_bps)


def _fill(beside: list[dict[int, None]], degree: int, rng: Random) -> None:
    """Pair the free ends; if the last ones cannot be paired, insert them into an existing link."""
    ends = [broker for broker, others in enumerate(beside) for _ in range(degree - len(others))]
    rng.shuffle(ends)
    left: list[int] = []
    while len(ends) > 1:
        a = ends.pop()
        place = next((i for i in range(len(ends) - 1, -1, -1) if ends[i] != a and ends[i] not in beside[a]), None)
        if place is None:
            left.append(a)
        else:
            _join(beside, a, ends.pop(place))
    left += ends
    for _ in range(REPAIRS_MAX * len(left)):
        if len(left) < 2:
            break
        a, b = left[-1], left[-2]
        if a != b and b not in beside[a]:
            _join(beside, a, b)
            del left[-2:]
            continue
        x = rng.randrange(len(beside))
        y = rng.choice(list(beside[x]))
        if x not in (a, b) and y not in (a, b) and x not in beside[a] and y not in beside[b]:
            del beside[x][y], beside[y][x]  # a and b are one broker or neighbours, so x and y stay connected
            _join(beside, a, x)
            _join(beside, b, y)
            del left[-2:]


def _join(beside: list[dict[int, None]], a: int, b: int) -> None:
    beside[a][b] = beside[b][a] = None


def _overlay(n: int, pairs: Iterable[tuple[int, int]], latency_s: float, bandwidth_bps: float | None) -> Overlay:
    _check_size(n)
    brokers = tuple(f"b{number}" for number in range(n))
    return Overlay(brokers, tuple(LinkSpec(brokers[a], brokers[b], latency_s, bandwidth_bps) for a, b in pairs))


def _check_size(n: int) -> None:
    if not 1 <= n <= BROKERS_MAX:
        raise ScenarioError(f"an overlay of {n:,} brokers: allowed are 1 to {BROKERS_MAX:,}")


# ---------------------------------------------------------------- from a file


class LinkEntry(msgspec.Struct, frozen=True):
    """A link as a file has it; what it leaves out comes from the scenario."""

    a: Annotated[str, msgspec.Meta(min_length=1)]
    b: Annotated[str, msgspec.Meta(min_length=1)]
    latency_ms: Annotated[float, msgspec.Meta(ge=0, le=60_000)] | None = None
    bandwidth_kbps: Annotated[float, msgspec.Meta(gt=0, le=1e9)] | None = None
    cost: Annotated[float, msgspec.Meta(gt=0, le=1e9)] = 1.0


class OverlayFile(msgspec.Struct, frozen=True):
    """The content of a JSON or TOML file of links; `brokers` has those without a link."""

    links: tuple[LinkEntry, ...] = ()
    brokers: tuple[Annotated[str, msgspec.Meta(min_length=1)], ...] = ()


def from_file(
    path: Path, *, latency_s: float = LATENCY_S_DEFAULT, bandwidth_bps: float | None = None, cost: float = 1.0
) -> Overlay:
    """The overlay of a file: JSON, TOML (`[[links]]`), or lines `a b [latency_ms [bandwidth_kbps [cost]]]`.

    Brokers are in the order of the file. Whether they are connected is not checked here.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    found = _parsed_file(path, text)
    brokers: dict[str, None] = dict.fromkeys(found.brokers)
    links: dict[frozenset[str], LinkSpec] = {}
    for entry in found.links:
        ends = frozenset((entry.a, entry.b))
        if len(ends) == 1:
            raise ScenarioError(f"{path}: broker {entry.a!r} has a link to itself")
        if ends in links:
            raise ScenarioError(f"{path}: there are two links between {entry.a!r} and {entry.b!r}")
        brokers.update(dict.fromkeys((entry.a, entry.b)))
        links[ends] = LinkSpec(
            entry.a,
            entry.b,
            latency_s if entry.latency_ms is None else entry.latency_ms / 1_000,
            bandwidth_bps if entry.bandwidth_kbps is None else entry.bandwidth_kbps * 1_000,
            entry.cost,
        )
    if not 1 <= len(brokers) <= BROKERS_MAX:
        raise ScenarioError(f"{path}: an overlay of {len(brokers):,} brokers: allowed are 1 to {BROKERS_MAX:,}")
    return Overlay(tuple(brokers), tuple(links.values()))


def _parsed_file(path: Path, text: str) -> OverlayFile:
    def where(at: settings.Path) -> str:
        number = settings.line_of(text, at) if path.suffix == ".toml" else None
        return f"{path}{f':{number}' if number else ''}: {settings.key_text(at) or 'the file'}"

    try:
        match path.suffix:
            case ".json":
                data = json.loads(text)
                data = {"links": data} if isinstance(data, list) else data
            case ".toml":
                data = tomllib.loads(text)
            case _:
                data = dict(zip(("links", "brokers"), _rows(path, text), strict=True))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ScenarioError):
            raise
        raise ScenarioError(f"{path}: {error}") from None
    return settings.checked(OverlayFile, data, where)


def _rows(path: Path, text: str) -> tuple[list[Any], list[str]]:
    """The links and lone brokers of a file of plain lines."""
    links: list[Any] = []
    brokers: list[str] = []
    for number, words in _lines_of_words(text):
        try:
            numbers = [float(word) for word in words[2:]]
        except ValueError:
            numbers = [-1.0]
        if len(words) > 5 or any(not 0 <= each <= 1e9 for each in numbers) or 0.0 in numbers[1:]:
            raise ScenarioError(
                f"{path}:{number}: {' '.join(words)!r} is not a link: "
                "allowed is 'a b [latency_ms [bandwidth_kbps [cost]]]'"
            )
        if len(words) == 1:
            brokers.append(words[0])
        else:
            names = ("a", "b", "latency_ms", "bandwidth_kbps", "cost")
            links.append(dict(zip(names, [*words[:2], *numbers], strict=False)))
    return links, brokers


def _lines_of_words(text: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each line that has any, with its number; `#` begins a remark."""
    for number, each in enumerate(text.splitlines(), start=1):
        if words := each.partition("#")[0].split():
            yield number, words


# ---------------------------------------------------------------- questions


def degrees(overlay: Overlay) -> dict[str, int]:
    """The number of neighbours of each broker."""
    return {broker: len(others) for broker, others in overlay.neighbours().items()}


def leaves(overlay: Overlay) -> tuple[str, ...]:
    """The brokers with one neighbour at most; all of them where there is no such broker."""
    found = tuple(broker for broker, degree in degrees(overlay).items() if degree <= 1)
    return found or overlay.brokers


def components(overlay: Overlay) -> tuple[tuple[str, ...], ...]:
    """The parts that no link connects, each in the order of the brokers, the one with the first broker first."""
    neighbours = overlay.neighbours()
    part_of: dict[str, int] = {}
    parts = 0
    for start in overlay.brokers:
        if start in part_of:
            continue
        pending = [start]
        while pending:
            broker = pending.pop()
            if broker not in part_of:
                part_of[broker] = parts
                pending += neighbours[broker]
        parts += 1
    found: list[list[str]] = [[] for _ in range(parts)]
    for broker in overlay.brokers:
        found[part_of[broker]].append(broker)
    return tuple(map(tuple, found))


def is_tree(overlay: Overlay) -> bool:
    """Whether there is exactly one way from each broker to each other one."""
    return len(overlay.links) == len(overlay.brokers) - 1 and len(components(overlay)) == 1
