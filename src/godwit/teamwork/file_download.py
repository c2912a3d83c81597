"""One file that is being fetched, from several peers at once. The rules are those of `file_fetcher.py`."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from godwit.errors import TransferError
from godwit.teamwork.content_drafts import Draft, FalseManifest
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.file_plan import ChunkPlan
from godwit.teamwork.file_requests import WantedFile
from godwit.teamwork.file_source import Declined, Lied, Me, Source, SourceConnection
from godwit.teamwork.file_threads import in_thread
from godwit.teamwork.manifests import Manifest

__all__ = ["Download", "DroppedPeer", "FetchLimits", "Progress", "Sources"]

RUN_S = 1.0
"""About so long takes a request: a range is longer if a peer is faster."""
RUN_CHUNKS_MAX = 32
ASK_MAX_S = 60.0
FAILURES_MAX = 5
PEERS_MAX = 64
MANIFEST_WORKERS_MAX = 2

Progress = Callable[[int, int], None]
"""Told the bytes that are here, and how many there will be."""


class DroppedPeer(msgspec.Struct, frozen=True):
    """A peer that is not asked for a file any more: it lied."""

    device: str
    wanted: WantedFile
    reason: str


class Sources(Protocol):
    """Knows which peers have a file."""

    def listen(self, wanted: WantedFile, heard: Callable[[Source], None]) -> Callable[[], None]:
        """Tell of each peer that has the file, until the function that is returned is called."""
        ...

    def ask(self, wanted: WantedFile) -> None:
        """Ask all peers whether they have it. Answers come when they come, or never."""
        ...


class FetchLimits(msgspec.Struct, frozen=True):
    """Bounds of a fetcher."""

    connections_max: int = 4
    """For one file."""
    connections_per_peer_max: int = 2
    """For one file. Each needs a thread and 1 MiB of memory."""
    threads_max: int = 8
    """For all files."""
    idle_s: float = 20.0
    """After which a peer that sends nothing is given up, for the moment."""
    retry_s: float = 0.5
    """After which a peer that failed is tried again; twice as long each time."""
    ask_s: float = 2.0
    """After which peers are asked again who has the file, if nobody gives it; twice as long each time."""
    give_up_s: float = 60.0
    """After which a fetch fails if not a byte has come."""


class _Peer:
    """A peer that has the file."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.connections = 0
        self.failures = 0
        self.not_before = 0.0
        self.problem = ""
        self.is_dropped = False

    def is_usable(self, now: float) -> bool:
        return not self.is_dropped and self.failures <= FAILURES_MAX and now >= self.not_before

    def fail(self, problem: str, now: float, retry_s: float) -> None:
        self.problem = problem
        self.failures += 1
        self.not_before = now + retry_s * 2 ** (self.failures - 1)


