"""Tables of a peer beside the records of its team: unsent messages, settings, counters.

Nothing here is exchanged with other peers. Changes belong to the transaction of the repository that is open, if one is.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from godwit.teamwork.sqlite_file import SqliteFile

__all__ = ["Counters", "Outbox", "Settings"]


class Outbox:
    """What is still to be sent, in order: bytes, whatever they mean. Numbers grow and are never given twice."""

    SCHEMA = "CREATE TABLE outbox (number INTEGER PRIMARY KEY AUTOINCREMENT, body BLOB NOT NULL);"

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def __len__(self) -> int:
        return int(self._file.row("SELECT count(*) FROM outbox")[0])

    def add(self, body: bytes) -> int:
        """Put something behind all others; its number."""
        return int(self._file.run("INSERT INTO outbox (body) VALUES (?)", [body]).lastrowid or 0)

    def first(self, count: int, after: int = 0) -> list[tuple[int, bytes]]:
        """The first ones after a number, each with its number."""
        return self._file.rows(
            "SELECT number, body FROM outbox WHERE number > ? ORDER BY number LIMIT ?", (after, count)
        )

    def remove(self, numbers: Iterable[int]) -> None:
        """These were sent. Numbers that are not there are ignored."""
        self._file.run_many("DELETE FROM outbox WHERE number = ?", [(number,) for number in numbers])


class Settings:
    """Values by name, of any type that MessagePack has."""

    SCHEMA = "CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a setting, or `default`."""
        found = self._file.row("SELECT value FROM settings WHERE name = ?", [name])
        return msgspec.msgpack.decode(found[0]) if found else default

    def put(self, name: str, value: Any) -> None:
        """Set a value. None removes it."""
        if value is None:
            self._file.run("DELETE FROM settings WHERE name = ?", [name])
        else:
            self._file.run("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, msgspec.msgpack.encode(value)))

    def names(self, start: str = "") -> list[str]:
        """The names that begin with `start`, in order."""
        names = (
            name for (name,) in self._file.rows("SELECT name FROM settings WHERE name >= ? ORDER BY name", [start])
        )
        return [name for name in names if name.startswith(start)]


class Counters:
    """Whole numbers by name, which begin at 0."""

    SCHEMA = "CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;"

    def __init__(self, file: SqliteFile) -> None:
        self._file = file

    def value(self, name: str) -> int:
        """The value of a counter."""
        found = self._file.row("SELECT value FROM counters WHERE name = ?", [name])
        return int(found[0]) if found else 0

    def next(self, name: str, step: int = 1) -> int:
        """Add to a counter; its new value."""
        self._file.run(
            "INSERT INTO counters VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            (name, step),
        )
        return self.value(name)
