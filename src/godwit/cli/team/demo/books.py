"""The books of the demonstration: what was due to whom and came, what was found, what was refused, what was lost."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["Account", "Books"]

TICK_S = 0.05
PATIENCE_S = 30.0


class Account(msgspec.Struct, frozen=True):
    """What the books say in the end."""

    found: int
    """Results of searches that were due."""
    delivered: int
    """Changes, messages, files and mails, each counted once for each reader to whom it was due."""
    refused: int
    """Attempts to see something without a right; all of them had to fail."""
    lost: int
    """What was due to somebody and did not come."""
    leaked: int
    """Attempts without a right that did not fail."""
    faults: tuple[str, ...] = ()
    """What was lost or leaked."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost and nothing leaked."""
        return not self.lost and not self.leaked


class _Entry:
    """Something that must come to somebody, or must not be seen by somebody."""

    def __init__(self, what: str, test: Callable[[], Any], *, is_result: bool = False) -> None:
        self.what, self.is_result = what, is_result
        self._test, self._has_held = test, False

    @property
    def has_held(self) -> bool:
        """Whether it came, or was seen, at any time when somebody looked."""
        self._has_held = self._has_held or bool(self._test())
        return self._has_held


class Books:
    """Written while the demonstration goes on, by what it does; read from what the peers have."""

    def __init__(self) -> None:
        self._due: list[_Entry] = []
        self._denied: list[_Entry] = []

    async def due(
        self, what: str, has_come: Callable[[], Any], patience_s: float = PATIENCE_S, *, is_result: bool = False
    ) -> None:
        """Something must come to a reader: enter it, and wait until it has."""
        entry = _Entry(what, has_come, is_result=is_result)
        self._due.append(entry)
        try:
            async with asyncio.timeout(patience_s):
                while not entry.has_held:
                    await asyncio.sleep(TICK_S)
        except TimeoutError:
            pass  # it is lost, unless it comes before the books are closed

    def denied(self, what: str, is_seen: Callable[[], Any]) -> None:
        """Somebody without a right tries to see something, now and when the books are closed."""
        entry = _Entry(what, is_seen)
        self._denied.append(entry)
        _ = entry.has_held

    def closed(self) -> Account:
        """What has become of all entries."""
        lost = [entry for entry in self._due if not entry.has_held]
        leaked = [entry for entry in self._denied if entry.has_held]
        come = [entry for entry in self._due if entry.has_held]
        found = sum(entry.is_result for entry in come)
        faults = [*(f"lost: {entry.what}" for entry in lost), *(f"leaked: {entry.what}" for entry in leaked)]
        refused = len(self._denied) - len(leaked)
        return Account(found, len(come) - found, refused, len(lost), len(leaked), tuple(faults))