class Download:
    """Fetches one file."""

    def __init__(
        self,
        wanted: WantedFile,
        files: ContentFiles,
        sources: Sources,
        me: Me,
        threads: Executor,
        limits: FetchLimits,
        drop: Callable[[DroppedPeer], None],
    ) -> None:
        self.wanted, self._files, self._sources, self._me = wanted, files, sources, me
        self._threads, self._limits, self._drop = threads, limits, drop
        self.listeners: list[Progress] = []
        self._draft: Draft | None = None
        self._plan: ChunkPlan | None = None
        self._beginning = asyncio.Lock()
        self._peers: dict[str, _Peer] = {}
        self._workers: dict[int, asyncio.Task[None]] = {}
        self._connections: dict[int, SourceConnection] = {}
        self._count = 0
        self._fatal: Exception | None = None
        self._changed = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._received = 0  # by connections that have ended
        self._ask_s, self._ask_at = limits.ask_s, 0.0

    async def run(self) -> Path:
        """Fetch it; where it is then."""
        stop_listening = self._sources.listen(self.wanted, self._on_source)
        try:
            key = f"fetch {self.wanted.root.hex()}"
            if key in self._files.drafts():
                await self._begin(key, None)
            await self._until_whole(key)
            return await self._finished()
        finally:
            stop_listening()
            await self._end_workers()
            if self._draft is not None:
                self._draft.close()

    async def _finished(self) -> Path:
        assert self._draft is not None
        await self._end_workers()
        try:
            manifest = await in_thread(self._threads, self._draft.finish)
        except FalseManifest:
            self._draft.discard()
            raise
        return self._files.path(manifest.name)

    # ------------------------------------------------------------ peers

    def _on_source(self, source: Source) -> None:
        """A peer says that it has the file, and where."""
        peer = self._peers.get(source.device)
        if peer is None and len(self._peers) < PEERS_MAX:
            self._peers[source.device] = _Peer(source)
        elif peer is not None and not peer.is_dropped:
            if peer.source != source:
                peer.not_before = 0.0  # it has moved
            peer.source, peer.failures = source, 0
        self._changed.set()

    async def _until_whole(self, key: str) -> None:
        """Keep workers at work until every chunk is here."""
        limits, loop = self._limits, self._loop
        received, give_up_at = 0, loop.time() + limits.give_up_s
        while self._plan is None or not self._plan.is_done:
            if self._fatal is not None:
                raise self._fatal
            self._changed.clear()
            self._hire(key)
            now, count = loop.time(), self._bytes_received
            if count > received:
                received, give_up_at = count, now + limits.give_up_s
            if now >= give_up_at:
                raise TransferError(self._why_not())
            if not self._workers and now >= self._ask_at:
                self._sources.ask(self.wanted)
                self._ask_at, self._ask_s = now + self._ask_s, min(2 * self._ask_s, ASK_MAX_S)
            until = [give_up_at, *(peer.not_before for peer in self._peers.values() if peer.not_before > now)]
            if not self._workers:
                until.append(self._ask_at)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(min(until)):
                    await self._changed.wait()

    @property
    def _bytes_received(self) -> int:
        return self._received + sum(each.bytes_received for each in self._connections.values())

    def _why_not(self) -> str:
        wanted, draft = self.wanted, self._draft
        peers = [f"{name}: {peer.problem or 'sent nothing'}" for name, peer in self._peers.items()]
        done = "nothing of it is here yet"
        if draft is not None and draft.manifest is not None:
            done = f"{draft.bytes_written:,} of {draft.manifest.size:,} bytes are here, and stay for the next attempt"
        return (
            f"cannot fetch the file {wanted.name.hex()} of {wanted.record} in {wanted.scope}: "
            f"{'; '.join(peers) or 'no peer with this file has answered'}; {done}"
        )

    # ------------------------------------------------------------ workers

    def _hire(self, key: str) -> None:
        """Begin to fetch from peers, from those with few connections first."""
        limits, now = self._limits, self._loop.time()
        most = limits.connections_max if self._plan is not None else MANIFEST_WORKERS_MAX
        for connections in range(limits.connections_per_peer_max if self._plan is not None else 1):
            for peer in list(self._peers.values()):
                is_wanted = self._plan is None or self._plan.has_work(peer.source.device)
                if len(self._workers) < most and peer.connections <= connections and peer.is_usable(now) and is_wanted:
                    self._count += 1
                    peer.connections += 1
                    self._workers[self._count] = asyncio.create_task(self._work(self._count, peer, key))

    async def _end_workers(self) -> None:
        for connection in self._connections.values():
            connection.end()
        for task in self._workers.values():
            task.cancel()
        await asyncio.gather(*self._workers.values(), return_exceptions=True)

    async def _work(self, number: int, peer: _Peer, key: str) -> None:
        """Fetch from one peer, as long as it has something that is missing."""
        connection = self._connections[number] = SourceConnection(peer.source, self._me, self._limits.idle_s)
        try:
            if self._plan is None:
                manifest = await in_thread(self._threads, connection.manifest, self.wanted, stop=connection.end)
                await self._begin(key, manifest)
            await self._fetch_runs(number, peer, connection)
        except Lied as error:
            if not peer.is_dropped:  # by another connection to it
                self._drop(DroppedPeer(peer.source.device, self.wanted, str(error)))
            peer.is_dropped, peer.problem = True, f"was dropped, since it lied: {error}"
        except Declined as error:
            peer.fail(str(error), self._loop.time(), self._limits.retry_s)
            peer.is_dropped = not error.is_busy
        except OSError as error:
            peer.fail(str(error) or type(error).__name__, self._loop.time(), self._limits.retry_s)
        except Exception as error:  # the disk, a quota, or a mistake of ours
            self._fatal = error
        finally:
            connection.close()
            self._received += self._connections.pop(number).bytes_received
            peer.connections -= 1
            del self._workers[number]
            self._changed.set()

    async def _begin(self, key: str, manifest: Manifest | None) -> None:
        """Make or take up the draft, once the manifest is known."""
        async with self._beginning:
            if self._draft is None:
                self._draft = await in_thread(self._threads, self._files.draft, key, manifest)
                self._plan = ChunkPlan(self._draft.missing())
                self._tell()
                self._changed.set()

    async def _fetch_runs(self, number: int, peer: _Peer, connection: SourceConnection) -> None:
        assert self._plan is not None
        device, count = peer.source.device, 1
        while run := self._plan.claim(number, device, count, max(len(self._workers), len(self._peers))):
            began = self._loop.time()
            try:
                await in_thread(self._threads, self._read, connection, run, stop=connection.end)
            finally:
                self._plan.release(number)
            peer.failures = 0
            is_fast = self._loop.time() - began < RUN_S / 2
            count = min(2 * count, RUN_CHUNKS_MAX) if is_fast else max(1, count // 2)

    def _read(self, connection: SourceConnection, run: range) -> None:
        """Read some chunks, in a thread: each counts as soon as it is in the draft."""
        draft = self._draft
        assert draft is not None
        assert draft.manifest is not None
        for chunk in connection.chunks(self.wanted, draft.manifest, run):
            draft.put(chunk.number, chunk.data, chunk.hash)
            self._loop.call_soon_threadsafe(self._on_chunk, chunk.number)

    def _on_chunk(self, number: int) -> None:
        assert self._plan is not None
        if self._plan.arrived(number):
            self._tell()
        if self._plan.is_done:
            self._changed.set()

    def _tell(self) -> None:
        assert self._draft is not None
        assert self._draft.manifest is not None
        for listener in self.listeners:
            listener(self._draft.bytes_written, self._draft.manifest.size)
