"""Publishers that move between brokers on sockets, which predict where they go by the file that the pipeline writes."""

import io
import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from godwit.broker.broker import Broker
from godwit.mobility.publisher_presence import PublisherConfig, PublisherPresence
from godwit.runtime import Address, connect
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.broker_server import BrokerServer
from godwit.runtime.inspection import Inspection
from godwit.runtime.routing_answers import entries_of
from tests.network.mqtt_devices import Device
from tests.network.test_reconfigured import station
from tests.network.waiting import run, until

LIMIT_S = 300.0
TO_B2 = {"transitions": {"b1": {"b2": 3, "b9": 2}}}
BACK_TO_B2 = {"transitions": {"b1": {"b3": 1}}, "pairs": {"b2": {"b1": {"b2": 90}}}}
Entry = tuple[str, str]


class Served:
    """One broker of a row, with its log."""

    def __init__(self, server: BrokerServer, log: io.StringIO) -> None:
        self.server = server
        self.log = log
        self.inspection = Inspection(server.node, server.server, ActivityMonitor(server.node), server.tests)

    @property
    def native(self) -> Address:
        """The address for native clients."""
        return self.server.listening["native"]

    def logged(self) -> list[dict[str, Any]]:
        """The lines of the log."""
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def entries(self) -> set[Entry] | None:
        """The entries of its tables, as table and source (a client here, or a neighbour); None while they change."""
        machine: Any = self.server.node.machine
        if not machine.routing.is_settled():
            return None
        return {(table, source or id[0]) for table, source, id, _ in entries_of(machine.routing)}

    def wishes_of(self, peer: str) -> dict[Any, Any]:
        """What a neighbour has subscribed to here."""
        machine: Any = self.server.node.machine
        wishes: dict[Any, Any] = machine.routing.in_subs[peer]
        return wishes

    def is_up(self, peer: str) -> bool:
        """Whether the link to a neighbour is open."""
        return any(link["up"] for link in self.inspection.links() if link["peer"] == peer)


@asynccontextmanager
async def row(folder: Path, **settings: str) -> AsyncIterator[tuple[Served, Served, Served]]:
    """Three brokers in a row, each with its own sockets and journal."""
    alike = {"broker__advertisements": "required", **settings}
    logs = [io.StringIO() for _ in range(3)]
    async with station(folder, "b1", logs[0], neighbours__b2="", **alike) as one:
        there = {"neighbours__b1": str(one.listening["native"]), "neighbours__b3": ""}
        async with station(folder, "b2", logs[1], **there, **alike) as two:
            there = {"neighbours__b2": str(two.listening["native"])}
            async with station(folder, "b3", logs[2], **there, **alike) as three:
                b1, b2, b3 = (Served(*each) for each in zip((one, two, three), logs, strict=True))
                await until(lambda: b1.is_up("b2") and b2.is_up("b1") and b2.is_up("b3") and b3.is_up("b2"))
                yield b1, b2, b3


async def routes(broker: Served, are_so: Callable[[set[Entry]], bool]) -> set[Entry]:
    """The entries of a broker's tables, once they are so."""
    found: set[Entry] = set()

    def holds() -> bool:
        nonlocal found
        entries = broker.entries()
        found = entries or set()
        return entries is not None and are_so(entries)

    await until(holds, "the tables are so")
    return found


HELD = ("advertisements", "van")
WANTED_AT_B1, WANTED_AT_B2 = ("subscriptions", "b2"), ("subscriptions", "b3")


def advertised(entries: set[Entry]) -> set[Entry]:
    return {entry for entry in entries if entry[0] == "advertisements"}


