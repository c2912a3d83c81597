"""The journal: what a broker was told, on disk before anything that it does about it leaves the process.

*Theory.* A broker's state is a function of its inputs. So the disk holds the inputs, in batches: one row and one
transaction each. Now and then the state of the machine is written as a snapshot (`codec/snapshots.py`), and the batches
before it go. After a crash the last snapshot is loaded and the batches behind it are handled again, with effects muted
(`node.py`).

| durability | a batch is safe when | survives |
|---|---|---|
| `full` | it is on the disk (fsync) | the end of the process, and of the power |
| `relaxed` | the operating system has it | the end of the process; the end of the power takes the last seconds |
| `memory` | there is no journal | nothing: the broker comes back as a new life |

A disk may lose what was safe: a damaged write-ahead file, a file that is gone, an older copy that was put back. The
mark (`journal_marks.py`) says how far the journal went, and `journal_checks.py` what is missing. With `relaxed`, a lost
tail is what was agreed on: the broker goes on as a new incarnation by itself. Anything else is refused until the
operator accepts the loss.

*Rules.*
1. `append` returns when the batch is safe. When it raises, nothing of the batch is in the journal, and it may be tried
   again.
2. A snapshot replaces what came before it in one transaction: there is no moment with neither. On a disk that is full,
   a journal of that snapshot alone takes the place of this one (`journal_space.py`).
3. A journal that cannot be read is never overwritten: `JournalError` says what is wrong with which file. Each batch has
   a chained checksum, and each snapshot one of its own, since SQLite has none for what it holds.
4. One process at a time: a second one that opens the same journal is refused. Others may look at a copy
   (`journal_copies.py`).
5. The numbers of batches count on over restarts.
6. A journal of another format, or of another broker, is refused before anything is written: its files stay as they
   are, to the byte. The table `about` says of which format a journal is (`FORMAT`), and what its parts look like.
7. Every journal that is begun has an `incarnation` of its own: neighbours of a broker that has lost its disk see by it
   that this is another life, and tell it all again. A broker without a journal takes `new_incarnation` at each start.
8. A journal that has lost something is refused, unless it is the tail of a `relaxed` one or the loss is accepted
   (`accept_loss`). Refused, its files stay as they are. Otherwise `loss` says what is missing, and the first batch that
   is appended must tell the machine of it: with that batch, in one transaction, the loss counts as told. Until then it
   is found again at each start.
9. What is given up is moved to a folder `lost-…` beside the journal, or a copy of it is, and never deleted.
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
from typing import Any, Literal
from zlib import crc32

from godwit.codec import snapshots
from godwit.errors import JournalError
from godwit.files import synced
from godwit.locking import locked
from godwit.runtime import wire
from godwit.runtime.journal_checks import BatchDamage, Loss, about_checksum, examined, loss_of, verified
from godwit.runtime.journal_copies import copied
from godwit.runtime.journal_marks import MARK, MarkFile, chained, first_chain
from godwit.runtime.journal_space import DRAFT, JournalSpace

__all__ = ["DURABILITIES", "Durability", "Journal", "about", "check_format", "new_incarnation"]

Durability = Literal["memory", "relaxed", "full"]
DURABILITIES: tuple[Durability, ...] = ("memory", "relaxed", "full")

FILE = "journal.sqlite"
LOCK = "journal.lock"
COPY = "copy-"
FORMAT = 4
PAST = {**dict.fromkeys((1, 2), " (snapshots are pickles)"), 3: " (nothing says how far it went)"}
"""What is known of earlier formats."""

LAYOUT = {
    "what": "godwit journal",
    "batches": "MessagePack: a list of inputs, each {at, kind, name, data}",
    "messages": f"native wire format, version {wire.VERSION}",
    "snapshots": f"{snapshots.FORMAT}, version {snapshots.VERSION}",
    "chains": "BLAKE2b, 16 bytes: the chain before, the number of the batch (8 bytes, lowest first), its data",
    "mark": f"{MARK}: the last batch that was safe",
}
"""What stands in a journal about itself, for whoever looks into one or has to convert it."""

SYNCHRONOUS = {"relaxed": "NORMAL", "full": "FULL"}
"""`NORMAL` syncs whenever the write-ahead file is emptied: so what is left after the end of the power is whole."""

CHECKPOINT_PAGES = 250
"""After so many pages (1 MB) the batch that comes next also empties the write-ahead file, which takes about 3 ms. With
4,000 pages it took 30 to 50 ms, and everybody's answers waited; as much is written per second either way."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value, checksum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (number INTEGER PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL,
    chain BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (number INTEGER PRIMARY KEY, at REAL NOT NULL, data BLOB NOT NULL,
    chain BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS losses (number INTEGER NOT NULL, mark_sequence INTEGER NOT NULL, at REAL NOT NULL,
    missing TEXT NOT NULL);
"""


class Journal:
    """The journal of one broker, in a folder of its own. To be used by one thread at a time."""

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
        self.is_cramped = False  # a snapshot is due, for want of room
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
        """Refuse a journal of another format or broker, before anything is touched. (rule 6)"""
        try:
            known = about(file)
        except JournalError:
            if not accept_loss:
                raise
            return
        if known:
            check_format(file, known)
            _check_broker(file, known, broker)

    def _examine(self, file: Path, durability: Durability, *, accept_loss: bool) -> Loss | None:
        """What is missing. `JournalError` when the broker must not go on from there. (rule 8)"""
        mark = self._mark
        content = examined(file, mark.last)
        self.losses = 0 if content is None else content.losses
        loss = loss_of(content, mark.last, has_mark_file=mark.is_there)
        self._is_new = content is None or (loss is not None and loss.kept < 0)
        if loss is None:
            return None
        if not accept_loss and not (loss.is_tail and durability == "relaxed"):
            raise JournalError(
                f"{file}: {loss.missing}. Put the right files back, or go on without what is missing with "
                "godwit serve --accept-loss: neighbours and clients are told. Nothing was changed"
            )
        self.losses += 1
        if not loss.is_tail or durability == "full":
            self._put_aside(loss, is_damaged=content is not None and content.damage != "")
        return loss if loss.kept < 0 else loss._replace(incarnation=new_incarnation())

    def _put_aside(self, loss: Loss, *, is_damaged: bool) -> None:
        """Keep the files as they are in another folder; go on with what is good of them. (rule 9)"""
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
        """Open the file for writing, and go on behind what is left."""
        if self._is_new and self._mark.last is None:
            self._mark.begin(new_incarnation())  # before the journal: one that was begun has a mark
        for left in self.folder.glob(f"{COPY}*.sqlite"):  # by a process that was killed
            left.unlink(missing_ok=True)
        disk = self._disk = self._connected(file)
        disk.executescript(SCHEMA)
        known = dict(disk.execute("SELECT name, value FROM about"))
        if not known:
            assert self._mark.last is not None
            known = {"format": FORMAT, "broker": broker, "incarnation": self._mark.last.incarnation, **LAYOUT}
            self._tell_about(known)
        self.incarnation = int(known["incarnation"])
        last, chain = self._start()
        row = disk.execute("SELECT number, chain FROM batches ORDER BY number DESC LIMIT 1").fetchone()
        self.number = last if row is None else max(last, row[0])
        self._chain: bytes = chain if row is None or row[0] < last else row[1]
        self._space.keep(0)

    def _connected(self, file: Path) -> sqlite3.Connection:
        disk = sqlite3.connect(file, isolation_level=None, check_same_thread=False, cached_statements=32)
        disk.execute("PRAGMA locking_mode = EXCLUSIVE")  # or each append would take and release six locks
        disk.execute("PRAGMA journal_mode = WAL")
        disk.execute(f"PRAGMA synchronous = {SYNCHRONOUS[self._durability]}")
        disk.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        return disk

    def _tell_about(self, known: dict[str, Any]) -> None:
        """Let a journal that begins say what it is."""
        with self._transaction():
            rows = [(name, value, about_checksum(name, value)) for name, value in known.items()]
            self._disk.executemany("INSERT INTO about VALUES (?, ?, ?)", rows)
            if self.loss is not None:
                self._tell_loss(self.loss)

    def _tell_loss(self, loss: Loss) -> None:
        row = (max(0, loss.kept), loss.mark_sequence, time(), loss.missing)
        self._disk.execute("INSERT INTO losses VALUES (?, ?, ?, ?)", row)

    def _start(self) -> tuple[int, bytes]:
        """What the batches are behind: the last snapshot, or nothing."""
        row = self._disk.execute("SELECT number, chain FROM snapshots ORDER BY number DESC LIMIT 1").fetchone()
        return (0, first_chain(self.incarnation)) if row is None else row

    def recall(self, name: str) -> str | None:
        """What was remembered under a name; None: nothing."""
        with self._said_well():
            row = self._disk.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def remember(self, name: str, text: str) -> None:
        """Keep a text under a name, in the place of what it was."""
        with self._said_well():
            row = (name, text, about_checksum(name, text))
            self._disk.execute("INSERT OR REPLACE INTO about VALUES (?, ?, ?)", row)

    def append(self, data: bytes) -> int:
        """Write a batch; its number, once it is safe."""
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
            self._tell_loss(loss)
            self._disk.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)

    def snapshot(self, number: int, data: bytes) -> None:
        """The machine as it was after batch `number`: what is older goes.

        One number more than there are batches stands for inputs that could not be appended: the machine has them.
        """
        assert number <= self.number + 1
        with self._said_well():
            chain = self._chain
            if number < self.number:
                chain = self._chain_at(number)
            elif number > self.number:
                chain = chained(chain, number, data)
            row = (number, time(), data, chain, crc32(data))
            if self.is_cramped or number > self.number:
                self._start_over(row)
            else:
                try:
                    self._replace(row)
                except sqlite3.Error:  # there is no room for both, or so it seems
                    self._start_over(row)
            behind = "SELECT ifnull(sum(length(data)), 0) FROM batches WHERE number > ?"
            self.bytes_since_snapshot = self._disk.execute(behind, (number,)).fetchone()[0]
        self.snapshot_bytes, self.is_cramped = len(data), False
        if number > self.number:
            self.number, self._chain, self.loss = number, chain, None
            self._mark.write(self.incarnation, number, chain, is_synced=self._is_synced)
        self._space.keep(len(data))

    def _chain_at(self, number: int) -> bytes:
        """The chain up to a batch, or up to the snapshot that stands for it."""
        for table in ("batches", "snapshots"):
            row = self._disk.execute(f"SELECT chain FROM {table} WHERE number = ?", (number,)).fetchone()
            if row is not None:
                return bytes(row[0])
        raise JournalError(f"{self.folder / FILE}: there is no batch {number}")

    def _replace(self, snapshot: tuple[int, float, bytes, bytes, int]) -> None:
        """Put a snapshot in the place of what it stands for."""
        number = snapshot[0]
        with self._transaction():
            self._disk.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)", snapshot)
            self._disk.execute("DELETE FROM snapshots WHERE number < ?", (number,))
            self._disk.execute("DELETE FROM batches WHERE number <= ?", (number,))

    def _start_over(self, snapshot: tuple[int, float, bytes, bytes, int]) -> None:
        """Put a journal with this snapshot and what comes behind it in the place of this one, where the reserve was."""
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
                    told = (max(0, self.loss.kept), self.loss.mark_sequence, time(), self.loss.missing)
                    disk.execute("INSERT INTO losses VALUES (?, ?, ?, ?)", told)
                disk.execute("INSERT INTO snapshots VALUES (?, ?, ?, ?, ?)", snapshot)
                for row in self._disk.execute("SELECT * FROM batches WHERE number > ?", (snapshot[0],)):
                    disk.execute("INSERT INTO batches VALUES (?, ?, ?, ?)", row)
                disk.execute("COMMIT")
            self._space.commit()
        except (OSError, sqlite3.Error) as error:
            draft.unlink(missing_ok=True)
            self._space.keep(self.snapshot_bytes)
            raise JournalError(f"{file}: no room for a snapshot: {error}") from None
        with suppress(sqlite3.Error):  # it would empty its write-ahead file, for which there may be no room
            self._disk.close()
        self._space.finish(file)
        self._disk = self._connected(file)

    def last_snapshot(self) -> tuple[int, bytes] | None:
        """The number of the last batch in it, and the machine."""
        with self._said_well():
            select = "SELECT number, data, checksum FROM snapshots ORDER BY number DESC LIMIT 1"
            row = self._disk.execute(select).fetchone()
        if row is None:
            return None
        number, data, checksum = row
        if crc32(data) != checksum:
            raise JournalError(f"{self.folder / FILE}: snapshot {number} is not as it was written")
        self.snapshot_bytes = len(data)
        return number, data

    def batches(self, after: int) -> Iterator[bytes]:
        """The batches behind a number, in order, without a hole."""
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
        """Copy the journal as it is now into one new file of its folder. To be called between two batches."""
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
        """Let go of the files."""
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
    """A journal of what is good in a damaged one: all up to a batch."""
    salvaged = aside / f"{FILE}.good"
    with closing(sqlite3.connect(salvaged, isolation_level=None)) as disk:
        disk.executescript(SCHEMA)
        disk.execute("ATTACH ? AS damaged", (str(aside / FILE),))
        disk.execute("BEGIN")
        disk.execute("INSERT INTO about SELECT * FROM damaged.about")
        disk.execute("INSERT INTO losses SELECT * FROM damaged.losses")
        disk.execute("INSERT INTO snapshots SELECT * FROM damaged.snapshots ORDER BY number DESC LIMIT 1")
        start = disk.execute("SELECT ifnull(max(number), 0) FROM snapshots").fetchone()[0]
        for number in range(start + 1, kept + 1):  # one by one: what comes behind may not be readable
            disk.execute("INSERT INTO batches SELECT * FROM damaged.batches WHERE number = ?", (number,))
        disk.execute("COMMIT")
    synced([salvaged])
    return salvaged


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
        with TemporaryDirectory() as folder:  # what it says may not have left the write-ahead file yet
            return _about(f"{copied(file, Path(folder)).as_uri()}?mode=rw")
    except sqlite3.Error as error:
        raise JournalError(
            f"{file} is damaged: its table about cannot be read ({error}); "
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
    """`JournalError` when a journal has another format: what it is, what can be read here, and what to do."""
    found = known.get("format")
    if found == FORMAT:
        return
    if type(found) is not int:
        raise JournalError(f"{file} is not a journal: it has no format number. Nothing was changed")
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
