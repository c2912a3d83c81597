"""The interfaces of a node: a machine, a disk, ports to peers, and observers."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from godwit.broker.effects import Effect, Input
from godwit.codec.journal_entries import JournalEntry
from godwit.codec.journal_losses import Loss

__all__ = ["ChangeRecorder", "Disk", "Machine", "NodeObserver", "Port"]


class Machine(Protocol):
    """The machine of a node."""

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Handle one input; returns the effects in order."""

    def snapshot(self) -> msgspec.Struct:
        """Its complete state, as a struct that `godwit.codec` knows."""

    def restore(self, state: Any) -> None:
        """Continue from that state, in a new machine with the same settings."""


class Disk(Protocol):
    """The storage of a node's inputs: a journal (`journal.py`), or a substitute."""

    where: str  # names it in errors
    number: int
    bytes_since_snapshot: int
    snapshot_bytes: int
    losses: int  # number of losses after which the broker continued
    is_cramped: bool  # a snapshot is due, because room is short
    loss: Loss | None  # its loss, until a batch is appended

    def append(self, data: bytes) -> int:
        """Write a batch; returns its number when it is safe."""

    def snapshot(self, number: int, data: bytes) -> None:
        """Write a snapshot of the machine after batch `number`, and delete older data.

        A number one above the last batch stands for inputs that could not be appended: the snapshot includes them.
        """

    def snapshot_steps(self, number: int, data: bytes) -> Iterator[None]:
        """The same, piece by piece: batches may be appended between two pieces. Stopping the iteration abandons the
        snapshot."""

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in the snapshot, and the machine."""

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches after a number, in order, without a gap."""

    def close(self) -> None:
        """Close it."""


class ChangeRecorder(Protocol):
    """Decides what of a machine goes into the journal, in the place of its inputs."""

    def of_turn(self, now: float) -> list[JournalEntry]:
        """What is to be written of the turn that is over."""

    def read(self, batch: bytes) -> Iterator[tuple[Input, float]]:
        """What the machine is told of a batch when it is made again, each with its time."""


class Port(Protocol):
    """The local end of a link or of a client's connection."""

    def send(self, message: Any) -> None:
        """Queue a message for the next `flush`."""

    def flush(self) -> None:
        """Write the queued messages at once."""

    def close(self, reason: str) -> None:
        """Write the queued messages, and close."""


class NodeObserver(Protocol):
    """Observes a node, and changes nothing. The lists are not modified afterwards."""

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """The machine has handled these inputs, in this time."""

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These effects are carried out now."""

    def on_written(self, took_s: float, size: int) -> None:
        """The journal has written a batch of this size."""
