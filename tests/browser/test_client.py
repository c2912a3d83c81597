"""What the browser client can do, in Node, against a broker in this process. `test_reconnecting.py` has the kills."""

import asyncio
import json
from pathlib import Path
from typing import Any

import jwt
import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.mobility.publisher_presence import PublisherPresence
from godwit.runtime.rights_watch import RightsWatch
from tests.browser.kept_browser import run
from tests.browser.stations import ClientError, Station, in_node, in_page
from tests.network.http_broker import Running, broker
from tests.network.proxy import Proxy
from tests.network.rights_broker import SECRET, Secured, user
from tests.network.waiting import a_turn, until


async def connected(at: Station, running: Running, id: str = "c", **options: Any) -> str:
    """A client that is attached: its name."""
    name: str = await at.call("connect", id, running.url, options)
    await at.call("call", id, "attached", 20_000)
    return name


async def read(at: Station, count: int, id: str = "c", reading: str = "r") -> list[Any]:
    return [item["attributes"] for item in (await at.call("read", id, reading, count))["items"]]


@pytest.mark.parametrize("place", ["node", "chromium"])
def test_values_of_every_kind_come_as_they_were_published(place: str) -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() if place == "node" else in_page(running.url) as at:
            name = await connected(at, running)
            await at.call("subscribe", "c", "r", "tags = 'a'")
            id = await at.call("publishRich", "c")
            [event] = (await at.call("read", "c", "r", 1))["items"]
            assert (event["publisher"], event["sequence"]) == (id["publisher"], id["sequence"]) == (name, 1)
            at_time = event["attributes"].pop("at")
            assert event["attributes"] == {
                "place": {"lon": 8.5, "lat": 47.4},
                "tags": ["a", "b"],
                "one": "c",
                "user/zip": 1050,
            }
            assert "2026-11-16T00:00:00.000Z" in json.dumps(
                at_time, default=lambda time: f"{time:%Y-%m-%dT%H:%M:%S}.000Z"
            )
            assert (event["payload"], event["contentType"]) == ("grüezi", "text/x-swiss")
            assert event["publishedAt"] > 1e12

    run(scene)


def test_a_wrong_filter_ends_its_loop_with_the_reason_and_nothing_else() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running)
            await at.call("subscribe", "c", "r", "n > 0")
            await at.call("subscribe", "c", "wrong", "n >")
            said = await at.call("read", "c", "wrong", 1)
            assert said["error"]["name"] == "Refused"
            assert "line 1" in said["error"]["message"]
            with pytest.raises(ClientError, match=r"Refused.*line 1"):
                await at.call("accepted", "c", "wrong")
            with pytest.raises(ClientError, match="Refused"):
                await at.call("replace", "c", "r", "n >")
            await at.call("call", "c", "publish", {"n": 1})
            assert await read(at, 1) == [{"n": 1}]
            await at.call("replace", "c", "r", "n > 5")
            await at.call("call", "c", "publish", {"n": 2})
            await at.call("call", "c", "publish", {"n": 6})
            assert await read(at, 2) == [{"n": 1}, {"n": 6}]
            assert len((await at.call("look", "c"))["states"]) == 1  # the connection was never lost

    run(scene)


def test_a_wrong_event_is_refused_and_the_next_one_goes_through() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running)
            await at.call("subscribe", "c", "r", "n > 0")
            for attributes, options, reason in [
                ({f"a{n}": n for n in range(1_001)}, {}, "at most 1000 attributes"),
                ({"n": 1}, {"to": "x ="}, "line 1"),
                ({"n": 1}, {"to": "x = my.x"}, "own context"),
                ({"": 1}, {}, "name"),
            ]:
                with pytest.raises(ClientError, match=f"Refused.*{reason}"):
                    await at.call("call", "c", "publish", attributes, options)
            with pytest.raises(ClientError, match="InvalidValue"):
                await at.call("publishCircle", "c")
            with pytest.raises(ClientError, match="InvalidValue: expiresInS must be above 0"):
                await at.call("call", "c", "publish", {"n": 1}, {"expiresInS": -1})
            await at.call("call", "c", "publish", {"n": 2})
            assert await read(at, 1) == [{"n": 2}]
            assert len((await at.call("look", "c"))["states"]) == 1

    run(scene)


