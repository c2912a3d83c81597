"""The real Mosquitto, as the other side of bridges: started, stopped and started again with what it keeps on disk."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from getpass import getuser
from pathlib import Path

import pytest

from tests.network.serving import free_address

PROGRAM = shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/sbin")
needs_mosquitto = pytest.mark.skipif(
    PROGRAM is None, reason="mosquitto is not installed (make tools APT=1, or apt-get install mosquitto)"
)
CONFIGURATION = """
user {user}
listener {port} 127.0.0.1
allow_anonymous true
persistence true
persistence_location {folder}/
max_inflight_messages 20
max_queued_messages 100000
log_dest stderr
"""


class Mosquitto:
    """One Mosquitto, which may be stopped and started."""

    def __init__(self, folder: Path, configuration: str = CONFIGURATION) -> None:
        self.port = free_address().port
        self._file = folder / "mosquitto.conf"
        self._file.write_text(configuration.format(port=self.port, folder=folder, user=getuser()))
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        assert PROGRAM is not None
        self._process = await asyncio.create_subprocess_exec(
            *(PROGRAM, "-c", str(self._file), "-v"), stderr=asyncio.subprocess.PIPE
        )
        assert self._process.stderr is not None
        said = b""
        while line := await self._process.stderr.readline():
            said += line
            if b"running" in line:
                self._reading = asyncio.create_task(_read_on(self._process.stderr))
                return
        raise AssertionError(f"mosquitto did not start: {said.decode()}")

    async def stop(self) -> None:
        """End it as an administrator does: it saves what it has."""
        await self._end("terminate")

    async def kill(self) -> None:
        await self._end("kill")

    async def _end(self, how: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            getattr(process, how)()
            await process.wait()
            if self._reading is not None:
                await self._reading


async def _read_on(stream: asyncio.StreamReader) -> None:
    """A program whose output nobody reads would stand still."""
    while await stream.read(65_536):
        pass


@asynccontextmanager
async def mosquitto(folder: Path, configuration: str = CONFIGURATION) -> AsyncIterator[Mosquitto]:
    folder.mkdir(exist_ok=True)
    made = Mosquitto(folder, configuration)
    await made.start()
    try:
        yield made
    finally:
        await made.kill()
