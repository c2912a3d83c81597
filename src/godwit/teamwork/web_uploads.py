"""Bodies of requests that are files: written to disk as they arrive, and removed if they are incomplete.

*Rules.*
1. At most `upload_bytes_max` go in one request, and at most `UPLOADS_MAX` come at a time.
2. Nothing of an upload stays when it was not complete: the client has gone, the disk is full, or it is too large.
3. A disk with less than `FREE_BYTES_MIN` left takes no uploads.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from starlette.requests import Request

from godwit.errors import ContentError
from godwit.runtime.http_requests import Problem

__all__ = ["Uploads"]

UPLOAD_BYTES_MAX = 16 * 2**30
UPLOADS_MAX = 16
FREE_BYTES_MIN = 64 * 2**20
PIECE_BYTES = 2**20


class Uploads:
    """Takes the files of requests, in a folder on the disk of the peer."""

    def __init__(self, folder: Path, upload_bytes_max: int = UPLOAD_BYTES_MAX) -> None:
        self._folder, self.upload_bytes_max = folder, upload_bytes_max
        self.under_way = 0

    @asynccontextmanager
    async def received(self, request: Request) -> AsyncIterator[BinaryIO]:
        """The body as an open file, which is gone afterwards."""
        self._check_size(int(request.headers.get("content-length") or 0))
        if self.under_way >= UPLOADS_MAX:
            raise Problem(503, f"{UPLOADS_MAX} uploads are running: try again later")
        self.under_way += 1
        try:
            with TemporaryFile(dir=self._folder) as file:
                await self._copy(request, file)
                file.seek(0)
                yield file
        except OSError as error:
            raise ContentError(f"the upload cannot be written below {self._folder}: {error.strerror}") from error
        finally:
            self.under_way -= 1

    async def _copy(self, request: Request, file: BinaryIO) -> None:
        size, held = 0, bytearray()
        async for part in request.stream():
            size += len(part)
            self._check_size(size)
            held += part
            if len(held) >= PIECE_BYTES:
                await asyncio.to_thread(self._write, file, bytes(held))
                held.clear()
        await asyncio.to_thread(self._write, file, bytes(held))

    def _write(self, file: BinaryIO, data: bytes) -> None:
        if shutil.disk_usage(self._folder).free < FREE_BYTES_MIN + len(data):  # rule 3
            raise ContentError(f"there is no room on the disk for this upload below {self._folder}")
        file.write(data)

    def _check_size(self, size: int) -> None:
        if size > self.upload_bytes_max:
            raise Problem(413, f"a file has at most {self.upload_bytes_max:,} bytes here")