def test_an_event_that_is_too_large_is_refused_and_those_behind_it_go_through() -> None:
    async def scene() -> None:
        async with broker(frame_bytes_max=2**16) as (running, _), in_node() as at:
            await connected(at, running, retryMaxS=0.1)
            await at.call("subscribe", "c", "r", "n > 0")
            large = at.call("call", "c", "publish", {"n": 1}, {"payload": "x" * 2**16})
            behind = at.call("call", "c", "publish", {"n": 2})
            outcomes: Any = await asyncio.gather(large, behind, return_exceptions=True)
            refused, id = outcomes
            assert isinstance(refused, ClientError)
            assert "no message so large" in str(refused)
            assert id["sequence"] == 2
            assert await read(at, 1) == [{"n": 2}]

    run(scene)


def test_a_loop_that_is_left_unsubscribes() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            name = await connected(at, running)
            await at.call("subscribe", "c", "r", "n > 0", {}, 2)
            for n in (1, 2, 3):
                await at.call("call", "c", "publish", {"n": n})
            assert (await at.call("read", "c", "r", 3))["isOver"]
            assert await read(at, 2) == [{"n": 1}, {"n": 2}]
            await at.call("call", "c", "drained")
            assert running.machine.sessions.session(name).subscriptions == {}

    run(scene)


def test_retained_events_and_the_same_filter_twice() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running)
            await at.call("call", "c", "publish", {"n": 1}, {"retain": "k"})
            names = [await at.call("subscribe", "c", reading, "n > 0", {"retained": True}) for reading in ("r", "s")]
            assert names[0] != names[1]
            assert await read(at, 1) == await read(at, 1, reading="s") == [{"n": 1, "retained": True}]
            with pytest.raises(ClientError, match="InvalidValue: there is a subscription"):
                await at.call("subscribe", "c", "t", "n > 1", {"name": names[0]})
            await at.call("call", "c", "publish", {"n": 1}, {"retain": "k", "clear": True})
            await at.call("subscribe", "c", "late", "n > -1", {"retained": True})
            await at.call("call", "c", "publish", {"n": 9})
            assert await read(at, 1, reading="late") == [{"n": 9}]

    run(scene)


def test_contexts_and_places_of_the_subscriber_the_publisher_and_the_receiver() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running)
            await at.call("subscribe", "c", "r", "place = myloc AND price < my.budget")
            await at.call("subscribe", "c", "senders", "sender.floor = 2")
            await at.call("call", "c", "setContext", {"budget": 10, "floor": 2})
            await at.call("call", "c", "setPlace", "lobby")
            for n, place in enumerate(["bar", "lobby"]):
                await at.call("call", "c", "publish", {"n": n, "place": place, "price": 5})
            [found] = await read(at, 1)
            assert found["n"] == 1
            assert (found["sender.floor"], found["sender.location"]) == (2, "lobby")
            await at.call("call", "c", "publish", {"n": 3}, {"to": "floor = 1"})
            await at.call("call", "c", "publish", {"n": 4}, {"to": "floor = 2 AND location = 'lobby'"})
            assert [event["n"] for event in await read(at, 3, reading="senders")] == [0, 1, 4]
            with pytest.raises(ClientError, match="Refused"):
                await at.call("call", "c", "setContext", {f"a{n}": n for n in range(100)}, {"part": "large"})
            await at.call("call", "c", "setContext", {"floor": 3}, {"part": "lift"})
            await at.call("call", "c", "publish", {"n": 5})
            await at.call("call", "c", "setContext", {"floor": 2}, {"part": "lift"})
            await at.call("call", "c", "publish", {"n": 6})
            assert [event["n"] for event in await read(at, 4, reading="senders")] == [0, 1, 4, 6]

    run(scene)


def test_a_client_that_was_away_is_told_what_left_its_queue() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running, name="c")
            await connected(at, running, "p")
            await at.call("subscribe", "c", "r", "n > 0", {"queue": {"countMax": 2}, "receipts": True})
            await at.call("accepted", "c", "r")
            await at.call("call", "c", "moveTo")
            await until(lambda: not running.is_attached("c"))
            for n in range(1, 6):
                await at.call("call", "p", "publish", {"n": n})
            await at.call("call", "c", "moveTo", running.url)
            receipt, *events = (await at.call("read", "c", "r", 3))["items"]
            assert (receipt["kind"], receipt["purged"], receipt["replayed"]) == ("receipt", {"count": 3}, 2)
            assert [event["attributes"]["n"] for event in events] == [4, 5]
            assert (await at.call("look", "c"))["receipts"] == [receipt]

    run(scene)


