"""Files of a peer, named by a hash of their content: stored completely or not at all, resumed after a kill, checked
when read.

*Theory.* A content is a sequence of bytes. Its name is their SHA-256. It is one file, so that a transfer can hand it to
the network without a copy (`os.sendfile`), and its *manifest* says the SHA-256 of each chunk of 1 MiB: so a part of it
can be checked as soon as it has arrived, from whichever peer.

What is not whole yet is a *draft* (`content_drafts.py`): a file in another folder, with a row for each chunk that is in
it. A draft has a key, by which it is found again after a kill. A draft with a manifest is a content that comes from
other peers, in any order; one without is a file or stream that is stored here.

*Rules.*
1. A content is there when its draft was finished: every chunk is in it, and the whole has the hash that it is named by.
   File, name and row are on the disk when `finish` returns.
2. A chunk counts when it was written wholly. After a kill all that counted are there. The end of the power may take
   some: those that were not synced are read and checked when the draft is opened again.
3. A chunk that has another hash than the manifest says is refused: the draft stays as it was.
4. A full disk, or a limit, is a `ContentError`; what was stored before stays, and nothing is half there.
5. Contents that nobody names are removed by `collect`, and by nothing else. One that is just being stored is kept for
   `stored_before`: the change that names it may not be written yet. A draft stays for `DRAFT_S` after it was last
   opened or synced, and as long as it is open.
6. A folder is used by one process (the repository's lock), from any thread: a lock is held while something changes,
   never while data is read or hashed.
"""

import os
import shutil
from collections.abc import Collection, Iterator
from hashlib import sha256
from pathlib import Path
from threading import RLock
from time import time
from typing import BinaryIO, NamedTuple
from weakref import WeakSet

from godwit.errors import ContentError
from godwit.teamwork.content_drafts import Draft, named_errors, stored_chunks
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest
from godwit.teamwork.sqlite_file import Layout, SqliteFile

__all__ = ["ContentFiles", "Limits"]

FORMAT = 1
DRAFT_S = 7 * 86_400.0  # for which a transfer that was interrupted can be taken up again
FILE = "contents.sqlite"
LAYOUT = Layout(
    "godwit: contents of a peer",
    FORMAT,
    """
CREATE TABLE contents (
    name BLOB PRIMARY KEY, size INTEGER NOT NULL, chunks BLOB NOT NULL, stored REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE drafts (
    number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, name BLOB, size INTEGER, chunks BLOB,
    finished BLOB, touched REAL NOT NULL
);
CREATE TABLE draft_chunks (
    draft INTEGER, number INTEGER, hash BLOB NOT NULL, size INTEGER NOT NULL, is_synced INTEGER NOT NULL,
    PRIMARY KEY (draft, number)
) WITHOUT ROWID
""",
)


class Limits(NamedTuple):
    """How much may be stored. None: as much as the disk takes."""

    bytes_max: int | None = None
    """Of all contents and drafts together."""
    file_bytes_max: int | None = None
    """Of one content."""


NO_LIMITS = Limits()


