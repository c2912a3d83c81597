"""A hostile stranger near an ad hoc network: it takes nobody's name or rank, and costs the others nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import time
from typing import Any, cast

import pytest
from msgspec import structs

from godwit.adhoc.radio_messages import Beacon, Carried, Hangup, Poll, Relayed
from godwit.broker.messages import Attach, Frame, Hello
from godwit.runtime import adhoc_keys, adhoc_links, adhoc_wire
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys
from godwit.runtime.adhoc_links import LinkLimits
from godwit.runtime.adhoc_wire import WIRE, Greeting, MessageSeals, Signed, greeting, proof_of
from tests.network.adhoc_devices import PATIENT, Devices, devices, quick
from tests.network.waiting import run, until


class Stranger:
    """Speaks the protocol by hand, under any name, with a key of its own."""

    def __init__(self, name: str, network: str = "godwit") -> None:
        self.name, self.network, self.key = name, network, DeviceKey.made()
        self.seals = MessageSeals(name, network, self.key, KnownKeys(), 0)
        self.theirs: Greeting | None = None

    async def dial(self, address: Address) -> None:
        self.reader, self.writer = await asyncio.open_connection(address.host, address.port)

    async def read(self) -> Any:
        length = int.from_bytes(await self.reader.readexactly(4), "big")
        return WIRE.decode(await self.reader.readexactly(length))

    def write(self, *messages: Any) -> None:
        for message in messages:
            data = WIRE.encode(message)
            self.writer.write(len(data).to_bytes(4, "big") + data)

    async def come_in(self, address: Address) -> None:
        """Be a neighbour, honestly so far."""
        await self.dial(address)
        ours = greeting(self.network, self.name, self.key)
        self.write(ours)
        self.theirs = await self.read()
        self.write(proof_of(self.key, ours, self.theirs, is_dialler=True))
        await self.read()

    async def is_let_go(self) -> None:
        """Until the other side has closed the connection."""
        while await self.reader.read(65_536):
            pass
        self.writer.close()


async def with_honest_ones(folder: Path, attack: Callable[[Devices], Any], limits: LinkLimits = PATIENT) -> None:
    """Two honest devices, whose event broker is `a`, before, during and after an attack."""
    async with devices(folder) as found:
        await found.start("a", machine=quick(priority=0.9), limits=limits)
        await found.start("b", ["a"], machine=quick(priority=0.1))
        assert await found.one_island() == "a"
        found["b"].publish({"n": 1})
        await until(lambda: ("b", 1) in found.came["a"], "it works before")
        await attack(found)
        found["b"].publish({"n": 2})
        await until(lambda: found.came["a"] == [("b", 1), ("b", 2)], "it works after")
        assert found["b"].machine.leader == "a"


def forged(stranger: Stranger, message: Any) -> Signed:
    """A message of somebody else, signed with the stranger's key."""
    other = MessageSeals(
        message.leader if type(message) is Beacon else message.source, "godwit", stranger.key, KnownKeys(), 0
    )
    return other.sealed([message], time())[0]


def changed(signed: Signed, **changes: Any) -> Signed:
    return structs.replace(signed, **changes)


HIGH = 2**61


FORGED = [
    Beacon("a", 1.0, HIGH, HIGH, 0, 0.0, "eve"),
    Beacon("b", 1.0, HIGH, HIGH, 0),
    Relayed("b", "a", HIGH, 0, Poll(("b", 1))),
    Relayed("b", "a", HIGH, 0, Hangup(("b", 1), "gone")),
    Relayed("b", "a", HIGH, 0, Carried(("b", HIGH), Hello(1, 0, 0, 1, False))),
    Relayed("b", "a", HIGH, 0, Carried(("b", 1), Frame(1, 0, cast(Any, Attach("b"))))),
]