def test_a_page_that_is_loaded_again_goes_on_where_the_last_one_was() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running, name="c")
            await at.call("subscribe", "c", "r", "n > 0", {}, 0)
            for n in (1, 2, 3):
                await at.call("call", "c", "publish", {"n": n})
            session = running.machine.sessions.session("c")
            await until(lambda: session.queue.sent_up_to == 3)
            assert session.queue.confirmed == 0  # nothing was read
            await at.call("call", "c", "close")
            await connected(at, running, "again", name="c")
            await until(lambda: session.queue.confirmed == 3)  # they are held
            await at.call("subscribe", "again", "r", "n > 0")
            assert await read(at, 3, "again") == [{"n": 1}, {"n": 2}, {"n": 3}]
            await at.call("call", "again", "publish", {"n": 4})
            assert await read(at, 4, "again") == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
            assert len(session.subscriptions) == 1

    run(scene)


def test_a_loop_that_does_not_read_holds_up_its_own_session_and_loses_nothing() -> None:
    async def scene() -> None:
        config = BrokerConfig(limits=Limits(window=16))
        async with broker(config=config) as (running, _), in_node() as at:
            await connected(at, running, name="c")
            await connected(at, running, "p")
            await at.call("subscribe", "c", "r", "n > 0", {}, 0)
            await at.call("accepted", "c", "r")
            for n in range(1, 101):
                await at.call("call", "p", "publish", {"n": n})
            queue = running.machine.sessions.session("c").queue
            assert (queue.taken, queue.sent_up_to, queue.confirmed) == (100, 16, 0)
            await at.call("begin", "c", "r")
            assert [event["n"] for event in await read(at, 100)] == list(range(1, 101))
            await until(lambda: queue.confirmed >= 99)  # the last one is read when the loop asks for another

    run(scene)


def test_events_wait_while_there_is_no_broker_and_no_more_than_there_is_room_for() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running, bufferEventsMax=3)
            await at.call("subscribe", "c", "r", "n > 0")
            await at.call("call", "c", "moveTo")
            waiting = [asyncio.create_task(at.call("call", "c", "publish", {"n": n})) for n in (1, 2, 3)]
            await a_turn()
            with pytest.raises(ClientError, match="BufferFull: 3 events wait"):
                await at.call("call", "c", "publish", {"n": 4})
            room = asyncio.create_task(at.call("call", "c", "room"))
            await at.call("call", "c", "moveTo", running.url)
            await asyncio.gather(*waiting, room)
            assert await read(at, 3) == [{"n": 1}, {"n": 2}, {"n": 3}]

    run(scene)


def test_a_session_that_a_broker_has_forgotten_is_begun_again() -> None:
    async def scene() -> None:
        async with broker() as (old, _), in_node() as at:
            await connected(at, old, name="c", retryMaxS=0.1)
            await at.call("subscribe", "c", "r", "n > 0 AND floor = my.floor", {"receipts": True})
            await at.call("call", "c", "setContext", {"floor": 2})
            await at.call("call", "c", "publish", {"n": 1, "floor": 2})
            await read(at, 1)
            await old.stop()
            waiting = asyncio.create_task(at.call("call", "c", "publish", {"n": 2, "floor": 2}))
            async with broker("b1") as (new, _):
                await at.call("call", "c", "moveTo", new.url)
                await waiting
                items = (await at.call("read", "c", "r", 3))["items"]
                assert [item["kind"] for item in items] == ["event", "receipt", "event"]
                assert items[1]["sessionLost"]
                assert items[2]["attributes"]["n"] == 2

    run(scene)


def test_a_broker_that_is_cut_off_without_a_word_is_left_for_another() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            proxy = Proxy(running.web)
            await proxy.start()
            try:
                await at.call("connect", "c", [f"http://{proxy.address}", running.url], {"silenceS": 2.0, "name": "c"})
                await at.call("subscribe", "c", "r", "n > 0")
                await at.call("accepted", "c", "r")
                taken = proxy.taken
                proxy.stall()
                await at.call("call", "c", "publish", {"n": 1})
                assert await read(at, 1) == [{"n": 1}]
                states = (await at.call("look", "c"))["states"]
                assert [state["reason"] for state in states][:2] == ["", "the broker is silent"]
                assert proxy.taken >= taken
            finally:
                await proxy.stop()

    run(scene)


