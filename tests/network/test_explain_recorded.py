"""What was decided about an event is told as it was then, whoever has left since."""

import json
from typing import Any

from godwit.runtime import connect
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
            assert "the event went on to b3" in hops["b2"]["verdict"]
            status, hops = await explained(b1, tmp_path, f"{publisher}:{number + 1}", "ann")
            assert status == 1
            assert "it was sent to nobody else" in hops["b1"]["verdict"]
            status, hops = await explained(b2, tmp_path, "--topic", "fleet/a", "--client", "ann", "--last", "1h")
            assert (status, hops["b3"]["event"]) == (0, f"{publisher}:{number}")
            assert (await explained(b2, tmp_path, "--topic", "fleet/c", "--client", "ann"))[0] == 1
            assert (await explained(b2, tmp_path, "--topic", "fleet/a"))[0] == 2
        finally:
            for each in (b1, b3, b2):
                await each.stop()

    run(scene())
