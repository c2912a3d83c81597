"""What a peer of a team of a thousand has to do, measured on a process that runs. [motion §6]

A thousand peers with twenty subscriptions each, a thousand publications a minute. Each publication is a change of a
document in a community of `MEMBERS` peers, so 50 a minute reach one peer. Besides, every peer says every 15 minutes
that it is here: 67 a minute. Both are published through a broker, in a process of its own, to `godwit team serve` in
another: with its socket, signatures, seals, repository, index, audit log and notifier. What its processor takes for
them, and while nothing comes, is read from the operating system.

The paper counts notifications, pairs of an event and a subscription, and what was routed needlessly: events
that pass the routable part of a query and not its test. The same is counted here of the changes that reach the peer.
All other changes that no subscription wants are no discards: a peer keeps what its communities have, and subscriptions
are asked when a change is here.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks.reporting import Anchor, Row
from benchmarks.teamwork_profiles import ProfileWorkload
from godwit import connect
from godwit.filters.events import Event
from godwit.languages.xml_documents import xml_subject
from godwit.teamwork.device_keys import DeviceKeys
from godwit.teamwork.machine.bus import Changes, Here, PeerMessage, Question, Wanted, attributes_of, signed_bytes_of
from godwit.teamwork.machine.changes import Change, hash_of, signed_bytes
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.notification_rules import Channel, UserSubscription
from godwit.teamwork.machine.presence import HOLDS_S
from godwit.teamwork.machine.records import Record
from godwit.teamwork.peer_opening import opened, settings_of
from godwit.teamwork.record_profiles import RecordProfiles
from godwit.teamwork.team import Team
from godwit.teamwork.team_folder import new_team

__all__ = ["FULL_LOAD", "LoadScale", "peer_load"]

MEMBERS = 50
SUBSCRIPTIONS = 20
COUNTED = 10  # peers whose subscriptions are compared with the changes; one of them is run
CPU_MAX = 1.0
ARTEFACTS = 4_000  # as many as the experiments of `motion` draw (`reproduce/motion`)
PAPER_NOTIFICATIONS, PAPER_DISCARDS = 66, "2 to 3"
ANY_PORT = "127.0.0.1:0"
PATIENCE_S, ASK_AGAIN_S = 120.0, 1.0
PROGRAM = (sys.executable, "-c", "from godwit.cli.main import app; app(prog_name='godwit')")
SCHEMA = '[artefact.year]\ntype = "integer"\n'

Log = Callable[[str, float], None]


class LoadScale(msgspec.Struct, frozen=True):
    """How large the load is."""

    peers: int = 1_000
    publications_per_minute: int = 1_000
    minutes: float = 15.0
    """Of the team's life, whose events are sent to the peer."""
    events_per_s: float = 40.0
    """How fast they are sent."""
    idle_s: float = 20.0
    """How long the peer is watched while nothing comes."""


FULL_LOAD = LoadScale()


class _Device:
    """Another device of the team, which makes changes in a community."""

    def __init__(self, scope: str, keys: DeviceKeys, user: str) -> None:
        self.keys, self.user, self._scope = keys, user, scope
        self._last: Change | None = None

    def change(self, clock: int, record: str, fields: dict[str, Any]) -> Changes:
        """A change, as it is published."""
        last = self._last
        number, previous = (last.number + 1, hash_of(last)) if last else (1, b"")
        made = Change(
            self._scope, self.keys.device, number, clock, self.user, record, fields, previous=previous, time=time.time()
        )
        self._last = msgspec.structs.replace(made, signature=self.keys.signing.sign(signed_bytes(made)))
        return Changes(self.keys.device, self._scope, (self._last,), {self.keys.device: number})

    def signed(self, message: Any) -> Any:
        """A message with the signature of this device."""
        return msgspec.structs.replace(message, signature=self.keys.signing.sign(signed_bytes_of(message)))