@pytest.mark.parametrize(("model", "begins"), [(TO_B2, "b1"), (BACK_TO_B2, "b2")])
def test_the_next_broker_has_the_tree_of_a_publisher_before_it_comes(
    tmp_path: Path, model: dict[str, Any], begins: str
) -> None:
    """By first order; and by the pair of brokers, for one that was at b2 before."""
    (tmp_path / "model.json").write_text(json.dumps(model))

    async def scene() -> None:
        async with (
            row(tmp_path, publishers__model=str(tmp_path / "model.json")) as (b1, b2, b3),
            connect(b3.native, name="ann") as ann,
            connect((b1 if begins == "b1" else b2).native, name="van", mode="prefetching") as van,
        ):
            wanted = await ann.subscribe("n >= 0")
            await van.advertise("n >= 0")
            if begins == "b2":  # a first move that nobody foresaw: ann's wish may be withdrawn and told again by it
                await van.move(b1.native)
                await van.attached()
                await routes(b2, lambda found: advertised(found) == {("advertisements", "b1")})
                await ann.subscribe("kind = 'told behind all that'")
                await until(lambda: len(b1.wishes_of("b2")) == 2)
            await routes(b1, lambda found: WANTED_AT_B1 in found)
            for n in range(10):
                van.publish({"n": n})
            got = [(await wanted.next()).attributes["n"] for _ in range(10)]
            await van.move()
            found = await routes(b2, lambda found: advertised(found) == {HELD})  # it is nowhere, and expected here
            assert WANTED_AT_B2 in found
            await routes(b1, lambda found: HELD not in found)
            await van.move(b2.native)
            for n in range(10, 20):
                van.publish({"n": n})
            got += [(await wanted.next()).attributes["n"] for _ in range(10)]
            van.publish({"n": 20})
            got.append((await wanted.next()).attributes["n"])  # so nothing came twice in between
            assert got == list(range(21))
            await routes(b2, lambda found: advertised(found) == {HELD})  # its session has it now

    run(scene())


def test_without_a_model_nobody_has_the_tree(tmp_path: Path) -> None:
    """The same moves: what the test above waits for does not come by itself."""

    async def scene() -> None:
        async with (
            row(tmp_path) as (b1, b2, b3),
            connect(b3.native, name="ann") as ann,
            connect(b1.native, name="van", mode="prefetching") as van,
        ):
            await ann.subscribe("n >= 0")
            await van.advertise("n >= 0")
            await routes(b1, lambda found: WANTED_AT_B1 in found)
            await van.move()
            found = await routes(b2, lambda found: not advertised(found))
            assert HELD not in found
            await routes(b2, lambda found: WANTED_AT_B2 not in found)  # and nobody waits for its events there

    run(scene())


def test_a_broker_that_a_model_names_and_nobody_knows_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"transitions": {"b1": {"mars": 1}}}')

    async def scene() -> None:
        async with (
            row(tmp_path, publishers__model=str(tmp_path / "model.json")) as (b1, b2, _),
            connect(b1.native, name="van", mode="prefetching") as van,
        ):
            [said] = [line["reason"] for line in b2.logged() if line["event"] == "no model"]
            assert said.endswith("model.json has no predictions for clients of b2")
            await van.advertise("n >= 0")
            await routes(b2, lambda found: ("advertisements", "b1") in found)
            await van.move()
            await routes(b2, lambda found: not advertised(found))
            await van.move(b1.native)
            await van.attached()
            assert not [line for line in b1.logged() if line["level"] in ("warning", "error")]

    run(scene())


def test_proxies_hold_the_tree_of_a_publisher_and_are_told_from_wherever_it_is(tmp_path: Path) -> None:
    """A proxy that its broker had not heard of yet is told when the lease is renewed, which is soon here."""
    settings = {"publishers__proxies__b1": "['b3', 'b2']", "publishers__lease_s": "3"}

    async def scene() -> None:
        async with (
            row(tmp_path, **settings) as (b1, b2, b3),
            connect(b1.native, name="van", mode="proxy") as van,
        ):
            await van.advertise("n >= 0")
            for proxy in (b2, b3):
                await routes(proxy, lambda found: HELD in found)
            await van.move(b3.native)
            await van.attached()
            await routes(b1, lambda found: HELD not in found)
            await routes(b2, lambda found: HELD in found)
            await van.unadvertise()
            for proxy in (b2, b3):  # b3 knows whom the publisher's first broker had chosen
                await routes(proxy, lambda found: not advertised(found))

    run(scene())


def test_a_publisher_has_the_proxies_that_were_mined_for_it(tmp_path: Path) -> None:
    """`proxies.json`, as `godwit pipeline mobility --brokers` writes it: the van is mostly at b3."""
    (tmp_path / "proxies.json").write_text(
        json.dumps({"share": 0.9, "clients": {"van": ["b3", "mars"], "car": ["b1"]}})
    )
    settings = {"publishers__client_proxies": str(tmp_path / "proxies.json"), "publishers__lease_s": "3"}

    async def scene() -> None:
        async with (
            row(tmp_path, **settings) as (b1, b2, b3),
            connect(b1.native, name="van", mode="proxy") as van,
        ):
            await van.advertise("n >= 0")
            await routes(b3, lambda found: HELD in found)
            await van.move()
            await routes(b1, lambda found: HELD not in found)
            found = await routes(b2, lambda found: ("advertisements", "b3") in found)
            assert HELD not in found  # b2 is no proxy
            assert HELD in (b3.entries() or {HELD})

    run(scene())


