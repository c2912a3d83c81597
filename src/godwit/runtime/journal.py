"""The journal: what a broker was told, on disk before anything that it does about it leaves the process.

*Theory.* A broker's state is a function of its inputs. So the disk holds the inputs, in batches: one row and one
transaction each. Now and then the state of the machine is written as a snapshot (`codec/snapshots.py`), and the batches
before it go. After a crash the last snapshot is loaded and the batches behind it are handled again, with effects muted
(`node.py`).

| durability | a batch is safe when | survives |
|---|---|---|
| `full` | it is on the disk (fsync) | the end of the process, and of the power |
| `relaxed` | the operating system has it | the end of the process |
| `memory` | there is no journal | nothing: the broker comes back as a new life |

*Rules.*
1. `append` returns when the batch is safe. When it raises, nothing of the batch is in the journal, and it may be tried
   again.
2. A snapshot replaces what came before it in one transaction: there is no moment with neither.
3. A journal that cannot be read is never overwritten: `JournalError` says what is wrong with which file. Each batch and
   each snapshot has a checksum, since SQLite has none for what it holds.
4. One process at a time: a second one that opens the same journal is refused.
5. The numbers of batches count on over restarts.
6. A journal of another format, or of another broker, is refused before anything is written: its files stay as they
   are, to the byte. The table `about` says of which format a journal is (`FORMAT`), and what its parts look like.
7. Every journal that is begun has an `incarnation` of its own: neighbours of a broker that has lost its disk see by it
   that this is another life, and tell it all again. A broker without a journal takes `new_incarnation` at each start.
"""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time_ns
from typing import Any, Literal
from zlib import crc32

from godwit.codec import snapshots
from godwit.errors import JournalError
from godwit.locking import locked
from godwit.runtime import wire

__all__ = ["DURABILITIES", "Durability", "Journal", "about", "check_format", "new_incarnation"]

Durability = Literal["memory", "relaxed", "full"]
DURABILITIES: tuple[Durability, ...] = ("memory", "relaxed", "full")

FILE = "journal.sqlite"
LOCK = "journal.lock"
FORMAT = 3
PAST = dict.fromkeys((1, 2), " (snapshots are pickles)")
"""What is known of earlier formats."""

LAYOUT = {
    "what": "godwit journal",
    "batches": "MessagePack: a list of inputs, each {at, kind, name, data}",
    "messages": f"native wire format, version {wire.VERSION}",
    "snapshots": f"{snapshots.FORMAT}, version {snapshots.VERSION}",
}
"""What stands in a journal about itself, for whoever looks into one or has to convert it."""

