"""Commands to the process that has a folder: who may give them, what comes back, and how they end."""

import asyncio
import json
import stat
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from godwit.cli.team.peer_connection import ask
from godwit.errors import GodwitError, Refused
from godwit.teamwork import command_channel
from godwit.teamwork.command_channel import FILE, CommandChannel
from tests.network.waiting import run, until


class Peer:
    """Carries out commands; remembers those that were ended before they had come to their end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []

    async def run(self, command: str, arguments: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        self.begun.append(command)
        try:
            match command:
                case "count":
                    for number in range(arguments["to"]):
                        yield {"number": number}
                case "refuse":
                    raise Refused("the community is archived")
                case "fail":
                    raise ZeroDivisionError("a fault")
                case "wait":
                    yield {"number": 0}
                    await asyncio.Event().wait()
        finally:
            self.ended.append(command)


def said_in(folder: Path) -> Any:
    return json.loads((folder / FILE).read_bytes())


async def asked(folder: Path, command: str, **arguments: Any) -> list[Any]:
    answers: list[Any] = []
    await asyncio.to_thread(ask, str(folder), command, arguments, answers.append)
    return answers


async def raw(folder: Path, data: bytes) -> bytes:
    """All that comes back for these bytes."""
    said = said_in(folder)
    reader, writer = await asyncio.open_connection(said["host"], said["port"])
    writer.write(data)
    try:
        return await reader.read()
    finally:
        writer.close()


def request(token: str, command: str, **arguments: Any) -> bytes:
    return json.dumps({"token": token, "command": command, "arguments": arguments}).encode() + b"\n"


def test_answers_come_in_order_and_an_error_is_the_commands_own(tmp_path: Path) -> None:
    async def scene() -> None:
        async with CommandChannel(tmp_path, Peer().run):
            assert await asked(tmp_path, "count", to=3) == [{"number": 0}, {"number": 1}, {"number": 2}]
            assert await asked(tmp_path, "count", to=0) == []
            with pytest.raises(GodwitError, match="the community is archived"):
                await asked(tmp_path, "refuse")
            with pytest.raises(GodwitError, match=r"fail failed: ZeroDivisionError"):
                await asked(tmp_path, "fail")

    run(scene())


def test_the_file_is_the_owners_alone_and_goes_with_the_channel(tmp_path: Path) -> None:
    async def scene() -> None:
        async with CommandChannel(tmp_path, Peer().run, {"pages": "http://127.0.0.1:1"}):
            assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
            assert said_in(tmp_path)["pages"] == "http://127.0.0.1:1"
        assert not (tmp_path / FILE).exists()

    run(scene())


@pytest.mark.parametrize(
    "data",
    [
        request("", "count", to=1),
        request("f" * 64, "count", to=1),
        b"GET / HTTP/1.1\r\n\r\n",
        b'{"token": 3}\n',
        b"\n",
        b"\xff\n",
        b'{"a":' * 100_000 + b"\n",
    ],
)
def test_a_request_without_the_token_learns_nothing(tmp_path: Path, data: bytes) -> None:
    async def scene() -> None:
        peer = Peer()
        async with CommandChannel(tmp_path, peer.run):
            assert await raw(tmp_path, data) == b""
            assert peer.begun == []
            assert await asked(tmp_path, "count", to=1) == [{"number": 0}]

    run(scene())


def test_a_request_that_does_not_come_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(command_channel, "REQUEST_S", 0.01)
        async with CommandChannel(tmp_path, Peer().run):
            assert await raw(tmp_path, b"") == b""

    run(scene())


def test_an_asker_that_goes_ends_its_command(tmp_path: Path) -> None:
    async def scene() -> None:
        peer = Peer()
        async with CommandChannel(tmp_path, peer.run):
            said = said_in(tmp_path)
            reader, writer = await asyncio.open_connection(said["host"], said["port"])
            writer.write(request(said["token"], "wait"))
            assert [json.loads(await reader.readline()) for _ in range(2)] == [
                {"taken": True},
                {"answer": {"number": 0}},
            ]
            assert peer.ended == []
            writer.close()
            await until(lambda: peer.ended == ["wait"], "the command has ended")

    run(scene())


def test_the_end_of_the_channel_ends_commands_and_their_askers_hear_of_it(tmp_path: Path) -> None:
    async def scene() -> None:
        peer = Peer()
        async with CommandChannel(tmp_path, peer.run):
            asking = asyncio.create_task(asked(tmp_path, "wait"))
            await until(lambda: peer.begun == ["wait"], "the command has begun")
        assert peer.ended == ["wait"]
        with pytest.raises(GodwitError, match="the peer stopped before it had answered"):
            await asking

    run(scene())


def test_there_is_a_bound_on_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(command_channel, "COMMANDS_MAX", 1)
        peer = Peer()
        async with CommandChannel(tmp_path, peer.run):
            said = said_in(tmp_path)
            _, writer = await asyncio.open_connection(said["host"], said["port"])
            writer.write(request(said["token"], "wait"))
            await until(lambda: peer.begun == ["wait"], "the command has begun")
            with pytest.raises(GodwitError, match="1 commands are running"):
                await asked(tmp_path, "count", to=1)
            writer.close()

    run(scene())


@pytest.mark.parametrize(
    ("said", "is_done_here"),
    [(b"", True), (b"220 mail\r\n", True), (b'{"taken": true}\n', False), (b'{"taken": true}\n{"answer": 1}\n', False)],
)
def test_a_command_that_was_taken_is_not_carried_out_a_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: bytes, is_done_here: bool
) -> None:
    done: list[str] = []
    monkeypatch.setattr("godwit.teamwork.peer_opening.run_here", lambda folder, command, *more: done.append(command))

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(said)
        writer.close()

    async def scene() -> None:
        server = await asyncio.start_server(take, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        (tmp_path / FILE).write_text(json.dumps({"host": host, "port": port, "token": "x"}))
        if is_done_here:
            await asked(tmp_path, "count")
        else:
            with pytest.raises(GodwitError, match="the peer stopped before it had answered 'count'"):
                await asked(tmp_path, "count")
        server.close()

    run(scene())
    assert bool(done) == is_done_here
