"""A user is one user over every transport: what one of its connections has taken, the others have not."""

import asyncio
from typing import Any

import httpx
import pytest

from godwit.broker.messages import Accepted, Attach, Publish, Request, Subscribe
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.mqtt import Connect, encode, packets
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.client_rates import ClientRate, ClientRates
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.rate_limits import TrafficLimits
from godwit.runtime.wire import Frames, Intro
from tests.network.guarded import heard
from tests.network.http_broker import Running, broker
from tests.network.waiting import run, until

LONG = parse(" OR ".join(f"n = {n} AND m = {n}" for n in range(100)))
SLOW = TrafficLimits(work_per_s=1, work_burst=500)


class Names:
    """Lets in whoever says a name."""

    async def admit(self, credentials: Credentials) -> Principal:
        return Principal(credentials.user)


async def attached(running: Running, user: str, client: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(running.native.host, running.native.port)
    writer.write(Frames.packed([Intro(user=user), Attach(client)]))
    await heard(reader, 1)
    return reader, writer


async def posted(client: httpx.AsyncClient, user: str) -> int:
    """The status of a post."""
    return (
        await client.post(
            "/events", json={"n": 1}, auth=httpx.BasicAuth(user, "secret") if user else httpx.USE_CLIENT_DEFAULT
        )
    ).status_code


def resting(running: Running) -> list[str]:
    """The users whose native connections are not read."""
    return sorted(each.principal.user for each in running.server.connections if each.principal and each._pause)


def test_what_one_connection_of_a_user_takes_the_others_do_not_have_over_any_transport() -> None:
    async def scene() -> None:
        async with broker(authenticator=Names()) as (running, client):
            rates = running.server.rates = ClientRates(SLOW)
            gateway = MqttGateway(running.node, Names(), "b1", traffic=SLOW, rates=rates)
            reader, writer = await attached(running, "ann", "ann")
            assert await posted(client, "ann") == 202
            writer.write(Frames.packed([Request(1, Subscribe(("ann", "s"), LONG))]))  # 20 and 2,000 of work
            assert await heard(reader, 1) == [Accepted(1)]
            assert resting(running) == ["ann"]
            assert await posted(client, "ann") == 429
            stream = (await client.get("/events", params={"filter": "n > 1"}, auth=("ann", "x"))).status_code
            assert stream == 429
            second = await attached(running, "ann", "ann/2")
            await until(lambda: resting(running) == ["ann", "ann"])
            sent: list[bytes] = []
            paused: list[bool] = []
            device: Any = gateway.open(sent.append, lambda: None, "", pause=paused.append)
            device.data_received(encode(Connect("ann", level=4, user_name="ann", password=b"x"), level=4))
            await until(lambda: device.is_admitted and sent)  # CONNACK
            device.data_received(encode(packets.Publish("t", b"x"), level=4))
            assert paused[-1]
            for connection in list(running.server.connections):
                connection.close("it is cut")
            for each in (writer, second[1]):
                each.close()
            device.connection_lost()
            assert await posted(client, "ann") == 429  # to come again gives nothing back
            assert await posted(client, "bob") == 202
            assert len(rates) >= 1

    run(scene)


def test_connections_of_nobody_in_particular_have_what_is_theirs() -> None:
    async def scene() -> None:
        async with broker(authenticator=Names()) as (running, client):
            running.server.rates = ClientRates(SLOW)
            reader, writer = await attached(running, "", "c1")
            writer.write(Frames.packed([Request(1, Subscribe(("c1", "s"), LONG))]))
            assert await heard(reader, 1) == [Accepted(1)]
            assert resting(running) == [""]
            assert await posted(client, "") == 202
            other = await attached(running, "", "c2")
            other[1].write(Frames.packed([Request(1, Publish(Event({"n": 1}, "c2", 1)))]))
            assert await heard(other[0], 1) == [Accepted(1)]
            assert resting(running) == [""]
            for each in (writer, other[1]):
                each.close()

    run(scene)


def test_bytes_are_bounded_a_second() -> None:
    async def scene() -> None:
        async with broker(authenticator=Names()) as (running, client):
            running.server.rates = ClientRates(TrafficLimits(bytes_per_s=1_000, bytes_burst=50_000))
            assert (
                await client.post("/events", json={"attributes": {"n": 1}, "payload": "x" * 99_000})
            ).status_code == 202
            assert (await client.post("/events", json={"n": 1})).status_code == 429
            reader, writer = await attached(running, "", "c")
            event = Event({"n": 1}, "c", 1, bytes(99_000))
            writer.write(Frames.packed([Request(1, Publish(event))]))
            assert await heard(reader, 1) == [Accepted(1)]
            assert resting(running) == [""]
            writer.close()

    run(scene)


def test_large_filters_that_come_at_once_are_decoded_one_by_one_with_a_rest_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken: list[tuple[int, float]] = []  # messages that were decoded at once, and how long the client rests then
    whole = ClientRate.take

    def take(self: ClientRate, messages: int, size: int, work: int, now: float) -> float:
        wait_s = whole(self, messages, size, work, now)
        if work:
            taken.append((messages, wait_s))
        return wait_s

    monkeypatch.setattr(ClientRate, "take", take)

    async def scene() -> None:
        async with broker(authenticator=Names()) as (running, _):
            reader, writer = await attached(running, "ann", "ann")
            wanted = [Request(number, Subscribe(("ann", f"s{number}"), LONG)) for number in range(1, 7)]
            writer.write(Frames.packed(wanted))
            answers: list[Any] = []
            while not answers or answers[-1].number < 6:
                answers += [each for each in await heard(reader, 1) if isinstance(each, Accepted)]
            assert [messages for messages, _ in taken] == [1] * 6
            assert all(wait_s > 0 for _, wait_s in taken)
            writer.close()

    run(scene)
