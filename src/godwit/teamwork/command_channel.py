"""The command channel of a running peer: requests and answers as lines of JSON, over a port of this machine.

*Theory.* A folder is used by one process. While `godwit team serve` runs, other commands hand their work to it. Where
it listens, and a token that is drawn at each start, are in a file of the folder that its owner alone can read; so only
those who can read the folder can give commands.

A request is `{"token", "command", "arguments"}`. What comes back is `{"taken": true}`, before anything is done; then
`{"answer": …}`, any number of them and each as soon as it is there; then `{"done": true}` or `{"error": "…"}`. So a
client that has not seen `taken` may give the command elsewhere: nothing is done twice. A connection carries one
request.

*Rules.*
1. An answer leaves when what it tells of is on the disk.
2. A connection that the asker closes ends its command.
3. A request without the token learns nothing, not even which commands there are. One that does not come within
   `REQUEST_S` is dropped, and no more than `COMMANDS_MAX` are under way at a time.
4. The file is removed when the channel closes. One that a killed process has left leads to a port where no peer accepts
   its token; it is replaced by the next start.
"""

import asyncio
import hmac
import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

import msgspec

from godwit.errors import GodwitError
from godwit.runtime.users import write_private

__all__ = ["FILE", "FORMAT", "VERSION", "CommandChannel"]

FILE = "serving.json"
FORMAT, VERSION = "godwit: where a peer takes commands", 1
REQUEST_BYTES_MAX = 4 * 2**20
REQUEST_S = 10.0
COMMANDS_MAX = 100

Run = Callable[[str, Mapping[str, Any]], AsyncGenerator[Any, None]]
"""Carries out a command: its answers, as they come. Raises `GodwitError`."""


class CommandRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked."""

    token: str
    command: str
    arguments: dict[str, Any]


class CommandChannel:
    """Takes commands for a folder, from `async with` until its end."""

    def __init__(self, folder: Path, run: Run, about: Mapping[str, str] | None = None) -> None:
        """`about`: further addresses of the peer, to be told to commands."""
        self._path, self._run, self._about = folder / FILE, run, dict(about or {})
        self._token = token_hex(32)
        self._server: asyncio.Server | None = None
        self._under_way: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0, limit=REQUEST_BYTES_MAX)
        self._server = server
        host, port = server.sockets[0].getsockname()[:2]
        where = {"format": FORMAT, "version": VERSION, "process": os.getpid(), "host": host, "port": port}
        write_private(self._path, json.dumps({**where, "token": self._token, **self._about}))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._path.unlink(missing_ok=True)
        assert self._server is not None
        self._server.close()
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    # ------------------------------------------------------------ connections

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._under_way.add(task)
        try:
            if len(self._under_way) > COMMANDS_MAX:
                _say(writer, {"error": f"{COMMANDS_MAX} commands are running: wait until one has ended"})
            elif (request := await _read(reader)) is not None and hmac.compare_digest(request.token, self._token):
                _say(writer, {"taken": True})
                await writer.drain()
                await self._answer(request, reader, writer)
            await writer.drain()
        except (asyncio.CancelledError, ConnectionError):  # the peer stops, or the asker has gone
            pass
        finally:
            self._under_way.discard(task)
            writer.close()

    async def _answer(
        self, request: CommandRequest, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answering = asyncio.create_task(self._answer_all(request, writer))
        gone = asyncio.create_task(reader.read(1))  # (rule 2)
        try:
            await asyncio.wait([answering, gone], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answering, gone):
                task.cancel()
            await asyncio.gather(answering, gone, return_exceptions=True)

    async def _answer_all(self, request: CommandRequest, writer: asyncio.StreamWriter) -> None:
        try:
            async with aclosing(self._run(request.command, request.arguments)) as answers:
                async for answer in answers:
                    _say(writer, {"answer": answer})
                    await writer.drain()
            _say(writer, {"done": True})
        except GodwitError as error:
            _say(writer, {"error": str(error)})
        except ConnectionError:  # the asker has gone
            pass
        except Exception as error:
            _say(writer, {"error": f"{request.command} failed: {error!r}"})


async def _read(reader: asyncio.StreamReader) -> CommandRequest | None:
    """The request, if one comes in time. (rule 3)"""
    try:
        async with asyncio.timeout(REQUEST_S):
            return msgspec.json.decode(await reader.readline(), type=CommandRequest)
    except (TimeoutError, ValueError, ConnectionError, msgspec.MsgspecError):
        return None


def _say(writer: asyncio.StreamWriter, said: Mapping[str, Any]) -> None:
    writer.write(json.dumps(said, ensure_ascii=False, default=_plain).encode() + b"\n")


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, str_keys=True)
