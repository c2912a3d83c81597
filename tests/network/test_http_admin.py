"""A look into brokers that run: what they show is so."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx
import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.messages import QueueRules
from godwit.runtime.connecting import connect
from godwit.runtime.network_client import NetworkClient
from tests.network.http_broker import Running, Source, broker, start
from tests.network.waiting import a_turn, run, until


async def get(client: httpx.AsyncClient, path: str, /, **params: str) -> Any:
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


@asynccontextmanager
async def chain(family: str = "tree") -> AsyncIterator[tuple[Running, Running, httpx.AsyncClient, httpx.AsyncClient]]:
    """Two brokers that know each other."""
    config = BrokerConfig(family=family)
    async with (
        broker("b1", {"b2": None}, config=config) as (b1, at_b1),
        broker("b2", {"b1": b1.native}, config=config) as (b2, at_b2),
    ):
        await b1.ready()
        await b2.ready()
        for client in (at_b1, at_b2):
            assert (await client.get("/readyz")).status_code == 200
            assert (await get(client, "/routes"))["settled"]
        yield b1, b2, at_b1, at_b2


async def known(running: Running, client: httpx.AsyncClient, source: str) -> None:
    """Until a broker knows what somebody wants behind a neighbour."""
    await until(lambda: any(running.machine.routing.wanted()))
    assert any(row["from"] == source for row in (await get(client, "/routes"))["entries"] if row["table"][0] == "s")


async def why(client: httpx.AsyncClient, event: str, who: str, **more: str) -> dict[str, Any]:
    told = await get(client, "/explain", event=event, client=who, **more)
    assert isinstance(told, dict)
    return told


def test_sessions_show_what_their_clients_want_and_what_waits_for_them() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            async with connect(running.native, name="van/7") as van:
                await van.subscribe("n > 1", name="mine", sender="floor = 2")
                van.set_context({"floor": 3})
                await van.advertise("n > 0")
                session = await get(client, "/sessions/van/7")
                assert session["subscribed"][0]["name"] == "mine"
                assert session["subscribed"][0]["filter"] == "n > 1 AND sender.floor = 2"
                assert (session["context"], session["attached"]) == ({"floor": 3}, True)
                assert session["advertised"][0]["filter"] == "n > 0"
            await until(lambda: not running.is_attached(session["client"]))
            assert not (await get(client, "/sessions"))["sessions"][0]["attached"]
            await client.post("/events", json={"attributes": {"n": 5}, "context": {"floor": 2}})
            sessions = await get(client, "/sessions", limit="1")
            assert (sessions["sessions"][0]["client"], sessions["sessions"][0]["queued"]) == ("van/7", 1)
            assert sessions["more"] == 1
            assert (await client.get("/sessions/nobody")).status_code == 404
            assert (await client.get("/sessions", params={"limit": "many"})).status_code == 400

    run(scene)


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_routes_links_and_the_network_are_shown_as_they_are(family: str) -> None:
    async def scene() -> None:
        async with chain(family) as (b1, b2, at_b1, at_b2), connect(b2.native, name="s") as s:
            assert (await at_b1.post("/events", json={"n": 1})).status_code == 202  # somebody publishes there
            await s.subscribe("n > 1", name="mine")
            await known(b1, at_b1, "b2")
            [entry] = [row for row in (await get(at_b1, "/routes"))["entries"] if row["table"] == "subscriptions"]
            assert (entry["from"], entry["filter"]) == ("b2", "n > 1")
            [link] = await get(at_b1, "/links")
            assert (link["peer"], link["up"], link["dialled_by"]) == ("b2", True, "b2")
            network = await get(at_b1, "/network")
            assert network["neighbours"] == [{"peer": "b2", "up": True, "address": None, "http": b2.url}]
            network = await get(at_b2, "/network")
            assert network["neighbours"] == [{"peer": "b1", "up": True, "address": str(b1.native), "http": b1.url}]

    run(scene)


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_explain_tells_at_each_broker_what_became_of_an_event(family: str) -> None:
    async def scene() -> None:
        async with AsyncExitStack() as stack:
            b1, b2, at_b1, at_b2 = await stack.enter_async_context(chain(family))
            s = await stack.enter_async_context(connect(b2.native, name="s"))
            assert (await at_b1.post("/events", json={"n": 1})).status_code == 202  # somebody publishes there
            mine = await s.subscribe("kind = 'job' AND (zone = 3 OR floor > 2)", name="mine")
            await known(b1, at_b1, "b2")

            async def post(**said: Any) -> str:
                answer = await at_b1.post("/events", json=said)
                assert answer.status_code == 202, answer.text
                return str(answer.json()["ids"][0])

            got = await post(kind="job", zone=3)
            await mine.next()
            await until(lambda: not list(b2.machine.sessions.session("s").queue.waiting()))
            told = await why(at_b2, got, "s")
            assert told["verdict"] == "it was delivered and confirmed"
            assert told["deliveries"][0]["number"] == 1
            assert told["arrivals"][0]["from"] == "b1"
            told = await why(at_b1, got, "s")
            assert told["verdict"] == "the client has no session here; the event was forwarded to b2"
            assert told["basis"] == "record"
            everywhere = await get(at_b1, "/why", event=got, client="s")
            assert everywhere["hops"][0]["verdict"] == "the client has no session here; the event was forwarded to b2"
            assert (everywhere["hops"][0]["sent_on"][0]["basis"], everywhere["basis"]) == ("record", "record")
            assert told["sent_on"][0]["peer"] == "b2"
            assert told["arrivals"][0]["from"].startswith("http-")

            wrong = await post(kind="job", zone=4, floor=1)
            told = await why(at_b1, wrong, "s")
            assert told["verdict"] == "the client has no session here; it was sent to no other broker"
            told = await why(at_b2, wrong, "s")
            assert told["verdict"].startswith("the event is not recorded here (records begin at ")
            assert told["basis"] == "unknown"
            nowhere = await why(at_b1, "nobody:1", "stranger")
            assert nowhere["verdict"].endswith("), and the client has no session here")
            for bad in ("x", "x:y", ":1"):
                assert (await at_b1.get("/explain", params={"event": bad, "client": "s"})).status_code == 400
            assert (await at_b1.get("/explain", params={"event": "x:1"})).status_code == 400

    run(scene)


async def published(p: NetworkClient, **said: Any) -> str:
    """The id of an event that a broker has."""
    to = said.pop("to", None)
    p.publish(said, to=to)
    await p.drain()
    return f"{p.machine.name}:{p.machine.sequence}"


def test_explain_names_what_kept_an_event_from_its_client() -> None:
    async def scene() -> None:
        async with broker() as (running, client), connect(running.native, name="p:1") as p:
            async with connect(running.native, name="s") as s:
                await s.subscribe("kind = 'job' AND (zone = 3 OR floor > 2)", name="mine")
                s.set_context({"role": "driver"})
                await s.drain()
                told = await why(client, await published(p, kind="job", zone=4, floor=1), "s")
                assert told["verdict"].endswith(
                    "matches the event: zone = 3 and floor > 2 do not hold (the event has zone = 4 and floor = 1)"
                )
                assert told["subscriptions"][0]["fails"] == ["zone = 3", "floor > 2"]
                assert told["arrivals"][0]["from"] == "p:1"
                told = await why(client, await published(p, kind="job", zone=3, to="role = 'medic'"), "s")
                assert told["verdict"].startswith("it was not addressed to the client")
                assert told["to_fails"] == ["role = 'medic'"]
                told = await why(client, f"{p.machine.name}:{p.machine.sequence}", "s", subscription="other")
                assert told["subscriptions"] == []
                await s.subscribe("kind = 'job'", name="few", queue=QueueRules(count_max=1))
                early = await published(p, kind="other")
                await s.subscribe("kind = 'other'", name="late")
                told = await why(client, early, "s", subscription="late")
                assert told["verdict"].startswith("a subscription matches now")
            await until(lambda: not running.is_attached("s"))
            assert not (await get(client, "/sessions/s"))["attached"]
            first, second = await published(p, kind="job"), await published(p, kind="job")
            told = await why(client, first, "s")
            assert (
                told["verdict"]
                == "it was removed from the client's queue by a rule of the subscription: 'few' has count_max = 1"
            )
            told = await why(client, second, "s")
            assert told["verdict"] == "it waits in the client's queue, for the client is away"

    run(scene)


def test_explain_says_that_a_broker_has_refused_to_publish_an_event() -> None:
    async def scene() -> None:
        config = BrokerConfig(advertisements="required")
        async with broker(config=config) as (running, client), connect(running.native, name="p") as p:
            await p.advertise("kind = 'job'")
            told = await why(client, await published(p, kind="other"), "s")
            assert "refused when it was published: the event matches none of your adv" in told["verdict"]
            assert (await client.post("/events", json={"kind": "job"})).status_code == 202

    run(scene)


def test_a_trace_shows_what_happens_to_a_client_or_an_event() -> None:
    async def scene() -> None:
        async with broker() as (running, client), connect(running.native, name="s") as s:
            await s.subscribe("n > 1", name="mine")
            async with client.stream("GET", "/trace", params={"client": "s", "last": "10"}) as response:
                source = Source(response)
                _, record = await source.next()
                assert (record["kind"], record["peer"], record["subscription"]) == ("subscribed", "s", "mine")
                await client.post("/events", json={"n": 1})
                s.publish({"n": 1})
                _, record = await source.next()
                assert (record["kind"], record["publisher"]) == ("published", "s")
                assert record["sequence"] == s.machine.sequence
            async with client.stream("GET", "/trace", params={"event": f"s:{s.machine.sequence + 2}"}) as response:
                source = Source(response)
                await until(lambda: running.http.activity.listeners)
                s.publish({"n": 1})
                s.publish({"n": 1})
                _, record = await source.next()
                assert record["sequence"] == s.machine.sequence
            await until(lambda: not running.http.activity.listeners)

    run(scene)


def test_a_listener_that_does_not_keep_up_is_told_how_much_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.runtime.activity_monitor.LISTENER_RECORDS_MAX", 3)

    async def scene() -> None:
        async with broker() as (_, client), client.stream("GET", "/trace") as response:
            source = Source(response)
            answer = await client.post("/events", content=b"\n".join([b'{"n": 1}'] * 50))
            assert answer.status_code == 202
            seen = 0
            while (came := await source.next())[0] != "missed":
                seen += came[1]["kind"] == "published"
            assert seen + came[1]["missed"] == 50

    run(scene)


def test_what_is_kept_for_explanations_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.runtime.activity_monitor.KEPT_INPUTS", 20)
    monkeypatch.setattr("godwit.runtime.activity_monitor.KEPT_EFFECTS", 20)

    async def scene() -> None:
        running = await start()
        async with connect(running.native, name="p") as p:
            for _ in range(200):
                p.publish({"n": 1})
                await a_turn()
            await p.drain()
            assert len(list(running.http.activity.kept())) <= 20
            last = p.machine.sequence
            assert list(running.http.activity.arrivals(("p", last)))
            assert not list(running.http.activity.arrivals(("p", last - 199)))
        await running.stop()

    run(scene)


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_one_broker_is_asked_and_all_of_them_answer(family: str) -> None:
    async def scene() -> None:
        async with (
            chain(family) as (b1, _, at_b1, at_b2),
            connect(b1.native, name="ann") as ann,
        ):
            await ann.subscribe("n > 1", name="mine")
            for client in (at_b1, at_b2):
                found = await get(client, "/everywhere/sessions")
                assert found["unanswered"] == []
                names = {name: [row["client"] for row in rows["sessions"]] for name, rows in found["answers"].items()}
                assert names == {"b1": ["ann"], "b2": []}
            told = await get(at_b2, "/everywhere/explain", event="bob:1", client="ann")
            assert "is not recorded here" in told["answers"]["b1"]["verdict"]
            bad = await at_b1.get("/everywhere/secrets")
            assert (bad.status_code, "allowed are sessions" in bad.json()["error"]) == (400, True)

    run(scene())


def test_a_broker_that_is_down_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr("godwit.runtime.network_questions.NetworkQuestions.ask.__defaults__", (2.0,))
        async with broker("b1", {"b2": None}) as (_, client):
            found = await get(client, "/everywhere/network")
            assert (list(found["answers"]), found["unanswered"]) == (["b1"], ["b2"])

    run(scene())
