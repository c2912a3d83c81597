"""A peer that gives files: to whom, in which form, how many at once, and what the audit is told."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from godwit.errors import TransferError
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.file_connection import FileConnection
from godwit.teamwork.file_requests import (
    Form,
    Target,
    WantedFile,
    authorization,
    challenge_in,
    manifest_bytes,
    read_manifest,
    sealed_bytes,
)
from godwit.teamwork.file_rights import Permission, Shown
from godwit.teamwork.file_server import FileServer, ServerLimits
from godwit.teamwork.file_source import Me
from godwit.teamwork.manifests import CHUNK_BYTES
from tests.unit.teamwork.file_peers import RECORD, SCOPE, Giver, Keys, data_of, giving, me, wanted

DATA = data_of(2 * CHUNK_BYTES + 1000)


class Answered:
    """The answer to a request."""

    def __init__(self, head: bytes, body: bytes) -> None:
        line, *fields = head.decode().split("\r\n")
        self.status = int(line.split()[1])
        self.headers = {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}
        self.body = body


class Wire:
    """A connection to a server, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str, me: Me) -> None:
        self.reader, self.writer, self.peer, self.me = reader, writer, peer, me
        self.challenge = ""

    async def ask(self, target: Target | str, *, method: str = "GET", range: str = "", challenge: str = "") -> Answered:
        """Ask with a signature, once a challenge is known."""
        lines = [f"{method} {target} HTTP/1.1", "Host: x"] + ([f"Range: {range}"] if range else [])
        if challenge or self.challenge:
            said = (method, str(target), range)
            signed = authorization(self.me.devices, challenge or self.challenge, self.peer, self.me.asker, said)
            lines.append(f"Authorization: {signed}")
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        head = (await self.reader.readuntil(b"\r\n\r\n"))[:-4]
        answered = Answered(head, b"")
        if method != "HEAD":
            answered.body = await self.reader.readexactly(int(answered.headers["content-length"]))
        self.challenge = challenge_in(answered.headers.get("www-authenticate", "")) or self.challenge
        return answered


Scene = Callable[[Giver, dict[str, DeviceKeys]], Awaitable[None]]


def play(folder: Path, scene: Scene, limits: ServerLimits | None = None) -> None:
    async def run() -> None:
        team: dict[str, DeviceKeys] = {}
        async with giving("ann.laptop", folder, team, limits) as giver:
            await scene(giver, team)

    asyncio.run(run())


@asynccontextmanager
async def connected(
    giver: Giver, team: dict[str, DeviceKeys], device: str = "bob.phone", *, greet: bool = True
) -> AsyncIterator[Wire]:
    reader, writer = await asyncio.open_connection("127.0.0.1", giver.server.port)
    wire = Wire(reader, writer, giver.device, me(device, team))
    if greet:
        assert (await wire.ask(file_of(wanted_nothing()))).status == 401
    try:
        yield wire
    finally:
        writer.close()


def wanted_nothing() -> WantedFile:
    return WantedFile(SCOPE, RECORD, bytes(32), bytes(32))


def file_of(asked: WantedFile, form: Form = Form.FILE, chunks: range = range(0)) -> Target:
    return Target(form, asked.scope, asked.record, asked.name, chunks)


# ------------------------------------------------------------ who asks


