"""What was decided about an event is told as it was then, whoever has left since."""

import json
from typing import Any

import pytest

from godwit.broker.administration import EndSession
from godwit.broker.broker_config import BrokerConfig
from godwit.runtime import activity_monitor, connect
from tests.network.http_broker import Running, start
from tests.network.serving import running
from tests.network.waiting import run, until


async def explained(place: Running, folder: Any, *words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """The exit status of `godwit explain`, and by broker what it says."""
    async with running("explain", *words, "--http", str(place.web), folder=folder) as process:
        printed, _ = await process.communicate()
        assert process.returncode is not None
        hops = [json.loads(line) for line in printed.splitlines()]
        return process.returncode, {hop["broker"]: hop for hop in hops}


def test_an_event_was_delivered_and_sent_on_although_the_client_has_left_since(tmp_path: Any) -> None:
    async def scene() -> None:
        b2 = await start("b2", {"b1": None, "b3": None})
        b1, b3 = await start("b1", {"b2": b2.native}), await start("b3", {"b2": b2.native})
        try:
            for each in (b1, b2, b3):
                await each.ready()
            async with connect(b3.native, name="ann") as ann, connect(b1.native, name="van") as van:
                mine = await ann.subscribe("topic = 'fleet/a'")
                await until(lambda: len(b1.machine.routing.matcher) == 1)
                van.publish({"topic": "fleet/a", "n": 1})
                await van.drain()
                publisher, number = (await mine.next()).id
                van.publish({"topic": "fleet/b", "n": 2})
                await van.drain()
                await ann.close(leave=True)
            await until(lambda: b3.machine.sessions.session("ann") is None)
            await until(lambda: not len(b1.machine.routing.matcher))
            status, hops = await explained(b1, tmp_path, f"{publisher}:{number}", "ann")
            assert status == 0
            assert (
                hops["b3"]["deliveries"][0]["state"] == "it was sent to the client, whose session here has ended since"
            )
            assert [(row["peer"], row["basis"]) for row in hops["b2"]["sent_on"]] == [("b3", "record")]
            assert "the event was forwarded to b3" in hops["b2"]["verdict"]
            status, hops = await explained(b1, tmp_path, f"{publisher}:{number + 1}", "ann")
            assert status == 1
            assert "it was sent to no other broker" in hops["b1"]["verdict"]
            status, hops = await explained(b2, tmp_path, "--topic", "fleet/a", "--client", "ann", "--last", "1h")
            assert (status, hops["b3"]["event"]) == (0, f"{publisher}:{number}")
            assert (await explained(b2, tmp_path, "--topic", "fleet/c", "--client", "ann"))[0] == 3
            assert (await explained(b2, tmp_path, "--topic", "fleet/a"))[0] == 2
        finally:
            for each in (b1, b3, b2):
                await each.stop()

    run(scene())


async def got_by_ann(place: Running, *attributes: dict[str, Any]) -> str:
    """Publish these events, of which ann gets the first; its id."""
    async with connect(place.native, name="ann") as ann, connect(place.native, name="van") as van:
        mine = await ann.subscribe("topic = 'fleet/a'")
        await until(lambda: len(place.machine.routing.matcher) == 1)
        for each in attributes:
            van.publish(each)
        await van.drain()
        publisher, number = (await mine.next()).id
        await until(lambda: not place.machine.sessions.session("ann").queue.waiting())  # it is confirmed
        return f"{publisher}:{number}"


def test_after_a_restart_it_is_not_known_whether_an_event_was_delivered(tmp_path: Any) -> None:
    async def scene() -> None:
        b1 = await start(folder=tmp_path)
        event = await got_by_ann(b1, {"topic": "fleet/a"})
        await b1.stop()
        b1 = await start(folder=tmp_path)
        try:
            status, hops = await explained(b1, tmp_path, event, "ann")
            assert (status, hops["b1"]["basis"]) == (3, "unknown")
            assert hops["b1"]["verdict"].startswith("the event is not recorded here (records begin at 20")
            status, hops = await explained(b1, tmp_path, event, "bob")
            assert (status, hops["b1"]["basis"]) == (3, "unknown")
            assert hops["b1"]["verdict"].endswith(", and the client has no session here")
        finally:
            await b1.stop()

    run(scene())


def test_what_has_left_the_record_is_not_denied(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        b1 = await start()
        try:
            monkeypatch.setattr(activity_monitor, "KEPT_INPUTS", 3)
            event = await got_by_ann(b1, {"topic": "fleet/a"}, *({"n": n} for n in range(10)))
            status, hops = await explained(b1, tmp_path, event, "ann")
            assert (status, hops["b1"]["basis"]) == (3, "unknown")
        finally:
            await b1.stop()

    run(scene())


def test_a_broker_whose_records_began_before_an_event_says_that_it_has_not_come(tmp_path: Any) -> None:
    async def scene() -> None:
        b2 = await start("b2", {"b1": None})
        b1 = await start("b1", {"b2": b2.native})
        try:
            await b1.ready()
            async with connect(b2.native, name="ann") as ann, connect(b1.native, name="van") as van:
                await ann.subscribe("topic = 'fleet/a'")
                van.publish({"topic": "fleet/b"})
                await van.drain()
                event = f"van:{van.machine.sequence}"
                assert (await explained(b2, tmp_path, event, "ann"))[0] == 1
                _, hops = await explained(b1, tmp_path, event, "ann")
                assert (hops["b2"]["verdict"], hops["b2"]["basis"]) == (
                    "the event has not reached this broker",
                    "record",
                )
        finally:
            await b1.stop()
            await b2.stop()

    run(scene())


def test_of_a_topic_the_last_twenty_events_are_explained_and_the_cut_is_told(tmp_path: Any) -> None:
    async def scene() -> None:
        b1 = await start()
        try:
            async with connect(b1.native, name="ann") as ann, connect(b1.native, name="van") as van:
                await ann.subscribe("topic = 'fleet/a'")
                words = ("--topic", "fleet/a", "--client", "ann", "--http", str(b1.web))
                for count, is_cut in ((20, False), (1, True)):
                    for _ in range(count):
                        van.publish({"topic": "fleet/a"})
                    await van.drain()
                    async with running("explain", *words, folder=tmp_path) as process:
                        printed, said = await process.communicate()
                    assert (process.returncode, len(printed.splitlines())) == (0, 20)
                    assert ("only the last 20 events of 'fleet/a' are explained" in said.decode()) == is_cut
        finally:
            await b1.stop()

    run(scene())


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_an_event_that_was_queued_is_told_with_its_entries_after_the_session_has_ended(
    tmp_path: Any, family: Any
) -> None:
    async def scene() -> None:
        config = BrokerConfig(family=family)
        b2 = await start("b2", {"b1": None}, config=config)
        b1 = await start("b1", {"b2": b2.native}, config=config)
        try:
            await b1.ready()
            async with connect(b1.native, name="van") as van:
                async with connect(b2.native, name="ann") as ann:
                    await ann.subscribe("topic = 'fleet/a'", name="mine")
                await until(lambda: not b2.is_attached("ann") and entry_of_ann(b1))
                van.publish({"topic": "fleet/a"})
                await van.drain()
                event = f"van:{van.machine.sequence}"
            await until(lambda: len(b2.machine.sessions.session("ann").queue) == 1)
            b2.node.tell(EndSession("ann", "moved out"))
            await until(lambda: b2.machine.sessions.session("ann") is None and not entry_of_ann(b1))
            status, hops = await explained(b1, tmp_path, event, "ann")
            assert status == 1
            b1_told, b2_told = hops["b1"], hops["b2"]
            [sent] = b1_told["sent_on"]
            assert (sent["peer"], sent["basis"], sent["because_basis"]) == ("b2", "record", "record")
            assert "topic = 'fleet/a'" in sent["because_of"][0]
            assert b2_told["basis"] == "record"
            assert b2_told["matched"] == [{"name": "mine", "filter": "topic = 'fleet/a'", "basis": "record"}]
            told = "it waited in the client's queue when the session ended: an administrator has ended the session"
            assert b2_told["verdict"] == f"{told}: moved out"
        finally:
            await b1.stop()
            await b2.stop()

    run(scene())


def entry_of_ann(place: Running) -> bool:
    """Whether a neighbour's table has a subscription of ann."""
    routing: Any = place.machine.routing
    tables = routing.in_subs["b2"] if hasattr(routing, "in_subs") else routing.remote.get("b2", {})
    return bool(tables)


def test_a_subscription_that_was_replaced_is_told_as_it_was(tmp_path: Any) -> None:
    async def scene() -> None:
        b1 = await start()
        try:
            async with connect(b1.native, name="ann") as ann, connect(b1.native, name="van") as van:
                await ann.subscribe("n > 5", name="mine")
                van.publish({"n": 1})
                await van.drain()
                event = f"van:{van.machine.sequence}"
                _, hops = await explained(b1, tmp_path, event, "ann")
                assert hops["b1"]["basis"] == "record"
                assert "n > 5 does not hold" in hops["b1"]["verdict"]
                await ann.subscribe("n > 0", name="mine")
                _, hops = await explained(b1, tmp_path, event, "ann")
                assert (hops["b1"]["matched"], hops["b1"]["basis"]) == ([], "record")
                assert hops["b1"]["verdict"] == "a subscription matches now, but none did when the event came"
        finally:
            await b1.stop()

    run(scene())
