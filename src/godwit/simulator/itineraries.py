"""Itineraries: the first broker of a client, and its moves from there to other brokers (`movement_models.py`).

*Rules.*
1. The moves of an itinerary are in the order of their beginnings.
"""

from collections.abc import Iterable
from random import Random

import msgspec

from godwit.simulator.topologies import Overlay

__all__ = ["Itinerary", "Move", "MovementSpace", "joined_moves"]


class Move(msgspec.Struct, frozen=True):
    """A move: a client leaves its broker, and connects to another or the same one."""

    leaves_s: float
    to: str
    arrives_s: float


class Itinerary(msgspec.Struct, frozen=True):
    """The first broker of a client, and its moves."""

    home: str
    moves: tuple[Move, ...] = ()


class MovementSpace(msgspec.Struct, frozen=True, kw_only=True):
    """The space and time of movements."""

    overlay: Overlay
    places: tuple[str, ...]  # the brokers that clients are placed at, in the order of the overlay
    positions: str | None = None  # the file with positions of brokers
    seed: int
    begins_s: float
    ends_s: float

    def rng(self, client: str, purpose: str = "movement") -> Random:
        """A client's random stream, independent of other clients. A new kind of draw has its own purpose."""
        return Random(f"{self.seed}/{purpose}/{client}")


def joined_moves(moves: Iterable[Move]) -> tuple[Move, ...]:
    """The visible moves: two moves are joined if the client leaves again before it has connected."""
    found: list[Move] = []
    for move in moves:
        if found and move.leaves_s < found[-1].arrives_s:
            before = found.pop()
            move = Move(before.leaves_s, move.to, max(before.arrives_s, move.arrives_s))
        found.append(move)
    return tuple(found)
