"""Events over HTTP, with a client that speaks it over real sockets."""

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.errors import PeerFault
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.connecting import connect
from tests.network.guarded import ASSERTED, entry, users
from tests.network.http_broker import broker, listening, start
from tests.network.waiting import run, until


def test_what_is_posted_reaches_who_listens_by_server_sent_events() -> None:
    async def scene() -> None:
        async with broker() as (_, client), listening(client, filter="n >= 10") as source:
            answer = await client.post("/events", json={"n": 5})
            assert answer.status_code == 202
            for n in (11, 12):
                answer = await client.post("/events", json={"attributes": {"n": n}, "payload": {"a": [1]}})
                assert answer.status_code == 202, answer.text
            name, event = await source.next()
            assert (name, event["attributes"], event["content_type"]) == ("message", {"n": 11}, "application/json")
            assert f"{event['publisher']}:{event['sequence'] + 1}" == answer.json()["ids"][0]
            assert await source.take("n", 1) == [12]

    run(scene)


def test_events_cross_between_http_and_native_clients_with_context_to_and_expiry() -> None:
    async def scene() -> None:
        async with broker() as (running, client), connect(running.native, name="van") as van:
            mine = await van.subscribe("kind = 'job'", sender="zone = 3")
            van.set_context({"role": "driver"})
            await van.drain()
            for context, to in (({"zone": 2}, None), ({"zone": 3}, "role = 'medic'"), ({"zone": 3}, "role = 'driver'")):
                said = {"attributes": {"kind": "job", "to": str(to)}, "context": context, "to": to, "expires_in": 60}
                assert (await client.post("/events", json=said)).status_code == 202
            event = await mine.next()
            assert event.attributes["to"] == "role = 'driver'"
            assert event.expires_at is not None
            async with listening(client, filter="n = 7", sender="role = 'driver'") as source:
                van.publish({"n": 7})
                assert await source.take("sender.role", 1) == ["driver"]

    run(scene)


def test_json_lines_are_published_in_order_and_a_bad_line_publishes_nothing() -> None:
    async def scene() -> None:
        async with broker() as (_, client), listening(client) as source:
            answer = await client.post("/events", content=b'{"n": 1}\n\n{"n": }\n{"n": 3}')
            assert (answer.status_code, answer.json()["line"]) == (400, 3)
            answer = await client.post("/events", content=b'{"n": 1}\n{"n": {"x": NaN}}')
            assert (answer.status_code, answer.json()["line"]) == (400, 2)
            lines = b"\n".join(b'{"n": %d}' % n for n in range(500))
            answer = await client.post("/events", content=lines)
            assert answer.status_code == 202
            assert len(answer.json()["ids"]) == 500
            assert await source.take("n", 500) == list(range(500))

    run(scene)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "not valid JSON"),
        (b"17", "a JSON object"),
        (b'{"attributes": {"n": 1}, "paylod": 1}', "'paylod'"),
        (b'{"attributes": {"n": 1}, "expires_in": -1}', "expires_in"),
        (b'{"attributes": {"n": 1}, "payload_base64": "?"}', "not valid base64"),
        (b'{"attributes": {"n": 1}, "to": "role ="}', "role"),
        (b'{"attributes": {"n": 1}, "to": 5}', "to"),
        (b'{"sender.zone": 1}', "sender."),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"n": 18446744073709551617}', "n"),
    ],
)
def test_a_body_that_is_no_event_is_refused_with_a_reason(body: bytes, said: str) -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            answer = await client.post("/events", content=body)
            assert answer.status_code == 400
            assert said in answer.json()["error"]
            assert answer.json()["line"] == 1

    run(scene)


def test_a_body_that_is_too_long_is_refused() -> None:
    async def scene() -> None:
        async with broker(body_bytes_max=1_000) as (_, client):
            answer = await client.post("/events", content=b" " * 2_000)
            assert answer.status_code == 413

    run(scene)


def test_a_filter_that_is_none_is_refused_with_the_place_of_the_error() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            answer = await client.get("/events", params={"filter": "n >= "})
            assert answer.status_code == 400
            assert "^" in answer.json()["error"]
            answer = await client.get("/events", params={"filter": "n > 1", "session_expiry_s": "long"})
            assert (answer.status_code, "session_expiry_s" in answer.json()["error"]) == (400, True)

    run(scene)


