"""Files that come from other peers: what arrives is what was stored, whoever lies, fails, moves or is killed."""

import asyncio
import errno
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from subprocess import PIPE
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from godwit.errors import ContentError, TransferError
from godwit.teamwork.content_files import ContentFiles, Limits
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.file_rights import Permission
from godwit.teamwork.file_server import ServerLimits
from godwit.teamwork.file_source import Source
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest
from tests.conventions.repository import ROOT
from tests.unit.teamwork.file_peers import QUICK, Giver, data_of, fetching, giving, me, wanted
from tests.unit.teamwork.killed_fetcher import Settings

PROGRAM = Path(__file__).with_name("killed_fetcher.py")
Team = dict[str, DeviceKeys]


def play(folder: Path, scene: Callable[[Team, list[Giver]], Awaitable[None]], givers: int = 1) -> None:
    """A scene with some peers that give files."""

    async def run() -> None:
        team: Team = {}
        async with AsyncExitStack() as stack:
            names = [f"ann.{number}" for number in range(givers)]
            all = [await stack.enter_async_context(giving(name, folder, team)) for name in names]
            await scene(team, all)

    asyncio.run(run())


def spoil(giver: Giver, manifest: Manifest, at: int) -> None:
    """The peer has other bytes than it says."""
    with giver.files.path(manifest.name).open("r+b") as file:
        file.seek(at)
        file.write(b"a lie")


def told_by(came: asyncio.Event) -> Callable[[int, int], None]:
    """Progress that says when the first chunk is here."""

    def progress(done: int, size: int) -> None:
        if done:
            came.set()

    return progress


# ------------------------------------------------------------ what arrives


@settings(max_examples=25, deadline=None)
@given(
    size=st.sampled_from([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 5 * CHUNK_BYTES + 77]),
    givers=st.integers(1, 3),
    liars=st.sets(st.integers(0, 2), max_size=2),
    there=st.sets(st.integers(0, 5)),
    is_sealed=st.booleans(),
)
def test_what_arrives_is_what_was_stored(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    givers: int,
    liars: set[int],
    there: set[int],
    is_sealed: bool,
) -> None:
    """From any peers of which one is honest, whatever was there before, sealed or not."""
    data = data_of(size, size)
    liars = {each for each in liars if each < givers - 1 and size}

    async def scene(team: Team, all: list[Giver]) -> None:
        for number, giver in enumerate(all):
            manifest = giver.has(data)
            giver.permission = Permission(must_be_sealed=is_sealed)
            if number in liars:
                spoil(giver, manifest, (number * CHUNK_BYTES) % size)
        async with fetching(folder, team, [giver.source for giver in all]) as bob:
            draft = bob.files.draft(f"fetch {manifest.root.hex()}", manifest)
            for number in there & set(draft.missing()):
                draft.put(number, data[number * CHUNK_BYTES :][:CHUNK_BYTES])
            draft.close()
            path = await bob.fetcher.fetch(wanted(manifest))
            assert path.read_bytes() == data
            assert bob.files.manifest(manifest.name) == manifest
            assert (bob.files.drafts(), bob.files.bytes_used) == ([], size)
            assert {each.device for each in bob.dropped} <= {f"ann.{number}" for number in liars}

    folder = tmp_path_factory.mktemp("fetch")
    play(folder, scene, givers)


def test_a_file_comes_from_several_peers_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_by: set[int] = set()
    real = os.sendfile

    def sendfile(out: int, source: int, at: int, count: int) -> int:
        given_by.add(os.fstat(source).st_ino)
        return real(out, source, at, count)

    monkeypatch.setattr(os, "sendfile", sendfile)

    async def scene(team: Team, all: list[Giver]) -> None:
        manifest, _ = (giver.has(data_of(24 * CHUNK_BYTES)) for giver in all)
        async with fetching(tmp_path, team, [giver.source for giver in all]) as bob:
            await bob.fetcher.fetch(wanted(manifest))
        assert given_by == {giver.files.path(manifest.name).stat().st_ino for giver in all}

    play(tmp_path, scene, givers=2)