def test_a_request_must_be_signed_by_a_device_of_the_team_for_this_connection(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        target = file_of(wanted(giver.has(DATA)))
        async with connected(giver, team) as bob, connected(giver, {}, "eve.phone") as eve:
            assert (await eve.ask(target)).status == 401
            assert (await bob.ask(target, challenge=eve.challenge)).status == 401, "another connection's challenge"
            bob.peer = "cid.laptop"
            assert (await bob.ask(target)).status == 401, "a request that was meant for another peer"
            assert giver.shown == []
            bob.peer = giver.device
            assert (await bob.ask(target)).body == DATA
            bob.me = me("cid.phone", team)
            assert (await bob.ask(target)).status == 401, "the connection is another device's"

    play(tmp_path, scene)


def test_a_file_that_may_not_be_read_looks_like_one_that_is_not_here(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        here = wanted(giver.has(DATA))
        async with connected(giver, team) as bob:
            missing = await bob.ask(file_of(wanted_nothing()))
            assert giver.shown == []
            giver.permission = Permission("not a member")
            refused = await bob.ask(file_of(here))
            assert (refused.status, refused.body) == (missing.status, missing.body)
            assert giver.shown == [Shown(bob.me.asker, SCOPE, RECORD, here.name, "not a member")]

    play(tmp_path, scene)


def test_a_right_that_ends_ends_the_transfer(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        target = file_of(wanted(giver.has(DATA)))
        async with connected(giver, team) as bob:
            assert (await bob.ask(target, range="bytes=0-9")).status == 206
            giver.permission = Permission("has left")
            assert (await bob.ask(target, range="bytes=10-19")).status == 404

    play(tmp_path, scene)


def test_the_audit_is_told_once_for_a_connection_and_before_any_byte(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        here = wanted(giver.has(DATA))
        async with connected(giver, team) as bob:
            for _ in range(3):
                assert (await bob.ask(file_of(here), range="bytes=0-9")).status == 206
            assert giver.shown == [Shown(bob.me.asker, SCOPE, RECORD, here.name)]

        def fail(shown: Shown) -> None:
            raise OSError("the disk is full")

        giver.audit = fail
        async with connected(giver, team) as bob:
            refused = await bob.ask(file_of(here))
            assert (refused.status, DATA[:20] in refused.body) == (500, False)
            assert await bob.reader.read() == b""
        assert "the disk is full" in giver.server.faults[-1]

    play(tmp_path, scene)


# ------------------------------------------------------------ what is given


def test_a_file_is_given_whole_in_parts_and_as_a_head(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        manifest = giver.has(DATA)
        target = file_of(wanted(manifest))
        async with connected(giver, team) as bob:
            whole = await bob.ask(target)
            assert (whole.status, whole.body) == (200, DATA)
            part = await bob.ask(target, range=f"bytes={CHUNK_BYTES - 3}-{CHUNK_BYTES + 3}")
            assert (part.status, part.body) == (206, DATA[CHUNK_BYTES - 3 : CHUNK_BYTES + 4])
            assert part.headers["content-range"] == f"bytes {CHUNK_BYTES - 3}-{CHUNK_BYTES + 3}/{len(DATA)}"
            head = await bob.ask(target, method="HEAD")
            assert (head.status, head.headers["content-length"]) == (200, str(len(DATA)))
            assert head.headers["etag"] == f'"{manifest.root.hex()}"'
            beyond = await bob.ask(target, range=f"bytes={len(DATA)}-")
            assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(DATA)}")
            assert (await bob.ask("/else")).status == 404
            answer = await bob.ask(file_of(wanted(manifest), Form.MANIFEST))
            assert read_manifest(wanted(manifest), answer.body) == manifest

    play(tmp_path, scene)


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_bytes_beyond_ten_gigabytes_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_in_memory: bool
) -> None:
    monkeypatch.setattr("godwit.teamwork.file_connection._is_in_memory", lambda *_: is_in_memory)

    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        manifest = giver.has(b"x")
        size = 10 * 2**30 + 5
        os.truncate(giver.files.path(manifest.name), size)
        with giver.files.path(manifest.name).open("r+b") as file:
            file.seek(-5, os.SEEK_END)
            file.write(b"tail!")
        large = manifest._replace(size=size, chunks=bytes(32 * 10_241))
        monkeypatch.setattr(giver.files, "manifest", lambda name: large)
        async with connected(giver, team) as bob:
            part = await bob.ask(file_of(wanted(large)), range=f"bytes={size - 9}-")
            assert part.body == b"\0\0\0\0tail!"

    play(tmp_path, scene)


def test_a_sealed_file_is_given_sealed_alone_and_opened_by_the_asking_device_alone(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        manifest = giver.has(DATA)
        asked = wanted(manifest)
        giver.permission = Permission(must_be_sealed=True)
        async with connected(giver, team) as bob:
            assert (await bob.ask(file_of(asked))).status == 403
            assert (await bob.ask(file_of(asked, Form.MANIFEST))).status == 403
            assert giver.shown == [], "nothing was given yet"
            sealed = await bob.ask(file_of(asked, Form.SEALED_CHUNKS, range(1, 3)))
            assert len(sealed.body) == sealed_bytes(manifest, range(1, 3))
            box = sealed.body[: CHUNK_BYTES + 48]
            assert bob.me.opened(box) == DATA[CHUNK_BYTES : 2 * CHUNK_BYTES]
            assert me("cid.phone", team).opened(box) is None
            assert DATA[CHUNK_BYTES : CHUNK_BYTES + 32] not in sealed.body
            said = await bob.ask(file_of(asked, Form.SEALED_MANIFEST))
            assert bob.me.opened(said.body) == manifest_bytes(manifest)
            for chunks in (range(2, 4), range(3, 4), range(2, 2)):
                assert (await bob.ask(file_of(asked, Form.SEALED_CHUNKS, chunks))).status == 404

    play(tmp_path, scene)


def test_a_damaged_chunk_is_not_sealed(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        manifest = giver.has(DATA)
        with giver.files.path(manifest.name).open("r+b") as file:
            file.write(b"damaged")
        async with connected(giver, team) as bob:
            with pytest.raises(asyncio.IncompleteReadError):
                await bob.ask(file_of(wanted(manifest), Form.SEALED_CHUNKS, range(1)))
        assert "is damaged" in giver.server.faults[-1]

    play(tmp_path, scene)


def test_what_is_no_http_is_answered_and_closed(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        async with connected(giver, team, greet=False) as bob:
            bob.writer.write(b"hello?\r\n\r\n")
            assert (await bob.reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")

    play(tmp_path, scene)


# ------------------------------------------------------------ bounds


def test_connections_of_a_device_and_of_a_user_are_bounded(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        target = file_of(wanted(giver.has(b"x")))
        async with connected(giver, team) as one, connected(giver, team) as two:
            assert (await one.ask(target)).status == 200
            assert (await two.ask(target)).status == 429, "one more of the device"
            async with connected(giver, team, "bob.laptop") as three, connected(giver, team, "bob.desk") as four:
                assert (await three.ask(target)).status == 200
                assert (await four.ask(target)).status == 429, "one more of the user"
                async with connected(giver, team, "cid.phone") as five:
                    assert (await five.ask(target)).status == 200, "others are not concerned"

    play(tmp_path, scene, ServerLimits(connections_per_user_max=2, connections_per_device_max=1))


def test_a_place_is_free_again_when_a_connection_ends(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        target = file_of(wanted(giver.has(b"x")))
        for _ in range(3):
            async with connected(giver, team) as one:
                assert (await one.ask(target)).status == 200
                one.writer.write_eof()
                assert await one.reader.read() == b""

    play(tmp_path, scene, ServerLimits(connections_per_device_max=1))


def test_strangers_cannot_keep_the_team_out(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        target = file_of(wanted(giver.has(b"x")))
        async with connected(giver, team) as member:
            assert (await member.ask(target)).status == 200
            async with connected(giver, {}, "eve.1") as first, connected(giver, {}, "eve.2"):
                async with connected(giver, team, "cid.phone") as other:
                    assert (await other.ask(target)).status == 200
                assert await first.reader.read() == b"", "the oldest stranger had to go"
            assert (await member.ask(target)).status == 200

    play(tmp_path, scene, ServerLimits(strangers_max=2))


def test_a_server_that_is_full_says_so(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        async with connected(giver, team), connected(giver, team, greet=False) as more:
            assert (await more.reader.read()).startswith(b"HTTP/1.1 503 ")

    play(tmp_path, scene, ServerLimits(connections_max=1))


def test_an_idle_connection_is_closed(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        async with connected(giver, team, greet=False) as bob:
            assert await bob.reader.read() == b""

    play(tmp_path, scene, ServerLimits(idle_s=0.01))


def test_a_connection_whose_other_end_does_not_read_is_closed(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        manifest = giver.has(data_of(8 * CHUNK_BYTES))
        here, there = socket.socketpair()
        with closing(there):
            for each in (here, there):
                each.setblocking(False)
            connection = FileConnection(giver.server, here)
            serving = asyncio.create_task(connection.serve())
            reader, writer = await asyncio.open_connection(sock=there)
            bob = Wire(reader, writer, giver.device, me("bob.phone", team))
            await bob.ask(file_of(wanted_nothing()))
            asking = asyncio.create_task(bob.ask(file_of(wanted(manifest))))
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            await serving
            asking.cancel()
            writer.close()

    play(tmp_path, scene, ServerLimits(idle_s=2.0))


def test_an_address_that_is_taken_is_named(tmp_path: Path) -> None:
    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        with pytest.raises(TransferError, match=f"cannot give files at 127.0.0.1:{giver.server.port}"):
            async with FileServer(
                giver.files, "x", Keys("x", team), lambda *_: Permission(), giver.audit, port=giver.server.port
            ):
                pass

    play(tmp_path, scene)


def test_a_server_tells_where_it_is_found(tmp_path: Path) -> None:
    async def addresses(giver: Giver, team: dict[str, DeviceKeys], host: str, announced: list[str]) -> tuple[str, ...]:
        keys = Keys("x", team)
        server = FileServer(
            giver.files, "x", keys, lambda *_: Permission(), giver.audit, host=host, announced_hosts=announced
        )
        assert server.addresses() == ()
        async with server:
            return tuple(address.rpartition(":")[0] for address in server.addresses())

    async def scene(giver: Giver, team: dict[str, DeviceKeys]) -> None:
        assert await addresses(giver, team, "127.0.0.1", []) == ("127.0.0.1",)
        assert await addresses(giver, team, "0.0.0.0", ["team.example", "::1"]) == ("team.example", "[::1]")
        assert "0.0.0.0" not in await addresses(giver, team, "", [])

    play(tmp_path, scene)
