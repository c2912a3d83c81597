"""Plays a scenario of a team with processes: `godwit team serve` for each device, `godwit serve` for each broker.

Every device reaches its broker through a proxy, and so do two brokers that are linked. A device that moves is one whose
proxy leads to another broker from then on; one that leaves finds nobody there. Processes are killed by SIGKILL. What
goes between brokers is disturbed by resets and delays: TCP hides loss and duplicates from both ends.

Somebody listens to all that the team publishes, and forges what the scenario says. In the end all peers are killed at
once, and what is on their disks is judged, as in the simulator.
"""

import asyncio
import json
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from godwit.errors import GodwitError
from godwit.filters.events import Event
from godwit.runtime import Address, connect
from godwit.runtime.network_client import NetworkClient
from godwit.teamwork.command_channel import FILE as CHANNEL
from godwit.teamwork.device_keys import DeviceKeys, TeamDevices
from godwit.teamwork.machine.bus import Changes, attributes_of, quoted
from godwit.teamwork.machine.changes import Change, hash_of, signed_bytes
from godwit.teamwork.machine.peer import Identity, Peer
from godwit.teamwork.repository import FILE, Repository
from godwit.teamwork.sealing import KeyRing
from godwit.teamwork.team_folder import join_team, new_team
from tests.network.haste import HASTE
from tests.network.proxy import Proxy
from tests.network.serving import ANY_PORT, Served, serving
from tests.network.team_peers import TeamPeer, team_peer
from tests.network.waiting import PATIENCE_S, pause
from tests.simulation.team_laws import (
    AFTER_CID,
    FORGED,
    Acknowledged,
    Fetched,
    Outcome,
    PeerAtEnd,
    Searched,
    is_converged,
)
from tests.simulation.team_scenarios import (
    ANN,
    BOB,
    BOBS,
    BROKERS,
    CID,
    DOCUMENTS,
    EVE,
    LINKS,
    MEMBERS,
    OTHER_ANN,
    USERS,
    AddPrivate,
    Ask,
    Crash,
    CutLink,
    Describe,
    Disturb,
    Forge,
    Kill,
    Leave,
    Move,
    Rest,
    Restart,
    SetMember,
    Step,
    StoreVersion,
    TeamScenario,
)
from tests.unit.teamwork.machine.team_of_peers import PlainIndex

__all__ = ["RealTeam", "played", "serve_folder"]

HUB = "b2"
NOBODY = Address("127.0.0.1", 1)
LOOK_S = 0.1
PACE = 0.1  # of a scenario's time: what takes seconds on a network takes less on one machine
EARLY_S = 1.0
LAST_S = PATIENCE_S

Start = Callable[[Path, str], Any]
"""Serves a folder at a broker: a context with the peer that runs."""


AfterKill = Callable[[Path], None]
"""What becomes of a folder between a kill and the next start."""


def nothing(folder: Path) -> None:
    """A disk that keeps what was written."""


def serve_folder(folder: Path, broker: str) -> Any:
    """`godwit team serve`."""
    return team_peer(folder, "--broker", broker, environment=HASTE)


class _Processes:
    """One process by name, of those that are up. Each is killed in the end."""

    def __init__(self) -> None:
        self._stacks: dict[Any, AsyncExitStack] = {}
        self.up: dict[Any, Any] = {}

    async def start(self, name: Any, process: Any) -> Any:
        stack = AsyncExitStack()
        self.up[name] = await stack.enter_async_context(process)
        self._stacks[name] = stack
        return self.up[name]

    async def kill(self, name: Any) -> None:
        """SIGKILL, and wait for the end."""
        if self.up.pop(name, None) is not None:
            await self._stacks.pop(name).aclose()

    async def kill_all(self) -> None:
        await asyncio.gather(*(self.kill(name) for name in list(self.up)))


