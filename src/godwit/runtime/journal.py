"""The journal: the inputs of a broker, on disk before any of their effects leaves the process.

*Theory.* A broker's state is a function of its inputs. So the disk stores the inputs, in batches: one row and one
transaction each. From time to time the state of the machine is written as a snapshot (`codec/snapshots.py`), and the
batches before it are deleted. After a crash the last snapshot is loaded and the batches after it are replayed, without
effects (`node.py`).

| durability | a batch is safe when | survives |
|---|---|---|
| `full` | it is on the disk (fsync) | the end of the process, and of the power |
| `relaxed` | the operating system has it | the end of the process; the end of the power takes the last seconds |
| `memory` | there is no journal | nothing: the broker comes back as a new life |

A disk may lose data that was safe: a damaged write-ahead file, a deleted file, an older copy that was restored. The
mark (`journal_marks.py`) records the last batch of the journal, and `codec/journal_losses.py` finds what is missing.
With `relaxed`, a lost tail is expected: the broker continues as a new incarnation by itself. Any other loss is refused
until the operator accepts it.

*Rules.*
1. `append` returns when the batch is safe. If it raises, nothing of the batch is in the journal, and it may be retried.
2. A snapshot replaces the one before in one transaction, so there is always one. It is written in pieces, and replaced
   data is deleted in pieces (`journal_snapshots.py`), with batches in between. On a full disk, a journal of that
   snapshot alone replaces this one (`journal_space.py`).
3. A journal that cannot be read is never overwritten: `JournalError` names the file and the error. Each batch has a
   chained checksum, and each snapshot a checksum, because SQLite has none for its content.
4. One process at a time: a second one that opens the same journal is refused. Others may read a copy
   (`journal_copies.py`).
5. The numbers of batches continue after a restart.
6. A journal of another format, or of another broker, is refused before anything is written: its files stay unchanged.
   The table `about` has the format of a journal (`FORMAT`) and a description of its parts. Format 4 only lacks the
   parts of snapshots. Such a journal keeps its format, which the version that wrote it can read, until the first
   snapshot is written in pieces; then it becomes one of format 5.
7. Every new journal has a new `incarnation`: by this number neighbours recognise that a broker has lost its disk, and
   resend everything. A broker without a journal uses `new_incarnation` at each start.
8. A journal with a loss is refused, unless it is the tail of a `relaxed` one or the loss is accepted (`accept_loss`). A
   refused journal stays unchanged. Otherwise `loss` describes what is missing, and the first appended batch must tell
   the machine: the same transaction records that the loss was handled. Until then it is found again at each start.
9. Abandoned files, or copies of them, are moved to a folder `lost-…` beside the journal, and never deleted.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory
from time import time, time_ns
from typing import Any, get_args
from zlib import crc32

from godwit.codec import snapshots
from godwit.codec.batch_chains import MARK, BatchDamage, StoredSnapshot, chained, first_chain
from godwit.codec.journal_losses import Durability, Loss, loss_of, needs_operator
from godwit.errors import JournalError
from godwit.files import synced
from godwit.locking import locked
from godwit.runtime import wire
from godwit.runtime.journal_checks import NoRoomError, about_checksum, examined, has_remains, tell_loss, verified
from godwit.runtime.journal_copies import copied
from godwit.runtime.journal_marks import MarkFile
from godwit.runtime.journal_snapshots import PARTS, newest, removals, write_parts, write_row
from godwit.runtime.journal_space import DRAFT, JournalSpace

__all__ = ["DURABILITIES", "Durability", "Journal", "about", "check_format", "new_incarnation"]

DURABILITIES: tuple[Durability, ...] = get_args(Durability)

FILE = "journal.sqlite"
LOCK = "journal.lock"
COPY = "copy-"
FORMAT = 5
READABLE = (4, FORMAT)
PAST = {**dict.fromkeys((1, 2), " (snapshots are pickles)"), 3: " (nothing says how far it went)"}
"""Remarks on earlier formats."""

LAYOUT = {
    "what": "godwit journal",
    "batches": "MessagePack: a list of inputs, each {at, kind, name, data}",
    "messages": f"native wire format, version {wire.VERSION}",
    "snapshots": f"{snapshots.FORMAT}, version {snapshots.VERSION}",
    "chains": "BLAKE2b, 16 bytes: the chain before, the number of the batch (8 bytes, lowest first), its data",
    "mark": f"{MARK}: the last batch that was safe",
}
"""The description of a journal inside it, for people who inspect or convert one."""

SYNCHRONOUS = {"relaxed": "NORMAL", "full": "FULL"}
"""`NORMAL` syncs whenever the write-ahead file is checkpointed: so the journal is consistent after a power failure."""

CHECKPOINT_PAGES = 250
"""After this number of pages (1 MB) the next batch also checkpoints the write-ahead file, which takes about 3 ms.
With 4,000 pages it took 30 to 50 ms, which delayed all answers; the bytes written per second are the same."""

TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL,
    chain BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL,
    chain BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS losses (number INTEGER NOT NULL, mark_sequence INTEGER NOT NULL, at REAL NOT NULL,
    missing TEXT NOT NULL);
"""
SCHEMA = TABLES + PARTS


