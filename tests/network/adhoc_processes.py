"""`godwit adhoc` in processes of their own."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.conventions.repository import ROOT
from tests.network import warm

__all__ = ["DeviceProcess", "device_processes", "warm_device_processes"]

Process = asyncio.subprocess.Process | warm.Command


class DeviceProcess:
    """A device; its lines are read as they come."""

    def __init__(self, process: Process, stdin: Any) -> None:
        self.process = process
        self.stdin = stdin
        self.told: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._news = asyncio.Condition()
        assert process.stdout is not None
        assert process.stderr is not None
        self._readers = [
            asyncio.create_task(self._read(process.stderr, self._on_told)),
            asyncio.create_task(self._read(process.stdout, self._on_event)),
        ]

    async def _read(self, stream: asyncio.StreamReader, take: Any) -> None:
        while line := await stream.readline():
            async with self._news:
                take(line.decode())
                self._news.notify_all()
        async with self._news:
            self._news.notify_all()

    def _on_told(self, line: str) -> None:
        self.told.append(line.rstrip())

    def _on_event(self, line: str) -> None:
        self.events.append(json.loads(line))

    async def until(self, holds: Any, what: str) -> None:
        """Until its lines say so."""
        try:
            async with asyncio.timeout(120), self._news:
                await self._news.wait_for(holds)
        except TimeoutError:
            raise AssertionError(f"waited in vain until {what}; it told:\n" + "\n".join(self.told[-30:])) from None

    async def has_told(self, text: str) -> str:
        """Until it has told this; the line."""
        await self.until(lambda: any(text in line for line in self.told), f"it tells {text!r}")
        return next(line for line in self.told if text in line)

    async def address(self) -> str:
        """Where it listens."""
        return (await self.has_told("listens on")).partition("listens on ")[2].partition(";")[0]

    def publish(self, **attributes: Any) -> None:
        """Give it an event."""
        self.stdin.write(json.dumps(attributes).encode() + b"\n")

    @property
    def state(self) -> str:
        """What it is, as it told last: searching, leading, or following another."""
        return next((line for line in reversed(self.told) if line.startswith("is ")), "is searching")[3:]

    def values(self, name: str) -> list[Any]:
        """An attribute of all the events that it has printed."""
        return [event["attributes"][name] for event in self.events]

    async def end(self, number: int = signal.SIGTERM) -> int:
        """End it by a signal; its exit status."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)
        return await self.process.wait()


@asynccontextmanager
async def device_processes(folder: Path, *prefix: str) -> AsyncIterator[Any]:
    """Starts devices; those that still run at the end are killed."""
    started: list[DeviceProcess] = []

    async def start(name: str, *words: str, before: Sequence[str] = ()) -> DeviceProcess:
        process = await asyncio.create_subprocess_exec(
            *(*prefix, *before, sys.executable, "-m", "godwit", "adhoc", name, *words, "--state", str(folder / name)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        started.append(DeviceProcess(process, process.stdin))
        return started[-1]

    try:
        yield start
    finally:
        await _end_all(started)


@asynccontextmanager
async def warm_device_processes(folder: Path) -> AsyncIterator[Any]:
    """The same from a process that is warm, so that many devices start soon."""
    started: list[DeviceProcess] = []

    async def start(name: str, *words: str) -> DeviceProcess:
        its, ours = os.pipe()
        stdin = os.fdopen(ours, "wb", buffering=0)
        inputs.callback(stdin.close)
        try:
            words = ("adhoc", name, *words, "--state", str(folder / name))
            process = await warm.start(*words, folder=folder, environment={}, input=its)
        finally:
            os.close(its)
        started.append(DeviceProcess(process, stdin))
        return started[-1]

    with ExitStack() as inputs:
        try:
            yield start
        finally:
            await _end_all(started)


async def _end_all(started: list[DeviceProcess]) -> None:
    for device in started:
        if device.process.returncode is None:
            with suppress(ProcessLookupError):
                device.process.kill()
        await device.process.wait()