SYNCHRONOUS = {"relaxed": "OFF", "full": "FULL"}
SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, data BLOB NOT NULL, checksum INTEGER NOT NULL);
"""


class Journal:
    """The journal of one broker, in a folder of its own. To be used by one thread at a time."""

    def __init__(self, folder: Path, broker: str, durability: Durability = "full") -> None:
        assert durability in SYNCHRONOUS
        self.folder = folder
        self.where = str(folder)
        self.bytes_since_snapshot = 0
        self.snapshot_bytes = 0
        file = folder / FILE
        if known := about(file):  # rule 6
            check_format(file, known)
            _check_broker(file, known, broker)
        self._lock = locked(folder, LOCK, JournalError, "in use by another broker (process {})")
        try:
            with self._said_well():
                self._disk = sqlite3.connect(
                    folder / FILE, isolation_level=None, check_same_thread=False, cached_statements=32
                )
                self._disk.execute("PRAGMA journal_mode = WAL")
                self._disk.execute(f"PRAGMA synchronous = {SYNCHRONOUS[durability]}")
                self._disk.execute("PRAGMA wal_autocheckpoint = 4000")
                self._disk.executescript(SCHEMA)
                self._introduce(broker)
                last = self._disk.execute("SELECT max(number) FROM batches").fetchone()[0]
                snapshot = self._disk.execute("SELECT max(number) FROM snapshots").fetchone()[0]
        except BaseException:
            self._lock.close()
            raise
        self.number = max(last or 0, snapshot or 0)

    def _introduce(self, broker: str) -> None:
        """Whose journal it is, and of which format. One that another process has begun meanwhile is looked at again."""
        known = dict(self._disk.execute("SELECT name, value FROM about"))
        self.incarnation = int(known.get("incarnation", 1))
        if not known:
            self.incarnation = new_incarnation()
            said = {"format": FORMAT, "broker": broker, "incarnation": self.incarnation, **LAYOUT}
            with self._disk:
                self._disk.execute("BEGIN IMMEDIATE")
                self._disk.executemany("INSERT INTO about VALUES (?, ?)", said.items())
            return
        check_format(self.folder / FILE, known)
        _check_broker(self.folder / FILE, known, broker)

    def recall(self, name: str) -> str | None:
        """What was remembered under a name; None: nothing."""
        with self._said_well():
            row = self._disk.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, name: str, text: str) -> None:
        """Keep a text under a name, in the place of what it was."""
        with self._said_well():
            self._disk.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, text))

    def append(self, data: bytes) -> int:
        """Write a batch; its number, once it is safe."""
        with self._said_well():
            self._disk.execute("INSERT INTO batches VALUES (?, ?, ?)", (self.number + 1, data, crc32(data)))
        self.number += 1
        self.bytes_since_snapshot += len(data)
        return self.number

    def snapshot(self, number: int, data: bytes) -> None:
        """The machine as it was after batch `number`: what is older goes."""
        with self._said_well():
            self._disk.execute("BEGIN IMMEDIATE")
            try:
                self._disk.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (number, data, crc32(data)))
                self._disk.execute("DELETE FROM snapshots WHERE number < ?", (number,))
                self._disk.execute("DELETE FROM batches WHERE number <= ?", (number,))
                self._disk.execute("COMMIT")
            except BaseException:
                self._disk.execute("ROLLBACK")
                raise
        self.bytes_since_snapshot = 0
        self.snapshot_bytes = len(data)

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in it, and the machine."""
        with self._said_well():
            row = self._disk.execute("SELECT * FROM snapshots ORDER BY number DESC LIMIT 1").fetchone()
        if row is None:
            return None
        number, data, checksum = row
        self._check(f"snapshot {number}", data, checksum)
        self.snapshot_bytes = len(data)
        return number, data

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches behind a number, in order, without a hole."""
        with self._said_well():
            rows = self._disk.execute("SELECT * FROM batches WHERE number > ? ORDER BY number", (after,))
            for number, data, checksum in rows:
                if number != after + 1:
                    raise JournalError(f"{self.folder / FILE}: batch {after + 1} is missing before batch {number}")
                self._check(f"batch {number}", data, checksum)
                after = number
                self.bytes_since_snapshot += len(data)
                yield data

    def _check(self, what: str, data: bytes, checksum: int) -> None:
        if crc32(data) != checksum:
            raise JournalError(f"{self.folder / FILE}: {what} is not as it was written")

    def close(self) -> None:
        """Let go of the files."""
        with self._said_well():
            self._disk.close()
        self._lock.close()

    @contextmanager
    def _said_well(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.folder / FILE}: {error}") from error


# ---------------------------------------------------------------- looking before anything is touched


def about(file: Path) -> dict[str, Any]:
    """What a journal says about itself; nothing when there is none, or when it has said nothing yet.

    Nothing is changed, and no file is made: not even those that SQLite keeps beside a database that it reads.
    """
    if not file.is_file() or not file.stat().st_size:
        return {}
    try:
        known = _about(f"{file.absolute().as_uri()}?mode=ro&immutable=1")
        wal = file.with_name(f"{file.name}-wal")
        if known or not wal.is_file() or not wal.stat().st_size:
            return known
        with TemporaryDirectory() as copied:  # what it says may not have left the write-ahead file yet
            for one in (file, wal):
                shutil.copy(one, copied)
            return _about(f"{(Path(copied) / file.name).as_uri()}?mode=rw")
    except sqlite3.Error as error:
        raise JournalError(
            f"{file} is damaged: its table about cannot be read ({error}); "
            "restore it from a copy, or begin anew with another journal.folder"
        ) from None
    except OSError as error:
        raise JournalError(f"{file}: {error.strerror or error}") from None


def _about(uri: str) -> dict[str, Any]:
    with closing(sqlite3.connect(uri, uri=True)) as disk:
        if disk.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone() is None:
            return {}
        return dict(disk.execute("SELECT name, value FROM about"))


def check_format(file: Path, known: dict[str, Any]) -> None:
    """`JournalError` when a journal has another format: what it is, what can be read here, and what to do."""
    found = known.get("format")
    if found == FORMAT:
        return
    if type(found) is not int:
        raise JournalError(f"{file} is no journal: it has no format number. Nothing was changed")
    whose = f" of broker {known['broker']!r}" if "broker" in known else ""
    is_later, past = found > FORMAT, PAST.get(found, "")
    written_by = "a later version" if is_later else "an earlier version"
    advice = "start that version" if is_later else "start that version to drain it"
    raise JournalError(
        f"{file}: this journal{whose} has format {found}{past}, written by {written_by} of Godwit; this version "
        f"reads format {FORMAT}. Either {advice}, or move the folder away and start with an empty journal. Nothing was "
        "changed"
    )


def _check_broker(file: Path, known: dict[str, Any], broker: str) -> None:
    if known.get("broker") != broker:
        raise JournalError(f"{file} is the journal of broker {known.get('broker')!r}, not {broker!r}")


def new_incarnation() -> int:
    """A number that is higher than that of any life before."""
    return time_ns() // 1_000_000
