"""What a node works with: a machine, a disk, ports to the outside, and whoever watches it."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from godwit.broker.effects import Effect, Input
from godwit.runtime.journal_checks import Loss

__all__ = ["Disk", "Machine", "NodeObserver", "Port"]


class Machine(Protocol):
    """What a node runs."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""

    def snapshot(self) -> msgspec.Struct:
        """All of its state, as a struct of a kind that `godwit.codec` knows."""

    def restore(self, state: Any) -> None:
        """Go on from that state, in a machine freshly made with the same settings."""


class Disk(Protocol):
    """Where a node keeps its inputs: a journal (`journal.py`), or what does the same."""

    where: str  # names it in errors
    number: int
    bytes_since_snapshot: int
    snapshot_bytes: int
    losses: int  # times that something was lost and gone on without
    is_cramped: bool  # a snapshot is due, for want of room
    loss: Loss | None  # what it had and has not any more, until a batch is appended

    def append(self, data: bytes) -> int:
        """Write a batch; its number, once it is safe."""

    def snapshot(self, number: int, data: bytes) -> None:
        """The machine as it was after batch `number`: what is older goes.

        One number more than there are batches stands for inputs that could not be appended: the machine has them.
        """

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in it, and the machine."""

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches behind a number, in order, without a hole."""

    def close(self) -> None:
        """Let go of it."""


class Port(Protocol):
    """The near end of a link or of a client's connection."""

    def send(self, message: Any) -> None:
        """Have a message written at the next `flush`."""

    def flush(self) -> None:
        """Write what was sent, in one go."""

    def close(self, reason: str) -> None:
        """Write what was sent, and close."""


class NodeObserver(Protocol):
    """Sees what a node does, and changes nothing. The lists are no longer changed when they are shown."""

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """The machine has handled these, and took so long."""

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These are carried out now."""

    def on_written(self, took_s: float, size: int) -> None:
        """The journal has a batch of so many bytes."""