def test_a_neighbour_cannot_speak_for_another(tmp_path: Path) -> None:
    async def attack(found: Devices) -> None:
        a = found["a"]
        for number, message in enumerate(FORGED):
            stranger = Stranger(f"eve{number}")
            await stranger.come_in(found.addresses["a"])
            await until(lambda: stranger.name in a.links.neighbours, "eve is a neighbour")  # noqa: B023
            dropped = a.links.seals.dropped
            stranger.write(forged(stranger, message))
            if getattr(message, "leader", "") != "a":  # under our own name nobody looks at it
                await until(lambda: a.links.seals.dropped > dropped, "it is dropped")  # noqa: B023
                assert "another key" in a.links.seals.last_reason
            assert "b" not in a.machine.sightings._sightings
            stranger.writer.close()
            await until(lambda: len(a.links.neighbours) == 1, "eve has gone")

    run(with_honest_ones(tmp_path, attack))


SPOILS: list[Callable[[Signed], Signed]] = [
    lambda signed: changed(signed, signature=bytes(64)),
    lambda signed: changed(signed, signature=b""),
    lambda signed: changed(signed, key=b"short"),
    lambda signed: changed(signed, origin="a\u0007"),
    lambda signed: changed(signed, sent_at=signed.sent_at + 1),
    lambda signed: changed(signed, body=signed.body + b"\0"),
]


def test_what_is_not_signed_closes_the_link(tmp_path: Path) -> None:
    async def attack(found: Devices) -> None:
        for number, spoil in enumerate(SPOILS):
            stranger = Stranger(f"eve{number}")
            await stranger.come_in(found.addresses["a"])
            [signed] = stranger.seals.sealed([Beacon(stranger.name, 1.0, 1, 1, 0)], time())
            stranger.write(spoil(signed))
            await stranger.is_let_go()
            assert found["a"].links.faults == number + 1

    run(with_honest_ones(tmp_path, attack))


def test_what_was_overheard_is_of_no_use_a_second_time(tmp_path: Path) -> None:
    """An old beacon of a leader that is gone, and a farewell, replayed by another device."""

    async def attack(found: Devices) -> None:
        leader = Stranger("l")
        await leader.come_in(found.addresses["b"])
        overheard = leader.seals.sealed([Beacon("l", 1.0, 5, number, 0) for number in (5, 6)], found["b"].links.now())
        leader.write(*overheard)
        await until(lambda: "l" in found["b"].links.seals._beacons, "b has heard of it")
        leader.writer.close()
        stranger = Stranger("eve")
        await stranger.come_in(found.addresses["b"])
        seen = found["b"].machine.sightings._sightings["l"]
        stranger.write(*overheard, changed(overheard[0], age_s=0.0, hops=1))
        old = Beacon("l", 1.0, 5, 7, 0)
        stranger.write(*leader.seals.sealed([old], found["b"].links.now() - 10_000))
        await until(lambda: "too old or too new" in found["b"].links.seals.last_reason, "the old one is dropped")
        assert found["b"].machine.sightings._sightings["l"] == seen
        stranger.writer.close()

    run(with_honest_ones(tmp_path, attack))


def test_a_proof_for_another_connection_opens_none(tmp_path: Path) -> None:
    async def attack(found: Devices) -> None:
        first, second = Stranger("eve"), Stranger("eve")
        second.key = first.key
        await first.dial(found.addresses["a"])
        ours = greeting("godwit", "eve", first.key)
        first.write(ours)
        theirs = await first.read()
        overheard = proof_of(first.key, ours, theirs, is_dialler=True)
        await second.dial(found.addresses["a"])
        second.write(ours, overheard)  # the same greeting and proof, where the other side has another nonce
        await second.is_let_go()
        first.write(Greeting(1, "godwit", "eve", b"", b""))
        await first.is_let_go()
        assert "eve" not in found["a"].links.neighbours

    run(with_honest_ones(tmp_path, attack))


NO_GREETINGS = [
    b"\xff\xff\xff\xff",
    b"\0\0\0\5GET /",
    b"\0\0\0\0",
    bytes(4_096),
    WIRE.encode(Greeting(1, "godwit", "a", bytes(32), bytes(32))),
    WIRE.encode(Greeting(1, "another", "eve", bytes(32), bytes(32))),
    WIRE.encode(Greeting(9, "godwit", "eve", bytes(32), bytes(32))),
    WIRE.encode(Greeting(1, "godwit", "e" * 400, bytes(32), bytes(32))),
    WIRE.encode(adhoc_wire.Proof(bytes(64))),
    WIRE.encode(adhoc_wire.Alive()),
]


