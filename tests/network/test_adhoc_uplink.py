"""A device that meets a fixed broker again: what its island has published goes over, nothing twice. [mobile §3.1]"""

from pathlib import Path
from typing import Any

import pytest

from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.runtime import adhoc_uplink
from godwit.runtime.connecting import connect
from tests.network.adhoc_devices import devices, quick
from tests.network.test_native import start as start_broker
from tests.network.waiting import run, until


def test_what_the_island_publishes_goes_over_once_whichever_device_brings_it(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        async with connect(where, name="reader", mode="named") as reader:
            await reader.subscribe("n >= 0", name="all")
        await broker.stop()  # out of reach, for now
        came: list[tuple[str, Any]] = []
        async with devices(tmp_path) as found:
            await found.start("a", machine=quick(priority=1.0))
            await found.start("b", ["a"])
            await found.start("g", ["a"], brokers=(where,), wants="")
            await found.start("h", ["a", "b"], brokers=(where,), wants="n < 10")
            await found.one_island()
            for number in range(40):
                found["a"].publish({"n": number})
                found["b"].publish({"n": number})
            await until(lambda: found.came["h"].count(("a", 9)) and found.came["h"].count(("b", 9)), "all have come")
            assert {number for _, number in found.came["h"]} == set(range(10))
            uplinks = [found[name].uplink for name in "gh"]
            broker = await start_broker("fixed", {}, tmp_path, port=broker.address.port)
            async with connect(where, name="reader", mode="named") as reader:
                wanted = await reader.subscribe("n >= 0", name="all")
                async for event in wanted:
                    came.append((event.publisher, event.attributes["n"]))
                    if len(came) == 80:
                        break
                for uplink in uplinks:
                    assert uplink is not None
                    await uplink.drained()
                found["b"].publish({"n": 99})
                async for event in wanted:
                    came.append((event.publisher, event.attributes["n"]))
                    break
            for name in "ab":
                assert [n for publisher, n in came if publisher == f"godwit/{name}"][:40] == list(range(40))
            assert came[80:] == [("godwit/b", 99)]  # what the second device brought came to nobody
            found["g"].publish({"n": 100})
            await found["g"].gone_over()
            assert sum(uplink.brought for uplink in uplinks if uplink is not None) >= 81
        await broker.stop()

    run(scene)


def test_an_event_that_cannot_be_published_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    async def scene() -> None:
        broker = await start_broker("fixed", {}, tmp_path)
        where = str(broker.address)
        async with connect(where, name="reader") as reader:
            wanted = await reader.subscribe("n >= 0")
            uplink = adhoc_uplink.Uplink("net", [where])
            uplink.start()
            uplink.take(Event({"n": 1}, publisher="a", sequence=1, to=parse("sender.x = 1")))
            uplink.take(Event({"n": 2, "sender.x": 1}, publisher="a", sequence=2))
            await uplink.drained()
            assert uplink.left_out == 1
            async for event in wanted:
                assert event.attributes == {"n": 2}
                break
            await uplink.close()
        await broker.stop()

    run(scene)


def test_an_uplink_keeps_few_events_and_none_behind_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adhoc_uplink, "EVENTS_MAX", 3)

    async def scene() -> None:
        uplink = adhoc_uplink.Uplink("net", ["127.0.0.1:1"])
        for number in (1, 2, 2, 1, 3, 4):
            uplink.take(Event({"n": number}, publisher="a", sequence=number))
        assert [event.sequence for event in uplink._events] == [2, 3, 4]
        assert uplink.left_out == 3

    run(scene)
