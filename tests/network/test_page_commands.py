"""The ```sh blocks of pages, played as a reader would: in order, with a real broker, MQTT and HTTP clients.

A page has a broker. Its usual addresses in commands are replaced by those at which it listens, and so are those of
further brokers that the page starts. A command that does not end by itself (a subscriber, a line that ends in `&`) runs
until the next of its kind, or until its block ends. What is published after a subscriber has started must reach it.
"""

import asyncio
import os
import re
import shlex
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conventions.repository import ROOT
from tests.conventions.sh_blocks import shell_blocks
from tests.network import warm
from tests.network.pages_played import BROKER_PAGES
from tests.network.serving import free_address, serving
from tests.network.waiting import run

USUAL = ("--folder", "journal", "--native", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--http", "127.0.0.1:0")
ENDS = {"--count", "--wait", "--show-key"}
PUBLISHES = re.compile(r"^(?:godwit pub|mosquitto_pub|curl .*(?:-d |--data-binary))")
MISSING = [name for name in ("mosquitto_sub", "curl") if shutil.which(name) is None]
FILES = {
    "alert.xml": "<alert><info><severity>Severe</severity><certainty>Likely</certainty></info></alert>",
    "events.jsonl": '{"kind": "parking", "cost": 1}\n',
}


def is_endless(script: str) -> bool:
    """Whether a command runs until it is stopped."""
    words = shlex.split(script, comments=True)
    if words[:2] == ["godwit", "sub"]:
        return not ENDS & set(words)
    return words[0] == "mosquitto_sub" or (words[0] == "curl" and "-N" in words) or words[-1] == "&"


class Reader:
    """One reader of a page: a folder, a broker, and the commands that run."""

    def __init__(self, stack: AsyncExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._bin = folder / "bin"
        self._bin.mkdir()
        self._addresses: dict[str, str] = {}
        self._running: list[tuple[str, asyncio.subprocess.Process]] = []
        warm.program(self._bin)
        for name, text in FILES.items():
            (folder / name).write_text(text)

    async def start_broker(self) -> None:
        """The page's broker."""
        broker = await self._stack.enter_async_context(serving(*USUAL, folder=self._folder))
        self._addresses |= {
            "127.0.0.1:7077": str(broker.native),
            "elsewhere:7077": str(broker.native),
            "127.0.0.1:7080": broker.said["http"].rpartition("/")[2],
        }
        port = broker.said["mqtt"].rpartition(":")[2]
        self._addresses["-p 1883"] = f"-p {port}"
        for name in ("mosquitto_sub", "mosquitto_pub"):
            (self._bin / name).write_text(f'#!/bin/sh\nexec {shutil.which(name)} -p {port} "$@"\n')
            (self._bin / name).chmod(0o700)
        self.environment = {
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "GODWIT_BROKER": str(broker.native),
            "GODWIT_HTTP": self._addresses["127.0.0.1:7080"],
        }
        await self._watch(self._addresses["127.0.0.1:7080"])

    async def _watch(self, http: str) -> None:
        """Read the trace of the broker: it shows when a subscriber is ready."""
        host, _, port = http.rpartition(":")
        self._trace, writer = await asyncio.open_connection(host, int(port))
        self._stack.callback(writer.close)
        writer.write(f"GET /trace HTTP/1.1\r\nHost: {http}\r\n\r\n".encode())
        while (await self._trace.readline()).strip():
            pass  # the head of the answer

    def replaced(self, script: str) -> str:
        """The command with addresses of this run."""
        for usual in re.findall(r"127\.0\.0\.1:71\d\d", script):
            if usual not in self._addresses:
                self._addresses[usual] = str(free_address())
        for usual, ours in self._addresses.items():
            script = script.replace(usual, ours)
        return script

    async def give(self, script: str, *, is_heard: bool) -> None:
        """Give a command. `is_heard`: something is published later in its block."""
        words = shlex.split(self.replaced(script), comments=True)
        if words[:2] == ["godwit", "serve"]:
            if words[2:3] not in ([], ["&"]):  # not the page's own broker, which runs
                await self._stack.enter_async_context(
                    serving(*(word for word in words[2:] if word != "&"), folder=self._folder)
                )
            return
        if not is_endless(script):
            process = await self._started(script)
            printed, _ = await process.communicate()
            assert process.returncode == 0, f"$ {script}\n{printed.decode()}"
            if PUBLISHES.match(script):
                await self._has_come()
            return
        await self.end_running()
        process = await self._started(script)
        self._running.append((script, process))
        if "godwit" not in words[0] or is_heard:
            await self._is_subscribed()

    async def _started(self, script: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *("bash", "-c", f"exec {self.replaced(script).removesuffix('&')}"),
            cwd=self._folder,
            env={**os.environ, **self.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )

    async def _is_subscribed(self) -> None:
        while line := await self._trace.readline():
            if b'"subscribed"' in line:
                return
        raise AssertionError("the trace of the broker has ended")

    async def _has_come(self) -> None:
        """Each subscriber shows what was published."""
        for script, process in self._running:
            if "--log" not in script:
                assert process.stdout is not None
                assert await process.stdout.readline(), f"$ {script}: nothing has come"

    async def end_running(self) -> None:
        """Ctrl-C for all commands that run on."""
        for _, process in self._running:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        self._running.clear()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", BROKER_PAGES)
def test_commands_of_a_page_work_as_they_are_written(name: str, tmp_path: Path) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    played = [block for block in shell_blocks(page) if not block.why_not and not block.run_by]
    if MISSING and any(word in command for block in played for command in block.commands for word in MISSING):
        pytest.skip(f"{' and '.join(MISSING)} not installed (make tools APT=1)")

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            reader = Reader(stack, tmp_path)
            await reader.start_broker()
            try:
                for block in played:
                    for number, script in enumerate(block.commands):
                        later = block.commands[number + 1 :]
                        await reader.give(script, is_heard=any(PUBLISHES.match(each) for each in later))
                    await reader.end_running()
            finally:
                await reader.end_running()

    run(scene(), limit_s=100.0)