class _Load(msgspec.Struct, frozen=True):
    """What is sent to a peer, and its effects."""

    events: list[Event]
    first: Event
    """A question: its answer shows that the peer is there."""
    last: Event
    """Another one: its answer shows that everything before it was handled."""
    askers: tuple[str, str]
    notifications: float
    """Pairs of a change and a subscription, of one peer: the mean of `COUNTED`."""
    residues: float
    """Of the same, those that pass the routable filter and not the test."""
    changes: int


def peer_load(scale: LoadScale, folder: Path, log: Log) -> Iterator[Row]:
    """What a peer of a team does in an hour."""
    load, busy_s, elapsed_s, idle = asyncio.run(_measured(scale, folder, log))
    hours = scale.minutes / 60
    share = 100 * (idle + (busy_s - idle * elapsed_s) / (scale.minutes * 60))
    what = (
        f"load of a peer: {scale.peers:,} peers, {scale.peers * SUBSCRIPTIONS:,} subscriptions, "
        f"{scale.publications_per_minute:,} publications a minute"
    )
    each_ms, events = (busy_s - idle * elapsed_s) / len(load.events) * 1e3, len(load.events) / hours
    note = f"a process with its socket and index: {100 * idle:.2f} % while nothing comes, and "
    note += f"{each_ms:.2f} ms for each of {events:,.0f} events an hour"
    paper = f"the paper: {PAPER_NOTIFICATIONS} an hour, {PAPER_DISCARDS} discarded"
    is_full = scale == FULL_LOAD
    yield Row("load-told", f"{what}: notifications an hour", load.notifications / hours, "notifications", note=paper)
    yield Row("load-discarded", f"{what}: residues an hour", load.residues / hours, "discards")
    yield Row("load-changes", f"{what}: changes an hour that a peer keeps", load.changes / hours, "changes")
    yield Row(
        "load-cpu", f"{what}: processor", share, "% of a core", Anchor(CPU_MAX),
        at_most=True, is_full=is_full, note=note,
    )  # fmt: skip


async def _measured(scale: LoadScale, folder: Path, log: Log) -> tuple[_Load, float, float, float]:
    """The load, processor time for it, how long that took, and the share of a core while nothing comes."""
    async with _process("serve", "--native", ANY_PORT, "--mqtt", "", "--http", "", folder=folder) as (_, said):
        broker = said["native"]
        log("load: a team of members, devices and subscriptions is made", 0.1)
        load = await _drawn(scale, folder / "peer", broker)
        words = ("team", "serve", "peer", "--broker", broker, "--pages", "", "--files", ANY_PORT)
        async with _process(*words, folder=folder) as (peer, _), connect(broker, name="load") as client:
            ready, done = [
                aiter(await client.subscribe(f"for_device = '{asker}' AND message = 'answers'"))
                for asker in load.askers
            ]
            waiting = asyncio.ensure_future(anext(ready))
            async with asyncio.timeout(PATIENCE_S):
                while not waiting.done():  # the peer may not have subscribed yet
                    await client.publish(load.first)
                    await asyncio.wait([waiting], timeout=ASK_AGAIN_S)
            log(f"load: nothing comes for {scale.idle_s:g} s", 0.3)
            spent, start = _processor_s(peer.pid), time.monotonic()
            await asyncio.sleep(scale.idle_s)
            idle = (_processor_s(peer.pid) - spent) / (time.monotonic() - start)
            spent, start = _processor_s(peer.pid), time.monotonic()
            for number, event in enumerate(load.events):
                await client.publish(event)
                await asyncio.sleep(max(0.0, start + number / scale.events_per_s - time.monotonic()))
                if number % 500 == 0:
                    log(f"load: {number:,} events", 0.4 + 0.5 * number / len(load.events))
            await client.publish(load.last)
            await asyncio.wait_for(anext(done), PATIENCE_S)
            return load, _processor_s(peer.pid) - spent, time.monotonic() - start, idle


