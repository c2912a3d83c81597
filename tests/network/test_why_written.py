"""Events that nobody has published, explained by a network: what decides is named, and nothing is published."""

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.messages import QueueRules
from godwit.errors import Refused
from godwit.runtime.connecting import connect
from tests.network.http_broker import broker
from tests.network.rights_broker import secured, user
from tests.network.waiting import run, until


async def why(client: httpx.AsyncClient, who: str, said: Any, publisher: str = "") -> dict[str, Any]:
    asked = {"client": who, "written": msgspec.json.encode(said).decode(), "publisher": publisher}
    answer = await client.get("/why", params=asked)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert (told["is_written"], told["basis"]) == (True, "tables")
    return dict(told)


def test_topic_wildcards_are_explained_level_by_level() -> None:
    async def scene() -> None:
        async with broker("b1") as (b1, at_b1), connect(b1.native, name="screen") as screen:
            await screen.subscribe("topic LIKE TOPIC 'fleet/+'", name="one level")
            await screen.drain()
            assert (await why(at_b1, "screen", {"topic": "fleet/a"}))["delivered"]
            told = await why(at_b1, "screen", {"topic": "fleet/a/b"})
            assert not told["delivered"]
            assert "topic LIKE TOPIC 'fleet/+' does not hold" in told["verdict"]

    run(scene())


@pytest.mark.parametrize("config", [{"family": "tree"}, {"family": "graph"}, {"reduction": "flooding"}])
def test_the_way_of_an_event_that_is_written_and_its_end(config: dict[str, Any]) -> None:
    async def scene() -> None:
        settings = BrokerConfig(**config)
        async with (
            broker("b1", {"b2": None}, config=settings) as (b1, at_b1),
            broker("b2", {"b1": b1.native}, config=settings) as (b2, at_b2),
            connect(b1.native, name="van") as van,
            connect(b2.native, name="screen") as screen,
        ):
            await b1.ready()
            await b2.ready()
            await van.publish({"zone": 0})
            van.set_context({"role": "driver"})
            await van.drain()
            await screen.subscribe("zone = 3 AND sender.role = 'driver'", name="mine")
            screen.set_context({"floor": 2})
            await screen.drain()
            for client in (at_b1, at_b2):  # whoever is asked, it begins where its publisher is

                async def yes() -> bool:
                    return bool((await why(client, "screen", {"zone": 3}, "van"))["delivered"])  # noqa: B023

                while not await yes():  # until b1 knows of the subscription
                    pass
                told = await why(client, "screen", {"zone": 3}, "van")
                assert told["verdict"] == "b2: it would be delivered for mine"
                assert [hop["broker"] for hop in told["hops"]] == ["b1", "b2"]
                told = await why(client, "screen", {"zone": 4}, "van")
                assert "zone = 3 does not hold" in told["verdict"]
                assert not told["delivered"]
                told = await why(client, "screen", {"attributes": {"zone": 3}, "to": "floor = 7"}, "van")
                assert "the event is not to this client: floor = 7 does not hold of its context" in told["verdict"]
            assert "sender.role = 'driver' does not hold" in (await why(at_b1, "screen", {"zone": 3}))["verdict"]
            assert "no session at any broker" in (await why(at_b1, "nobody", {"zone": 3}))["verdict"]
            for bad in ("{", "[1]", "[{}, {}]"):
                answer = await at_b1.get("/why", params={"client": "screen", "written": bad})
                assert answer.status_code == 400
            assert b1.http.activity.counts["published"] == 1

    run(scene())


def test_rights_advertisements_and_queues_would_decide(tmp_path: Path) -> None:
    async def scene() -> None:
        users = [
            user("van", ["kind = 'position'"], []),
            user("ann", [], ["kind = 'parking'"]),
            user("cid", [], ["*"]),
            user("root", [], ["*"], "admin = true"),
        ]
        async with secured(tmp_path, *users) as running, running.web_client("root") as client:
            async with running.client("cid") as cid:
                await cid.subscribe("kind = 'position'", name="few", queue=QueueRules(count_max=1))
            await until(lambda: running.machine.sessions.session("cid").connection is None)
            async with running.client("van") as van, running.client("ann") as ann:
                await ann.attached(30)
                told = await why(client, "cid", {"kind": "alarm"}, "van")
                assert "user van may publish only what matches kind = 'position'" in told["verdict"]
                assert (told["delivered"], told["hops"][0]["refused"] != "") == (False, True)
                told = await why(client, "cid", {"attributes": {"kind": "position"}, "expires_in": 5}, "van")
                assert "would wait in the client's queue for few, for the client is away" in told["verdict"]
                assert told["verdict"].endswith("until it expires ('few' has count_max = 1)")
                told = await why(client, "ann", {"kind": "position"}, "van")
                assert "user ann may subscribe to only what matches kind = 'parking'" in told["verdict"]
                with pytest.raises(Refused):
                    await van.publish({"kind": "alarm"})
                answer = await client.get("/why", params={"client": "cid", "event": "van:1"})
                said = answer.json()["verdict"]
                assert "; b1 has refused a request of its publisher" in said
                assert "only what matches: kind = 'position'" in said

    run(scene())


def test_a_client_that_has_moved_is_said_to_have() -> None:
    async def scene() -> None:
        async with (
            broker("b1", {"b2": None}) as (b1, at_b1),
            broker("b2", {"b1": b1.native}) as (b2, _),
            connect(b1.native, name="bus") as bus,
        ):
            await b1.ready()
            await b2.ready()
            await bus.subscribe("n > 0", name="mine")
            await bus.move(b2.native)
            await until(lambda: b2.is_attached("bus") and b1.machine.sessions.session("bus") is None)
            told = await why(at_b1, "bus", {"n": 1})
            [b1_says] = [hop for hop in told["hops"] if hop["broker"] == "b1"]
            assert (b1_says["moved_to"], "it went to b2" in b1_says["verdict"]) == ("b2", True)
            assert "relocated" in {each["kind"] for hop in told["hops"] for each in hop["client_records"]}

    run(scene())
