"""The manifest of a content: its size and its hashes, of the whole and of each chunk."""

from hashlib import sha256
from typing import NamedTuple

from godwit.errors import ContentError

__all__ = ["CHUNK_BYTES", "HASH_BYTES", "Manifest"]

CHUNK_BYTES = 2**20
HASH_BYTES = 32
SIZE_MAX = 2**44


class Manifest(NamedTuple):
    """What is known of a content before it is here."""

    name: bytes
    """SHA-256 of the whole."""
    size: int
    chunks: bytes
    """SHA-256 of each chunk, one behind the other."""

    @property
    def chunk_count(self) -> int:
        """How many chunks there are: none of 0 bytes."""
        return -(-self.size // CHUNK_BYTES)

    @property
    def root(self) -> bytes:
        """One hash for the whole manifest. A change that names it lets a false manifest be refused at once."""
        return sha256(self.name + self.size.to_bytes(8, "big") + self.chunks).digest()

    def chunk_size(self, number: int) -> int:
        """The bytes of a chunk: all but the last have `CHUNK_BYTES`."""
        if not 0 <= number < self.chunk_count:
            raise ContentError(f"there is no chunk {number}: the content has {self.chunk_count}")
        return min(CHUNK_BYTES, self.size - number * CHUNK_BYTES)

    def hash_of(self, number: int) -> bytes:
        """The hash of a chunk."""
        return self.chunks[number * HASH_BYTES : (number + 1) * HASH_BYTES]

    def check(self) -> None:
        """Refuse a manifest that cannot be one."""
        if len(self.name) != HASH_BYTES or not 0 <= self.size <= SIZE_MAX:
            raise ContentError(f"a manifest has a hash of {HASH_BYTES} bytes and a size of 0 to {SIZE_MAX:,}")
        if len(self.chunks) != self.chunk_count * HASH_BYTES:
            raise ContentError(
                f"a content of {self.size:,} bytes has {self.chunk_count} chunks, "
                f"and the manifest has {len(self.chunks) / HASH_BYTES:g} hashes"
            )
