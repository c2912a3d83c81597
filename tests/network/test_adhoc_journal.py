"""A device that crashes and starts again has what it had accepted: on real sockets, and killed as a process."""

import signal
from pathlib import Path

import pytest

from godwit.broker.effects import Effect
from godwit.client.client import Client
from godwit.errors import JournalError
from godwit.runtime.adhoc_device import Asked
from godwit.runtime.connecting import connect
from tests.network.adhoc_devices import Devices, devices, quick
from tests.network.adhoc_processes import device_processes
from tests.network.test_native import start as start_broker
from tests.network.waiting import run, until


async def crash(found: Devices, name: str) -> None:
    """Let a device end as if its process were killed: nothing more is handled, written or sent."""
    device = found.running.pop(name)
    device.node.abandon()
    journal = device.node.journal
    await device.links.close()
    for link in (device.uplink, device.downlink):
        if link is not None:
            await link.close()
    if journal is not None:
        journal.close()


async def waits_for_x(found: Devices, durability: str = "relaxed", **times: float) -> None:
    """a leads, x is away, and something of b waits for x at a."""
    await found.start("a", machine=quick(priority=1.0, **times), durability=durability)
    await found.start("b", ["a"], machine=quick(**times))
    await found.start("x", ["a"])
    assert await found.one_island() == "a"
    await found.stop("x")
    for number in range(3):
        found["b"].publish({"n": number})
    await found["b"].taken()
    await until(lambda: len(found.came["a"]) == 3, "a has it itself")


def test_what_waits_at_an_event_broker_comes_after_it_was_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await waits_for_x(found)
            await found.stop("b")
            await crash(found, "a")
            await found.start("a", machine=quick(priority=1.0))
            await until(lambda: found["a"].machine.is_leading, "it goes on")
            await found.start("x", ["a"])
            await until(lambda: len(found.came["x"]) >= 3, "all have come")
            assert found.came["x"] == [("b", 0), ("b", 1), ("b", 2)]

    run(scene)


def test_without_a_journal_it_is_gone(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await waits_for_x(found, "memory")
            await found.stop("b")
            await crash(found, "a")
            await found.start("a", machine=quick(priority=1.0), durability="memory")
            await found.start("x", ["a"])
            await found.one_island()
            found["a"].publish({"n": 9})
            await until(lambda: ("a", 9) in found.came["x"], "what is new comes")
            assert ("b", 0) not in found.came["x"]

    run(scene)


def test_what_nobody_has_acknowledged_is_published_after_the_publisher_was_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("b")
            found["b"].publish({"n": 1})  # nobody is there
            found["b"].publish({"n": 2})
            await found["b"].node.quiet()
            await crash(found, "b")
            await found.start("b")
            found["b"].publish({"n": 3})
            await found.start("a", ["b"], machine=quick(priority=1.0))
            await until(lambda: len(found.came["a"]) >= 3, "all have come")
            assert found.came["a"] == [("b", 1), ("b", 2), ("b", 3)]
            await found["b"].taken()
            await until(lambda: not found["b"].holdings.own, "the journal need not have them any more")

    run(scene)


def test_what_nobody_has_acknowledged_stays_when_the_machine_fails(tmp_path: Path) -> None:
    def fail(client: Client, now: float) -> list[Effect]:
        raise ValueError("a bug")

    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("b")
            for number in range(5):
                found["b"].publish({"n": number})
            await found["b"].node.quiet()
            failed = found["b"].machine
            found["b"].node.tell(Asked(fail, lambda error: None))
            await until(lambda: found["b"].machine is not failed, "it is made again")
            await found["b"].node.quiet()
            assert [event.attributes["n"] for event in found["b"].holdings.own.values()] == [0, 1, 2, 3, 4]
            await found.start("a", ["b"], machine=quick(priority=1.0))
            await until(lambda: len(found.came["a"]) >= 5, "all have come")
            assert found.came["a"] == [("b", number) for number in range(5)]
            await found["b"].taken()

    run(scene)


def test_another_event_broker_that_was_elected_meanwhile_gets_what_the_first_held(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await waits_for_x(found, lost_s=1.0)
            await crash(found, "a")
            await found.start("c", ["b"], machine=quick(priority=0.9, lost_s=1.0))
            await until(lambda: found["c"].machine.is_leading or found["b"].machine.is_leading, "another is elected")
            await found.start("a", ["b"], machine=quick(priority=0.1, lost_s=1.0))
            await until(lambda: found.leaders() not in ([], ["a"]) and len(found.leaders()) == 1, "they have merged")
            await found.start("x", ["c"])
            await until(lambda: len(found.came["x"]) >= 3, "it has come")
            assert found.came["x"] == [("b", 0), ("b", 1), ("b", 2)]

    run(scene)


def test_what_is_to_go_to_a_fixed_broker_goes_after_the_device_was_killed(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        async with connect(where, name="reader", mode="named") as reader:
            await reader.subscribe("n >= 0", name="all")
        await broker.stop()  # out of reach
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=1.0), wants="")
            await found.start("g", ["a"], brokers=(where,), wants="")
            await found.one_island()
            found["a"].publish({"n": 1})
            await until(lambda: found["g"].holdings.forwarding, "g has it")
            await found["g"].node.quiet()
            await crash(found, "g")
            await found.stop("a")
            broker = await start_broker("fixed", {}, tmp_path, port=broker.address.port)
            await found.start("g", brokers=(where,), wants="")
            async with connect(where, name="reader", mode="named") as reader:
                event = await (await reader.subscribe("n >= 0", name="all")).next()
                assert (event.publisher, event.attributes["n"]) == ("godwit/a", 1)
        await broker.stop()

    run(scene)


def test_a_journal_of_another_device_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        async with devices(tmp_path) as found:
            await found.start("a")
            await found.stop("a")
            (tmp_path / "a" / "journal").rename(tmp_path / "journal of a")
            await found.start("b")
            await found.stop("b")
            (tmp_path / "b" / "journal").rename(tmp_path / "a" / "journal")
            with pytest.raises(JournalError, match=r"move .* away"):
                await found.start("a")

    run(scene)


QUICK = ("--no-multicast", "--beacon", "0.3", "--lease", "100", "--listen", "127.0.0.1:0")


@pytest.mark.slow  # six processes, one after the other
def test_a_killed_process_that_led_brings_what_it_had_accepted(tmp_path: Path) -> None:
    async def scene() -> None:
        async with device_processes(tmp_path) as start:
            anna = await start("anna", "--priority", "1", "--durability", "full", *QUICK)
            where = await anna.address()
            bert = await start("bert", "n > 0", "--peer", where, *QUICK)
            carl = await start("carl", "--peer", where, "--until-eof", *QUICK)
            carl.publish(n=9)
            await bert.until(lambda: bert.values("n") == [9], "its subscription is in force")
            await bert.end(signal.SIGKILL)  # its lease goes on
            carl.publish(n=1)
            carl.publish(n=2)
            carl.process.stdin.close()
            assert await carl.process.wait() == 0  # anna has acknowledged both
            await anna.end(signal.SIGKILL)
            again = await start("anna", "--priority", "1", *QUICK)
            where = await again.address()
            await again.has_told("is leading")
            back = await start("bert", "n > 0", "--peer", where, *QUICK)
            await back.until(lambda: 2 in back.values("n"), "what anna held for it has come")
            assert [n for n in back.values("n") if n != 9] == [1, 2]  # it may have died before it confirmed the first

    run(scene)
