"""Turns: of many peers that could answer, each waits for a different time, and the first one answers.

The time depends on the name of the peer and on who or what is answered, so peers need not agree on anything. A peer
that hears the answer of another while it waits drops its own. Two peers with the same slot both answer, which does no
harm.

Where an answer is for the asker alone, others do not hear it. There, the peers whose turn is first answer at once, each
by what it knows of the others.
"""

from collections.abc import Iterable
from hashlib import sha256

__all__ = ["SLOT_S", "TURNS_S", "is_among_first", "turn_after_s"]

SLOTS = 16
SLOT_S = 0.25
TURNS_S = SLOTS * SLOT_S


def turn_after_s(device: str, answered: str, members: int = SLOTS + 1) -> float:
    """After how many seconds it is the turn of a device, one of those of so many users and of the asker among them.

    Where few could answer, nobody waits for long: in a conversation of two, the device of the other answers at once.
    """
    slots = min(SLOTS, max(1, members - 1))
    return sha256(f"{device} {answered}".encode()).digest()[0] % slots * SLOT_S


def is_among_first(device: str, others: Iterable[str], answered: str, count: int) -> bool:
    """Whether a device is one of the first `count` of all, in an order that depends on who or what is answered."""
    own, earlier = _place(device, answered), 0
    for other in others:
        earlier += other != device and _place(other, answered) < own
        if earlier == count:
            return False
    return True


def _place(device: str, answered: str) -> bytes:
    return sha256(f"{device} {answered}".encode()).digest()
