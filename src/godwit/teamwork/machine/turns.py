"""Whose turn it is to answer, of many peers that could: each waits for a time of its own, and the first one answers.

The time depends on the name of the peer and on who or what is answered, so peers need not agree on anything. A peer
that hears the answer of another while it waits drops its own. Two peers with the same slot both answer, which does no
harm.
"""

from hashlib import sha256

__all__ = ["SLOT_S", "TURNS_S", "turn_after_s"]

SLOTS = 16
SLOT_S = 0.25
TURNS_S = SLOTS * SLOT_S


def turn_after_s(device: str, answered: str) -> float:
    """After how many seconds it is the turn of a device."""
    return sha256(f"{device} {answered}".encode()).digest()[0] % SLOTS * SLOT_S