async def _drawn(scale: LoadScale, folder: Path, broker: str) -> _Load:
    """The folder of a peer, and what others send to it."""
    random, workload = Random(1), ProfileWorkload(ARTEFACTS)
    new_team(folder, "u0", brokers=[broker])
    (folder / "organisation.toml").write_text(SCHEMA)
    (folder / "peer.toml").write_text('schema = "organisation.toml"\n')
    async with opened(folder, settings_of(folder)) as team:
        scope = team.communities.create("all communities of this peer")
        devices = []
        for number in range(1, MEMBERS + 1):
            keys, user = DeviceKeys.made("laptop"), f"u{number}"
            team.people.create(user, {"name": user})
            team.people.add_device(user, keys.device, keys.public_fields)
            team.communities.add(scope, user, Role.EDITOR)
            devices.append(_Device(scope, keys, user))
        for number, text in enumerate(_queries(workload, 0)):
            team.subscriptions.subscribe(
                UserSubscription(str(number), f"no. {number}", ("artefact",), (Channel("desktop"),), query=text)
            )
        return _sent(scale, team, scope, devices, workload, random)


def _sent(
    scale: LoadScale, team: Team, scope: str, devices: list[_Device], workload: ProfileWorkload, random: Random
) -> _Load:
    """Changes and signs of presence, as they come, mixed; and what the subscriptions make of the changes."""
    profiles, clock = RecordProfiles(team.schema), team.peer.repository.clock(scope)
    parsed = [profiles.query("xql", text) for place in range(COUNTED) for text in _queries(workload, place)]
    notifications = residues = 0
    changes = int(scale.publications_per_minute * MEMBERS * scale.minutes / scale.peers)
    events = []
    for number in range(changes):
        made = workload.artefact(random.randrange(workload.count))
        fields = {
            "name": f"{made.title}.txt", "title": made.title, "author": [made.author], "subject": [made.subject],
            "size": made.size, "year": made.year, "changed": f"{made.year}-01-01T08:00:00Z", "content": "0" * 64,
        }  # fmt: skip
        record = f"artefact/{number % 1_000}"
        events.append(_event(team, random.choice(devices).change(clock + number + 1, record, fields)))
        profile = profiles.of(scope, Record(record, fields, {}, ()))
        assert profile is not None
        subject = xml_subject(profile.document)
        for query in parsed:
            if query.routable.matches(subject.event):
                is_wanted = query.wants(subject)
                notifications, residues = notifications + is_wanted, residues + (not is_wanted)
    until = time.time() + HOLDS_S
    for number in range(int(scale.peers * scale.minutes * 60 / (HOLDS_S / 2))):
        device = devices[number % len(devices)]
        here = Here(device.keys.device, device.user, "available", until + number)
        events.append(_event(team, device.signed(here)))
    ordered = _mixed(events[:changes], events[changes:], random)
    first, last = (
        _event(team, each.signed(Question(each.keys.device, each.user, "s", Wanted(("user",), words="nothing"), until)))
        for each in devices[:2]
    )
    told = notifications / COUNTED, residues / COUNTED
    return _Load(ordered, first, last, (devices[0].keys.device, devices[1].keys.device), *told, changes)


def _queries(workload: ProfileWorkload, place: int) -> list[str]:
    """The subscriptions of a peer."""
    return [text for _, text in workload.queries(400, seed=place) if "/user" not in text][:SUBSCRIPTIONS]


def _mixed(one: list[Event], other: list[Event], random: Random) -> list[Event]:
    """Both, each in its own order."""
    ones, others = iter(one), iter(other)
    sources = [ones] * len(one) + [others] * len(other)
    random.shuffle(sources)
    return [next(source) for source in sources]


def _event(team: Team, message: PeerMessage) -> Event:
    """A message as it travels."""
    attributes, payload = attributes_of(team.scope, message), msgspec.msgpack.encode(message)
    if isinstance(message, Changes):
        name = team.peer.machine.keys.in_use(message.scope)
        assert name is not None
        payload = team.peer.ring.sealed(message.scope, name, payload)
    return Event(attributes, payload=payload)


@asynccontextmanager
async def _process(*words: str, folder: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, Any]]]:
    """`godwit` with these words in a folder, and the line of JSON that it begins with."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *words,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        assert process.stdout is not None
        yield process, json.loads(await process.stdout.readline())
    finally:
        process.terminate()
        await process.wait()


def _processor_s(process: int) -> float:
    """Seconds of a processor that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
