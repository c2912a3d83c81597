"""Loss detection: the content of a journal is compared with its mark, before anything is written.

*Theory.* `examined` reads a journal without changing it and follows the chain of its batches from the last snapshot on.
`loss_of` compares that with the mark (`journal_marks.py`). There are three results: the journal is complete; it has
lost its *tail*, the last batches, and the rest is undamaged; or it has lost more, so that a person must decide. The
rest of a journal is undamaged up to a batch, and a new incarnation may continue from there.

*Rules.*
1. Reading changes no file, not even those of SQLite beside a database. So a refused start has changed nothing, and data
   after a damaged place can still be rescued.
2. An accepted loss is not found again: the table `losses` has the sequence of the mark that revealed it.
3. A journal that is ahead of its mark is complete.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from godwit.runtime.journal_marks import MARK, Mark, chained, first_chain
from godwit.runtime.journal_snapshots import newest

__all__ = ["BatchDamage", "Content", "Loss", "about_checksum", "examined", "loss_of", "verified"]


class BatchDamage(Exception):
    """A batch is missing, or is not as it was written. `number` is that of the last one before."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


class Loss(NamedTuple):
    """Data that a journal has lost after it was safe."""

    missing: str  # for people
    batches: int  # number of batches; 0: unknown
    kept: int  # the last batch that is left; -1: nothing to continue from
    since: float  # when that was written; 0: not known
    is_tail: bool  # the last seconds of writing, and nothing else
    mark_sequence: int  # of the mark that revealed it
    incarnation: int = 0  # the next incarnation of the broker; 0: with an empty journal


class Content(NamedTuple):
    """The content of a journal."""

    incarnation: int
    number: int  # of the last batch up to which everything is undamaged
    at: float  # when it was written; 0: not known
    chain_at_mark: bytes | None  # of the batch that the mark names; None: unknown or missing
    damage: str  # the damage after that batch; "": none
    is_usable: bool  # the machine can be restored from it
    losses: int  # that were accepted
    losses_sequence: int  # of the newest mark that revealed one


def about_checksum(name: str, value: object) -> int:
    """The checksum of a row of the table `about`."""
    return crc32(f"{name}={value}".encode())


def verified(disk: sqlite3.Connection, after: int, chain: bytes) -> Iterator[tuple[int, float, bytes, bytes]]:
    """The batches after one whose chain is given: number, time, data, chain. `BatchDamage` at the first damaged one."""
    rows = disk.execute("SELECT number, at, data, chain FROM batches WHERE number > ? ORDER BY number", (after,))
    for number, at, data, known in rows:
        if number != after + 1:
            raise BatchDamage(f"batch {after + 1} is missing before batch {number}", after)
        chain = chained(chain, number, data)
        if chain != known:
            raise BatchDamage(f"batch {number} is not as it was written", after)
        after = number
        yield number, at, data, chain


def examined(file: Path, mark: Mark | None) -> Content | None:
    """Examine a whole journal without changing it; None if there is none. (rule 1)"""
    if not file.is_file() or not file.stat().st_size:
        return None
    has_more = file.with_name(f"{file.name}-wal").is_file()
    uri = f"{file.absolute().as_uri()}?mode=ro{'' if has_more else '&immutable=1'}"
    incarnation, losses, sequence = 0, 0, 0
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as disk:
            disk.execute("BEGIN")
            if disk.execute("SELECT 1 FROM sqlite_master WHERE name = 'losses'").fetchone() is None:
                return None  # killed before the description was written, or it was lost
            for name, value, checksum in disk.execute("SELECT name, value, checksum FROM about"):
                if about_checksum(name, value) != checksum:
                    return _unusable(incarnation, f"its entry {name!r} is not as it was written")
                if name == "incarnation":
                    incarnation = int(value)
            if not incarnation:
                return None
            losses, sequence = disk.execute("SELECT count(*), ifnull(max(mark_sequence), 0) FROM losses").fetchone()
            return _followed(disk, incarnation, mark, losses, sequence)
    except (sqlite3.Error, ValueError, TypeError) as error:
        return _unusable(incarnation, f"it cannot be read: {error}")


