"""The two peers of `teamwork_transfer.py`, each in a process of its own: one gives a file, one fetches it.

Arguments: a folder with the keys of both, and `give`, or `fetch` with its orders as JSON.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.device_keys import DeviceKeys, TeamDevices
from godwit.teamwork.file_fetcher import FileFetcher
from godwit.teamwork.file_requests import Asker, WantedFile
from godwit.teamwork.file_rights import Permission
from godwit.teamwork.file_server import FileServer
from godwit.teamwork.file_source import Me, Source
from godwit.teamwork.machine.records import Record
from godwit.teamwork.manifests import CHUNK_BYTES
from godwit.teamwork.sealing import opened_by_device

__all__ = ["GIVER", "TEAM", "Told", "make_keys"]

TEAM = "team/ann.0"
GIVER, FETCHER = "giver", "fetcher"


class Told(msgspec.Struct, frozen=True):
    """What a process that fetches is told."""

    folder: str
    source: Source
    wanted: WantedFile


class _Team:
    """The records of two devices."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keys(self, device: str) -> DeviceKeys:
        return DeviceKeys.load(self._folder / f"{device}.json")

    def record(self, scope: str, name: str) -> Record:
        keys = self.keys(name.partition("/")[2])
        return Record(name, {"user": keys.device, **keys.public_fields}, {}, ())

    def devices(self, device: str) -> TeamDevices:
        store: Any = self
        return TeamDevices(TEAM, store, self.keys(device))


def make_keys(folder: Path) -> None:
    """Make the keys of both."""
    for device in (GIVER, FETCHER):
        keys = DeviceKeys.made(device)
        keys.device = device
        keys.save(folder / f"{device}.json")


async def _give(folder: Path) -> None:
    """Give files until standard input ends."""
    files = ContentFiles(folder / GIVER)
    devices = _Team(folder).devices(GIVER)
    async with FileServer(files, GIVER, devices, lambda *_: Permission(), lambda shown: None) as server:
        print(msgspec.json.encode(Source(GIVER, server.addresses())).decode(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


class _OneSource:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._heard: Callable[[Source], None] = lambda source: None

    def listen(self, wanted: WantedFile, heard: Callable[[Source], None]) -> Callable[[], None]:
        self._heard = heard
        return lambda: None

    def ask(self, wanted: WantedFile) -> None:
        self._heard(self._source)


async def _fetch(folder: Path, told: Told) -> None:
    """Fetch a file: the chunks that count, as they come, and the seconds of it all."""
    team = _Team(folder)
    keys = team.keys(FETCHER)
    me = Me(Asker(FETCHER, FETCHER), team.devices(FETCHER), partial(opened_by_device, keys.sealing, FETCHER))

    def progress(done: int, size: int) -> None:
        print(f"chunks {done // CHUNK_BYTES}", flush=True)

    with closing(ContentFiles(Path(told.folder))) as files:
        async with FileFetcher(files, _OneSource(told.source), me) as fetcher:
            wall, cpu = time.perf_counter(), time.process_time()
            await fetcher.fetch(told.wanted, progress if "--progress" in sys.argv else None)
            print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)


if __name__ == "__main__":
    scratch, work, *rest = sys.argv[1:]
    if work == "give":
        asyncio.run(_give(Path(scratch)))
    else:
        asyncio.run(_fetch(Path(scratch), msgspec.json.decode(rest[0], type=Told)))
