"""Who has a file: asked and answered over brokers, told to nobody but the asker."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, closing
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import godwit.testing
from godwit.filters.events import Event
from godwit.teamwork.content_files import ContentFiles
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.file_fetcher import FileFetcher
from godwit.teamwork.file_requests import Asker
from godwit.teamwork.file_rights import Permission, Shown
from godwit.teamwork.file_server import FileServer
from godwit.teamwork.file_source import Source
from godwit.teamwork.file_sources import FileSources
from godwit.teamwork.manifests import CHUNK_BYTES, Manifest
from tests.unit.teamwork.file_peers import QUICK, Keys, data_of, me, wanted

TEAM = "team/ann.0"
DATA = data_of(CHUNK_BYTES + 5)


class Peer:
    """A peer on a broker that asks, answers, gives and fetches."""

    def __init__(self, sources: FileSources, files: ContentFiles, fetcher: FileFetcher, client: Any) -> None:
        self.sources, self.files, self.fetcher, self.client = sources, files, fetcher, client
        self.permission = Permission()
        self.heard: list[Source] = []

    def has(self, data: bytes) -> Manifest:
        return self.files.store(BytesIO(data))


@asynccontextmanager
async def peer(net: Any, folder: Path, team: dict[str, DeviceKeys], device: str, at: str) -> AsyncIterator[Peer]:
    keys, self = Keys(device, team), me(device, team)

    def may_read(asker: Asker, scope: str, record: str, name: bytes) -> Permission:
        return made.permission

    def ignore(shown: Shown) -> None:
        pass

    with closing(ContentFiles(folder / device)) as files:
        async with (
            net.client(device, at=at, mode="named", confirm="read") as client,
            FileServer(files, device, keys, may_read, ignore) as server,
            FileSources(client, TEAM, self, keys, files, may_read, server.addresses, net.clock) as sources,
            FileFetcher(files, sources, self, limits=QUICK) as fetcher,
        ):
            made = Peer(sources, files, fetcher, client)
            await later(net)
            yield made


def play(folder: Path, scene: Any) -> None:
    async def run() -> None:
        async with godwit.testing.network(brokers=3) as net:
            await scene(net, partial(peer, net, folder, {}))

    asyncio.run(run())


async def later(net: Any) -> None:
    """Until everything has been sent that can be."""
    for _ in range(6):
        await net.settled()
        await net.advance(0.5)


async def fetched(net: Any, work: Awaitable[Path]) -> Path:
    """What is fetched, while the time of the network goes on."""
    fetch = asyncio.ensure_future(work)
    while not fetch.done():
        await later(net)
        await asyncio.wait([fetch], timeout=0.01)
    return await fetch


async def answers(net: Any, asker: Peer, manifest: Manifest) -> list[str]:
    """The devices that say that they have a file."""
    heard: list[Source] = []
    stop = asker.sources.listen(wanted(manifest), heard.append)
    asker.sources.ask(wanted(manifest))
    await later(net)
    stop()
    return sorted(source.device for source in heard)


def test_peers_that_have_a_file_answer_if_the_asker_may_read_it(tmp_path: Path) -> None:
    async def scene(net: Any, peer: Any) -> None:
        async with peer("ann.desk", "b1") as ann, peer("bob.phone", "b2") as bob, peer("cid.desk", "b3") as cid:
            manifest = ann.has(DATA)
            assert await answers(net, bob, manifest) == ["ann.desk"]
            cid.has(DATA)
            assert await answers(net, bob, manifest) == ["ann.desk", "cid.desk"]
            ann.permission = Permission("no")
            assert await answers(net, bob, manifest) == ["cid.desk"]
            other = manifest._replace(chunks=bytes(64))
            assert await answers(net, bob, other) == [], "the same name with another manifest"
            assert not [*ann.sources.faults, *bob.sources.faults, *cid.sources.faults]

    play(tmp_path, scene)


def test_an_answer_goes_to_the_asker_alone_and_shows_brokers_no_address(tmp_path: Path) -> None:
    async def scene(net: Any, peer: Any) -> None:
        async with peer("ann.desk", "b1") as ann, peer("bob.phone", "b2") as bob, peer("cid.desk", "b3"):
            manifest = ann.has(DATA)
            assert await answers(net, bob, manifest) == ["ann.desk"]
            assert [event.attributes["message"] for event in net.received("cid.desk")] == ["who_has"]
            [answer] = [event for event in net.received("bob.phone") if event.attributes["message"] == "has_file"]
            assert b"127.0.0.1" not in (answer.payload or b"")
            assert b"ann.desk" not in (answer.payload or b"")

    play(tmp_path, scene)


def test_what_is_not_signed_or_no_message_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    async def scene(net: Any, peer: Any) -> None:
        async with peer("ann.desk", "b1") as ann, peer("bob.phone", "b2") as bob:
            manifest = ann.has(DATA)
            await answers(net, bob, manifest)
            [asked] = [event for event in net.received("ann.desk") if event.attributes["message"] == "who_has"]
            payload = bytearray(asked.payload)
            payload[-1] ^= 1  # of the signature
            attributes = {"team_files": TEAM, "message": "who_has"}
            for wrong in (bytes(payload), b"", b"nonsense", bytes(20_000)):
                await bob.client.publish(Event(attributes, payload=wrong))
            await later(net)
            assert len(ann.sources.faults) == 4
            assert "no signature of device bob.phone" in ann.sources.faults[0]
            assert await answers(net, bob, manifest) == ["ann.desk"]

    play(tmp_path, scene)


def test_a_file_is_found_and_fetched_also_after_a_move_to_another_broker(tmp_path: Path) -> None:
    async def scene(net: Any, peer: Any) -> None:
        async with peer("ann.desk", "b1") as ann, peer("bob.phone", "b2") as bob:
            manifests = [ann.has(DATA), ann.has(DATA + b"2")]
            assert (await fetched(net, bob.fetcher.fetch(wanted(manifests[0])))).read_bytes() == DATA
            await ann.client.move("b3")
            await bob.client.move()
            await later(net)
            fetch = asyncio.create_task(bob.fetcher.fetch(wanted(manifests[1])))
            await later(net)
            assert not fetch.done()
            await bob.client.move("b1")
            assert (await fetched(net, fetch)).read_bytes() == DATA + b"2"

    play(tmp_path, scene)
