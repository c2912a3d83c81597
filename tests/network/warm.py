"""Commands from a process that is warm: how a test has them started, signals them and hears of their end."""

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from tests.conventions.repository import ROOT
from tests.network.ask_warm import ask

__all__ = ["Command", "line", "program", "start", "start_here"]


@cache
def place() -> str:
    """The socket where commands are asked for; one process starts them for all tests of this one."""
    folder = tempfile.mkdtemp()
    path = f"{folder}/warm"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        started = subprocess.Popen(
            [sys.executable, "-m", "tests.network.godwit_process", str(listener.fileno())],
            cwd=ROOT,
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            stdin=subprocess.PIPE,
            pass_fds=[listener.fileno()],
        )

    def end() -> None:
        assert started.stdin is not None
        started.stdin.close()
        started.wait()
        shutil.rmtree(folder)

    atexit.register(end)
    return path


def program(folder: Path) -> Path:
    """Make a program `godwit` in a folder, for shells: it has the command started and ends as that does."""
    made = folder / "godwit"
    made.write_text(f'#!/bin/sh\nexec "{sys.executable}" -IS "{ROOT}/tests/network/ask_warm.py" "{place()}" "$@"\n')
    made.chmod(0o700)
    return made


def start_here(
    words: tuple[str, ...],
    output: int,
    errors: int,
    folder: Path | None = None,
    environment: Mapping[str, str] = {},
    input: int | None = None,
) -> tuple[int, socket.socket]:
    """Start `godwit` with these words: its process, and the socket that will say its exit status.

    It is killed when that socket is closed. By default its standard input is empty.
    """
    told = socket.socket(socket.AF_UNIX)
    try:
        told.connect(place())
        variables = {**os.environ, **environment}
        with Path(os.devnull).open() as nothing:
            read = nothing.fileno() if input is None else input
            ask(told, words, str(folder or Path.cwd()), variables, (read, output, errors))
        process = line(told)
        assert process, f"godwit {words} was not started"
        return int(process), told
    except BaseException:
        told.close()  # a warning about it would fail another test
        raise


def line(told: socket.socket) -> bytes:
    """The next line that is said, and nothing after it: a command that is quick has its status sent right behind."""
    return b"".join(iter(lambda: told.recv(1).strip(), b""))


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


async def start(*words: str, folder: Path, environment: Mapping[str, str], input: int | None = None) -> Command:
    """Start `godwit` with these words, and read what it says."""
    (our_out, its_out), (our_err, its_err) = os.pipe(), os.pipe()
    try:
        pid, told = await asyncio.to_thread(start_here, words, its_out, its_err, folder, environment, input)
    except BaseException:
        os.close(our_out)
        os.close(our_err)
        raise
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