def test_an_mqtt_client_names_its_publisher_mode(tmp_path: Path) -> None:
    """CONNECT, user property `$mode`: its broker advertises for it when it has gone, or its own proxies do."""
    (tmp_path / "proxies.json").write_text(json.dumps({"clients": {"van": ["b3"]}}))
    settings = {"publishers__client_proxies": str(tmp_path / "proxies.json"), "listen__mqtt": "127.0.0.1:0"}
    settings |= {"broker__advertisements": "optional", "publishers__lease_s": "9", "publishers__delay_s": "600"}

    async def scene() -> None:
        async with row(tmp_path, **settings) as (b1, _, b3):
            for mode, holder in (("proxy", b3), ("delayed", b1)):
                van = Device("van", UserProperty=[("$mode", mode)])
                await van.connect(b1.server.listening["mqtt"].port)
                await van.publish("place/1", b"here", qos=1)
                await until(lambda: HELD in (b1.entries() or ()), "it advertises where it is")
                machine: Any = holder.server.node.machine
                held = machine.component(PublisherPresence).holdings
                if mode == "proxy":  # which may not be known yet, and is told when the lease is renewed
                    await until(lambda held=held: "van" in held)  # type: ignore[misc]
                await van.disconnect()
                await until(lambda mode=mode, held=held: "van" in held and held["van"].kind == mode)  # type: ignore[misc]
                here: Any = b1.server.node.machine
                await until(lambda here=here: here.sessions.session("van") is None)  # type: ignore[misc]

    run(scene())


@pytest.mark.parametrize(
    ("mode", "expiry_s", "text"),
    [("carry", 0, "$mode is 'carry': allowed are named, standard"), ("delayed", 60, "Interval must be 0")],
)
def test_an_mqtt_client_is_told_why_its_mode_is_refused(tmp_path: Path, mode: str, expiry_s: int, text: str) -> None:
    async def scene() -> None:
        async with station(tmp_path, "b1", listen__mqtt="127.0.0.1:0") as b1:
            van = Device("van", clean=False, expiry_s=expiry_s, UserProperty=[("$mode", mode)])
            reason = await van.connect(b1.listening["mqtt"].port)
            assert reason.value == 0x83
            assert text in van.connack.ReasonString

    run(scene())


# ---------------------------------------------------------------- started again


def moving(found: BrokerServer) -> PublisherConfig:
    machine = found.node.machine
    assert isinstance(machine, Broker)
    return machine.component(PublisherPresence).config


def predicted(found: BrokerServer) -> str | None:
    predictor = moving(found).predictor
    return None if predictor is None else predictor.next_broker("van", "b1", 1)


def test_a_broker_that_is_started_again_predicts_as_it_is_told_then(tmp_path: Path) -> None:
    """From its journal alone, from a copy of it as a crash leaves it, and by other settings than before."""
    file = tmp_path / "model.json"

    async def scene() -> None:
        for to in ("b2", "b3", "b2"):
            file.write_text(json.dumps({"transitions": {"b1": {to: 1}}}))
            for _ in range(2):  # the second time there is nothing new
                async with station(tmp_path, "b1", publishers__model=str(file), publishers__lease_s="50") as b1:
                    assert (predicted(b1), moving(b1).lease_s) == (to, 50.0)
                    shutil.copytree(tmp_path / "b1", tmp_path / "killed" / "b1")
                async with station(
                    tmp_path / "killed", "b1", publishers__model=str(file), publishers__lease_s="50"
                ) as b1:
                    assert (predicted(b1), moving(b1).lease_s) == (to, 50.0)
                shutil.rmtree(tmp_path / "killed")
        async with station(tmp_path, "b1") as b1:
            assert (predicted(b1), moving(b1).lease_s) == (None, PublisherConfig().lease_s)

    run(scene())


def test_what_a_model_says_of_other_brokers_is_nothing_new(tmp_path: Path) -> None:
    file = tmp_path / "model.json"

    async def scene() -> None:
        numbers = []
        for count in (1, 2):
            file.write_text(json.dumps({"transitions": {"b1": {"b2": 1}, "b7": {"b8": count}}}))
            async with station(tmp_path, "b1", publishers__model=str(file)) as b1:
                assert b1.node.journal is not None
                numbers.append(b1.node.journal.number)
        assert numbers == [0, 0]

    run(scene())
