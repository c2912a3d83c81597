"""A client's subscriptions on its disk, stored before they are sent. [motion §5, Fig. 2]

"In addition to sending the translated subscription to the P/S dispatcher, each subscriber also locally stores" its
query, which tests the deliveries, also in the next process of that client.

*Theory.* The store is an SQLite file with a row for each subscription, and a second one while a replacement is not
answered yet. A restarted client sends the newest of each name; if that is refused, the one before is still in force.

*Rules.*
1. `put` returns when the subscription is on the disk (fsync). Only then is it sent.
2. A row is deleted when a broker has refused it, has accepted a later one, or has accepted the end of the subscription:
   a subscription that a killed process was ending is restored.
3. The file names its format (`FORMAT`) and its client. One of another format, of another client, or that is damaged is
   a `StoreError`, and stays unchanged. Each row has a checksum, because SQLite has none for its content.
4. One process at a time.
5. The file is created atomically.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from zlib import crc32

import msgspec

from godwit.broker.messages import QueueRules
from godwit.errors import StoreError
from godwit.files import write_whole

__all__ = ["FORMAT", "StoredSubscription", "SubscriptionStore"]

FORMAT = 1
WHAT = "godwit: subscriptions of a client"
MAGIC = b"SQLite format 3\0"
SCHEMA = """
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE subscriptions (number INTEGER PRIMARY KEY, record TEXT NOT NULL, checksum INTEGER NOT NULL);
"""
NOTHING: Mapping[int, "StoredSubscription"] = {}


class StoredSubscription(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of the store, as JSON with these names."""

    name: str
    language: str
    text: str
    sender: str | None = None  # a filter on the publisher's context
    expires: float | None = None  # seconds since 1970
    queue: QueueRules | None = None
    share: str = ""
    retained: bool = False  # to receive retained events first; until a broker has accepted it


