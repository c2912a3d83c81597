"""A journal on a disk that a test can fill."""

from collections.abc import Iterator

from godwit.errors import JournalError
from godwit.runtime.journal import Journal

__all__ = ["FullDisk"]


class FullDisk(Journal):
    """Writes only while there is room."""

    is_full = False

    def append(self, data: bytes) -> int:
        if self.is_full:
            raise JournalError("there is no room on the disk")
        return super().append(data)

    def snapshot_steps(self, number: int, data: bytes) -> Iterator[None]:
        if self.is_full:
            raise JournalError("there is no room on the disk")
        yield from super().snapshot_steps(number, data)
