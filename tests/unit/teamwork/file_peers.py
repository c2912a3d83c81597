"""Peers that give and fetch files over real sockets, without brokers, for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from functools import partial
from io import BytesIO
from pathlib import Path
from random import Random

import msgspec

from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.device_keys import DeviceKeys, is_signature
from godwit.teamwork.file_download import DroppedPeer, FetchLimits
from godwit.teamwork.file_fetcher import FileFetcher
from godwit.teamwork.file_requests import Asker, WantedFile
from godwit.teamwork.file_rights import Permission, Shown
from godwit.teamwork.file_server import FileServer, ServerLimits
from godwit.teamwork.file_source import Me, Source
from godwit.teamwork.manifests import Manifest
from godwit.teamwork.sealing import opened_by_device

__all__ = ["FixedSources", "Giver", "Keys", "data_of", "fetching", "giving", "me", "wanted"]

QUICK = FetchLimits(idle_s=60.0, retry_s=0.01, ask_s=0.01, give_up_s=60.0)
SCOPE, RECORD = "community/ann.1", "artefact/1"


def data_of(size: int, seed: int = 1) -> bytes:
    return Random(seed).randbytes(size)


def wanted(manifest: Manifest) -> WantedFile:
    return WantedFile(SCOPE, RECORD, manifest.name, manifest.root)


class Keys:
    """The devices of a team: `DEVICE` belongs to the user `USER` if it is called `USER.DEVICE`."""

    def __init__(self, device: str, team: dict[str, DeviceKeys]) -> None:
        self._device, self._team = device, team
        if device not in team:
            team[device] = DeviceKeys.made(device)

    def sign(self, data: bytes) -> bytes:
        return self._team[self._device].signing.sign(data)

    def check(self, device: str, user: str, data: bytes, signature: bytes) -> str:
        if device not in self._team or device.partition(".")[0] != user:
            return f"device {device} is not known"
        is_right = is_signature(self._team[device].public_fields["signing"], data, signature)
        return "" if is_right else f"no signature of device {device}"

    def sealing_key(self, device: str) -> bytes | None:
        return bytes.fromhex(self._team[device].public_fields["sealing"]) if device in self._team else None


def me(device: str, team: dict[str, DeviceKeys]) -> Me:
    """Whoever fetches with this device."""
    keys = Keys(device, team)
    opened = partial(opened_by_device, team[device].sealing, device)
    return Me(Asker(device.partition(".")[0], device), keys, opened)


class Giver:
    """A peer that gives files, and what its audit was told."""

    def __init__(self, device: str, folder: Path, team: dict[str, DeviceKeys], limits: ServerLimits) -> None:
        self.device = device
        self.files = ContentFiles(folder / device)
        self.shown: list[Shown] = []
        self.permission = Permission()
        self.server = FileServer(self.files, device, Keys(device, team), self._may_read, self._audit, limits=limits)
        self.audit: Callable[[Shown], None] = self.shown.append

    def _may_read(self, asker: Asker, scope: str, record: str, name: bytes) -> Permission:
        return self.permission

    def _audit(self, shown: Shown) -> None:
        self.audit(shown)

    def has(self, data: bytes) -> Manifest:
        return self.files.store(BytesIO(data))

    @property
    def source(self) -> Source:
        return Source(self.device, self.server.addresses(), self.permission.must_be_sealed)


@asynccontextmanager
async def giving(
    device: str, folder: Path, team: dict[str, DeviceKeys], limits: ServerLimits | None = None
) -> AsyncIterator[Giver]:
    giver = Giver(device, folder, team, limits or ServerLimits())
    with closing(giver.files):
        async with giver.server:
            yield giver


class FixedSources:
    """Peers that are known beforehand. `asked` counts how often somebody asked."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.sources, self.asked = list(sources), 0
        self._listeners: list[Callable[[Source], None]] = []

    def listen(self, wanted: WantedFile, heard: Callable[[Source], None]) -> Callable[[], None]:
        self._listeners.append(heard)
        return lambda: self._listeners.remove(heard)

    def ask(self, wanted: WantedFile) -> None:
        self.asked += 1
        for source in self.sources:
            self.tell(source)

    def tell(self, source: Source) -> None:
        for heard in self._listeners:
            heard(source)


class Fetching(msgspec.Struct):
    """A peer that fetches."""

    fetcher: FileFetcher
    files: ContentFiles
    sources: FixedSources
    dropped: list[DroppedPeer]
    has_dropped: asyncio.Event


@asynccontextmanager
async def fetching(
    folder: Path,
    team: dict[str, DeviceKeys],
    sources: Iterable[Source],
    limits: FetchLimits = QUICK,
    device: str = "bob.phone",
) -> AsyncIterator[Fetching]:
    dropped: list[DroppedPeer] = []
    has_dropped, known = asyncio.Event(), FixedSources(sources)

    def drop(peer: DroppedPeer) -> None:
        dropped.append(peer)
        has_dropped.set()

    with closing(ContentFiles(folder / device)) as files:
        async with FileFetcher(files, known, me(device, team), dropped=drop, limits=limits) as fetcher:
            yield Fetching(fetcher, files, known, dropped, has_dropped)
