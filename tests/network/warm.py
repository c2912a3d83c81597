"""Commands from a process that is warm: how a test has them started, signals them and hears of their end."""

import asyncio
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.conventions.repository import ROOT

__all__ = ["Command", "start", "start_here"]


@cache
def _starter() -> socket.socket:
    """Where requests go, one for all tests of this process."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    started = subprocess.Popen([sys.executable, "-m", "tests.network.godwit_process"], cwd=ROOT, stdin=its.fileno())
    its.close()

    def end() -> None:
        ours.close()
        started.wait()

    atexit.register(end)
    return ours


def start_here(
    words: tuple[str, ...], output: int, errors: int, folder: Path | None = None, environment: Mapping[str, str] = {}
) -> tuple[int, socket.socket]:
    """Start `godwit` with these words: its process, and the socket that will say its exit status.

    It is killed when that socket is closed.
    """
    request = {"words": words, "folder": str(folder or Path.cwd()), "environment": {**os.environ, **environment}}
    told, its = socket.socketpair()
    with its:
        socket.send_fds(_starter(), [json.dumps(request).encode()], [its.fileno(), output, errors])
    process = told.recv(100)
    assert process, f"godwit {words} was not started"
    return int(process), told


class Command:
    """A command that runs: what a test needs of asyncio's processes."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.stdout = asyncio.StreamReader()
        self.stderr = asyncio.StreamReader()
        self._status: asyncio.Task[int]

    @property
    def returncode(self) -> int | None:
        return self._status.result() if self._status.done() else None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):  # it has ended, and we shall hear of it
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.shield(self._status)

    async def communicate(self) -> tuple[bytes, bytes]:
        """What it still says until it has ended."""
        printed, errors, _ = await asyncio.gather(self.stdout.read(), self.stderr.read(), self.wait())
        return printed, errors


async def _status(told: socket.socket) -> int:
    reader, writer = await asyncio.open_connection(sock=told)
    try:
        return int(await reader.readline())
    finally:
        writer.close()


async def start(*words: str, folder: Path, environment: Mapping[str, str]) -> Command:
    """Start `godwit` with these words, and read what it says."""
    (our_out, its_out), (our_err, its_err) = os.pipe(), os.pipe()
    try:
        pid, told = await asyncio.to_thread(start_here, words, its_out, its_err, folder, environment)
    finally:
        os.close(its_out)
        os.close(its_err)
    made = Command(pid)
    made._status = asyncio.create_task(_status(told))
    loop = asyncio.get_running_loop()
    for reader, ours in ((made.stdout, our_out), (made.stderr, our_err)):
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda protocol=protocol: protocol, os.fdopen(ours, "rb"))  # type: ignore[misc]
    return made
