"""`godwit team serve` as people run it: real processes with real brokers, killed, stopped and offline."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from godwit.teamwork.command_channel import FILE
from tests.network.cli_broker import godwit, lines
from tests.network.serving import ANY_PORT, fails, free_address, serving
from tests.network.team_peers import TeamPeer, asked, found, invited, team_peer
from tests.network.waiting import pause, run

NOWHERE = "127.0.0.1:1"
LOOK_S = 0.1
PATIENCE_S = 120.0


async def until(peer: TeamPeer, command: str, holds: Any, **arguments: Any) -> list[Any]:
    """Ask a peer, again and again, until its answers are so: another process does not tell when they change."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds(answers := await peer.ask(command, **arguments)):
            await pause(LOOK_S)
    return answers


async def send(peer: TeamPeer, text: str) -> None:
    await peer.ask("send message", to=["bob"], text=text, reply_to="", attachments=[])


def is_delivered_to(user: str) -> Callable[[list[Any]], bool]:
    """Whether all messages have a receipt of this user."""
    return lambda found: all([each["user"] for each in one["receipts"] if each["delivered"]] == [user] for one in found)


async def texts(folder: Path) -> list[str]:
    return [message["text"] for message in await asked(folder, "messages", conversation=[], unread=False)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_peer_serves_offline_and_ends_cleanly(tmp_path: Path, number: int) -> None:
    async def scene() -> None:
        ann = found(tmp_path, NOWHERE)
        async with team_peer(ann) as peer:
            assert (peer.said["user"], peer.said["pages"]) == ("ann", "")
            [status] = await peer.ask("status")
            assert status["connection"] != "attached"
            assert json.loads((ann / FILE).read_bytes())["process"] == peer.process.pid
            assert await peer.stop(number) == (0, "")
        assert not (ann / FILE).exists()

    run(scene())


def test_a_folder_is_served_once_and_commands_go_to_its_process(tmp_path: Path) -> None:
    async def scene() -> None:
        ann = found(tmp_path, NOWHERE)
        async with team_peer(ann) as peer:
            status, errors = await fails("team", "serve", "ann", "--pages", "", folder=tmp_path)
            assert status == 2
            assert f"a peer that runs already (process {peer.process.pid})" in errors
            done = await asyncio.to_thread(godwit, "team", "community", "create", "Optics", "--folder", str(ann))
            assert lines(done.stdout)[0]["name"] == "Optics"
            [community] = await peer.ask("communities")
            assert community["name"] == "Optics"
        [community] = await asked(ann, "communities")  # by opening the folder: nobody serves it now
        assert community["name"] == "Optics"

    run(scene())


def test_the_printed_link_logs_the_user_in_once(tmp_path: Path) -> None:
    async def scene() -> None:
        ann = found(tmp_path, NOWHERE)
        async with (
            team_peer(ann, "--pages", "127.0.0.1:0") as peer,
            httpx.AsyncClient(base_url=peer.said["pages"], headers={"x-godwit": "1"}) as browser,
        ):
            assert (await browser.get("/team/login")).status_code == 200
            code = peer.said["login"].partition("#")[2]
            assert (await browser.get("/api/people")).status_code == 401
            assert (await browser.post("/api/login", json={"code": code})).status_code == 200
            assert "ann" in (await browser.get("/api/people")).text
            assert (await browser.post("/api/login", json={"code": code})).status_code == 401

    run(scene())


def test_a_port_that_is_taken_is_told_with_what_to_do(tmp_path: Path) -> None:
    async def scene() -> None:
        found(tmp_path, NOWHERE)
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        status, errors = await fails("team", "serve", "ann", "--pages", address, folder=tmp_path)
        server.close()
        assert (status, errors.count("\n")) == (2, 1)
        assert f"listen.pages: cannot listen at {address}" in errors
        assert "choose another port with --pages" in errors

    run(scene())


def test_two_peers_of_a_team_talk_over_brokers_that_are_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        address = free_address()
        at = ("--native", str(address), "--mqtt", "", "--http", "")
        ann = found(tmp_path, address)
        bob = await invited(ann, "bob")
        async with team_peer(ann) as peer, team_peer(bob) as other:
            await send(peer, "before there is a broker")
            async with serving(*at, folder=tmp_path) as broker:
                await until(other, "messages", lambda found: len(found) == 1, conversation=[], unread=True)
                broker.process.kill()
                await broker.process.communicate()
            await send(peer, "while the broker is dead")
            async with serving(*at, folder=tmp_path):
                came = await until(other, "messages", lambda found: len(found) == 2, conversation=[], unread=True)
                sent = await until(peer, "messages", is_delivered_to("bob"), conversation=[], unread=False)
            assert [each["text"] for each in came] == ["before there is a broker", "while the broker is dead"]
            assert [each["receipts"][0]["read"] for each in sent] == [None, None]

    run(scene())


def test_what_a_peer_has_acknowledged_survives_every_kill_and_reaches_others(tmp_path: Path) -> None:
    async def scene() -> None:
        rng, acknowledged = Random(1), list[str]()
        async with serving(*ANY_PORT, folder=tmp_path) as broker:
            ann = found(tmp_path, broker.native)
            bob = await invited(ann, "bob")
            async with team_peer(bob) as other:
                for round in range(3):
                    async with team_peer(ann) as peer:
                        for n in range(rng.randrange(1, 8)):
                            await send(peer, text := f"{round}.{n}")
                            acknowledged.append(text)
                        await peer.kill()
                    assert await texts(ann) == acknowledged
                async with team_peer(ann):
                    wanted = set(acknowledged)
                    await until(
                        other,
                        "messages",
                        lambda found: {each["text"] for each in found} == wanted,
                        conversation=[],
                        unread=False,
                    )

    run(scene())


def test_a_killed_peer_leaves_a_file_that_misleads_nobody(tmp_path: Path) -> None:
    async def scene() -> None:
        ann = found(tmp_path, NOWHERE)
        async with team_peer(ann) as peer:
            await peer.kill()
        assert (ann / FILE).exists()
        assert [user["user"] for user in await asked(ann, "users")] == ["ann"]

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Another program that has the port now: it does not know the token."""
            await reader.readline()
            writer.close()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        said = json.loads((ann / FILE).read_bytes()) | {"port": server.sockets[0].getsockname()[1]}
        (ann / FILE).write_text(json.dumps(said))
        assert [user["user"] for user in await asked(ann, "users")] == ["ann"]
        server.close()

    run(scene())
