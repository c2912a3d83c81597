"""A hostile peer on a real socket costs only itself: a good client is served all the while."""

import asyncio
import contextlib
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from godwit.broker import tree
from godwit.broker.messages import (
    Accepted,
    Ack,
    Advertise,
    Attach,
    Attached,
    Bye,
    Context,
    Delivery,
    Denied,
    FetchEvents,
    Frame,
    Hello,
    Note,
    Publish,
    Receipt,
    Received,
    Request,
    Retain,
    SetSessionExpiry,
    Subscribe,
    Unsubscribe,
)
from godwit.errors import MqttFault, Refused
from godwit.filters.events import Event
from godwit.filters.filters import any_of
from godwit.filters.language import parse
from godwit.mobility.move_messages import Relocate
from godwit.mqtt import Connect, Decoder, encode
from godwit.mqtt.packets import Publish as MqttPublish
from godwit.runtime import tcp
from godwit.runtime.authentication import Credentials, Principal
from godwit.runtime.connecting import connect
from godwit.runtime.grants import Grants
from godwit.runtime.link_authentication import LinkGuard
from godwit.runtime.network_client import NetworkClient
from godwit.runtime.rate_limits import TrafficLimits
from godwit.runtime.wire import Frames, Intro
from tests.network.guarded import Guarded, as_user, entry, good_client, guarded, heard, numbers, users
from tests.network.waiting import a_turn, run, until

WISHES: list[Any] = [
    Subscribe(("eve", "s"), parse("x > 1 AND (y = 'a' OR z IN (1, 2, 3))"), retained=True),
    Subscribe(("eve", "s"), parse("x > my.x")),
    Unsubscribe(("eve", "s")),
    Advertise(("eve", "a"), parse("x IS NOT NULL")),
    Publish(Event({"x": 1, "t": "text", "several": (1, 2.5, True)}, "eve", 1, b"payload")),
    Retain(Event({"topic": "a"}, "eve", 2), "a"),
    Context({"place": "b1", "many": ("a", "b")}),
    Note("k", b"v"),
    SetSessionExpiry(10.0),
    Denied("why not"),
]
SAID: list[Any] = [
    Attach("eve", 3, "b1/1/7", True, 2, 1, "b2", 1, (WISHES[0],), context=Context({"x": 1})),
    Attach("eve"),
    *(Request(number, wish) for number, wish in enumerate(WISHES, start=1)),
    Received(1),
    FetchEvents("p", 1, 3),
    Bye("so long"),
    Intro(broker="b2"),
    Hello(1, 1, 1, 1, True),
    Frame(1, 1, Publish(Event({"x": 1}))),
    Ack(7),
    Relocate("eve", "b1", "b2", 7),
    Attached(1, True, Receipt()),
    Delivery(1, Event({"x": 1}), ("s",)),
]


def mutated(random: Random, data: bytes) -> bytes:
    """The bytes with something wrong in them."""
    spoiled = bytearray(data)
    for _ in range(random.choice([0, 1, 1, 2, 8])):
        at = random.randrange(len(spoiled))
        match random.randrange(4):
            case 0:
                spoiled[at] = random.randrange(256)
            case 1:
                del spoiled[at : at + random.randrange(1, 5)]
            case 2:
                spoiled[at:at] = random.randbytes(random.randrange(1, 9))
            case 3:
                spoiled[at:at] = spoiled[: random.randrange(40)]
        if not spoiled:
            break
    return bytes(spoiled)


class HalfOpen:
    """A authenticator at which eve is granted little, and others everything."""

    async def admit(self, credentials: Credentials) -> Principal:
        grants = Grants.of(["x > 1 OR t LIKE 'te%'"], ["x > 0 AND sender.role = 'pilot'"], "narrow", names=["role"])
        return Principal("eve", grants=grants) if credentials.user else Principal()