def test_users_and_tokens_come_in_and_others_are_told_why_not(tmp_path: Path) -> None:
    async def scene() -> None:
        secured = Secured(tmp_path, user("ann", ["n > 0"], ["n > 0"]))
        await secured.start()
        try:
            async with in_node() as at:
                url = f"http://{secured.web}"
                token = jwt.encode(
                    {"sub": "bob", "exp": 4_000_000_000, "godwit": {"publish": [], "subscribe": []}}, SECRET
                )
                by_password = await at.call("connect", "ann", url, {"user": "ann", "password": "ann-password"})
                by_token = await at.call("connect", "bob", url, {"token": token})
                assert by_password.startswith("ann/web-")
                assert by_token.startswith("bob/web-")
                for id in ("ann", "bob"):
                    await at.call("call", id, "attached", 20_000)
                with pytest.raises(ClientError, match="Refused"):
                    await at.call("call", "bob", "publish", {"n": 1})
                await at.call("call", "ann", "publish", {"n": 1})
                await at.call("connect", "eve", url, {"user": "ann", "password": "wrong"})
                with pytest.raises(ClientError, match="NotConnected: after 3000 ms the client is connecting: "):
                    await at.call("call", "eve", "attached", 3_000)
                reasons = [state["reason"] for state in (await at.call("look", "eve"))["states"]]
                assert any("password" in reason for reason in reasons), reasons  # a later one: too many attempts
                with pytest.raises(ClientError, match="InvalidValue: the token does not tell the user"):
                    await at.call("connect", "x", url, {"token": "opaque"})
        finally:
            await secured.stop()

    run(scene)


def test_a_right_that_is_taken_away_ends_the_loop_with_the_reason(tmp_path: Path) -> None:
    async def scene() -> None:
        secured = Secured(tmp_path, user("ann", ["n > 0"], ["n > 0"]))
        watch = RightsWatch(secured.node, secured.authenticator, recheck_s=0.01)
        await secured.start()
        watch.start()
        try:
            async with in_node() as at:
                await at.call("connect", "c", f"http://{secured.web}", {"user": "ann", "password": "ann-password"})
                await at.call("subscribe", "c", "r", "n > 0")
                await at.call("accepted", "c", "r")
                draft = tmp_path / "draft"
                draft.write_text(user("ann", ["n > 0"], ["other > 0"]))
                draft.replace(secured.users)
                said = await at.call("read", "c", "r", 1)
                assert said["error"]["name"] == "Refused"
        finally:
            await watch.stop()
            await secured.stop()

    run(scene)


def test_wrong_options_are_errors_that_say_what_is_allowed() -> None:
    async def scene() -> None:
        async with in_node() as at:
            for urls, reason in [
                ("ftp://x", "not an address of a broker"),
                ([], "not an address"),
                ("http://", "not an address"),
            ]:
                with pytest.raises(ClientError, match=f"InvalidValue.*{reason}"):
                    await at.call("connect", "c", urls)
            await at.call("connect", "c", "127.0.0.1:1")
            with pytest.raises(ClientError, match="NotConnected: after 100 ms the client is connecting"):
                await at.call("call", "c", "attached", 100)
            await at.call("call", "c", "close")
            with pytest.raises(ClientError, match="NotConnected: the client was closed"):
                await at.call("subscribe", "c", "r", "n > 0")

    run(scene)


def test_a_class_of_sockets_can_be_given_and_may_fail() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await at.call("connectBy", "c", running.url, {}, 2)
            await at.call("call", "c", "attached", 20_000)
            assert await at.call("socketsOf", "c") == 1
            reasons = [state["reason"] for state in (await at.call("look", "c"))["states"]]
            assert reasons == [*["no token, or no socket: it is not allowed here"] * 2, ""]

    run(scene)


def test_a_client_without_a_name_takes_its_session_along_when_it_goes() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            for name, stays in [("", False), ("c", True)]:
                id = await connected(at, running, "c", **({"name": name} if name else {}))
                session = running.machine.sessions.session(id)
                assert session.linger_s == (None if name else 300)
                await at.call("call", "c", "close")
                await until(lambda id=id: not running.is_attached(id))  # type: ignore[misc]
                assert (running.machine.sessions.session(id) is not None) == stays

    run(scene)


