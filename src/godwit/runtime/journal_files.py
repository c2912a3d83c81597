"""Journals as files, without a broker: inspection, verification, and restoring a backup.

*Theory.* A copy of a journal is one SQLite file (`Journal.backup`). The mark that belongs to it follows from its last
batch, so it is written when the copy is restored, before the journal itself takes its place.

*Rules.*
1. An inspected journal is not changed; that of a running broker is copied first (`journal_copies.py`).
2. A copy is verified completely before anything is written. A folder with a journal is not changed, unless requested:
   then its files are moved to a folder `replaced-…` beside the new ones.
3. A broker that starts from a copy has lost the later inputs. Neighbours and clients know more, and the broker begins a
   new incarnation as soon as it learns that (docs/guides/run.md).
"""

import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from godwit.codec.batch_chains import MARK, first_chain
from godwit.codec.journal_entries import ENTRIES
from godwit.codec.journal_losses import loss_of
from godwit.errors import JournalError
from godwit.files import synced
from godwit.locking import locked
from godwit.runtime.journal import FILE, LOCK, about, check_format, new_incarnation
from godwit.runtime.journal_checks import examined
from godwit.runtime.journal_copies import copied
from godwit.runtime.journal_marks import MarkFile
from godwit.runtime.journal_snapshots import newest

__all__ = ["inspected", "restored", "why_damaged"]

SHOWN = ("broker", "format", "incarnation", "snapshots", "messages")


def inspected(journal: Path) -> dict[str, Any]:
    """The content of a journal: its broker and format, snapshot, batches, kinds of inputs and accepted losses."""
    file = _file(journal)
    known = about(file)
    check_format(file, known)
    told: dict[str, Any] = {"file": str(file), **{name: known[name] for name in SHOWN if name in known}}
    try:
        with TemporaryDirectory() as folder, closing(sqlite3.connect(copied(file, Path(folder)))) as disk:
            snapshot = newest(disk)
            behind = (0 if snapshot is None else snapshot.number,)  # older batches are not valid any more
            count, first, last, size, began, ended = disk.execute(
                "SELECT count(*), min(number), max(number), ifnull(sum(length(data)), 0), min(at), max(at) "
                "FROM batches WHERE number > ?",
                behind,
            ).fetchone()
            told["batches"] = {"count": count, "first": first, "last": last, "bytes": size, "from": began, "to": ended}
            told["snapshot"] = None
            if snapshot is not None:
                told["snapshot"] = {"number": snapshot.number, "at": snapshot.at, "bytes": len(snapshot.data)}
            kinds: Counter[str] = Counter()
            for (data,) in disk.execute("SELECT data FROM batches WHERE number > ?", behind):
                kinds.update(entry.kind for entry in ENTRIES.decode(data))
            told["inputs"] = dict(sorted(kinds.items()))
            losses = disk.execute("SELECT number, at, missing FROM losses ORDER BY at").fetchall()
            told["losses"] = [dict(zip(("batch", "at", "missing"), row, strict=True)) for row in losses]
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise JournalError(f"{file} is damaged: {error}") from None
    return told


def why_damaged(journal: Path) -> str:
    """The damage of a journal; "" if there is none. A single file is taken for a copy, which has no mark."""
    file = _file(journal)
    check_format(file, about(file))
    with TemporaryDirectory() as folder:
        mark = MarkFile(file.with_name(MARK)) if journal.is_dir() else None  # first: a journal may be ahead of it
        last = None if mark is None else mark.last
        content = examined(copied(file, Path(folder)), last)
    if content is None:
        return "it has no content"
    if mark is None:
        return content.damage
    loss = loss_of(content, last, has_mark_file=mark.is_there)
    return "" if loss is None else loss.missing


def restored(copy: Path, folder: Path, *, replace: bool = False) -> dict[str, Any]:
    """Make a copy the journal of a folder. JournalError if that fails; then nothing was changed. (rule 2)"""
    if damage := why_damaged(copy):
        raise JournalError(f"{copy} cannot be restored: {damage}")
    file = _file(copy)
    known = about(file)
    incarnation = int(known["incarnation"])
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = locked(folder, LOCK, JournalError, "in use by another broker (process {})")
    try:
        before = [
            each for each in (folder / name for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", MARK)) if each.exists()
        ]
        if before and not replace:
            raise JournalError(f"{folder} has a journal already: move it away, or add --replace")
        draft = folder / f"{FILE}.restored"
        shutil.copyfile(file, draft)
        draft.chmod(0o600)
        synced([draft])
        aside = folder / f"replaced-{new_incarnation()}"
        if before:
            aside.mkdir(mode=0o700)
            for each in before:
                each.replace(aside / each.name)
        number, chain = _end_of(draft, incarnation)
        mark = MarkFile(folder / MARK)
        mark.begin(incarnation)
        if number:
            mark.write(incarnation, number, chain, is_synced=True)
        mark.close()
        draft.replace(folder / FILE)
        synced([folder / FILE])
    except OSError as error:
        raise JournalError(f"{folder}: {error.strerror or error}") from None
    finally:
        lock.close()
    return {
        "broker": known.get("broker"),
        "folder": str(folder),
        "batch": number,
        "replaced": str(aside) if before else None,
    }


def _end_of(file: Path, incarnation: int) -> tuple[int, bytes]:
    """The last batch of a journal, or the snapshot that stands for it, and its chain."""
    found: tuple[int, bytes] = (0, first_chain(incarnation))
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as disk:
        for table in ("snapshots", "batches"):
            row = disk.execute(f"SELECT number, chain FROM {table} ORDER BY number DESC LIMIT 1").fetchone()
            if row is not None and row[0] >= found[0]:
                found = (int(row[0]), bytes(row[1]))
    return found


def _file(journal: Path) -> Path:
    file = journal / FILE if journal.is_dir() else journal
    if not file.is_file():
        raise JournalError(f"there is no journal at {journal}: no {FILE}")
    return file