class ContentFiles:
    """The contents in a folder."""

    def __init__(self, folder: Path, limits: Limits = NO_LIMITS) -> None:
        self.folder, self.limits = folder, limits
        self._drafts = folder / "drafts"
        self._lock = RLock()
        self._in_use: WeakSet[Draft] = WeakSet()
        with named_errors(folder):
            self._drafts.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = SqliteFile(folder / FILE, LAYOUT, durable=False)
        self._used = 0
        with self._lock:
            self._finish_interrupted()
            self._used = self._counted()

    def close(self) -> None:
        """Give the folder back."""
        self._file.close()

    # ------------------------------------------------------------ contents

    def __contains__(self, name: bytes) -> bool:
        return self.manifest(name) is not None

    def names(self) -> list[bytes]:
        """All contents."""
        with self._lock:
            return [name for (name,) in self._file.rows("SELECT name FROM contents")]

    def manifest(self, name: bytes) -> Manifest | None:
        """The hashes of a content; None when it is not here."""
        with self._lock:
            found = self._file.row("SELECT size, chunks FROM contents WHERE name = ?", [name])
        return Manifest(name, *found) if found else None

    @property
    def bytes_used(self) -> int:
        """What contents and drafts take together."""
        return self._used

    def path(self, name: bytes) -> Path:
        """The file of a content, for `os.sendfile`. It may be opened; nobody may write to it."""
        return self.folder / name[:1].hex() / name.hex()

    def open(self, name: bytes) -> BinaryIO:
        """The file of a content, opened for reading. It can be read to its end also if it is removed meanwhile."""
        try:
            return self.path(name).open("rb")
        except FileNotFoundError:
            raise ContentError(f"the content {name.hex()} is not here") from None

    def chunk(self, name: bytes, number: int) -> bytes:
        """A chunk, checked against its hash."""
        manifest = self._known(name)
        with self.open(name) as file, named_errors(self.path(name)):
            data = os.pread(file.fileno(), manifest.chunk_size(number), number * CHUNK_BYTES)
        if sha256(data).digest() != manifest.hash_of(number):
            raise ContentError(f"chunk {number} of {self.path(name)} is damaged: fetch the file from another peer")
        return data

    def chunks(self, name: bytes) -> Iterator[bytes]:
        """All chunks in order, each checked against its hash when it is read."""
        for number in range(self._known(name).chunk_count):
            yield self.chunk(name, number)

    def damaged_chunks(self, name: bytes) -> list[int]:
        """The chunks whose file is not what was stored."""
        manifest = self._known(name)
        found = []
        for number in range(manifest.chunk_count):
            try:
                self.chunk(name, number)
            except ContentError:
                found.append(number)
        return found

    def _known(self, name: bytes) -> Manifest:
        manifest = self.manifest(name)
        if manifest is None:
            raise ContentError(f"the content {name.hex()} is not here")
        return manifest

    # ------------------------------------------------------------ storing

    def store(self, source: BinaryIO | Path, key: str = "") -> Manifest:
        """Store a file or stream. With a key, chunks that were written before a kill are not written again."""
        if isinstance(source, Path):
            with named_errors(source):
                file = source.open("rb")
            with file:
                return self.store(file, key)
        draft = self.draft(key or f"stream {os.urandom(8).hex()}")
        try:
            count = 0
            while data := _next_chunk(source):
                draft.put(count, data)
                count += 1
            return draft.finish(count)
        except BaseException:
            if key:
                draft.close()
            else:
                draft.discard()
            raise

    def draft(self, key: str, manifest: Manifest | None = None) -> Draft:
        """A draft to write, or the one of this key that was begun before. (rule 2)"""
        with self._lock:
            found = self._file.row("SELECT number, name, size, chunks FROM drafts WHERE key = ?", [key])
            if found is None:
                number = self._begin(key, manifest)
            else:
                number, known = found[0], Manifest(*found[1:]) if found[1] is not None else None
                if manifest is not None and manifest != known:
                    raise ContentError(f"the draft {key!r} is of another content: discard it first")
                manifest = known
                self._file.run("UPDATE drafts SET touched = ? WHERE number = ?", (time(), number))
            draft = Draft(self, self._file, self._lock, number, key, self._drafts / str(number), manifest)
            self._in_use.add(draft)
            return draft

    def _begin(self, key: str, manifest: Manifest | None) -> int:
        if manifest is not None:
            manifest.check()
            self.check_room(manifest.size, of_one=manifest.size)
            if manifest.size > shutil.disk_usage(self._drafts).free:
                raise ContentError(f"there is no room on the disk for {manifest.size:,} bytes below {self.folder}")
        name, size, chunks = manifest or (None, None, None)
        values = (key, name, size, chunks, time())
        statement = "INSERT INTO drafts (key, name, size, chunks, touched) VALUES (?, ?, ?, ?, ?)"
        return int(self._file.run(statement, values).lastrowid or 0)

    def drafts(self) -> list[str]:
        """The keys of all drafts."""
        with self._lock:
            return [key for (key,) in self._file.rows("SELECT key FROM drafts ORDER BY number")]

    def check_room(self, more: int, of_one: int) -> None:
        """Refuse what goes beyond the limits. (rule 4)"""
        total, single = self.limits
        if single is not None and of_one > single:
            raise ContentError(f"the file has at least {of_one:,} bytes; {single:,} are allowed")
        if total is not None and self._used + more > total:
            raise ContentError(
                f"there is no room for {more:,} more bytes: {self._used:,} of {total:,} are used; "
                "remove documents, or raise the limit"
            )

    def count_bytes(self, more: int) -> None:
        """So many more bytes are used."""
        self._used += more

    # ------------------------------------------------------------ removing

    def collect(self, named: Collection[bytes], stored_before: float, drafts_before: float | None = None) -> int:
        """Remove contents that are not named and were stored before a time; the bytes that are free now. (rule 5)

        Drafts that are not open and were last used before `drafts_before` (default: `DRAFT_S` ago) go, too.
        """
        drafts_before = time() - DRAFT_S if drafts_before is None else drafts_before
        freed = 0
        kept = set(named)
        with self._lock:
            old = self._file.rows("SELECT name, size FROM contents WHERE stored < ?", [stored_before])
            for name, size in old:
                if name not in kept:
                    self._file.run("DELETE FROM contents WHERE name = ?", [name])
                    self.path(name).unlink(missing_ok=True)
                    freed += size
            self._used -= freed
            in_use = {draft.number for draft in self._in_use if draft.is_open}
            old_drafts = self._file.rows("SELECT number, key FROM drafts WHERE touched < ?", [drafts_before])
            for number, key in old_drafts:
                if number in in_use:
                    continue
                draft = self.draft(key)
                freed += draft.bytes_written
                draft.discard()
            self._remove_strays()
        return freed

    def _remove_strays(self) -> None:
        """Remove files without a row, which a kill left behind."""
        known = {name.hex() for name in self.names()}
        drafts = {str(number) for (number,) in self._file.rows("SELECT number FROM drafts")}
        for folder in self.folder.iterdir():
            kept = drafts if folder == self._drafts else known
            if folder.is_dir():
                for path in folder.iterdir():
                    if path.name not in kept:
                        path.unlink(missing_ok=True)

    def _finish_interrupted(self) -> None:
        """A draft whose file has its last name already was finished but for its row. (rule 1)"""
        for number, name in self._file.rows("SELECT number, finished FROM drafts WHERE finished IS NOT NULL"):
            if self.path(name).exists() and not (self._drafts / str(number)).exists():
                chunks = stored_chunks(self._file, number)
                size, hashes = sum(chunk[2] for chunk in chunks), b"".join(chunk[1] for chunk in chunks)
                self.add(number, Manifest(name, size, hashes))

    def add(self, draft: int, manifest: Manifest) -> None:
        """A draft is a content now."""
        if manifest.name in self:
            self._used -= manifest.size  # it has taken the place of an equal one
        with self._file.durable_transaction():
            self._file.run("INSERT OR REPLACE INTO contents VALUES (?, ?, ?, ?)", (*manifest, time()))
            self._file.run("DELETE FROM draft_chunks WHERE draft = ?", [draft])
            self._file.run("DELETE FROM drafts WHERE number = ?", [draft])

    def _counted(self) -> int:
        contents, drafts = (
            self._file.row(f"SELECT coalesce(sum(size), 0) FROM {table}")[0] for table in ("contents", "draft_chunks")
        )
        return int(contents + drafts)


def _next_chunk(source: BinaryIO) -> bytes:
    """The next chunk of a stream, which may give less at a time; b"" at its end."""
    data = source.read(CHUNK_BYTES)
    while data and len(data) < CHUNK_BYTES and (more := source.read(CHUNK_BYTES - len(data))):
        data += more
    return data