def test_what_a_broker_sends_again_after_a_cut_is_read_once() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            proxy = Proxy(running.web)
            await proxy.start()
            try:
                await at.call("connect", "c", f"http://{proxy.address}", {"name": "c", "retryMaxS": 0.1})
                await connected(at, running, "p")
                await at.call("subscribe", "c", "r", "n > 0", {}, 0)
                await at.call("accepted", "c", "r")
                queue = running.machine.sessions.session("c").queue
                for n in range(1, 6):
                    await at.call("call", "p", "publish", {"n": n})
                for cuts in (1, 2):
                    proxy.cut()
                    await until(lambda cuts=cuts: proxy.taken > cuts and running.is_attached("c"))  # type: ignore[misc]
                    await at.call("call", "p", "publish", {"n": 5 + cuts})
                await at.call("begin", "c", "r")
                assert [event["n"] for event in await read(at, 7)] == [1, 2, 3, 4, 5, 6, 7]
                await until(lambda: queue.confirmed >= 6)
                await at.call("call", "p", "publish", {"n": 8})
                assert [event["n"] for event in await read(at, 8)] == [1, 2, 3, 4, 5, 6, 7, 8]
            finally:
                await proxy.stop()

    run(scene)


def test_a_query_in_another_language_is_tested_by_the_broker_and_moves_with_the_session() -> None:
    async def scene() -> None:
        async with broker("b1", {"b2": None}) as (b1, _), broker("b2", {"b1": b1.native}) as (b2, _), in_node() as at:
            await b1.ready()
            await connected(at, b1, name="c")
            await connected(at, b2, "p")
            await at.call("subscribe", "c", "r", "LENGTH(kind) > 3 AND n > 0", {"language": "cesql"})
            await at.call("subscribe", "c", "wrong", "LENGTH(", {"language": "cesql"})
            assert (await at.call("read", "c", "wrong", 1))["error"]["name"] == "Refused"
            await at.call("accepted", "c", "r")
            await b2.ready()
            for n, kind in enumerate(["taxi", "van", "lorry", "car", "bicycle"], start=1):
                if n == 3:
                    await at.call("call", "c", "moveTo", b2.url)
                    await at.call("call", "c", "attached", 20_000)
                await at.call("call", "p", "publish", {"kind": kind, "n": n})
            assert [event["kind"] for event in await read(at, 3)] == ["taxi", "lorry", "bicycle"]

    run(scene)


def test_a_subscription_names_its_senders_and_an_advertisement_ends() -> None:
    async def scene() -> None:
        async with broker() as (running, _), in_node() as at:
            await connected(at, running, name="c")
            await connected(at, running, "p", name="p")
            await at.call("subscribe", "c", "r", "n > 0", {"sender": "role = 'driver'"})
            await at.call("accepted", "c", "r")
            await at.call("subscribe", "c", "wrong", "n > 0", {"sender": "role ="})
            assert (await at.call("read", "c", "wrong", 1))["error"]["name"] == "Refused"
            await at.call("call", "p", "publish", {"n": 1})
            await at.call("call", "p", "setContext", {"role": "driver"})
            await at.call("call", "p", "advertise", "n > 0")
            await at.call("call", "p", "publish", {"n": 2})
            assert [event["n"] for event in await read(at, 1)] == [2]
            session = running.machine.sessions.session("p")
            assert list(session.advertisements) == ["all"]
            await at.call("call", "p", "unadvertise")
            assert list(session.advertisements) == []

    run(scene)


def test_a_publisher_names_its_mode_and_its_old_broker_advertises_while_it_moves() -> None:
    async def scene() -> None:
        config = BrokerConfig(advertisements="required")
        async with (
            broker("b1", {"b2": None}, config=config) as (b1, _),
            broker("b2", {"b1": b1.native}, config=config) as (b2, _),
            in_node() as at,
        ):
            await b1.ready()
            await b2.ready()
            await connected(at, b1, name="van", mode="delayed")
            await at.call("call", "c", "advertise", "n > 0")
            await at.call("call", "c", "publish", {"n": 1})
            await at.call("call", "c", "moveTo")
            held = b1.machine.component(PublisherPresence).holdings
            await until(lambda: "van" in held and held["van"].kind == "delayed", "its broker advertises for it")
            await at.call("call", "c", "moveTo", b2.url)
            await at.call("call", "c", "attached", 20_000)
            await at.call("call", "c", "drained", 20_000)
            assert list(b2.machine.sessions.session("van").advertisements) == ["all"]
            await at.call("call", "c", "publish", {"n": 2})
            with pytest.raises(ClientError, match=r"Refused.*none of your advertisements"):
                await at.call("call", "c", "publish", {"n": 0})

    run(scene)
