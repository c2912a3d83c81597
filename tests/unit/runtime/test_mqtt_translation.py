"""A SUBSCRIBE with much to parse is handled piece by piece: one SUBACK answers it, and what came behind it waits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.errors import FilterError
from godwit.languages import NATIVE
from godwit.languages.event_documents import Document
from godwit.mobility import mobile_broker
from godwit.mqtt import Connect, Decoder, Pingreq, Subscribe, Subscription, encode
from godwit.mqtt.packets import Pingresp, Puback, Publish, Suback
from godwit.runtime import document_helper
from godwit.runtime.client_rates import COSTLY_WORK, ClientRate
from godwit.runtime.mqtt_connection import MqttConnection
from godwit.runtime.mqtt_gateway import MqttGateway
from godwit.runtime.mqtt_translation import PIECE_BYTES
from godwit.runtime.node import Node
from godwit.runtime.party_turns import PartyTurns
from tests.network.waiting import run, until

FILTERS = 40
BAD = 7  # this one does not parse


def content(number: int) -> str:
    literals = " OR ".join(f"a{i} = {number}" for i in range(20))
    return f"{literals} OR" if number == BAD else literals


SUBSCRIPTIONS = tuple(Subscription(f"t/{number}?{content(number)}", 1) for number in range(FILTERS))
PACKETS = encode(Subscribe(7, SUBSCRIPTIONS), 5) + encode(Pingreq(), 5)
WHERE = ("$where", " OR ".join(f"a{i} = 1" for i in range(200)))  # 2,000 units of work, which is costly
COSTLY = tuple(Subscription(f"t/{number}", 1) for number in range(FILTERS))


class Scene:
    """A gateway with one client, and what it was told."""

    def __init__(self) -> None:
        self.troubles: list[str] = []
        self.node = Node(lambda: mobile_broker("b1", {}, BrokerConfig()), on_trouble=self.troubles.append)
        self.gateway = MqttGateway(self.node)
        self.told: list[Any] = []
        self.parsed: list[str] = []
        parse = self.gateway.tests.parse

        def counting(text: str, language: str = NATIVE) -> Any:
            self.parsed.append(text)
            return parse(text, language)

        self.gateway.tests.parse = counting  # type: ignore[method-assign]

    async def connect(self, client: str = "ann") -> MqttConnection:
        decoder = Decoder(5)
        connection = self.gateway.open(lambda data: self.told.extend(decoder.feed(data)), lambda: None, "127.0.0.1")
        connection.data_received(encode(Connect(client, 5), 5))
        count = len(self.told)
        await until(lambda: len(self.told) > count)
        return connection

    def subscriptions(self) -> int:
        session = self.node.machine.sessions.session("ann")  # type: ignore[attr-defined]
        return 0 if session is None else len(session.subscriptions)

    def said(self, kind: type) -> list[Any]:
        return [each for each in self.told if type(each) is kind]


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    yield made
    await made.gateway.close()
    await made.node.close()
    assert made.troubles == []


def playing(play: Callable[[Scene], Any]) -> None:
    async def whole() -> None:
        async with scene() as made:
            await play(made)

    run(whole)


def test_a_piece_is_parsed_at_a_time_and_all_is_answered_in_order() -> None:
    async def play(made: Scene) -> None:
        connection = await made.connect()
        connection.data_received(PACKETS)
        assert sum(map(len, made.parsed)) <= PIECE_BYTES + 256 < sum(len(content(each)) for each in range(FILTERS))
        assert made.said(Suback) == made.said(Pingresp) == []
        await until(lambda: made.said(Pingresp))
        assert len(made.parsed) == FILTERS
        await until(lambda: made.said(Suback))
        [suback] = made.said(Suback)
        assert suback.reason_codes == tuple(0x8F if number == BAD else 1 for number in range(FILTERS))
        assert made.subscriptions() == FILTERS - 1

    playing(play)


def test_costly_subscriptions_are_asked_for_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(made: Scene) -> None:
        connection = await made.connect()
        works: list[int] = []
        take = ClientRate.take

        def noted(rate: ClientRate, messages: int, size: int, work: int, now: float) -> float:
            works.append(work)
            return take(rate, messages, size, work, now)

        monkeypatch.setattr(ClientRate, "take", noted)
        connection.data_received(encode(Subscribe(7, COSTLY, {"user_property": (WHERE,)}), 5))
        await until(lambda: made.said(Suback))
        assert made.said(Suback)[0].reason_codes == (1,) * FILTERS
        assert len([work for work in works if work]) == FILTERS - 1  # behind each but the last one
        assert max(works) < 2 * COSTLY_WORK

    playing(play)


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_client_that_goes_in_between_leaves_nothing_open(taken_over: bool) -> None:
    async def play(made: Scene) -> None:
        connection = await made.connect()
        connection.data_received(PACKETS)
        if taken_over:
            await made.connect()
        connection.connection_lost()
        await until(lambda: connection not in made.gateway.connections)
        again = await made.connect()
        again.data_received(encode(Pingreq(), 5))
        await until(lambda: made.said(Pingresp))

    playing(play)


def test_a_text_that_is_too_long_for_a_name_is_not_parsed() -> None:
    async def play(made: Scene) -> None:
        connection = await made.connect()
        long = " OR ".join(f"b{i} = 1" for i in range(80))
        connection.data_received(encode(Subscribe(3, (Subscription(f"t?{long}", 1), Subscription("u", 0))), 5))
        await until(lambda: made.said(Suback))
        assert made.said(Suback)[0].reason_codes == (0x97, 0)
        assert made.parsed == []

    playing(play)


def test_a_text_that_does_not_parse_is_said_to_be_wrong_each_time() -> None:
    async def play(made: Scene) -> None:
        connection = await made.connect()
        for packet_id in (1, 2):
            connection.data_received(encode(Subscribe(packet_id, (Subscription("t?a =", 1),)), 5))
        await until(lambda: len(made.said(Suback)) == 2)
        assert [each.reason_codes for each in made.said(Suback)] == [(0x8F,), (0x8F,)]
        with pytest.raises(FilterError):
            made.gateway.tests.parse("a =")

    playing(play)


def test_small_documents_of_all_connections_have_the_time_of_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(made: Scene) -> None:
        now, turns = 0.0, Counter[int]()
        helper, loop = made.gateway.tests.helper, asyncio.get_running_loop()
        monkeypatch.setattr(helper, "_turns", PartyTurns(lambda: now))
        turn = 0

        def next_turn() -> None:
            nonlocal turn
            turn += 1
            if sum(turns.values()) < 8:
                loop.call_soon(next_turn)

        def read(*more: object) -> list[Document]:
            nonlocal now
            now += 1.0  # all the time of a turn
            turns[turn] += 1
            return [Document({}, b"", None)]

        monkeypatch.setattr(document_helper, "read_document", read)
        connections = [await made.connect(), await made.connect("bob")]
        properties = {"content_type": "application/xml"}
        packets = [Publish(f"t/{n}", b"<a/>", 1, packet_id=n, properties=properties) for n in range(1, 5)]
        next_turn()
        for connection in connections:
            connection.data_received(b"".join(encode(packet, 5) for packet in packets))
        assert made.gateway.counts["published"] == 1
        await until(lambda: len(made.said(Puback)) == 8)
        assert set(turns.values()) == {1}

    playing(play)
