"""A draft: a content that is being written, chunk by chunk, and can be resumed after a kill.

The rules are those of `content_files.py`. Chunks may be put by several threads at once.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock, RLock
from time import time
from typing import Protocol

from godwit.errors import ContentError
from godwit.files import synced
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest
from godwit.teamwork.sqlite_file import SqliteFile

__all__ = ["Draft", "FalseManifest", "Shelf", "named_errors", "stored_chunks"]

SYNC_CHUNKS = 64  # are written before they are synced: about so many are checked when a draft is opened again
HASH_CHUNKS = 4  # at most are hashed for the name of the whole when one is put
ZEROS = sha256(bytes(CHUNK_BYTES)).digest()
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FalseManifest(ContentError):
    """The whole has another hash than its manifest says, and all its chunks have the right one: nobody can give it."""


class Shelf(Protocol):
    """Where the draft goes when it is finished, and who counts its bytes."""

    def path(self, name: bytes) -> Path:
        """The file of a content."""
        ...

    def check_room(self, more: int, of_one: int) -> None:
        """Refuse so many more bytes, of a content that has so many then, if they are too many."""
        ...

    def count_bytes(self, more: int) -> None:
        """So many more bytes are used."""
        ...

    def add(self, draft: int, manifest: Manifest) -> None:
        """The draft is a content now."""
        ...


class Draft:
    """A content that is not whole yet."""

    def __init__(
        self,
        shelf: Shelf,
        tables: SqliteFile,
        lock: RLock,
        number: int,
        key: str,
        path: Path,
        manifest: Manifest | None,
    ) -> None:
        """`lock` is held when tables are used."""
        self.key, self.number, self.manifest, self._path = key, number, manifest, path
        self._shelf, self._tables, self._lock = shelf, tables, lock
        with named_errors(path):
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._chunks: dict[int, tuple[bytes, int]] = {}  # hash and size of each that is there
        self._unsynced: set[int] = set()
        self._bytes_written = 0
        self._whole, self._hashed = sha256(), 0  # of the first chunks, and how many these are
        self._hashing = Lock()  # of these two; taken after `lock`
        self._syncing = Lock()
        self._take_up()

    def _take_up(self) -> None:
        """Find what is there. Chunks that were not synced are checked. (rule 2)"""
        for number, hash, size, is_synced in stored_chunks(self._tables, self.number):
            self._chunks[number] = (hash, size)
            self._bytes_written += size
            if is_synced:
                continue
            self._unsynced.add(number)
            if sha256(self._read(number, size)).digest() != hash:
                self._forget(number, size)

    # ------------------------------------------------------------ what is there

    @property
    def is_open(self) -> bool:
        """Whether somebody may still write to it."""
        return self._handle >= 0

    @property
    def bytes_written(self) -> int:
        """The bytes of all chunks that are there."""
        return self._bytes_written

    def has(self, number: int) -> bool:
        """Whether a chunk is there."""
        return number in self._chunks

    def missing(self) -> list[int]:
        """The chunks that are still needed: of a manifest all that are not there, else the next one."""
        if self.manifest is not None:
            return [number for number in range(self.manifest.chunk_count) if number not in self._chunks]
        return [next(number for number in range(len(self._chunks) + 1) if number not in self._chunks)]

    # ------------------------------------------------------------ writing

    def put(self, number: int, data: bytes | memoryview, hash: bytes = b"") -> None:
        """Write a chunk. It counts when this returns. (rules 2 to 4) `hash`: its SHA-256, if that is known already."""
        hash = hash or sha256(data).digest()
        self._check(number, data, hash)
        known = self._chunks.get(number)
        if known is None or known[0] != hash:
            with self._lock:
                if known is not None:
                    self._forget(number, known[1])
                self._shelf.check_room(len(data), of_one=self.bytes_written + len(data))
            with named_errors(self._path):
                if hash == ZEROS and not self._read(number, CHUNK_BYTES).lstrip(b"\0"):  # leave a hole
                    _write(self._handle, b"\0", (number + 1) * CHUNK_BYTES - 1)
                else:
                    _write(self._handle, data, number * CHUNK_BYTES)
        with self._lock:
            if number not in self._chunks:
                row = (self.number, number, hash, len(data))
                self._tables.run("INSERT OR REPLACE INTO draft_chunks VALUES (?, ?, ?, ?, 0)", row)
                self._chunks[number] = (hash, len(data))
                self._bytes_written += len(data)
                self._unsynced.add(number)
                self._shelf.count_bytes(len(data))
        self._hash_on(number, data)
        if len(self._unsynced) >= SYNC_CHUNKS:
            self._sync()

    def _hash_on(self, number: int, data: bytes | memoryview) -> None:
        """Hash what follows the part that is hashed already, if it is there, so that little is left for the end."""
        if not self._hashing.acquire(blocking=False):
            return  # another thread does it
        try:
            for _ in range(HASH_CHUNKS):
                if self._hashed not in self._chunks:
                    return
                size = self._chunks[self._hashed][1]
                self._whole.update(data if self._hashed == number else self._read(self._hashed, size))
                self._hashed += 1
        finally:
            self._hashing.release()

    def _check(self, number: int, data: bytes | memoryview, hash: bytes) -> None:
        if self.manifest is not None:
            if len(data) != self.manifest.chunk_size(number) or hash != self.manifest.hash_of(number):
                raise ContentError(f"chunk {number} of {self.manifest.name.hex()} is not the one of the manifest")
        elif number < 0 or not 0 < len(data) <= CHUNK_BYTES:
            raise ContentError(f"a chunk has a number from 0 and 1 to {CHUNK_BYTES:,} bytes, not {len(data):,}")

    def _forget(self, number: int, size: int) -> None:
        """A chunk is not there any more."""
        self._tables.run("DELETE FROM draft_chunks WHERE draft = ? AND number = ?", (self.number, number))
        if self._chunks.pop(number, None) is not None:
            self._bytes_written -= size
            self._unsynced.discard(number)
            self._shelf.count_bytes(-size)
        with self._hashing:
            if number < self._hashed:
                self._whole, self._hashed = sha256(), 0

    def _sync(self) -> None:
        """Have all chunks on the disk."""
        if not self._syncing.acquire(blocking=False):
            return  # another thread does it; this one goes on meanwhile
        try:
            with self._lock:
                written = set(self._unsynced)
            with named_errors(self._path):
                os.fdatasync(self._handle)
            with self._lock:
                self._tables.run_many(
                    "UPDATE draft_chunks SET is_synced = 1 WHERE draft = ? AND number = ?",
                    [(self.number, number) for number in written],
                )
                self._tables.run("UPDATE drafts SET touched = ? WHERE number = ?", (time(), self.number))
                self._unsynced -= written
        finally:
            self._syncing.release()

    # ------------------------------------------------------------ the end

    def finish(self, chunk_count: int | None = None) -> Manifest:
        """Make a content of it. (rule 1) Of a draft without a manifest, `chunk_count` leaves out chunks behind it."""
        for number in [number for number in self._chunks if chunk_count is not None and number >= chunk_count]:
            with self._lock:
                self._forget(number, self._chunks[number][1])
        manifest = self._whole_manifest()
        target = self._shelf.path(manifest.name)
        with named_errors(self._path):
            os.ftruncate(self._handle, manifest.size)
            os.fsync(self._handle)
            with self._lock:
                self._tables.run("UPDATE drafts SET finished = ? WHERE number = ?", (manifest.name, self.number))
                target.parent.mkdir(mode=0o700, exist_ok=True)
                self._path.replace(target)
                synced([target.parent, target.parent.parent])
                self._shelf.add(self.number, manifest)
        self.close()
        return manifest

    def _whole_manifest(self) -> Manifest:
        """The manifest of what is there, which must be everything."""
        if missing := [number for number in range(len(self._chunks)) if number not in self._chunks]:
            raise ContentError(f"the draft {self.key!r} is not whole: chunk {missing[0]} is missing")
        if self.manifest is not None and (missing := self.missing()):
            raise ContentError(f"the draft {self.key!r} is not whole: {len(missing)} chunks are missing")
        short = [number for number, (_, size) in self._chunks.items() if size < CHUNK_BYTES]
        if short not in ([], [len(self._chunks) - 1]):
            raise ContentError(f"chunk {short[0]} of the draft {self.key!r} is too short: only the last one may be")
        for number in range(self._hashed, len(self._chunks)):
            self._whole.update(self._read(number, self._chunks[number][1]))
        self._hashed = len(self._chunks)
        name = self._whole.digest()
        if self.manifest is None:
            hashes = b"".join(self._chunks[number][0] for number in range(len(self._chunks)))
            return Manifest(name, self.bytes_written, hashes)
        if name != self.manifest.name:
            raise FalseManifest(
                f"the chunks of {self.manifest.name.hex()} are those of its manifest, and the whole is another "
                "content: the manifest is false; discard the draft and ask another peer"
            )
        return self.manifest

    def discard(self) -> None:
        """Give it up, and remove what was written."""
        with self._lock:
            self._shelf.count_bytes(-self.bytes_written)
            with self._tables.transaction():
                self._tables.run("DELETE FROM draft_chunks WHERE draft = ?", [self.number])
                self._tables.run("DELETE FROM drafts WHERE number = ?", [self.number])
            self._chunks.clear()
            self._bytes_written = 0
            self._path.unlink(missing_ok=True)
            self.close()

    def close(self) -> None:
        """Leave it for later."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _read(self, number: int, size: int) -> bytes:
        with named_errors(self._path):
            return os.pread(self._handle, size, number * CHUNK_BYTES)


def stored_chunks(tables: SqliteFile, draft: int) -> list[tuple[int, bytes, int, int]]:
    """The chunks that were counted: number, hash, size, whether it was synced; by number."""
    return tables.rows(
        "SELECT number, hash, size, is_synced FROM draft_chunks WHERE draft = ? ORDER BY number", [draft]
    )


def _write(handle: int, data: bytes | memoryview, at: int) -> None:
    """Write all of it: a disk that is almost full may take a part."""
    left = memoryview(data)
    while left:
        count = os.pwrite(handle, left, at)
        left, at = left[count:], at + count


@contextmanager
def named_errors(path: Path) -> Iterator[None]:
    """Errors of the disk, with the name of the file. (rule 4)"""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise ContentError(
                f"there is no room on the disk for {path}: free some space and try again, what was stored stays"
            ) from error
        raise ContentError(f"{path} cannot be used: {error.strerror or error}") from error
