"""The checks of the demonstration: expected deliveries, search results, refused attempts, losses and leaks."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

__all__ = ["Account", "Books"]

TICK_S = 0.05
PATIENCE_S = 30.0


class Account(msgspec.Struct, frozen=True):
    """The final result of the checks."""

    found: int
    """Expected results of searches."""
    delivered: int
    """Changes, messages, files and mails, counted once for each expected reader."""
    refused: int
    """Attempts to read something without a right; all of them must fail."""
    lost: int
    """Expected deliveries that did not arrive."""
    leaked: int
    """Attempts without a right that did not fail."""
    faults: tuple[str, ...] = ()
    """Descriptions of losses and leaks."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing was lost and nothing leaked."""
        return not self.lost and not self.leaked


class _Entry:
    """Something that a reader must receive, or must not see."""

    def __init__(self, what: str, test: Callable[[], Any], *, is_result: bool = False) -> None:
        self.what, self.is_result = what, is_result
        self._test, self._has_held = test, False

    @property
    def has_held(self) -> bool:
        """Whether it arrived, or was seen, at any check."""
        self._has_held = self._has_held or bool(self._test())
        return self._has_held


class Books:
    """The expectations recorded by the demonstration, and checked against the state of the peers."""

    def __init__(self) -> None:
        self._due: list[_Entry] = []
        self._denied: list[_Entry] = []

    async def due(
        self, what: str, has_come: Callable[[], Any], patience_s: float = PATIENCE_S, *, is_result: bool = False
    ) -> None:
        """Record that a reader must receive something, and wait for it."""
        entry = _Entry(what, has_come, is_result=is_result)
        self._due.append(entry)
        try:
            async with asyncio.timeout(patience_s):
                while not entry.has_held:
                    await asyncio.sleep(TICK_S)
        except TimeoutError:
            pass  # it is lost, unless it arrives before the final check

    def denied(self, what: str, is_seen: Callable[[], Any]) -> None:
        """Check that a user without a right cannot see something, now and in the final check."""
        entry = _Entry(what, is_seen)
        self._denied.append(entry)
        _ = entry.has_held

    def closed(self) -> Account:
        """The result of all entries."""
        lost = [entry for entry in self._due if not entry.has_held]
        leaked = [entry for entry in self._denied if entry.has_held]
        come = [entry for entry in self._due if entry.has_held]
        found = sum(entry.is_result for entry in come)
        faults = [*(f"lost: {entry.what}" for entry in lost), *(f"leaked: {entry.what}" for entry in leaked)]
        refused = len(self._denied) - len(leaked)
        return Account(found, len(come) - found, refused, len(lost), len(leaked), tuple(faults))