def test_whoever_does_not_greet_is_let_go(tmp_path: Path) -> None:
    async def attack(found: Devices) -> None:
        for said in NO_GREETINGS:
            stranger = Stranger("eve")
            await stranger.dial(found.addresses["a"])
            is_frame = said.startswith((b"\x86", b"\x82", b"\x81"))
            stranger.writer.write(len(said).to_bytes(4, "big") + said if is_frame else said)
            await stranger.is_let_go()

    run(with_honest_ones(tmp_path, attack))


def test_strangers_that_say_nothing_are_few_and_let_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adhoc_links, "HANDSHAKE_S", 2.0)

    async def attack(found: Devices) -> None:
        strangers = [Stranger(f"e{number}") for number in range(40)]
        for stranger in strangers:
            await stranger.dial(found.addresses["a"])
        for stranger in strangers:
            await stranger.is_let_go()
        assert len(found["a"].links.neighbours) == 1

    run(with_honest_ones(tmp_path, attack))


def test_neighbours_names_and_frames_have_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adhoc_keys, "NEW_PER_S", 0.001)
    limits = LinkLimits(silence_s=60.0, neighbours_max=3, frames_per_s=50.0, frames_burst=20)

    async def attack(found: Devices) -> None:
        a = found["a"]
        first, second, third = Stranger("e1"), Stranger("e2"), Stranger("e3")
        await first.come_in(found.addresses["a"])
        await second.come_in(found.addresses["a"])
        await until(lambda: len(a.links.neighbours) == 3, "there are three")
        await third.come_in(found.addresses["a"])
        await third.is_let_go()
        names = [Stranger(f"made-up-{number}") for number in range(90)]
        first.write(*(name.seals.sealed([Beacon(name.name, 1.0, 1, 1, 0)], a.links.now())[0] for name in names))
        await until(lambda: a.links.seals.dropped > 0, "too many new names")
        assert len(a.known) <= 64
        assert len(a.machine.sightings) <= a.machine.config.leaders_max
        for stranger in (first, second):
            stranger.writer.close()
        await until(lambda: len(a.links.neighbours) == 1, "they have gone")

    run(with_honest_ones(tmp_path, attack, limits))


def test_any_bytes_in_the_place_of_messages_close_one_link(tmp_path: Path) -> None:
    rng = Random(1)

    async def attack(found: Devices) -> None:
        for number in range(12):
            stranger = Stranger(f"e{number}")
            await stranger.come_in(found.addresses["a"])
            [signed] = stranger.seals.sealed([Relayed(stranger.name, "a", 7, 0, Poll((stranger.name, 1)))], 0.0)
            data = bytearray(WIRE.encode(signed))
            for _ in range(3):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if number % 2:
                stranger.writer.write(len(data).to_bytes(4, "big") + data)
            stranger.write(stranger.seals._signed([bytes(data)], time()))  # well signed, and nonsense
            await stranger.is_let_go()

    run(with_honest_ones(tmp_path, attack))


def test_a_device_that_checks_no_signature_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: without the check, a forged farewell of the leader sends its member away."""
    monkeypatch.setattr(adhoc_wire, "is_signed", lambda key, signature, data: True)
    monkeypatch.setattr(KnownKeys, "check", lambda self, name, key, now: None)

    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=0.9))
            await found.start("b", ["a"], machine=quick(priority=0.1))
            assert await found.one_island() == "a"
            stranger = Stranger("eve")
            await stranger.come_in(found.addresses["b"])
            stranger.write(forged(stranger, Beacon("a", 1.0, HIGH, HIGH, 0, 0.0, "eve")))
            await until(lambda: found["b"].machine.leader == "eve", "b follows eve")
            stranger.writer.close()

    run(scene)