@pytest.mark.parametrize("user", ["", "eve"])
def test_fuzzed_frames_close_their_connection_and_nothing_else(user: str) -> None:
    async def scene() -> None:
        random = Random(6)
        faults: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
        async with guarded(authenticator=HalfOpen()) as broker, good_client(broker) as is_served:
            for round in range(150):
                said = [SAID[1]] * random.randrange(2) + random.sample(SAID, random.randrange(1, 5))
                frames = [Frames.packed([message]) for message in said]
                if random.random() < 0.7:  # the length is right, what it holds is not
                    bodies = [mutated(random, frame[4:]) for frame in frames]
                    frames = [len(body).to_bytes(4, "big") + body for body in bodies]
                else:
                    frames = [mutated(random, b"".join(frames))]
                reader, writer = await broker.open()
                writer.write((b"" if random.random() < 0.1 else Frames.packed([Intro(user=user)])) + b"".join(frames))
                writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                writer.close()
                if round % 10 == 0:
                    await is_served()
            assert not broker.trouble
            assert not faults

    run(scene)


@pytest.mark.parametrize(
    "start",
    [
        b"\x7f\xff\xff\xff",
        (64 * 2**10 + 1).to_bytes(4, "big"),
        Frames.packed([Intro()]) + (16 * 2**20 + 1).to_bytes(4, "big"),
    ],
)
def test_giant_frames_are_refused_by_their_length(start: bytes) -> None:
    async def scene() -> None:
        async with guarded() as broker, good_client(broker) as is_served:
            await broker.closes(raw=start)
            await until(lambda: "bytes: at most" in broker.closed[-1][1] if broker.closed else False)
            await is_served()

    run(scene)


def test_an_intro_that_comes_byte_by_byte_or_never_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with guarded() as broker, good_client(broker) as is_served:
            monkeypatch.setattr(tcp, "INTRO_S", 0.05)
            begun = Frames.packed([Intro()])
            for said in (b"", begun[:1], begun[:-1], begun):  # the last one says who it is, and then nothing
                assert await broker.closes(raw=said) in (b"", Frames.packed([Bye("")]))
                await is_served()
            reader, writer = await broker.open()
            with contextlib.suppress(ConnectionError):  # which may be closed before all bytes are written
                for byte in begun[:-1]:
                    writer.write(bytes([byte]))
                    await writer.drain()
                assert await reader.read() == b""
            writer.close()
            await until(lambda: len(broker.clients) == 1)

    run(scene)


def test_a_flood_of_connections_keeps_out_others_only_while_it_lasts() -> None:
    async def scene() -> None:
        async with guarded(traffic=TrafficLimits(connections_max=20)) as broker, good_client(broker) as is_served:
            flood = [await broker.open() for _ in range(100)]
            await until(lambda: broker.server.audit.connections.total() >= 81)
            assert len(broker.server.connections) == 20
            await is_served()
            for _, writer in flood:
                writer.close()
            await until(lambda: len(broker.server.connections) == 1)
            async with good_client_named(broker, "late"):
                await is_served()

    run(scene)


def good_client_named(broker: Guarded, name: str) -> NetworkClient:
    return connect(broker.address, name=name)


def test_one_host_has_so_many_connections_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with (
            guarded(traffic=TrafficLimits(connections_per_host_max=3)) as broker,
            good_client(broker) as is_served,
        ):
            monkeypatch.setattr(tcp, "host_of", lambda transport: "192.0.2.7")
            flood = [await broker.open() for _ in range(10)]
            await until(lambda: len(broker.closed) == 7)
            assert {why for _, why in broker.closed} == {"this broker accepts no more connections from 192.0.2.7"}
            monkeypatch.undo()
            await is_served()
            for _, writer in flood:
                writer.close()
            await until(lambda: len(broker.clients) == 1)
            assert not broker.server.hosts._counts

    run(scene)


