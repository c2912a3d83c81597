"""Rights that end while the broker holds something for a client that it has not written yet, and while it asks."""

import asyncio
import time
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from godwit.filters import parse
from godwit.filters.filters import TRUE
from godwit.runtime.authentication import Principal
from godwit.runtime.grants import Grants
from godwit.runtime.http_events import EventStream
from godwit.runtime.server_sent_events import ServerSentEvents
from tests.network.http_broker import listening
from tests.network.rights_broker import SECRET, user
from tests.network.test_rights import ALL, NEWS, Watched, watched
from tests.network.waiting import run, until
from tests.seeds import slow


def token(user: str, seconds: float, **rights: Any) -> dict[str, str]:
    """The header of a request with a token that is valid for so long."""
    said = {"sub": user, "exp": time.time() + seconds, "godwit": rights}
    return {"authorization": f"Bearer {jwt.encode(said, SECRET)}"}


# ---------------------------------------------------------------- MQTT


@pytest.mark.parametrize("qos", [1, slow(2)])
def test_mqtt_what_waits_for_answers_of_the_client_is_judged_when_rights_change(tmp_path: Path, qos: int) -> None:
    async def scene() -> None:
        narrow = ["topic LIKE 't/news%'"]
        entry = user("ann", ALL, ALL)
        async with (
            watched(tmp_path, entry, beyond_grants="narrow") as at,
            at.broker.device("ann", 5, ReceiveMaximum=1) as ann,
        ):
            ann.paho.manual_ack_set(True)
            await ann.subscribe("t/#", qos)
            await publish(at, qos, *(["fire"] * 3), "news", "fire", "news")
            first = await ann.next()
            outgoing: Any = at.broker.gateway.clients["ann"]._session.outgoing
            await until(lambda: at.broker.machine.sessions.session("ann").queue.sent_up_to == 6)
            await until(lambda: len(outgoing.waiting) == 5)
            at.write(user("ann", narrow, narrow))
            authorisation = at.broker.machine.components["authorisation"]
            await until(lambda: authorisation.rights_of("ann").subscribe != TRUE)
            ann.paho.ack(first.mid, first.qos)
            got = []
            for _ in range(2):
                message = await ann.next()
                got.append(message.topic)
                ann.paho.ack(message.mid, message.qos)
            assert got == ["t/news", "t/news"]
            await until(lambda: at.broker.machine.sessions.session("ann").queue.confirmed_up_to() == 6)

    run(scene)


@pytest.mark.parametrize("qos", [0, 1])
def test_mqtt_what_the_machine_delivers_before_it_has_heard_of_changed_rights_is_judged(
    tmp_path: Path, qos: int
) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.device("ann", 5) as ann:
            await ann.subscribe("t/#", qos)
            connection: Any = at.broker.gateway.clients["ann"]
            connection._inner.principal.adopt(Principal("ann", grants=Grants(TRUE, parse("topic LIKE 't/news%'"))))
            await publish(at, qos, "fire", "news", "fire", "news")
            assert [(await ann.next()).topic for _ in range(2)] == ["t/news", "t/news"]
            await until(lambda: at.broker.machine.sessions.session("ann").queue.confirmed_up_to() == 4)

    run(scene)


async def publish(at: Watched, qos: int, *kinds: str) -> None:
    async with at.broker.device("all", 5, "all/dev") as device:
        for kind in kinds:
            await device.publish(f"t/{kind}", b"x", qos)


# ---------------------------------------------------------------- HTTP


@pytest.mark.parametrize("is_removed", [False, True])
def test_http_what_waits_for_a_slow_reader_is_judged_when_rights_change(
    tmp_path: Path, is_removed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads_on = asyncio.Event()
    write = ServerSentEvents._write

    async def slowly(self: ServerSentEvents, send: Any, data: bytes) -> None:
        await write(self, send, data)
        if b'"fire"' in data:
            await reads_on.wait()

    async def scene() -> None:
        monkeypatch.setattr(ServerSentEvents, "_write", slowly)
        async with (
            watched(tmp_path, user("ann", ALL, ALL), beyond_grants="narrow") as at,
            at.broker.web_client("ann") as ann,
            listening(ann, filter="n > 0", client="ann") as source,
        ):
            http: Any = at.broker.http
            [stream] = [each for each in http._streams if isinstance(each, EventStream)]
            await at.publish("fire", "fire", "news")
            assert await source.take("n", 1) == [1]
            await until(lambda: len(stream._waiting) == 2)
            at.write(*([] if is_removed else [user("ann", NEWS, NEWS)]))
            await until(lambda: stream._principal.grants.subscribe != TRUE)
            reads_on.set()
            told = [await source.next() for _ in range(1 if is_removed else 2)]
            if is_removed:
                assert told == [("rights", {"ended": True, "reason": "the user was removed"})]
            else:
                assert [data["attributes"]["n"] for name, data in told if name == "message"] == [3]

    run(scene)


def test_http_a_trace_ends_with_the_token_of_its_administrator(tmp_path: Path) -> None:
    async def scene() -> None:
        async with watched(tmp_path) as at, at.broker.web_client("all") as client:
            client.auth = httpx.Auth()  # none
            headers = token("boss", 1.5, admin=True)
            async with asyncio.timeout(60), client.stream("GET", "/trace", headers=headers) as answer:
                assert answer.status_code == 200
                async for _ in answer.aiter_bytes():
                    pass  # it ends
            assert (await client.get("/sessions", headers=headers)).status_code == 401

    run(scene)


@pytest.mark.parametrize("how", ["expired", "removed"])
def test_http_a_post_whose_body_takes_longer_than_its_right_publishes_nothing(tmp_path: Path, how: str) -> None:
    async def scene() -> None:
        async with watched(tmp_path, user("ann", ALL, ALL)) as at, at.broker.web_client("ann") as client:
            assert (await client.post("/events", json={"kind": "first"})).status_code == 202
            begun, may_go_on = asyncio.Event(), asyncio.Event()
            headers: dict[str, str] = {}
            if how == "expired":
                client.auth, headers = httpx.Auth(), token("ann", 1.5, publish=["*"])
                assert (await client.post("/events", json={"kind": "first"}, headers=headers)).status_code == 202

            async def body() -> Any:
                yield b'{"kind": '
                begun.set()
                await may_go_on.wait()
                yield b'"late"}'

            async with at.broker.client("all") as everybody:
                late = await everybody.subscribe("kind IN ('late', 'last')")
                post = asyncio.create_task(client.post("/events", content=body(), headers=headers))
                await begun.wait()
                if how == "expired":
                    await until(
                        lambda: (
                            time.time()
                            > jwt.decode(headers["authorization"][7:], SECRET, ["HS256"], {"verify_exp": False})["exp"]
                        )
                    )
                else:
                    at.write()
                    users: Any = at.broker.authenticator
                    await until(lambda: users.users.entry("ann") is None)
                may_go_on.set()
                answer = await post
                assert answer.status_code == 401, answer.text
                await everybody.publish({"kind": "last"})
                assert (await late.next()).attributes["kind"] == "last"

    run(scene)