class SubscriptionStore:
    """The store of one client. To be used by one thread."""

    def __init__(self, path: Path, client: str) -> None:
        self.path = path
        self._rows: dict[str, dict[int, StoredSubscription]] = {}  # by name and number
        self.number = 0  # of the last row
        with self._told():
            if not path.exists():
                write_whole(path, _new(client))
                path.chmod(0o600)  # interests are private: other users of the machine must not read them
            else:
                with path.open("rb") as file:
                    if file.read(len(MAGIC)) != MAGIC:
                        raise self._damaged("it is not a SQLite file")
            self._file = sqlite3.connect(path, isolation_level=None)
        try:
            with self._told():
                self._take_over(client)
        except BaseException:
            self._file.close()
            raise

    def _take_over(self, client: str) -> None:
        """Lock the file for this process, and read it. (rules 3 and 4)"""
        for pragma in ("busy_timeout = 0", "locking_mode = EXCLUSIVE", "synchronous = EXTRA"):
            self._file.execute(f"PRAGMA {pragma}")
        self._file.execute("BEGIN EXCLUSIVE")
        about = dict(self._file.execute("SELECT name, value FROM about"))
        if about.get("what") != WHAT:
            raise self._damaged("it has no description")
        if about.get("format") != FORMAT:
            raise StoreError(
                f"{self.path} is a store of format {about.get('format')!r}, and this version reads {FORMAT}: "
                "use the version that wrote it, or another store"
            )
        if about.get("client") != client:
            raise StoreError(f"{self.path} is the store of the client {about.get('client')!r}, not of {client!r}")
        if (found := self._file.execute("PRAGMA quick_check").fetchone()[0]) != "ok":
            raise self._damaged(found)
        for number, record, checksum in self._file.execute("SELECT * FROM subscriptions ORDER BY number"):
            if not isinstance(record, str) or _checksum(number, record) != checksum:
                raise self._damaged(f"row {number} is not what was written")
            row = msgspec.json.decode(record, type=StoredSubscription)
            self._rows.setdefault(row.name, {})[number] = row
            self.number = number
        self._file.execute("COMMIT")

    # ------------------------------------------------------------ reading

    def newest(self) -> Iterator[tuple[int, StoredSubscription]]:
        """The newest row of each subscription, with its number."""
        for rows in self._rows.values():
            number = max(rows)
            yield number, rows[number]

    def number_of(self, name: str) -> int:
        """The number of the newest row of a subscription; 0 if there is none."""
        return max(self._rows.get(name, ()), default=0)

    # ------------------------------------------------------------ writing

    def put(self, row: StoredSubscription, instead_of: int = 0) -> int:
        """Write a subscription to the disk, `instead_of` another row; returns the number of its row. (rule 1)"""
        self.number += 1
        self._write(row.name, put={self.number: row}, removed=[instead_of] if instead_of else [])
        return self.number

    def accept(self, name: str, number: int) -> None:
        """A broker has accepted this row: earlier ones are deleted, unless a later one is pending. (rule 2)"""
        rows = self._rows.get(name, {})
        row = rows.get(number)
        if row is not None and number == max(rows) and (row.retained or len(rows) > 1):
            older = [each for each in rows if each < number]
            self._write(name, put={number: msgspec.structs.replace(row, retained=False)}, removed=older)

    def refuse(self, name: str, number: int) -> tuple[int, StoredSubscription] | None:
        """A broker has refused this row; returns the one before it, which is still in force. (rule 2)"""
        rows = self._rows.get(name, {})
        if number in rows:
            self._write(name, removed=[number])
        older = max((each for each in rows if each < number), default=0)
        return (older, rows[older]) if older else None

    def end(self, name: str, up_to: int | None = None) -> None:
        """A subscription has ended: delete its rows up to a number."""
        rows = [number for number in self._rows.get(name, ()) if up_to is None or number <= up_to]
        if rows:
            self._write(name, removed=rows)

    def clear(self) -> None:
        """All are over."""
        for name in list(self._rows):
            self.end(name)

    def _write(
        self, name: str, *, put: Mapping[int, StoredSubscription] = NOTHING, removed: Iterable[int] = ()
    ) -> None:
        with self._told():
            self._file.execute("BEGIN EXCLUSIVE")
            try:
                for number in removed:
                    self._file.execute("DELETE FROM subscriptions WHERE number = ?", (number,))
                for number, row in put.items():
                    record = msgspec.json.encode(row).decode()
                    values = (number, record, _checksum(number, record))
                    self._file.execute("INSERT OR REPLACE INTO subscriptions VALUES (?, ?, ?)", values)
                self._file.execute("COMMIT")
            except BaseException:
                if self._file.in_transaction:
                    self._file.execute("ROLLBACK")
                raise
        rows = self._rows.setdefault(name, {})
        for number in removed:
            del rows[number]
        rows.update(put)
        if not rows:
            del self._rows[name]

    def close(self) -> None:
        """Give it back."""
        self._file.close()

    # ------------------------------------------------------------ what can be wrong

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Errors of the disk and SQLite as `StoreError`."""
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise StoreError(f"{self.path} is in use by another client") from None
            if "no such table" in str(error):
                raise self._damaged("it has no description") from None
            raise StoreError(f"{self.path} cannot be used: {error}") from None
        except (sqlite3.DatabaseError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(str(error)) from None
        except OSError as error:
            raise StoreError(f"{self.path} cannot be used: {error.strerror or error}") from None

    def _damaged(self, why: str) -> StoreError:
        return StoreError(
            f"{self.path} is not a store of subscriptions, or is damaged: {why}; "
            "restore it from a copy, or move it away to start with no subscriptions"
        )


def _checksum(number: int, record: str) -> int:
    return crc32(f"{number} {record}".encode())


def _new(client: str) -> bytes:
    """Create an empty store. (rule 5)"""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        fresh.executescript(SCHEMA)
        fresh.executemany("INSERT INTO about VALUES (?, ?)", [("what", WHAT), ("format", FORMAT), ("client", client)])
        return fresh.serialize()