def test_two_who_want_the_same_file_fetch_it_once(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        manifest = all[0].has(data_of(3 * CHUNK_BYTES))
        told: list[list[tuple[int, int]]] = [[], []]
        async with fetching(tmp_path, team, [all[0].source]) as bob:
            fetches = (bob.fetcher.fetch(wanted(manifest), lambda *said, to=to: to.append(said)) for to in told)
            first, second = await asyncio.gather(*fetches)
            assert first == second == bob.files.path(manifest.name)
            assert await bob.fetcher.fetch(wanted(manifest)) == first
        assert told[0] == told[1] == sorted(told[0])
        assert told[0][-1] == (manifest.size, manifest.size)
        assert bob.sources.asked == 1

    play(tmp_path, scene)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_file_of_ten_gigabytes_arrives(tmp_path: Path) -> None:
    size = 10 * 2**30

    async def scene(team: Team, all: list[Giver]) -> None:
        zeros, whole = bytes(CHUNK_BYTES), sha256()
        for _ in range(size // CHUNK_BYTES):
            whole.update(zeros)
        manifest = Manifest(whole.digest(), size, sha256(zeros).digest() * (size // CHUNK_BYTES))
        draft = all[0].files.draft("sparse", manifest)
        for number in draft.missing():
            draft.put(number, zeros, manifest.hash_of(number))
        assert draft.finish() == manifest
        async with fetching(tmp_path, team, [all[0].source]) as bob:
            path = await bob.fetcher.fetch(wanted(manifest))
            assert path.stat().st_size == size
            assert path.stat().st_blocks * 512 < size // 100, "holes stay holes"

    play(tmp_path, scene)


# ------------------------------------------------------------ lies


def test_a_peer_that_lies_about_a_hash_is_dropped_and_reported(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        honest, liar = all
        manifest, _ = (giver.has(data_of(4 * CHUNK_BYTES)) for giver in all)
        spoil(liar, manifest, 0)
        async with fetching(tmp_path, team, [liar.source]) as bob:
            fetch = asyncio.create_task(bob.fetcher.fetch(wanted(manifest)))
            heard = asyncio.create_task(bob.has_dropped.wait())
            await asyncio.wait([fetch, heard], return_when=asyncio.FIRST_COMPLETED)
            assert bob.dropped
            bob.sources.tell(honest.source)
            assert (await fetch).read_bytes() == data_of(4 * CHUNK_BYTES)
            [dropped] = bob.dropped
            assert (dropped.device, dropped.wanted) == (liar.device, wanted(manifest))
            assert f"chunk 0 of {manifest.name.hex()} has another hash than its manifest says" in dropped.reason

    play(tmp_path, scene, givers=2)


def test_a_manifest_with_another_root_is_a_lie(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        manifest = all[0].has(b"true")
        asked = msgspec.structs.replace(wanted(manifest), root=bytes(32))
        limits = msgspec.structs.replace(QUICK, give_up_s=2.0)
        async with fetching(tmp_path, team, [all[0].source], limits) as bob:
            with pytest.raises(TransferError, match=r"ann.0: was dropped, since it lied: .* has another hash"):
                await bob.fetcher.fetch(asked)
            assert len(bob.dropped) == 1

    play(tmp_path, scene)


def test_a_document_that_names_a_false_manifest_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        [giver] = all
        manifest = giver.has(b"true")
        false = manifest._replace(name=sha256(b"another").digest())
        giver.files.path(false.name).parent.mkdir(exist_ok=True)
        giver.files.path(false.name).write_bytes(b"true")
        giver.files.manifest = lambda name: false  # type: ignore[method-assign]
        async with fetching(tmp_path, team, [giver.source]) as bob:
            with pytest.raises(ContentError, match="the manifest is false"):
                await bob.fetcher.fetch(wanted(false))
            assert (bob.files.names(), bob.files.drafts(), bob.files.bytes_used) == ([], [], 0)

    play(tmp_path, scene)


# ------------------------------------------------------------ failures


def test_a_file_that_nobody_gives_is_an_error_that_names_everybody(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        first, second = all
        manifest = first.has(b"x")
        second.has(b"x")
        first.permission = Permission("no")
        gone = Source("cid.phone", ("127.0.0.1:1", "no address"))
        limits = msgspec.structs.replace(QUICK, give_up_s=2.0)
        async with fetching(tmp_path, team, [first.source, gone], limits) as bob:
            with pytest.raises(TransferError) as failed:
                await bob.fetcher.fetch(wanted(manifest))
            assert "cannot fetch the file" in str(failed.value)
            assert "artefact/1 in community/ann.1" in str(failed.value)
            assert "ann.0: 404 there is no such file here, or you may not read it" in str(failed.value)
            assert "cid.phone: 127.0.0.1:1: [Errno 111] Connection refused; no address: " in str(failed.value)
            assert bob.sources.asked > 1
            bob.sources.sources = []
            with pytest.raises(TransferError, match="no peer with this file has answered; nothing of it is here yet"):
                await bob.fetcher.fetch(wanted(manifest))
            bob.sources.sources = [second.source]
            assert (await bob.fetcher.fetch(wanted(manifest))).read_bytes() == b"x"

    play(tmp_path, scene, givers=2)


def test_a_fetch_goes_on_when_its_peer_comes_back_at_another_address(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        data = data_of(40 * CHUNK_BYTES)
        limits = msgspec.structs.replace(QUICK, connections_per_peer_max=1)
        async with fetching(tmp_path, team, [], limits) as bob:
            came = asyncio.Event()
            async with giving("dan.desk", tmp_path, team) as dan:
                manifest = dan.has(data)
                bob.sources.sources = [dan.source]
                fetch = asyncio.create_task(bob.fetcher.fetch(wanted(manifest), told_by(came)))
                await came.wait()
                bob.sources.sources = []
            assert not fetch.done()
            async with giving("dan.desk", tmp_path, team) as dan:
                bob.sources.sources = [dan.source]
                assert (await fetch).read_bytes() == data

    play(tmp_path, scene, givers=0)


def test_a_peer_that_is_busy_is_tried_again(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        async with giving("dan.desk", tmp_path, team, ServerLimits(connections_per_user_max=1)) as dan:
            manifests = [dan.has(data_of(6 * CHUNK_BYTES, seed)) for seed in range(3)]
            async with fetching(tmp_path, team, [dan.source]) as bob:
                await asyncio.gather(*(bob.fetcher.fetch(wanted(each)) for each in manifests))

    play(tmp_path, scene, givers=0)


def test_a_fetch_that_nobody_waits_for_ends_and_is_taken_up_again(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        data = data_of(40 * CHUNK_BYTES)
        manifest = all[0].has(data)
        limits = msgspec.structs.replace(QUICK, connections_per_peer_max=1)
        async with fetching(tmp_path, team, [all[0].source], limits) as bob:
            came = asyncio.Event()
            fetch = asyncio.create_task(bob.fetcher.fetch(wanted(manifest), told_by(came)))
            await came.wait()
            fetch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetch
            there = bob.files.bytes_used
            assert 0 < there < manifest.size
            told: list[int] = []
            await bob.fetcher.fetch(wanted(manifest), lambda done, _: told.append(done))
            assert told[0] == there

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"\0\1\2 nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\nzz",
        b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 500 " + 70_000 * b"x" + b"\r\n\r\n",
    ],
)
@pytest.mark.parametrize("closes", [True, False])
def test_a_peer_that_answers_nonsense_or_nothing_harms_nobody(tmp_path: Path, answer: bytes, closes: bool) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        manifest = all[0].has(data_of(2 * CHUNK_BYTES))
        met = asyncio.Event()

        async def nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            met.set()
            if not closes:
                await reader.read()
            writer.close()

        async with await asyncio.start_server(nonsense, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with fetching(tmp_path, team, [Source("eve.phone", (f"127.0.0.1:{port}",))]) as bob:
                fetch = asyncio.create_task(bob.fetcher.fetch(wanted(manifest)))
                await met.wait()
                bob.sources.sources = [all[0].source]
                bob.sources.tell(all[0].source)
                assert (await fetch).read_bytes() == data_of(2 * CHUNK_BYTES)

    play(tmp_path, scene)


# ------------------------------------------------------------ the disk


def test_a_full_disk_ends_the_fetch_and_what_came_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        manifest = all[0].has(data_of(8 * CHUNK_BYTES))
        real, room = os.pwrite, [3 * CHUNK_BYTES + 1000]

        def pwrite(handle: int, data: memoryview, at: int) -> int:
            if room[0] <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            count = real(handle, data[: room[0]], at)
            room[0] -= count
            return count

        limits = msgspec.structs.replace(QUICK, connections_per_peer_max=1)
        async with fetching(tmp_path, team, [all[0].source], limits) as bob:
            kept = bob.files.store(BytesIO(b"kept"))
            with monkeypatch.context() as patched:
                patched.setattr(os, "pwrite", pwrite)
                with pytest.raises(ContentError, match=r"no room on the disk .*what was stored stays"):
                    await bob.fetcher.fetch(wanted(manifest))
            assert bob.files.names() == [kept.name]
            assert bob.files.bytes_used == 4 + 3 * CHUNK_BYTES
            assert (await bob.fetcher.fetch(wanted(manifest))).read_bytes() == data_of(8 * CHUNK_BYTES)

    play(tmp_path, scene)


def test_a_file_beyond_the_quota_is_refused_before_it_is_begun(tmp_path: Path) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        manifest = all[0].has(data_of(3 * CHUNK_BYTES))
        async with fetching(tmp_path, team, [all[0].source]) as bob:
            bob.files.limits = Limits(bytes_max=2 * CHUNK_BYTES)
            with pytest.raises(ContentError, match="no room for 3,145,728 more bytes"):
                await bob.fetcher.fetch(wanted(manifest))
            assert (bob.files.drafts(), bob.files.bytes_used) == ([], 0)

    play(tmp_path, scene)


# ------------------------------------------------------------ kills


async def killed_fetch(folder: Path, settings: Settings) -> list[int]:
    """Let a process fetch until it has told of some chunks, and kill it; what it has told."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    command = [sys.executable, str(PROGRAM), msgspec.json.encode(settings).decode()]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=variables)
    assert process.stdout is not None
    told: list[int] = []
    while not told or told[-1] < settings.stop_after:
        told.append(int(await process.stdout.readline()))
    process.kill()
    await process.wait()
    return told


def test_a_fetch_goes_on_after_a_kill_and_asks_only_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(team: Team, all: list[Giver]) -> None:
        data = data_of(40 * CHUNK_BYTES)
        manifest = all[0].has(data)
        limits = msgspec.structs.replace(QUICK, connections_per_peer_max=1)
        me("bob.phone", team)
        team["bob.phone"].save(tmp_path / "keys")
        program = Settings(
            str(tmp_path), "bob.phone", str(tmp_path / "keys"), [all[0].source], wanted(manifest), limits, stop_after=10
        )
        told = await killed_fetch(tmp_path, program)
        files = ContentFiles(tmp_path / "bob.phone")
        there = files.bytes_used
        files.close()
        assert 10 <= max(told) <= there // CHUNK_BYTES < 40

        sent: list[int] = []
        real = os.sendfile

        def sendfile(*arguments: Any) -> int:
            sent.append(real(*arguments))
            return sent[-1]

        monkeypatch.setattr(os, "sendfile", sendfile)
        async with fetching(tmp_path, team, [all[0].source], limits) as bob:
            assert (await bob.fetcher.fetch(wanted(manifest))).read_bytes() == data
        assert sum(sent) == manifest.size - there

    play(tmp_path, scene)