@pytest.mark.parametrize("named", [{}, {"client": "screen"}])
def test_a_stream_goes_on_behind_the_last_event_that_its_client_has_seen(named: dict[str, str]) -> None:
    async def scene() -> None:
        async with broker() as (_, client):

            async def post(first: int, last: int) -> None:
                lines = b"\n".join(b'{"n": %d}' % n for n in range(first, last))
                assert (await client.post("/events", content=lines)).status_code == 202

            async with listening(client, filter="n >= 0", **named) as source:
                await post(0, 100)
                assert await source.take("n", 90) == list(range(90))
                last_id = source.last_id
            await post(100, 250)
            async with listening(client, last_id, filter="n >= 0", **named) as source:
                await post(250, 300)
                assert await source.take("n", 210) == list(range(90, 300))
                last_id = source.last_id
            async with listening(client, last_id, filter="n >= 0", **named) as source:
                await post(300, 301)
                assert await source.take("n", 1) == [300]

    run(scene)


def test_a_stream_goes_on_after_its_broker_was_stopped_and_has_come_back(tmp_path: Path) -> None:
    async def scene() -> None:
        async with broker(folder=tmp_path) as (_, client), listening(client, client="screen") as source:
            await client.post("/events", content=b'{"n": 1}\n{"n": 2}')
            assert await source.take("n", 1) == [1]
            last_id = source.last_id
        async with broker(folder=tmp_path) as (_, client):
            await client.post("/events", json={"n": 3})
            async with listening(client, last_id) as source:
                assert await source.take("n", 2) == [2, 3]

    run(scene)


def test_a_stream_goes_on_at_another_broker() -> None:
    async def scene() -> None:
        async with broker("b1", {"b2": None}) as (b1, at_b1), broker("b2", {"b1": b1.native}) as (b2, at_b2):
            await b1.ready()
            await b2.ready()

            async def post(first: int, last: int) -> None:
                lines = b"\n".join(b'{"n": %d}' % n for n in range(first, last))
                assert (await at_b1.post("/events", content=lines)).status_code == 202

            async with listening(at_b1, filter="n >= 0") as source:
                await post(0, 100)
                assert await source.take("n", 80) == list(range(80))
                last_id = source.last_id
            await post(100, 200)
            async with listening(at_b2, last_id, filter="n >= 0") as source:
                await post(200, 300)
                assert await source.take("n", 220) == list(range(80, 300))
                last_id = source.last_id
            async with listening(at_b1, last_id, filter="n >= 0") as source:
                await post(300, 301)
                assert await source.take("n", 1) == [300]

    run(scene)


@pytest.mark.parametrize(
    "forged", ["nonsense", "x@y:1", "screen@b1%2F1%2F1:999999", "screen@:-1", "@:", "a@b:" + "9" * 40]
)
def test_an_id_that_is_none_of_ours_begins_a_new_stream(forged: str) -> None:
    async def scene() -> None:
        async with broker() as (_, client), listening(client, forged) as source:
            await client.post("/events", json={"n": 1})
            assert await source.take("n", 1) == [1]

    run(scene)


def test_a_listener_that_goes_without_session_expiry_leaves_nothing_behind() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            async with listening(client, client="screen", session_expiry_s="0"):
                assert running.node.machine.sessions.session("screen") is not None  # type: ignore[attr-defined]
            await until(lambda: running.node.machine.sessions.session("screen") is None)  # type: ignore[attr-defined]

    run(scene)


def test_a_broker_that_stops_ends_its_streams() -> None:
    async def scene() -> None:
        running = await start()
        async with httpx.AsyncClient(base_url=running.url, trust_env=False) as client, listening(client) as source:
            await running.stop()
            with pytest.raises(EOFError):
                await source.next()

    run(scene)


class Guarded:
    """Knows two users and a token."""

    async def admit(self, credentials: Credentials) -> Principal:
        known = {("ann", "pw"): "ann", ("bob", "pw"): "bob"}
        user = known.get((credentials.user, credentials.password)) or {"t": "carl"}.get(credentials.token)
        if user is None:
            raise PeerFault("nobody knows you")
        return Principal(user)


def test_who_has_no_credentials_gets_401_and_who_has_them_comes_in() -> None:
    async def scene() -> None:
        async with broker(authenticator=Guarded()) as (_, client):
            answer = await client.post("/events", json={"n": 1})
            assert (answer.status_code, answer.json()["error"]) == (401, "nobody knows you")
            assert "Basic" in answer.headers["www-authenticate"]
            for auth in ({"auth": ("ann", "pw")}, {"headers": {"authorization": "Bearer t"}}):
                answer = await client.post("/events", json={"n": 1}, **auth)
                assert answer.status_code == 202
            assert answer.json()["ids"][0].startswith("carl/")
            for header in ("Basic ???", "Digest x"):
                answer = await client.post("/events", json={"n": 1}, headers={"authorization": header})
                assert answer.status_code == 400

    run(scene)


