"""WebSockets, with a client that speaks them over real sockets."""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import trustme
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from godwit.broker.messages import (
    Accepted,
    Attach,
    Attached,
    Bye,
    Delivery,
    Publish,
    Received,
    Refused,
    Request,
    Subscribe,
)
from godwit.errors import PeerFault
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.runtime.authentication import Credentials, LocalAuthenticator, Principal
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.wire import JSON, Intro
from tests.network.http_broker import Running, broker
from tests.network.waiting import run, until


async def say(socket: ClientConnection, *messages: Any) -> None:
    for message in messages:
        await socket.send(JSON.encode(message).decode())


async def heard(socket: ClientConnection) -> Any:
    """The next message but for signs of life."""
    while True:
        text = await socket.recv()
        assert isinstance(text, str)
        message = JSON.decode(text.encode())
        if type(message) is not Intro:
            return message


def at(running: Running, path: str, **more: Any) -> connect:
    return connect(f"ws://{running.web}{path}", proxy=None, **more)


def test_a_client_that_speaks_the_json_twin_subscribes_publishes_and_confirms() -> None:
    async def scene() -> None:
        async with broker() as (running, _), at(running, "/ws") as socket:
            await say(socket, Intro(), Attach("page"), Intro())
            attached = await heard(socket)
            assert isinstance(attached, Attached)
            await say(socket, Request(1, Subscribe(("page", "s"), parse("n > 1 AND point WITHIN CIRCLE(8, 47, 5000)"))))
            assert await heard(socket) == Accepted(1)
            told = event({"n": 2, "point": {"lon": 8.0, "lat": 47.0}}, publisher="page", sequence=1, payload=b"\0\xff")
            await say(socket, Request(2, Publish(told)))
            answers = [await heard(socket), await heard(socket)]
            [delivery] = [answer for answer in answers if isinstance(answer, Delivery)]
            assert delivery.event == told
            await say(socket, Received(1), Request(3, Subscribe(("other", "s"), parse("TRUE"))))
            refused = await heard(socket)
            assert isinstance(refused, Refused)
            session = running.node.machine.sessions.session("page")  # type: ignore[attr-defined]
            assert session.queue.confirmed == 1

    run(scene)


@pytest.mark.parametrize(
    "said",
    [
        "nonsense",
        "{}",
        '{"type":"Attach","client":"x"}',
        '{"type":"Intro","version":99}',
        '{"type":"Intro","broker":"b2"}',
        "[" * 100_000,
        b"\x00\x01",
        '{"type":"Intro"}\n{"type":"Nothing"}',
    ],
)
def test_who_speaks_nonsense_is_told_so_and_let_go(said: str | bytes) -> None:
    async def scene() -> None:
        async with broker() as (running, client), at(running, "/ws") as socket:
            for part in said.split("\n") if isinstance(said, str) else [said]:
                await socket.send(part)
            assert isinstance(await heard(socket), Bye)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1008
            assert (await client.get("/healthz")).status_code == 200

    run(scene)