class RealTeam:
    """Brokers, proxies and peers, and what was acknowledged."""

    def __init__(self, folder: Path, scenario: TeamScenario, start: dict[int, Start], after_kill: AfterKill) -> None:
        """`start`: by place, how to serve its folder, in place of `godwit team serve`."""
        self.folder, self.scenario, self._start, self._after_kill = folder, scenario, start, after_kill
        self.folders = [folder / f"{user}-{place}" for place, user in enumerate(USERS)]
        self.ways = [Proxy(NOBODY) for _ in USERS]
        self.homes = list(scenario.homes)
        self.links = [Proxy(NOBODY) for _ in LINKS]
        self.brokers, self.peers = _Processes(), _Processes()
        self.team = self.scope = self.private = ""
        self.documents: list[str] = []
        self.acknowledged: list[Acknowledged] = []
        self.searches: list[Searched] = []
        self.stored: dict[str, int] = {}
        self.fetched: list[Fetched] = []
        self.payloads: list[bytes] = []
        self._early: list[asyncio.Task[None]] = []
        self._forged: Change | None = None
        self._listener: NetworkClient
        self._at_end = ExitStack()

    # ------------------------------------------------------------ brokers

    async def start_brokers(self) -> None:
        """Those that are down. All but the hub dial it, each through the proxy of its link."""
        down = {*BROKERS} - self.brokers.up.keys()
        if HUB in down:
            others = [word for name in BROKERS if name != HUB for word in ("--neighbour", name)]
            hub = await self._start_broker(HUB, *others)
            for link in self.links:
                link.target = hub.native
        leaves = sorted(down - {HUB})
        at = [f"{HUB}={self.links[_link_of(name)].address}" for name in leaves]
        await asyncio.gather(*map(self._start_broker, leaves, ["--neighbour"] * len(leaves), at))
        for place in range(len(USERS)):
            self._lead(place)

    async def _start_broker(self, name: str, *neighbours: str) -> Served:
        family = ("--set", f"broker.family={self.scenario.family}")
        quiet = ("--log-level", "error")  # nobody reads their log, and a pipe that is full stops them
        words = ("--name", name, *ANY_PORT, *neighbours, *family, *quiet, "--folder", str(self.folder / name))
        served: Served = await self.brokers.start(name, serving(*words, folder=self.folder, environment=HASTE))
        return served

    def _lead(self, place: int) -> None:
        """Let the way of a device lead to where its broker is now."""
        broker = self.brokers.up.get(self.homes[place])
        self.ways[place].target = broker.native if broker else NOBODY

    # ------------------------------------------------------------ peers

    async def start_peer(self, place: int) -> TeamPeer:
        start = self._start.get(place, serve_folder)
        peer: TeamPeer = await self.peers.start(place, start(self.folders[place], str(self.ways[place].address)))
        return peer

    async def ask(self, place: int, command: str, **arguments: Any) -> Any:
        """The last answer to a command."""
        return (await self.answers(place, command, **arguments))[-1]

    async def answers(self, place: int, command: str, **arguments: Any) -> list[Any]:
        """All answers."""
        return [answer async for answer in commanded(self.folders[place], command, arguments)]

    async def begin(self) -> None:
        """The team, its communities and documents, known to all who may know them."""
        for proxy in (*self.ways, *self.links):
            await proxy.start()
        await self.start_brokers()
        founded = new_team(self.folders[ANN], "ann", brokers=[str(self.ways[ANN].address)])
        self.team = founded.team
        await self.start_peer(ANN)
        for place in range(1, len(USERS)):
            invitation = await self.ask(
                ANN, "invite user", name=USERS[place], role="editor", fields=[], device=f"d{place}"
            )
            join_team(self.folders[place], invitation["invitation"])
        await asyncio.gather(*(self.start_peer(place) for place in range(1, len(USERS))))
        settings = {"description": "", "join": "approval", "rule": "", "language": "xql", "sealed": True}
        self.scope = (await self.ask(ANN, "create community", name="Optics", listed=True, **settings))["id"]
        await self._until_known("users", "user", {*USERS}, range(len(USERS)))
        self.private = (await self.ask(BOB, "create community", name="Own", listed=False, **settings))["id"]
        for user in ("bob", "cid"):
            await self.ask(ANN, "add member", community=self.scope, user=user, role="editor")
        for number in range(DOCUMENTS):
            self.documents.append(await self._add(ANN, self.scope, f"report of document {number}", b""))
        await self._until_known("communities", "id", {self.private, self.scope}, BOBS)
        await self._until_known("documents", "id", set(self.documents), (*MEMBERS, CID), community="")

    async def _until_known(
        self, command: str, key: str, wanted: set[str], places: Iterable[int], **arguments: Any
    ) -> None:
        async with asyncio.timeout(PATIENCE_S):
            for place in places:
                while wanted - {each[key] for each in await self.answers(place, command, **arguments)}:
                    await pause(LOOK_S)

    # ------------------------------------------------------------ what users do

    async def do(self, step: Step) -> None:
        with suppress(GodwitError):  # a user without the right, or without the document
            match step:
                case Describe(place=place, document=document, title=title):
                    id = self.documents[document]
                    await self.ask(place, "describe document", document=id, fields=[f"title={title}"])
                    self._acknowledge(place, self.scope, id, "title", title)
                case StoreVersion(place=place, document=document, seed=seed, size=size):
                    data, id = Random(seed).randbytes(size), self.documents[document]
                    with self._file(data) as path:
                        await self.ask(place, "change document", document=id, path=path)
                    self._acknowledge(place, self.scope, id, "content", sha256(data).hexdigest())
                case AddPrivate(place=place, title=title, is_shown=is_shown):
                    id = await self._add(place, self.private, title, title.encode())
                    if is_shown:
                        await self.ask(place, "share document", document=id, users=["ann"], communities=[])
                case Ask(place=place, name=name):
                    own = self.peers.up[place].said["device"]  # it may be killed before the task begins
                    self._early.append(asyncio.create_task(self._search(place, own, name, EARLY_S)))
                case SetMember(place=place, is_member=True):
                    await self.ask(place, "add member", community=self.scope, user="cid", role="editor")
                case SetMember(place=place):
                    await self.ask(place, "remove member", community=self.scope, user="cid")
                case Forge(document=document):
                    await self._forge(document)
                case Rest(seconds=seconds):
                    await pause(seconds * PACE)
                case _:
                    await self._fail(step)

    def _acknowledge(self, place: int, scope: str, id: str, field: str, value: str) -> None:
        self.acknowledged.append(Acknowledged(place, scope, f"artefact/{id}", field, value))

    @contextmanager
    def _file(self, data: bytes) -> Iterator[str]:
        """A file with these bytes, which is gone when it was stored."""
        self.stored[sha256(data).hexdigest()] = len(data)
        path = self.folder / "file.bin"
        path.write_bytes(data)
        yield str(path)
        path.unlink()

    async def _add(self, place: int, scope: str, title: str, data: bytes) -> str:
        with self._file(data) as path:
            fields = [f"title={title}"]
            added = await self.ask(place, "add document", path=path, community=scope, name="file.bin", fields=fields)
        self._acknowledge(place, scope, added["id"], "title", title)
        self._acknowledge(place, scope, added["id"], "content", sha256(data).hexdigest())
        return str(added["id"])

    async def _search(self, place: int, own: str, name: str, wait_s: float) -> None:
        """All that comes of a search, also when the peer is killed in the middle."""
        answers: list[dict[str, Any]] = []
        wanted: dict[str, Any] = {"query": "", "language": "xql", "words": "report"}
        wanted |= {"kinds": ["artefact"], "communities": []}
        wanted |= {"wait_s": wait_s, "stays_open": False}
        with suppress(GodwitError):
            async for answer in commanded(self.folders[place], "search", wanted):
                answers.append(answer)  # noqa: PERF401 (those that came before it was killed are kept)
        results = [each["result"] for each in answers if "result" in each]
        answered = [device for each in answers for device in each.get("progress", {}).get("answered", ())]
        self.searches.append(
            Searched(
                place,
                name,
                tuple((each["scope"], each["record"]) for each in results),
                tuple(each["scope"] for each in results if each["device"] != own),
                frozenset(answered),
            )
        )

    # ------------------------------------------------------------ who listens and forges

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Eve hears all that the team publishes, at the hub, as whoever runs a broker could."""
        way = Proxy(self.brokers.up[HUB].native)
        await way.start()
        self.links.append(way)  # it leads to the hub, as they do
        async with connect(way.address, name="listener") as listener:
            self._listener = listener
            everything = await listener.subscribe(f"team = {quoted(self.team)}", name="all")

            async def listen() -> None:
                async for event in everything:
                    self.payloads.append(event.payload or b"")

            task = asyncio.create_task(listen())
            try:
                yield
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _forge(self, document: int) -> None:
        eve, keys = self.peers.up[EVE].said["device"], DeviceKeys.load(self.folders[EVE] / "device.json")
        previous, number = self._forged, 1 if self._forged is None else self._forged.number + 1
        fields = {"title": FORGED}
        forged = Change(
            self.scope, eve, number, 1_000_000 + number, "eve", f"artefact/{self.documents[document]}", fields
        )
        forged = msgspec.structs.replace(forged, previous=hash_of(previous) if previous else b"")
        self._forged = msgspec.structs.replace(forged, signature=keys.signing.sign(signed_bytes(forged)))
        message = Changes(eve, self.scope, (self._forged,), {})
        attributes = attributes_of(self.team, message)
        self._listener.publish(Event(attributes, payload=msgspec.msgpack.encode(message)))

    # ------------------------------------------------------------ what fails

    async def _fail(self, step: Step) -> None:
        match step:
            case Move(place=place, broker=broker):
                self.homes[place] = broker
                self.ways[place].reset()
                self.ways[place].open()
                self._lead(place)
            case Leave(place=place):
                self.ways[place].close()
            case Kill(place=place):
                await self.peers.kill(place)
                self._after_kill(self.folders[place])
                await self.start_peer(place)
            case CutLink(link=link):
                self.links[link].close()
            case Disturb(loss=loss, duplicate=duplicate):
                for each in self.links:
                    each.reset()
                    each.delay_s = (loss + duplicate) * PACE
            case Crash(broker=name, keeps_disk=keeps_disk):
                await self.brokers.kill(name)
                if not keeps_disk:
                    shutil.rmtree(self.folder / name, ignore_errors=True)
                for place in range(len(USERS)):
                    self._lead(place)
            case Restart():
                await self.start_brokers()
                for each in self.links:
                    each.open()

    # ------------------------------------------------------------ the end

    async def come_together(self) -> None:
        """Faults end, every peer comes to its broker again, and all have met."""
        for link in self.links:
            link.heal()
        await self.start_brokers()
        for way in self.ways:
            way.heal()
            way.reset()
        async with asyncio.timeout(PATIENCE_S):
            while not self._has_converged():
                await pause(LOOK_S)

    def _has_converged(self) -> bool:
        places = {self.scope: MEMBERS, self.private: BOBS, self.team: tuple(range(len(USERS)))}
        return all(
            is_converged([_vector(self.folders[place], scope) for place in those]) for scope, those in places.items()
        )

    async def end(self) -> Outcome:
        """The last things that happen; then all peers are killed, and their disks are looked at."""
        await asyncio.gather(*self._early)
        await self.come_together()
        await self.ask(ANN, "remove member", community=self.scope, user="cid")
        await self.come_together()
        await self._add(OTHER_ANN, self.scope, AFTER_CID, AFTER_CID.encode())
        await self.come_together()
        devices = {place: str(self.peers.up[place].said["device"]) for place in (ANN, BOB, CID, EVE)}
        await asyncio.gather(*(self._search(place, own, "last", LAST_S) for place, own in devices.items()))
        for place in MEMBERS:
            await self._fetch_all(place)
        await self._kill_converged()
        return self._outcome()

    async def _fetch_all(self, place: int) -> None:
        for document in await self.answers(place, "documents", community=self.scope):
            got = await self.ask(place, "get document", document=document["id"], version=None)
            hash = sha256(Path(got["path"]).read_bytes()).hexdigest()
            self.fetched.append(Fetched(place, document["content"], hash))

    async def _kill_converged(self) -> None:
        """Kill all peers. If one has just changed something by itself, let them meet once more."""
        async with asyncio.timeout(PATIENCE_S):
            await self.peers.kill_all()
            while not self._has_converged():
                await asyncio.gather(*(self.start_peer(place) for place in range(len(USERS))))
                await self.come_together()
                await self.peers.kill_all()

    def _outcome(self) -> Outcome:
        peers = [self._peer_at_end(folder, user) for folder, user in zip(self.folders, USERS, strict=True)]
        return Outcome(
            self.scope,
            self.private,
            self.team,
            peers,
            self.acknowledged,
            self.searches,
            self.stored,
            self.fetched,
            self.payloads,
        )

    def _peer_at_end(self, folder: Path, user: str) -> PeerAtEnd:
        repository = self._at_end.enter_context(closing(Repository(folder)))
        keys, ring = DeviceKeys.load(folder / "device.json"), KeyRing(repository.settings)
        devices, index = TeamDevices(self.team, repository, keys), PlainIndex(keys.device, repository)
        identity = Identity(self.team, user, keys.device)
        machine = Peer(identity, repository, devices, index, ring.has, lambda language, query, record: False)
        return PeerAtEnd(user, keys.device, repository, machine.keys.in_use, ring.has)

    async def stop(self) -> None:
        self._at_end.close()
        await self.peers.kill_all()
        await self.brokers.kill_all()
        for proxy in (*self.ways, *self.links):
            await proxy.stop()


def _link_of(leaf: str) -> int:
    return next(number for number, link in enumerate(LINKS) if leaf in link)


def _vector(folder: Path, scope: str) -> dict[str, int]:
    """By device, the number of its last change, from a repository that another process has."""
    statement = "SELECT device, vectors.number FROM vectors JOIN scopes ON scopes.number = scope WHERE name = ?"
    with closing(sqlite3.connect(f"file:{folder / FILE}?mode=ro", uri=True)) as file:
        return dict(file.execute(statement, [scope]))


async def commanded(folder: Path, command: str, arguments: dict[str, Any]) -> AsyncIterator[Any]:
    """The answers of the process that serves a folder, as they come. GodwitError if it refuses or has gone."""
    try:
        said = json.loads((folder / CHANNEL).read_bytes())
        reader, writer = await asyncio.open_connection(said["host"], said["port"])
    except OSError as error:
        raise GodwitError(f"nobody serves {folder}: {error}") from error
    with closing(writer):
        request = {"token": said["token"], "command": command, "arguments": arguments}
        writer.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(2 * PATIENCE_S):
            while line := await _line(reader):
                if "error" in line:
                    raise GodwitError(line["error"])
                if "done" in line:
                    return
                if "answer" in line:
                    yield line["answer"]
    raise GodwitError(f"the peer of {folder} has gone before it had answered {command!r}")


async def _line(reader: asyncio.StreamReader) -> dict[str, Any]:
    """What a peer says next; nothing if it has gone."""
    with suppress(ConnectionError):
        return dict(json.loads(await reader.readline() or b"{}"))
    return {}


@asynccontextmanager
async def played(
    folder: Path, scenario: TeamScenario, *, start: dict[int, Start] | None = None, after_kill: AfterKill = nothing
) -> AsyncIterator[Outcome]:
    """What a scenario ends with. `start` and `after_kill` are for faults that tests plant."""
    team = RealTeam(folder, scenario, start or {}, after_kill)
    try:
        await team.begin()
        async with team.listening():
            for step in scenario.steps:
                await team.do(step)
            outcome = await team.end()
        yield outcome
    finally:
        await team.stop()