def _followed(
    disk: sqlite3.Connection, incarnation: int, mark: Mark | None, losses: int, losses_sequence: int
) -> Content:
    number, at, chain = 0, 0.0, first_chain(incarnation)
    if (snapshot := newest(disk)) is not None:
        number, at, chain = snapshot.number, snapshot.at, snapshot.chain
        if not snapshot.is_whole:
            return _unusable(incarnation, f"snapshot {number} is not as it was written")
    found = chain if mark is not None and mark.number == number else None
    damage = ""
    try:
        for batch in verified(disk, number, chain):
            number, at = batch[:2]
            if mark is not None and mark.number == number:
                found = batch[3]
    except BatchDamage as error:
        damage = str(error)
    except sqlite3.Error as error:
        damage = f"nothing can be read behind batch {number}: {error}"
    return Content(incarnation, number, at, found, damage, True, losses, losses_sequence)


def _unusable(incarnation: int, damage: str) -> Content:
    return Content(incarnation, 0, 0.0, None, damage, False, 0, 0)


def loss_of(content: Content | None, mark: Mark | None, *, has_mark_file: bool) -> Loss | None:
    """The loss of a journal, by its content and its mark; None if there is none. Without content there is no
    journal."""
    if content is None:
        if not has_mark_file or (mark is not None and not mark.number):  # never begun, or not used
            return None
        what = f"the journal is gone: {_written(mark)}"
        return Loss(what, 0 if mark is None else mark.number, -1, 0.0, False, 0)
    kept, sequence = content.number, 0 if mark is None else mark.sequence
    if not content.is_usable:
        return Loss(
            f"the journal is damaged: {content.damage}. {_written(mark).capitalize()}", 0, -1, 0.0, False, sequence
        )
    if content.damage and mark is None:
        what = f"the journal is damaged: {content.damage}. Good up to {_batch(kept, content.at)}; {_written(mark)}"
        return Loss(what, 0, kept, content.at, False, sequence)
    if mark is None:
        state = "is damaged" if has_mark_file else "is gone"
        what = f"{MARK} {state}: it cannot be told whether all of the journal is there behind batch {kept}"
        return Loss(what, 0, kept, content.at, False, sequence)
    if mark.incarnation != content.incarnation:
        what = f"the journal is not the one that {MARK} belongs to, but an older or another one; {_written(mark)}"
        return Loss(what, 0, -1, 0.0, False, sequence)
    is_told = mark.sequence <= content.losses_sequence  # rule 2
    missing = 0 if is_told else max(0, mark.number - kept)
    if content.damage:
        what = f"the journal is damaged: {content.damage}. Good up to {_batch(kept, content.at)}; {_written(mark)}"
        return Loss(what, missing, kept, content.at, False, sequence)
    if missing:
        which = f"batch {mark.number} is" if missing == 1 else f"batches {kept + 1} to {mark.number} are"
        what = f"{which} missing at the end of the journal, {_span(kept, content.at, mark)}"
        return Loss(what, missing, kept, content.at, kept >= mark.settled, sequence)
    if not is_told and content.chain_at_mark not in (None, mark.chain):
        what = (
            f"batch {mark.number} is another one than was written there at {_time(mark.at)}: an older or another copy"
        )
        return Loss(what, 0, kept, content.at, False, sequence)
    return None


def _written(mark: Mark | None) -> str:
    if mark is None:
        return f"{MARK} cannot be read either"
    return f"{mark.number} batches were written, the last at {_time(mark.at)}"


def _batch(number: int, at: float) -> str:
    return f"batch {number} of {_time(at)}" if at else f"batch {number}"


def _span(kept: int, at: float, mark: Mark) -> str:
    """The time span of the missing batches."""
    return f"written after {_time(at)} and up to {_time(mark.at)}" if kept and at else f"written up to {_time(mark.at)}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(sep=" ", timespec="milliseconds")