def test_who_does_not_read_takes_little_memory_slows_nobody_and_gets_its_events_when_it_reads() -> None:
    async def scene() -> None:
        async with guarded() as broker, good_client(broker) as is_served:
            reader, writer = await broker.open()
            wish = Subscribe(("slow", "s"), parse("big = TRUE"))
            writer.write(Frames.packed([Intro(), Attach("slow"), Request(1, wish)]))
            await reader.read(1)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            await until(lambda: len(broker.node.machine.routing.matcher) == 2)  # type: ignore[attr-defined]
            async with good_client_named(broker, "p") as p:
                for n in range(28):  # its queue has room for more
                    p.publish(Event({"big": True, "n": n}, payload=bytes(500_000)))
                    await p.drain()
                    await is_served()
                assert 0 < max(each.unread for each in broker.server.connections) < tcp.PIECE_BYTES + 600_000
            assert not any("does not read" in why for _, why in broker.closed)
            writer.transport.abort()
            reader, writer = await broker.open()  # and the whole backlog at once
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(Frames.packed([Intro(), Attach("slow")]))
            await until(lambda: any(each._is_full for each in broker.server.connections))
            assert max(each.unread for each in broker.server.connections) < tcp.PIECE_BYTES + 600_000
            writer.transport.abort()
            async with good_client_named(broker, "slow") as slow:
                mine = await slow.subscribe("big = TRUE", name="s")
                assert await numbers(mine, 28) == list(range(28))
            await is_served()

    run(scene)


def test_who_does_not_read_answers_is_not_read_and_goes_on_when_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(tcp, "UNSENT_MAX", 100)
        async with guarded() as broker, good_client(broker) as is_served:
            reader, writer = await broker.open()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            wish = Unsubscribe(("eve", "x" * 200))  # refused each time, with its name
            writer.write(Frames.packed([Intro(), Attach("eve")]))
            count = 60_000
            writer.write(Frames.packed([Request(n, wish) for n in range(1, count + 1)]))
            await until(lambda: any(each._is_stuffed for each in broker.server.connections))
            [session] = [each for each in broker.node.machine.sessions if each.client == "eve"]  # type: ignore[attr-defined]
            await is_served()
            assert session.accepted < count
            reader._transport.resume_reading()  # type: ignore[attr-defined]
            while session.accepted < count:
                assert await reader.read(2**20)
            await is_served()
            writer.close()

    run(scene)


def test_deep_and_large_filters_are_refused_and_cost_little() -> None:
    async def scene() -> None:
        nested = b"\x91" * 100_000 + b"\x90"  # an array in an array in …
        bad_not: Any = {"not": {"some": "x", "in": {"one_of": [1]}}}
        for _ in range(300):
            bad_not = {"not": bad_not}
        tower = msgspec.msgpack.encode(
            {"type": "Request", "number": 1, "wish": {"type": "Subscribe", "id": ["eve", "s"], "filter": bad_not}}
        )
        async with guarded() as broker, good_client(broker) as is_served:
            for body in (nested, tower):
                answer = await broker.closes(Intro(), Attach("eve"), raw=len(body).to_bytes(4, "big") + body)
                assert b"not a message" in answer
                await is_served()
            async with good_client_named(broker, "eve") as eve:
                wide = any_of(*(parse(f"x = {n} AND y = {n}") for n in range(600)))
                with pytest.raises(Refused, match="a filter of 1200 literals"):
                    await eve.subscribe(wide)
                await is_served()

    run(scene)


def test_a_neighbour_that_chooses_members_of_shared_subscriptions_in_another_way_is_refused() -> None:
    """As one of an earlier version does, which says nothing about it."""

    async def scene() -> None:
        async with guarded("b1", {"b2": None}) as broker, good_client(broker) as is_served:
            earlier = msgspec.msgpack.encode({"type": "Intro", "version": 1, "broker": "b2"})
            await broker.closes(raw=len(earlier).to_bytes(4, "big") + earlier)
            assert (
                "b2 and b1 choose members of shared subscriptions in different ways (1 and 2)" in broker.closed[-1][1]
            )
            assert "b2" not in broker.node.ports
            await is_served()

    run(scene)


