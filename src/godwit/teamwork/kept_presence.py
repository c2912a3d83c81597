"""Stored presence of devices, in the settings of a peer: known after a restart."""

from collections.abc import Iterator

import msgspec

from godwit.teamwork.local_tables import Settings
from godwit.teamwork.machine.presence import Heard

__all__ = ["KeptPresence"]

START = "presence/"


class KeptPresence:
    """A `PresenceStore` on disk."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def heard(self) -> Iterator[tuple[str, Heard]]:
        """By device, what it said last."""
        for name in self._settings.names(START):
            yield name.removeprefix(START), msgspec.convert(self._settings.get(name), Heard)

    def put(self, device: str, heard: Heard | None) -> None:
        """Keep what a device said; None: forget it."""
        self._settings.put(
            START + device, None if heard is None else msgspec.to_builtins(heard, builtin_types=(bytes,))
        )