def test_nobody_goes_on_with_the_stream_of_another_user() -> None:
    async def scene() -> None:
        async with broker(authenticator=Guarded()) as (_, client):
            ann: dict[str, Any] = {"base_url": client.base_url, "trust_env": False, "auth": ("ann", "pw")}
            async with httpx.AsyncClient(**ann) as hers, httpx.AsyncClient(**{**ann, "auth": ("bob", "pw")}) as his:
                async with listening(hers, client="screen") as source:
                    await hers.post("/events", json={"n": 1})
                    assert await source.take("n", 1) == [1]
                    last_id = source.last_id
                assert last_id.startswith("ann%2Fscreen@")
                await hers.post("/events", json={"n": 2})
                async with listening(his, last_id) as stranger:
                    await hers.post("/events", json={"n": 3})
                    assert await stranger.take("n", 1) == [3]
                async with listening(hers, last_id, client="screen") as source:
                    assert await source.take("n", 2) == [2, 3]

    run(scene)


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.evil.example"},  # a name that leads here, as a page of its own finds it
        {"host": "127.0.0.1.evil.example"},
        {"host": "127.evil.example", "origin": "http://127.evil.example"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"host": ""},
        {"host": "", "origin": "null"},
        {"sec-fetch-site": "cross-site"},  # an image, or a link
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_page_of_another_origin_cannot_act_as_the_local_user(headers: dict[str, str]) -> None:
    async def scene() -> None:
        async with broker(origins=["https://good.example"]) as (_, client):
            answer = await client.post("/events", json={"n": 1}, headers=headers)
            assert answer.status_code in (401, 403)
            answer = await client.get("/events", params={"client": "screen"}, headers=headers)
            assert answer.status_code in (401, 403)
            assert (await client.post("/events", json=[], headers={"sec-fetch-site": "same-origin"})).status_code == 202
            answer = await client.post("/events", json={"n": 1}, headers={"origin": "https://good.example"})
            assert answer.status_code == 202
            assert answer.headers["access-control-allow-origin"] == "https://good.example"

    run(scene)


def test_a_retained_event_comes_first_to_who_asks_for_such_and_can_be_cleared() -> None:
    async def scene() -> None:
        async with broker() as (_, client):
            for n in (1, 2):
                assert (await client.post("/events?retain=lamp", json={"lamp": n})).status_code == 202
            async with listening(client, retained="", filter="lamp >= 0", client="screen") as source:
                assert await source.take("lamp", 1) == [2]
                last_id = source.last_id
            async with listening(client, last_id, retained="", filter="lamp >= 0", client="screen") as source:
                await client.post("/events?retain=lamp&clear", json={"lamp": 3})
                assert await source.take("lamp", 1) == [3]
            async with listening(client, retained="", filter="lamp >= 0") as source:
                await client.post("/events", json={"lamp": 4})
                assert await source.take("lamp", 1) == [4]

    run(scene)


def test_a_reader_that_does_not_read_slows_nobody_and_misses_nothing() -> None:
    async def scene() -> None:
        async with broker() as (running, client), listening(client, client="slow") as slow:
            async with connect(running.native, name="quick") as quick:
                mine = await quick.subscribe("n >= 0")
                said = {"payload": "x" * 20_000}
                for first in range(0, 600, 100):
                    lines = [msgspec.json.encode({"attributes": {"n": n}, **said}) for n in range(first, first + 100)]
                    assert (await client.post("/events", content=b"\n".join(lines))).status_code == 202
                assert [(await mine.next()).attributes["n"] for _ in range(600)] == list(range(600))
            session = running.node.machine.sessions.session("slow")  # type: ignore[attr-defined]
            assert len(session.queue) > 100  # it is sent no more than it reads
            assert await slow.take("n", 600) == list(range(600))

    run(scene)


def test_who_may_publish_something_may_do_so_where_all_must_be_advertised(tmp_path: Path) -> None:
    async def scene() -> None:
        authenticator = users(tmp_path, entry("ann", "publish = [\"topic = 'a'\"]"))["authenticator"]
        config = BrokerConfig(asserted=ASSERTED, advertisements="required")
        async with broker(authenticator=authenticator, config=config) as (_, client):
            for topic, status in (("a", 202), ("b", 403)):
                answer = await client.post("/events", json={"topic": topic}, auth=("ann", "ann-password"))
                assert answer.status_code == status

    run(scene)