def test_a_forged_broker_is_no_neighbour(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(tree, "HOLD_S", 0.01)
        guard = LinkGuard("b1", secret=b"the brokers know it, and nobody else")
        async with guarded("b1", {"b2": None}, links=guard) as broker, good_client(broker) as is_served:
            stranger = LinkGuard("b2", secret=b"a guess")
            for token in ("", stranger.said_to("b1", (), 0.0), "x" * 10_000):
                assert await broker.closes(Intro(broker="b2", token=token), Hello(1, 0, 0, 1, False)) == b""
                assert "does not know the secret" in broker.closed[-1][1]
            assert await broker.closes(Intro(broker="b3")) == b""
            assert "b2" not in broker.node.ports
            await is_served()

    run(scene)


def test_a_client_cannot_speak_as_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(tree, "HOLD_S", 0.01)
        async with guarded("b1", {"b2": None}) as broker, good_client(broker) as is_served:
            for said in (
                Hello(1, 0, 0, 1, False),
                Frame(1, 0, Publish(Event({"good": True, "n": 99}, "good", 1))),
                Relocate("good", "b1", "b2", 99),
            ):
                await broker.closes(Intro(), Attach("eve"), said)
                await is_served()

    run(scene)


def test_what_the_server_says_of_a_sender_cannot_be_forged_past_a_grant(tmp_path: Path) -> None:
    async def scene() -> None:
        pilot = entry("pilot", "publish = [\"sender.role = 'pilot'\"]", "context = { role = 'pilot' }")
        eve = entry("eve", "publish = [\"sender.role = 'pilot'\", \"kind = 'chat'\"]", "subscribe = ['*']")
        async with (
            guarded(**users(tmp_path, pilot, eve)) as broker,
            good_client(broker),
            as_user(broker, "pilot") as p,
            as_user(broker, "eve") as e,
        ):
            flights = await e.subscribe("n > 0", sender="role = 'pilot'")
            chat = await e.subscribe("kind = 'chat'")
            forged = Publish(Event({"n": 1, "sender.role": "pilot"}, "eve/raw", 1))
            dressed = Publish(Event({"n": 2, "kind": "chat", "sender.role": "pilot"}, "eve/raw", 2))
            reader, writer = await broker.open()
            intro = Intro(user="eve", password="eve-password")
            writer.write(Frames.packed([intro, Attach("eve/raw"), Request(1, forged), Request(2, dressed)]))
            _, refused, accepted = await heard(reader, 3)
            assert "not allowed to publish" in refused.reason
            assert accepted == Accepted(2)
            writer.close()
            p.publish({"n": 3})
            assert await numbers(flights, 1) == [3]
            said = await chat.next()
            assert said.attributes == {"n": 2, "kind": "chat"}

    run(scene)


def test_nobody_takes_over_a_session_by_saying_its_name_again(tmp_path: Path) -> None:
    async def scene() -> None:
        rights = ("publish = ['*']", "subscribe = ['*']")
        async with (
            guarded(**users(tmp_path, entry("ann", *rights), entry("eve", *rights))) as broker,
            good_client(broker) as is_served,
            as_user(broker, "ann") as ann,
        ):
            mine = await ann.subscribe("n > 0")
            session = ann.machine.session  # all that could be overheard
            attach = Attach("ann", session=str(session), attempt=99)
            answer = await broker.closes(Intro(user="eve", password="eve-password"), attach)
            assert b"is not a name for a client of eve" in answer
            answer = await broker.closes(Intro(user="ann", password="eve-password"), attach)
            assert b"password is wrong" in answer
            ann.publish({"n": 1})
            assert await numbers(mine, 1) == [1]
            assert not ann.closed_because
            await is_served()

    run(scene)


def test_who_is_too_fast_is_read_more_slowly_and_loses_nothing() -> None:
    async def scene() -> None:
        traffic = TrafficLimits(messages_per_s=2_000, messages_burst=20)
        async with guarded(traffic=traffic) as broker, good_client_named(broker, "fast") as fast:
            mine = await fast.subscribe("n >= 0")
            for n in range(300):
                fast.publish({"n": n})
            await until(lambda: any(connection._pause is not None for connection in broker.clients))
            await fast.drain()
            assert await numbers(mine, 300) == list(range(300))
            assert not fast.closed_because

    run(scene)


class SlowDoor:
    """Is asked, and never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def admit(self, credentials: Any) -> Any:
        self.asked.set()
        await asyncio.get_running_loop().create_future()


def test_what_comes_before_the_door_has_answered_is_bounded() -> None:
    async def scene() -> None:
        door = SlowDoor()
        async with guarded(authenticator=door) as broker:
            _, writer = await broker.open()
            writer.write(Frames.packed([Intro()]) + b"\0" * 50_000_000)
            await door.asked.wait()
            [connection] = broker.clients
            for _ in range(200):
                await a_turn()
            assert len(connection._early or b"") <= tcp.EARLY_BYTES_MAX
            assert writer.transport.get_write_buffer_size() > 2 * tcp.EARLY_BYTES_MAX  # nobody takes it
            writer.transport.abort()

    run(scene)


def test_a_door_that_does_not_answer_in_time_closes_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        monkeypatch.setattr(tcp, "INTRO_S", 0.05)
        async with guarded(authenticator=SlowDoor()) as broker:
            reader, writer = await broker.open()
            writer.write(Frames.packed([Intro()]))
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.transport.abort()
            await until(lambda: not broker.clients, "the connection is closed")

    run(scene)


def test_no_secret_is_written_down_or_said_again(tmp_path: Path) -> None:
    async def scene() -> None:
        folder = tmp_path / "journal"
        folder.mkdir()
        authenticator = users(tmp_path, entry("ann", "publish = ['*']", "subscribe = ['*']"))
        async with guarded(folder=folder, **authenticator) as broker:
            async with as_user(broker, "ann") as ann:
                await ann.subscribe("n > 0")
                ann.publish({"n": 1})
                await ann.drain()
            said = b""
            for intro in (
                Intro(user="ann", password="hunter2-wrong"),
                Intro(user="nobody", password="hunter2-wrong"),
                Intro(token="eySECRET.eySECRET.SECRET"),
            ):
                said += await broker.closes(intro)
            await broker.node.quiet()
            told = f"{broker.closed}{broker.trouble}".encode() + said
        for path in folder.rglob("*"):
            if path.is_file():
                told += path.read_bytes()
        for secret in (b"ann-password", b"hunter2", b"SECRET", b"argon2"):
            assert secret not in told

    run(scene)


def test_forty_half_frames_are_bounded_together_and_go_in_time() -> None:
    async def scene() -> None:
        traffic = TrafficLimits(partial_bytes_max=4 * 2**20)
        async with guarded(traffic=traffic) as broker, good_client(broker) as is_served:
            half = (15 * 2**20).to_bytes(4, "big") + bytes(2**20)
            opened = []
            for _ in range(40):
                reader, writer = await broker.open()
                writer.write(Frames.packed([Intro()]) + half)
                opened.append((reader, writer))
                await writer.drain()
            await until(lambda: len([why for _, why in broker.closed if "limits.partial_bytes_max" in why]) >= 36)
            assert broker.server.memory.partial_bytes <= 4 * 2**20
            await is_served()
            for holder in broker.server.memory._partial.values():
                holder.began -= 60.0
            broker.server.memory._check()
            assert any("limits.frame_s" in why for _, why in broker.closed)
            assert broker.server.memory.partial_bytes == 0
            await is_served()
            for _, writer in opened:
                writer.close()

    run(scene)


def test_a_broker_takes_little_from_mqtt_clients_before_they_have_said_who_they_are() -> None:
    decoder = Decoder(size_max=2**20, first_size_max=1_000)
    with pytest.raises(MqttFault, match="at most 1000"):
        decoder.feed(b"\x10\xff\xff\x03")
    decoder = Decoder(size_max=2**20, first_size_max=1_000)
    decoder.feed(encode(Connect("a", 4), 4))
    assert len(decoder.feed(encode(MqttPublish("t", bytes(2_000)), 4))) == 1
