"""The repository of a peer on disk: changes and records of all scopes, and its local tables. [motion §2]

"Usually, every peer has a local repository where users can store shared documents", with their profiles. Files are in
`content_files.py`; here is what is written about them, and about people and communities.

*Theory.* An SQLite file implements `Store` of `machine/store.py`. Changes are kept as they came, with columns for what
is asked of them; records are what they added up to, so that nothing has to be folded when a peer starts. The driver
opens one transaction per input and lets effects leave after it.

Each record that is put has a *revision*, a number that grows. What follows the records, such as an index, remembers the
revision it has seen and asks for those after it (`records_since`). So it may be lost, or be behind after a crash.

*Rules.*
1. What was changed in a transaction is on the disk when it ends, whatever becomes of the process or the power.
2. A change is never altered: a second one with the same device and number is an error.
3. One process at a time: a second one is refused with the number of the first.
4. The file names its format (`FORMAT`); one of another format is refused, and stays as it is.
5. `identity` is drawn when the file is made: followers of records recognise another repository by it.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec

from godwit.errors import RepositoryError, RepositoryInUse
from godwit.locking import locked
from godwit.teamwork.local_tables import Counters, Outbox, Settings
from godwit.teamwork.machine.changes import Change, ChangeId, Vector
from godwit.teamwork.machine.quotas import Usage
from godwit.teamwork.machine.records import Record
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["FORMAT", "Repository"]

FORMAT = 2
FILE, LOCK = "repository.sqlite", "repository.lock"
SCHEMA = f"""
CREATE TABLE scopes (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, clock INTEGER NOT NULL DEFAULT 0);
CREATE TABLE vectors (scope INTEGER, device TEXT, number INTEGER NOT NULL, PRIMARY KEY (scope, device)) WITHOUT ROWID;
CREATE TABLE usage (
    scope INTEGER, device TEXT, user TEXT, changes INTEGER NOT NULL, bytes INTEGER NOT NULL, messages INTEGER NOT NULL,
    PRIMARY KEY (scope, device, user)
) WITHOUT ROWID;
CREATE TABLE changes (
    scope INTEGER NOT NULL, device TEXT NOT NULL, number INTEGER NOT NULL,
    user TEXT NOT NULL, record TEXT NOT NULL, kind TEXT NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX changes_by_device ON changes (scope, device, number);
CREATE INDEX changes_by_record ON changes (scope, record);
CREATE INDEX changes_by_kind ON changes (scope, kind);
CREATE INDEX changes_by_user ON changes (scope, user, record);
CREATE TABLE records (
    scope INTEGER NOT NULL, name TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL
);
CREATE UNIQUE INDEX records_by_name ON records (scope, name);
CREATE UNIQUE INDEX records_by_revision ON records (revision);
{Outbox.SCHEMA}
{Settings.SCHEMA}
{Counters.SCHEMA}
"""
LAYOUT = Layout("godwit: repository of a peer", FORMAT, SCHEMA)
IDENTITY, REVISION = "repository.identity", "repository.revision"
PAGE = 200  # changes that are read at once

_ENCODER = msgspec.msgpack.Encoder()
_CHANGE = msgspec.msgpack.Decoder(Change)
_RECORD = msgspec.msgpack.Decoder(Record)
Decoded = TypeVar("Decoded")


class Repository:
    """The repository in a folder. To be used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        busy = "the repository of a peer that runs already (process {}): stop it, or choose another folder"
        self._lock = locked(folder, LOCK, RepositoryError, busy, RepositoryInUse)
        try:
            self._file = SqliteFile(folder / FILE, LAYOUT)
        except BaseException:
            self._lock.close()
            raise
        self.outbox, self.settings, self.counters = Outbox(self._file), Settings(self._file), Counters(self._file)
        self._scopes: dict[str, int] = {}
        if self.settings.get(IDENTITY) is None:
            self.settings.put(IDENTITY, uuid4().hex)

    @property
    def identity(self) -> str:
        """What tells this repository from any other. (rule 5)"""
        return str(self.settings.get(IDENTITY))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What one input changes: all of it is on the disk when this ends, or nothing was changed. (rule 1)"""
        try:
            with self._file.transaction():
                yield
        except BaseException:
            self._scopes.clear()  # their numbers may have been given in this transaction
            raise

    def limit(self, bytes_max: int) -> None:
        """Let the file take so many bytes at most, from now until it is closed."""
        self._file.limit(bytes_max)

    def close(self) -> None:
        """Give the folder back."""
        self._file.close()
        self._lock.close()

    # ------------------------------------------------------------ changes

    def scopes(self) -> list[str]:
        """Scopes with a change."""
        statement = "SELECT name FROM scopes WHERE number IN (SELECT scope FROM vectors) ORDER BY number"
        return [name for (name,) in self._file.rows(statement)]

    def vector(self, scope: str) -> Vector:
        """By device, the number of its last change here."""
        return dict(self._file.rows("SELECT device, number FROM vectors WHERE scope = ?", [self._known(scope)]))

    def clock(self, scope: str) -> int:
        """The highest clock of a change."""
        found = self._file.row("SELECT clock FROM scopes WHERE name = ?", [scope])
        return int(found[0]) if found else 0

    def raise_clock(self, scope: str, clock: int) -> None:
        """Let the clock be at least this: others have made changes that are not here."""
        with self._at_once():
            self._file.run("UPDATE scopes SET clock = max(clock, ?) WHERE number = ?", (clock, self._numbered(scope)))

    def add(self, change: Change) -> None:
        """Keep a change that follows the last one of its device. (rule 2)"""
        with self._at_once():
            scope, body = self._numbered(change.scope), _ENCODER.encode(change)
            self._file.run(
                "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)",
                (scope, change.device, change.number, change.user, change.record, change.kind, body),
            )
            self._file.run(
                "INSERT INTO usage VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (scope, device, user) DO UPDATE SET "
                "changes = changes + 1, bytes = bytes + excluded.bytes, messages = messages + excluded.messages",
                (scope, change.device, change.user, len(body), change.kind == "message"),
            )
            self._file.run("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", (scope, change.device, change.number))
            self.raise_clock(change.scope, change.clock)

    def change(self, scope: str, id: ChangeId) -> Change | None:
        """One change."""
        found = self._changes("device = ? AND number = ?", scope, id)
        return found[0] if found else None

    def changes_of(self, scope: str, record: str) -> list[Change]:
        """All changes of a record."""
        return self._changes("record = ?", scope, [record])

    def changes_of_kinds(self, scope: str, kinds: Iterable[str]) -> list[Change]:
        """All changes of records of these kinds."""
        return [change for kind in sorted(set(kinds)) for change in self._changes("kind = ?", scope, [kind])]

    def changes_after(self, scope: str, vector: Vector, count: int) -> list[Change]:
        """Some changes that a peer with this vector lacks, by each device in the order of its numbers."""
        by_device = [
            self._device_changes(scope, device, vector.get(device, 0), count)
            for device, last in self.vector(scope).items()
            if last > vector.get(device, 0)
        ]
        return list(islice(merge(*by_device, key=lambda change: change.order), count))

    def _device_changes(self, scope: str, device: str, after: int, count: int) -> Iterator[Change]:
        """The changes of a device after a number, read as they are taken."""
        last = after
        for start in range(0, count, PAGE):
            page = self._changes(
                "device = ? AND number > ? ORDER BY number LIMIT ?", scope, (device, last, min(PAGE, count - start))
            )
            yield from page
            if len(page) < PAGE:
                return
            last = page[-1].number

    def records_changed_by(self, scope: str, users: Collection[str], devices: Collection[str]) -> list[str]:
        """Names of the records that one of these users has changed, or one of these devices."""
        names: set[str] = set()
        for column, wanted in (("user", users), ("device", devices)):
            for each in wanted:
                statement = f"SELECT DISTINCT record FROM changes WHERE scope = ? AND {column} = ?"
                names.update(name for (name,) in self._file.rows(statement, (self._known(scope), each)))
        return sorted(names)

    def changes_by(self, scope: str, device: str) -> list[Change]:
        """All changes of a device."""
        return self._changes("device = ?", scope, [device])

    def usage(self, scope: str, *, user: str | None = None, device: str | None = None) -> Usage:
        """How much was written into a scope, by a user or device, if one is given."""
        statement = (
            "SELECT coalesce(sum(changes), 0), coalesce(sum(bytes), 0), coalesce(sum(messages), 0) FROM usage "
            "WHERE scope = ? AND (? IS NULL OR user = ?) AND (? IS NULL OR device = ?)"
        )
        return Usage(*self._file.row(statement, (self._known(scope), user, user, device, device)))

    # ------------------------------------------------------------ records

    def put(self, scope: str, record: Record) -> None:
        """Keep the state of a record."""
        with self._at_once():
            revision = self.counters.next(REVISION)
            self._file.run(
                "INSERT INTO records VALUES (?, ?, ?, ?) "
                "ON CONFLICT (scope, name) DO UPDATE SET revision = excluded.revision, body = excluded.body",
                (self._numbered(scope), record.name, revision, _ENCODER.encode(record)),
            )

    def record(self, scope: str, name: str) -> Record | None:
        """The state of a record."""
        statement = "SELECT body FROM records WHERE scope = ? AND name = ?"
        found = self._file.row(statement, (self._known(scope), name))
        return self._decoded(_RECORD, found[0]) if found else None

    def records(self, scope: str, kind: str) -> Iterator[Record]:
        """All records of a kind, by name. Records may be put meanwhile: those that are put later are not seen."""
        statement = "SELECT body FROM records WHERE scope = ? AND name >= ? AND name < ? ORDER BY name"
        after_slash = chr(ord("/") + 1)
        for (body,) in self._file.rows(statement, (self._known(scope), f"{kind}/", f"{kind}{after_slash}")):
            yield self._decoded(_RECORD, body)

    @property
    def revision(self) -> int:
        """The revision of the record that was put last."""
        return self.counters.value(REVISION)

    def records_since(self, revision: int, count: int) -> list[tuple[int, str, Record]]:
        """Some records that were put after a revision: the revision, scope and record of each, earliest first."""
        statement = (
            "SELECT records.revision, scopes.name, records.body FROM records JOIN scopes ON scopes.number = scope "
            "WHERE revision > ? ORDER BY revision LIMIT ?"
        )
        return [
            (number, scope, self._decoded(_RECORD, body))
            for number, scope, body in self._file.rows(statement, (revision, count))
        ]

    @property
    def position(self) -> int:
        """The position of the change that was taken last. Positions grow: changes are never removed."""
        return int(self._file.row("SELECT coalesce(max(rowid), 0) FROM changes")[0])

    def last_changes(self, scope: str, record: str, count: int) -> list[tuple[int, Change]]:
        """Some changes of a record with their positions, the last to come first."""
        statement = "SELECT rowid, body FROM changes WHERE scope = ? AND record = ? ORDER BY rowid DESC LIMIT ?"
        rows = self._file.rows(statement, (self._known(scope), record, count))
        return [(position, self._decoded(_CHANGE, body)) for position, body in rows]

    # ------------------------------------------------------------ scopes by number

    def _known(self, scope: str) -> int:
        """The number of a scope; -1 when nothing was written of it."""
        number = self._scopes.get(scope)
        if number is None:
            found = self._file.row("SELECT number FROM scopes WHERE name = ?", [scope])
            if not found:
                return -1
            number = self._scopes[scope] = found[0]
        return number

    def _numbered(self, scope: str) -> int:
        """The number of a scope, given now if it has none."""
        if self._known(scope) < 0:
            self._file.run("INSERT INTO scopes (name) VALUES (?)", [scope])
        return self._known(scope)

    # ------------------------------------------------------------ reading

    def _changes(self, condition: str, scope: str, values: Iterable[Any]) -> list[Change]:
        statement = f"SELECT body FROM changes WHERE scope = ? AND {condition}"
        return [self._decoded(_CHANGE, body) for (body,) in self._file.rows(statement, (self._known(scope), *values))]

    def _decoded(self, decoder: "msgspec.msgpack.Decoder[Decoded]", body: bytes) -> Decoded:
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, TypeError) as error:
            raise RepositoryError(
                f"{self._file.path} is damaged: a row cannot be read ({error}); put the folder back from a copy"
            ) from error

    @contextmanager
    def _at_once(self) -> Iterator[None]:
        """In the transaction that is open, or in one of its own."""
        if self._file.in_transaction:
            yield
        else:
            with self.transaction():
                yield
