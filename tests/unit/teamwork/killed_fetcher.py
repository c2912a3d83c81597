"""Fetches a file and tells of each chunk that counts, until it is killed. Argument: its settings, in JSON.

It stops for good when it has told of `stop_after` chunks.
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.file_download import FetchLimits
from godwit.teamwork.file_requests import WantedFile
from godwit.teamwork.file_source import Source
from godwit.teamwork.manifests import CHUNK_BYTES
from tests.unit.teamwork.file_peers import fetching


class Settings(msgspec.Struct):
    """What the program is told."""

    folder: str
    device: str
    key_file: str
    sources: list[Source]
    wanted: WantedFile
    limits: FetchLimits
    stop_after: int


async def main(settings: Settings) -> None:
    def tell(done: int, size: int) -> None:
        print(done // CHUNK_BYTES, flush=True)
        if done >= settings.stop_after * CHUNK_BYTES:
            sys.stdin.readline()

    team = {settings.device: DeviceKeys.load(Path(settings.key_file))}
    async with fetching(Path(settings.folder), team, settings.sources, settings.limits, settings.device) as peer:
        await peer.fetcher.fetch(settings.wanted, tell)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Settings)))
