"""`godwit serve` in processes of their own: started, watched by what they print, and stopped or killed."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import SystemRandom
from typing import Any

from godwit.runtime import Address
from tests.network import warm

PROGRAM = (sys.executable, "-c", "from godwit.cli.main import app; app(prog_name='godwit')")
Process = warm.Command | asyncio.subprocess.Process
ANY_PORT = ("--native", "127.0.0.1:0", "--mqtt", "", "--http", "")


class Served:
    """One process, and what it has said so far."""

    def __init__(self, process: Process, folder: Path) -> None:
        self.process = process
        self.folder = folder
        self.said: dict[str, Any] = {}
        self.logged: list[dict[str, Any]] = []

    @property
    def native(self) -> Address:
        """Where native clients come."""
        host, _, port = self.said["native"].rpartition(":")
        return Address(host, int(port))

    async def log(self, event: str, **fields: Any) -> dict[str, Any]:
        """The next line of the log that says this."""
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.logged.append(json.loads(line))
            if self.logged[-1]["event"] == event and fields.items() <= self.logged[-1].items():
                return self.logged[-1]
        raise AssertionError(f"the broker never said {event!r}: {self.logged}")

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal; the exit status."""
        if self.process.returncode is None:
            self.process.send_signal(number)
        _, errors = await self.process.communicate()
        self.logged += [json.loads(line) for line in errors.splitlines()]
        assert self.process.returncode is not None
        return self.process.returncode


def free_address() -> Address:
    """Where nobody listens, and nobody will by chance: systems hand out higher ports to those who take any."""
    for port in SystemRandom().sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return Address("127.0.0.1", port)
    raise AssertionError("a hundred ports below 32,000 are taken")


@asynccontextmanager
async def running(
    *words: str, folder: Path, environment: dict[str, str] | None = None, cold: bool = False
) -> AsyncIterator[Process]:
    """`godwit` with these words in a folder, killed in the end if it still runs.

    Cold is as people run it, with an interpreter that starts for it: for tests where the process itself matters.
    """
    process: Process
    if cold:
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *words,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    else:
        process = await warm.start(*words, folder=folder, environment=environment or {})
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()  # to the end, also of one that has ended: a pipe that is open warns later


@asynccontextmanager
async def serving(
    *words: str, folder: Path, environment: dict[str, str] | None = None, cold: bool = False
) -> AsyncIterator[Served]:
    """A broker that listens, killed in the end if it still does."""
    async with running("serve", *words, folder=folder, environment=environment, cold=cold) as process:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            _, errors = await process.communicate()
            raise AssertionError(f"the broker did not start: {errors.decode()}")
        served = Served(process, folder)
        served.said = json.loads(line)
        yield served


async def fails(
    *words: str, folder: Path, environment: dict[str, str] | None = None, cold: bool = False
) -> tuple[int, str]:
    """The exit status of a command that ends by itself, and what it says on standard error."""
    async with running(*words, folder=folder, environment=environment, cold=cold) as process:
        _, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, errors.decode()