@pytest.mark.parametrize("said", [b"\xff\xfe", [b'{"type":"Intro", "user": "\xc3', b'\xff"}']])
def test_a_text_that_is_not_utf_8_closes_its_connection_without_a_traceback(
    said: bytes | list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with broker() as (running, client), at(running, "/ws") as socket:
            await socket.send(said, text=True)
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1007
            assert (await client.get("/healthz")).status_code == 200

    run(scene)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


class Tokens:
    async def admit(self, credentials: Credentials) -> Principal:
        if credentials.token != "t" and (credentials.user, credentials.password) != ("ann", "pw"):
            raise PeerFault("nobody knows you")
        return Principal("ann")


@pytest.mark.parametrize("intro", [Intro(token="t"), Intro(user="ann", password="pw")])
def test_a_client_shows_who_it_is_with_its_intro(intro: Intro) -> None:
    async def scene() -> None:
        async with broker(authenticator=Tokens()) as (running, _):
            async with at(running, "/ws") as socket:
                await say(socket, Intro(token="wrong"))
                assert await heard(socket) == Bye("nobody knows you")
            async with at(running, "/ws") as socket:
                await say(socket, intro, Attach("bob"))
                refused = await heard(socket)
                assert "not a name for a client of ann" in refused.reason
            async with at(running, "/ws") as socket:
                await say(socket, intro, Attach("ann/1"))
                assert isinstance(await heard(socket), Attached)

    run(scene)


def test_a_page_of_another_origin_gets_no_socket() -> None:
    async def scene() -> None:
        async with broker() as (running, _):
            with pytest.raises(InvalidStatus):
                await at(running, "/ws", origin="https://evil.example")

    run(scene)


def test_a_broker_that_stops_closes_its_sockets() -> None:
    async def scene() -> None:
        async with broker() as (running, _), at(running, "/ws") as socket:
            await say(socket, Intro(), Attach("page"))
            await heard(socket)
            stopping = asyncio.create_task(running.http.close())
            with pytest.raises(ConnectionClosed):
                await heard(socket)
            await stopping

    run(scene)


class Echo:
    """A gateway that sends back what has come, and closes on `bye`."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self.lost = asyncio.Event()

    def open(self, write: Callable[[bytes], None], close: Callable[[], None], host: str, **more: Any) -> "Echo":
        self.hosts.append(host)
        self._write, self._close = write, close
        return self

    def data_received(self, data: bytes) -> None:
        self._write(data)
        if data == b"bye":
            self._close()

    def connection_lost(self) -> None:
        self.lost.set()


def test_mqtt_goes_to_the_gateway_as_bytes() -> None:
    async def scene() -> None:
        gateway = Echo()
        async with broker(gateway=gateway) as (running, _):
            async with at(running, "/mqtt", subprotocols=["mqtt"]) as socket:
                assert socket.subprotocol == "mqtt"
                for said in (b"\x10\x00", b"bye"):
                    await socket.send(said)
                    assert await socket.recv() == said
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
            await gateway.lost.wait()
            assert gateway.hosts == ["127.0.0.1"]
            with pytest.raises(InvalidStatus):
                await at(running, "/mqtt")
            async with at(running, "/mqtt", subprotocols=["mqtt"]) as socket:
                await socket.send("text")
                with pytest.raises(ConnectionClosed):
                    await socket.recv()
        async with broker() as (running, _):
            with pytest.raises(InvalidStatus):
                await at(running, "/mqtt", subprotocols=["mqtt"])

    run(scene)


def test_from_one_host_come_no_more_than_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("godwit.runtime.rate_limits.is_local", lambda host: False)

    async def scene() -> None:
        async with broker() as (running, client):
            running.http._hosts.each_max = 2
            async with at(running, "/ws"), at(running, "/ws"):
                with pytest.raises(httpx.TransportError):
                    await client.get("/healthz")
            await until(lambda: not running.http._hosts._counts)
            assert (await client.get("/healthz")).status_code == 200

    run(scene)


def test_a_client_may_show_who_it_is_with_a_certificate() -> None:
    class Shown:
        async def admit(self, credentials: Credentials) -> Principal:
            return Principal(credentials.certificate or "nobody")

    async def scene() -> None:
        authority = trustme.CA()
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        authority.issue_cert("127.0.0.1").configure_cert(server)
        authority.issue_cert("van-7").configure_cert(client)
        server.verify_mode = ssl.CERT_OPTIONAL
        for context in (server, client):
            authority.configure_trust(context)
        async with broker(authenticator=Shown()) as (running, _):
            address = await running.http.listen("127.0.0.1", 0, server)
            async with httpx.AsyncClient(base_url=f"https://{address}", verify=client, trust_env=False) as secure:
                answer = await secure.post("/events", json={"n": 1})
                assert answer.json()["ids"][0].startswith("van-7/http-")

    run(scene)


def test_an_mqtt_client_comes_in_over_a_websocket() -> None:
    async def scene() -> None:
        async with broker() as (running, client):
            running.http.gateway = MqttGateway(running.node, LocalAuthenticator(), "b1")
            async with at(running, "/mqtt", subprotocols=["mqtt"]) as socket:
                connect_packet = b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04test"
                for part in (connect_packet[:5], connect_packet[5:]):
                    await socket.send(part)
                assert await socket.recv() == b"\x20\x02\x00\x00"
                await socket.send(b"\x82\x08\x00\x01\x00\x03a/b\x00")
                assert await socket.recv() == b"\x90\x03\x00\x01\x00"
                await client.post("/events", json={"attributes": {"topic": "a/b"}, "payload": "hi"})
                assert await socket.recv() == b"\x30\x07\x00\x03a/bhi"
            await running.http.gateway.close()

    run(scene)


def test_all_of_it_goes_over_tls() -> None:
    async def scene() -> None:
        authority = trustme.CA()
        server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
        authority.issue_cert("127.0.0.1").configure_cert(server)
        authority.configure_trust(client)
        async with broker() as (running, _):
            address = await running.http.listen("127.0.0.1", 0, server)
            async with httpx.AsyncClient(base_url=f"https://{address}", verify=client, trust_env=False) as secure:
                assert (await secure.post("/events", json={"n": 1})).status_code == 202
            async with connect(f"wss://{address}/ws", ssl=client, proxy=None) as socket:
                await say(socket, Intro(), Attach("page"))
                assert isinstance(await heard(socket), Attached)

    run(scene)
