"""What a fixed broker holds for a device goes down to its island when the device meets the broker. [mobile §3.1]"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from godwit.filters.events import Event
from godwit.runtime import adhoc_downlink
from godwit.runtime.connecting import connect
from tests.network.adhoc_devices import devices, quick
from tests.network.test_native import start as start_broker
from tests.network.waiting import run, until
from tests.seeds import slow


def test_what_waited_at_the_fixed_broker_comes_to_all_of_the_island_once(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        down: dict[str, Any] = {"brokers": (where,), "down": "n >= 0"}
        async with devices(tmp_path) as found:
            await found.start("g", machine=quick(priority=1.0), **down)
            await found.start("h", ["g"], **down)
            links = [found[name].downlink for name in "gh"]
            await until(lambda: all(link is not None and link.is_listening for link in links), "both have sessions")
            for name in "gh":
                await found.stop(name)  # out of reach: the broker holds what comes
            async with connect(where, name="news") as news:
                for number in range(20):
                    news.publish({"n": number})
                await news.drain()
            await found.start("a", machine=quick(priority=1.0))
            await found.start("g", ["a"], **down)
            await found.start("h", ["a", "g"], **down)
            await until(lambda: all(len(found.came[name]) >= 20 for name in "agh"), "all have come to all")
            for name in "agh":
                assert [n for _, n in found.came[name]] == list(range(20))  # in order, and nothing twice
            assert {publisher for publisher, _ in found.came["a"]} <= {"g", "h"}
            found["a"].publish({"n": 99})  # goes up, and does not come back
            async with connect(where, name="reader", mode="named") as reader:
                wanted = await reader.subscribe("n >= 0", name="all")
                found["a"].publish({"n": 100})
                async for event in wanted:
                    assert (event.publisher, event.attributes["n"]) in (("godwit/a", 99), ("godwit/a", 100))
                    if event.attributes["n"] == 100:
                        break
            for name in "gh":
                uplink = found[name].uplink
                assert uplink is not None
                await uplink.drained()
            assert [n for _, n in found.came["a"]][20:] == [99, 100]
        await broker.stop()

    run(scene)


def test_an_event_whose_publisher_has_a_context_comes_down_and_no_device_restarts(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=1.0))
            device = await found.start("g", ["a"], brokers=(where,), down="n >= 0")
            link, machine = device.downlink, device.machine
            assert link is not None
            await until(lambda: link.is_listening, "it has a session")
            async with connect(where, name="news") as news:
                await news.set_context({"vehicle": "tow"})
                await news.publish({"n": 1})
            await until(lambda: found.came["a"] == [("g", 1)], "it has come")
            assert device.machine is machine
            await until(lambda: (link.brought, link.left_out) == (1, 0), "it is counted")
        await broker.stop()

    run(scene)


def test_an_event_that_the_island_refuses_is_left_out_and_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(event: Event) -> Event:
        return replace(event, attributes={**event.attributes, "sender.x": 1}) if event.attributes["n"] == 1 else event

    monkeypatch.setattr(adhoc_downlink, "brought_down", faulty)

    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        async with devices(tmp_path) as found:
            device = await found.start("g", brokers=(where,), down="n >= 0")
            link = device.downlink
            assert link is not None
            await until(lambda: link.is_listening, "it has a session")
            async with connect(where, name="news") as news:
                for number in (1, 2):
                    news.publish({"n": number})
                await news.drain()
            await until(lambda: link.brought == 1, "the second has come")
            assert link.left_out == 1
        await broker.stop()

    run(scene)


@pytest.mark.parametrize("meet", [False, slow(True)])
def test_an_event_of_one_island_comes_to_another_over_the_fixed_broker(tmp_path: Path, meet: bool) -> None:
    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=1.0))
            await found.start("g", ["a"], brokers=(where,), wants="")
            await found.start("x", machine=quick(priority=1.0))
            await found.start("y", ["x"], brokers=(where,), down="n >= 0", wants="")
            link, uplink = found["y"].downlink, found["y"].uplink
            assert link is not None
            assert uplink is not None
            await until(lambda: link.is_listening, "it has a session")
            found["a"].publish({"n": 5})
            await until(lambda: found.came["x"] == [("y", 5)], "it has come over")
            if meet:
                await found.start("m", ["a", "x"], wants="")
                await until(lambda: len(found.leaders()) == 1, "they are one island")
                found["a"].publish({"n": 6})
                await until(lambda: {n for _, n in found.came["x"]} == {5, 6}, "the next has come")
                await until(lambda: uplink.has_taken("a", found["a"].client.sequence), "y has seen it")
                assert [n for _, n in found.came["x"]] == [5, 6]
        await broker.stop()

    run(scene)
