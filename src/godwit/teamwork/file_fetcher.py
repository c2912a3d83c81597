"""Fetches files from the peers of a team that have them. [motion §2: shared documents at every peer]

*Theory.* A file is known by its name and the root of its manifest, from a change of its document. Peers say over events
that they have it, and where (`file_sources.py`); the bytes themselves go from peer to peer (`file_server.py`). What has
arrived is in a draft (`content_drafts.py`), whose key is the root. So a fetch that was cut off, by a kill, a change of
network or a full disk, goes on where it was when the file is fetched again, from whichever peers have it then.

*Rules.*
1. A chunk counts when it has the hash of its manifest, and is in the draft. A file is there when all of it is, and has
   the hash that it is named by. What arrives is what was stored.
2. After a kill, what is lost is less than a chunk of each connection.
3. A peer that sends other bytes than were asked for is dropped for this file, and reported. The others go on.
4. A peer that fails is tried again, ever later; when nobody gives the file, peers are asked again who has it and
   where. A fetch fails when nothing has come for `give_up_s`.
5. A disk that is full, or a quota, ends the fetch with a `ContentError`. What has arrived stays.
6. Memory, threads and connections are bounded, whatever the size of the file (`FetchLimits`).
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_download import Download, DroppedPeer, FetchLimits, Progress, Sources
from godwit.teamwork.file_requests import WantedFile
from godwit.teamwork.file_source import Me

__all__ = ["FileFetcher"]

DEFAULT_LIMITS = FetchLimits()


class FileFetcher:
    """Brings files into a folder."""

    def __init__(
        self,
        files: ContentFiles,
        sources: Sources,
        me: Me,
        *,
        dropped: Callable[[DroppedPeer], None] = lambda peer: None,
        limits: FetchLimits = DEFAULT_LIMITS,
    ) -> None:
        """`dropped` is told of peers that lied."""
        self._files, self._sources, self._me, self._dropped = files, sources, me, dropped
        self._limits = limits
        self._threads = ThreadPoolExecutor(limits.threads_max, thread_name_prefix="fetch")
        self._running: dict[bytes, tuple[Download, asyncio.Task[Path]]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        tasks = [task for _, task in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._threads.shutdown()

    async def fetch(self, wanted: WantedFile, progress: Progress | None = None) -> Path:
        """The file, fetched unless it is here.

        Raises `TransferError` if no peer gives it, and `ContentError` if there is no room for it.
        """
        if wanted.name in self._files:
            return self._files.path(wanted.name)
        download, task = self._running.get(wanted.root) or self._begin(wanted)
        listener = progress or _ignore
        download.listeners.append(listener)
        try:
            return await asyncio.shield(task)
        finally:
            download.listeners.remove(listener)
            if not download.listeners and not task.done():  # nobody waits for it any more
                task.cancel()
                await asyncio.wait([task])

    def _begin(self, wanted: WantedFile) -> tuple[Download, asyncio.Task[Path]]:
        download = Download(
            wanted, self._files, self._sources, self._me, self._threads, self._limits, self._dropped
        )  # fmt: skip
        task = asyncio.create_task(download.run(), name=f"fetch {wanted.name.hex()}")
        task.add_done_callback(lambda _: self._running.pop(wanted.root))
        self._running[wanted.root] = download, task
        return download, task


def _ignore(done: int, size: int) -> None:
    """For those who need no progress."""