class Journal:
    """The journal of one broker, in its folder. To be used by one thread at a time."""

    def __init__(
        self, folder: Path, broker: str, durability: Durability = "full", *, accept_loss: bool = False
    ) -> None:
        assert durability in SYNCHRONOUS
        self.folder = folder
        self.where = str(folder)
        self.bytes_since_snapshot = 0
        self.snapshot_bytes = 0
        self.number = 0
        self.losses = 0  # that were accepted
        self.is_cramped = False  # a snapshot is due, because room is short
        self._is_synced = durability == "full"
        self._durability = durability
        self._space = JournalSpace(folder)
        file = folder / FILE
        self._check_whose(file, broker, accept_loss=accept_loss)
        self._lock = locked(folder, LOCK, JournalError, "in use by another broker (process {})")
        try:
            self._space.finish(file)
            self._check_whose(file, broker, accept_loss=accept_loss)  # another process may have begun it meanwhile
            self._mark = MarkFile(folder / MARK)
            self.loss = self._examine(file, durability, accept_loss=accept_loss)
            with self._said_well():
                self._open(file, broker)
        except BaseException:
            self._lock.close()
            raise

    def _check_whose(self, file: Path, broker: str, *, accept_loss: bool) -> None:
        """Refuse a journal of another format or broker, before anything is changed. (rule 6)"""
        try:
            known = about(file)
        except JournalError:
            if not accept_loss:
                raise
            return
        if known and ("format" in known or not accept_loss):
            check_format(file, known)
            _check_broker(file, known, broker)

    def _examine(self, file: Path, durability: Durability, *, accept_loss: bool) -> Loss | None:
        """The loss. `JournalError` if the broker must not continue from there. (rule 8)"""
        mark = self._mark
        try:
            content = examined(file, mark.last)
        except NoRoomError:
            self._space.release()
            content = examined(file, mark.last)
        self.losses = 0 if content is None else content.losses
        has_begun = mark.is_there or (content is None and has_remains(file))
        loss = loss_of(content, mark.last, has_mark_file=has_begun)
        self._is_new = content is None or (loss is not None and loss.kept < 0)
        sequence = 0 if content is None else content.losses_sequence
        mark.follow(sequence)
        if loss is None:
            return None
        if needs_operator(loss, durability) and not accept_loss:
            raise JournalError(
                f"{file}: {loss.missing}. Restore the right files, or continue without the missing data with "
                "godwit serve --accept-loss: neighbours and clients are told. Nothing was changed"
            )
        self.losses += 1
        if not loss.is_tail or durability == "full":
            self._put_aside(loss, is_damaged=content is not None and content.damage != "")
        self._mark.follow(max(sequence, loss.mark_sequence))
        return loss if loss.kept < 0 else loss._replace(incarnation=new_incarnation())

    def _put_aside(self, loss: Loss, *, is_damaged: bool) -> None:
        """Keep the files in another folder, and continue with the undamaged part. (rule 9)"""
        aside = self.folder / f"lost-{new_incarnation()}"
        files = [self.folder / name for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", MARK)]
        try:
            aside.mkdir(mode=0o700)
            for each in (each for each in files if each.is_file()):
                shutil.copy2(each, aside / each.name)
            if loss.kept >= 0 and not is_damaged:
                return
            if loss.kept >= 0:
                salvaged = _salvaged(aside, loss.kept)
            for each in files if loss.kept < 0 else files[:-1]:
                each.unlink(missing_ok=True)
            if loss.kept >= 0:
                salvaged.replace(files[0])
        except (OSError, sqlite3.Error) as error:
            raise JournalError(f"{aside} cannot be written: {error}. No loss was accepted") from None
        self._mark = MarkFile(self.folder / MARK)

    def _open(self, file: Path, broker: str) -> None:
        """Open the file for writing, and continue after the last good batch."""
        if self._is_new and self._mark.last is None:
            self._mark.begin(new_incarnation())  # before the journal: every journal has a mark
        for left in self.folder.glob(f"{COPY}*.sqlite"):  # by a process that was killed
            left.unlink(missing_ok=True)
        disk = self._disk = self._connected(file)
        disk.executescript(TABLES)
        known = dict(disk.execute("SELECT name, value FROM about"))
        if not known:
            assert self._mark.last is not None
            known = {"format": FORMAT, "broker": broker, "incarnation": self._mark.last.incarnation, **LAYOUT}
            self._tell_about(known)
        self._format = int(known["format"])
        if self._format == FORMAT:
            disk.executescript(PARTS)
        self.incarnation = int(known["incarnation"])
        last, chain = self._start()
        row = disk.execute("SELECT number, chain FROM batches ORDER BY number DESC LIMIT 1").fetchone()
        self.number = last if row is None else max(last, row[0])
        self._chain: bytes = chain if row is None or row[0] < last else row[1]
        self._space.keep(0)

    def _connected(self, file: Path) -> sqlite3.Connection:
        disk = sqlite3.connect(file, isolation_level=None, check_same_thread=False, cached_statements=32)
        disk.execute("PRAGMA locking_mode = EXCLUSIVE")  # otherwise each append would take and release six locks
        disk.execute("PRAGMA journal_mode = WAL")
        disk.execute(f"PRAGMA synchronous = {SYNCHRONOUS[self._durability]}")
        disk.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        disk.execute("PRAGMA secure_delete = OFF")  # some builds of SQLite have it on: deleted data is overwritten
        return disk

    def _tell_about(self, known: dict[str, Any]) -> None:
        """Write the description of the journal: when it begins, and when its format changes."""
        with self._transaction():
            rows = [(name, value, about_checksum(name, value)) for name, value in known.items()]
            self._disk.executemany("INSERT OR REPLACE INTO about VALUES (?, ?, ?)", rows)
            if self._is_new and self.loss is not None:
                tell_loss(self._disk, self.loss, time())

    def _start(self) -> tuple[int, bytes]:
        """The start of the batches: the last snapshot, or nothing."""
        row = self._disk.execute("SELECT number, chain FROM snapshots ORDER BY number DESC LIMIT 1").fetchone()
        return (0, first_chain(self.incarnation)) if row is None else row

    def recall(self, name: str) -> str | None:
        """The text stored under a name, or None."""
        with self._said_well():
            row = self._disk.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, name: str, text: str) -> None:
        """Store a text under a name, replacing the one before."""
        with self._said_well():
            row = (name, text, about_checksum(name, text))
            self._disk.execute("INSERT OR REPLACE INTO about VALUES (?, ?, ?)", row)

    def append(self, data: bytes) -> int:
        """Write a batch; returns its number when it is safe."""
        number = self.number + 1
        chain = chained(self._chain, number, data)
        try:
            if self.loss is not None and self.loss.incarnation:
                self._append_with_loss(self.loss, (number, time(), data, chain))
            else:
                self._disk.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", (number, time(), data, chain))
        except sqlite3.Error as error:
            raise JournalError(f"{self.folder / FILE}: {error}") from error
        self.loss = None
        self.number, self._chain = number, chain
        self.bytes_since_snapshot += len(data)
        self._mark.write(self.incarnation, number, chain, is_synced=self._is_synced)
        if self._space.is_cramped(len(data), self.snapshot_bytes, self.bytes_since_snapshot):
            self.is_cramped = True
        return number

    def _append_with_loss(self, loss: Loss, row: tuple[int, float, bytes, bytes]) -> None:
        """The batch that tells the machine of a loss. (rule 8)"""
        with self._transaction():
            tell_loss(self._disk, loss, time())
            self._disk.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)

    def snapshot(self, number: int, data: bytes) -> None:
        """Write a snapshot of the machine after batch `number`, and delete older data.

        A number one above the last batch stands for inputs that could not be appended: the snapshot includes them.
        """
        for _ in self.snapshot_steps(number, data):
            pass

    def snapshot_steps(self, number: int, data: bytes) -> Iterator[None]:
        """The same, piece by piece: batches may be appended between two pieces. Stopping the iteration abandons the
        snapshot."""
        assert number <= self.number + 1
        with self._said_well():
            chain = self._chain
            if number < self.number:
                chain = self._chain_at(number)
            elif number > self.number:
                chain = chained(chain, number, data)
            snapshot = StoredSnapshot(number, time(), data, chain, crc32(data))
            # A snapshot with the number of the last would replace its parts while that one is still valid.
            is_written = not self.is_cramped and self._start()[0] < number <= self.number
            if is_written:
                try:
                    self._raise_format()
                    for _ in write_parts(self._disk, number, data):
                        yield
                    with self._transaction():
                        write_row(self._disk, snapshot)
                except sqlite3.Error:  # there seems to be no room for both
                    is_written = False
            if not is_written:
                self._start_over(snapshot)
            behind = "SELECT ifnull(sum(length(data)), 0) FROM batches WHERE number > ?"
            self.bytes_since_snapshot = self._disk.execute(behind, (number,)).fetchone()[0]
            self.snapshot_bytes, self.is_cramped = len(data), False
            if number > self.number:
                self.number, self._chain, self.loss = number, chain, None
                self._mark.write(self.incarnation, number, chain, is_synced=self._is_synced)
            self._space.keep(len(data))
            try:
                for _ in removals(self._disk, number):
                    yield
            except sqlite3.Error:  # deleting needs room, too
                self._start_over(snapshot)

    def _raise_format(self) -> None:
        """Convert a journal of an earlier format, before data of the present format is written. (rule 6)"""
        if self._format != FORMAT:
            self._disk.executescript(PARTS)
            self._tell_about({"format": FORMAT})
            self._format = FORMAT

    def _chain_at(self, number: int) -> bytes:
        """The chain up to a batch, or up to the snapshot that stands for it."""
        for table in ("batches", "snapshots"):
            row = self._disk.execute(f"SELECT chain FROM {table} WHERE number = ?", (number,)).fetchone()
            if row is not None:
                return bytes(row[0])
        raise JournalError(f"{self.folder / FILE}: there is no batch {number}")

    def _start_over(self, snapshot: StoredSnapshot) -> None:
        """Replace this journal by one with this snapshot and the batches after it, in the room of the reserve."""
        draft, file = self.folder / DRAFT, self.folder / FILE
        draft.unlink(missing_ok=True)
        self._space.release()
        try:
            with closing(sqlite3.connect(draft, isolation_level=None)) as disk:
                disk.execute("PRAGMA journal_mode = OFF")
                disk.executescript(SCHEMA)
                disk.execute("BEGIN")
                for table in ("about", "losses"):
                    for row in self._disk.execute(f"SELECT * FROM {table}"):
                        disk.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
                if self.loss is not None and self.loss.incarnation:
                    tell_loss(disk, self.loss, time())
                disk.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", snapshot)
                for row in self._disk.execute("SELECT * FROM batches WHERE number > ?", (snapshot.number,)):
                    disk.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
                disk.execute("COMMIT")
            self._space.commit()
        except (OSError, sqlite3.Error) as error:
            draft.unlink(missing_ok=True)
            self._space.keep(self.snapshot_bytes)
            raise JournalError(f"{file}: no room for a snapshot: {error}") from None
        with suppress(sqlite3.Error):  # it would checkpoint its write-ahead file, for which there may be no room
            self._disk.close()
        self._space.finish(file)
        self._disk = self._connected(file)

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in the snapshot, and the machine."""
        with self._said_well():
            found = newest(self._disk)
        if found is None:
            return None
        if not found.is_whole:
            raise JournalError(f"{self.folder / FILE}: snapshot {found.number} is not as it was written")
        self.snapshot_bytes = len(found.data)
        return found.number, found.data

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches after a number, in order, without a gap."""
        with self._said_well():
            start, chain = self._start()
            try:
                for number, _, data, _ in verified(self._disk, start, chain):
                    if number > after:
                        self.bytes_since_snapshot += len(data)
                        yield data
            except BatchDamage as damage:
                raise JournalError(f"{self.folder / FILE}: {damage}") from None

    def backup(self) -> Path:
        """Copy the present journal into one new file of its folder. To be called between two batches."""
        file = self.folder / f"{COPY}{token_hex(4)}.sqlite"
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            with closing(sqlite3.connect(file)) as copy:
                self._disk.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, with no write-ahead file beside it
        except sqlite3.Error as error:
            file.unlink(missing_ok=True)
            raise JournalError(f"{file}: no copy could be written: {error}") from None
        return file

    def close(self) -> None:
        """Close the files."""
        with self._said_well():
            self._disk.close()
        self._mark.close()
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._disk.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._disk.execute("COMMIT")
        except BaseException:
            if self._disk.in_transaction:
                self._disk.execute("ROLLBACK")
            raise

    @contextmanager
    def _said_well(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise JournalError(f"{self.folder / FILE}: {error}") from error


def _salvaged(aside: Path, kept: int) -> Path:
    """A journal with the undamaged part of another: all up to a batch."""
    salvaged = aside / f"{FILE}.good"
    with closing(sqlite3.connect(salvaged, isolation_level=None)) as disk:
        disk.executescript(SCHEMA)
        disk.execute("ATTACH ? AS damaged", (str(aside / FILE),))
        disk.execute("BEGIN")
        disk.execute("INSERT INTO about SELECT * FROM damaged.about")
        disk.execute("INSERT INTO losses SELECT * FROM damaged.losses")
        start = 0
        if (snapshot := newest(disk, "damaged")) is not None:
            disk.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", snapshot)
            start = snapshot.number
        for number in range(start + 1, kept + 1):  # one by one: later ones may be unreadable
            disk.execute("INSERT INTO batches SELECT * FROM damaged.batches WHERE number = ?", (number,))
        disk.execute("COMMIT")
    synced([salvaged])
    return salvaged


# ---------------------------------------------------------------- looking before anything is touched


def about(file: Path) -> dict[str, Any]:
    """The description in a journal; empty if there is no journal, or it has none yet.

    Nothing is changed, and no file is created: not even those of SQLite beside a database.
    """
    if not file.is_file() or not file.stat().st_size:
        return {}
    try:
        wal = file.with_name(f"{file.name}-wal")
        has_more = wal.is_file() and wal.stat().st_size > 0
        try:
            known = _about(f"{file.absolute().as_uri()}?mode=ro&immutable=1")
        except sqlite3.Error:
            if not has_more:
                raise
            known = {}
        if known or not has_more:
            return known
        with TemporaryDirectory() as folder:  # the page may still be in the write-ahead file, and a bad one of no use
            return _about(f"{copied(file, Path(folder)).as_uri()}?mode=rw")
    except sqlite3.Error as error:
        is_foreign = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_NOTADB
        fault = "is not a journal, or its first page is damaged" if is_foreign else "is damaged"
        raise JournalError(
            f"{file} {fault}: its table about cannot be read ({error}); "
            "restore it from a copy, or start with an empty one: set another journal.folder"
        ) from None
    except OSError as error:
        raise JournalError(f"{file}: {error.strerror or error}") from None


def _about(uri: str) -> dict[str, Any]:
    with closing(sqlite3.connect(uri, uri=True)) as disk:
        if disk.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone() is None:
            return {}
        return dict(disk.execute("SELECT name, value FROM about"))


def check_format(file: Path, known: dict[str, Any]) -> None:
    """Raise `JournalError` if a journal has another format: names it, the readable ones, and what to do."""
    found = known.get("format")
    if found in READABLE:
        return
    if type(found) is not int:
        raise JournalError(f"{file} is not a journal: it has no format number. Nothing was changed")
    whose = f" of broker {known['broker']!r}" if "broker" in known else ""
    is_later, past = found > FORMAT, PAST.get(found, "")
    written_by = "a later version" if is_later else "an earlier version"
    advice = "start that version" if is_later else "start that version to drain it"
    raise JournalError(
        f"{file}: this journal{whose} has format {found}{past}, written by {written_by} of Godwit; this version "
        f"reads formats {' and '.join(map(str, READABLE))}. Either {advice}, or move the folder away and start with an "
        "empty journal. Nothing was changed"
    )


def _check_broker(file: Path, known: dict[str, Any], broker: str) -> None:
    if known.get("broker") != broker:
        raise JournalError(f"{file} is the journal of broker {known.get('broker')!r}, not {broker!r}")


def new_incarnation() -> int:
    """A number higher than that of any earlier incarnation."""
    return time_ns() // 1_000_000
