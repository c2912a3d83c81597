"""Searches that stay open, on the disk of the peer: they continue after a restart."""

import msgspec

from godwit.teamwork.local_tables import Settings
from godwit.teamwork.machine.bus import Wanted

__all__ = ["KeptSearch", "OpenSearches"]

NAME = "search "


class KeptSearch(msgspec.Struct, frozen=True):
    """A search that stays open."""

    id: str
    wanted: Wanted
    scopes: tuple[str, ...] | None
    until: float
    """Time of day when it ends by itself."""


class OpenSearches:
    """The searches that are kept in the settings of a repository."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def put(self, search: KeptSearch) -> None:
        """Keep a search."""
        self._settings.put(NAME + search.id, msgspec.to_builtins(search))

    def remove(self, id: str) -> None:
        """A search has ended."""
        self._settings.put(NAME + id, None)

    def all(self, now: float) -> list[KeptSearch]:
        """Those that have not ended by themselves; the others are removed."""
        kept = [msgspec.convert(self._settings.get(name), KeptSearch) for name in self._settings.names(NAME)]
        for each in kept:
            if each.until <= now:
                self.remove(each.id)
        return [each for each in kept if each.until > now]
