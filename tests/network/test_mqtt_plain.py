"""MQTT clients of other makers at one broker: what every MQTT user expects."""

import pytest

from godwit.broker.broker import Broker
from godwit.broker.messages import Received
from godwit.mqtt import Connect, Pubcomp, Pubrec, Subscribe, Subscription, encode
from godwit.runtime.authentication import Principal
from godwit.runtime.in_process_connection import InProcessConnection
from godwit.runtime.mqtt_gateway import MESSAGE_BYTES_KEPT
from tests.network.mqtt_devices import Device, one_broker, properties, property_of, start
from tests.network.waiting import run


@pytest.mark.parametrize("level", [4, 5])
def test_qos_0_goes_from_one_to_another(level):
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann", level), Device("bob", level)
            assert (await ann.connect(station.port)).value == 0
            await bob.connect(station.port)
            assert (await ann.subscribe("city/+/speed")).value == 0
            await bob.publish("city/car-17/speed", b"42")
            message = await ann.next()
            assert (message.topic, message.payload, message.qos, message.retain) == (
                "city/car-17/speed",
                b"42",
                0,
                False,
            )
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [1, 2])
def test_qos_1_and_2_come_in_order_and_once(level, qos, tmp_path):
    async def scene() -> None:
        async with one_broker(folder=tmp_path) as station:
            ann, bob = Device("ann", level), Device("bob", level)
            await ann.connect(station.port)
            await bob.connect(station.port)
            assert (await ann.subscribe("t/#", qos)).value == qos
            for number in range(200):
                await bob.publish("t", b"%d" % number, qos)
            messages = [await ann.next() for _ in range(200)]
            assert [message.payload for message in messages] == [b"%d" % number for number in range(200)]
            assert {message.qos for message in messages} == {qos}
            assert not any(message.dup for message in messages)
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("is_polite", [True, False])
def test_a_session_goes_on_with_what_came_meanwhile(level, is_polite, tmp_path):
    async def scene() -> None:
        async with one_broker(folder=tmp_path) as station:
            ann, bob = Device("ann", level, clean=False, expiry_s=1_000), Device("bob", level)
            await ann.connect(station.port)
            assert not ann.is_present
            await bob.connect(station.port)
            await ann.subscribe("a/+", 1)
            await ann.subscribe("b?fuel < 20", 2)
            await bob.publish("a/1", b"first", 1)
            assert await ann.payloads(1) == [b"first"]
            await (ann.disconnect() if is_polite else ann.vanish())
            for number in range(100):
                await bob.publish("a/x/y", b"not this", 1)
                await bob.publish("a/x", b"%d" % number, 1)
                await bob.publish("b", b'{"fuel": %d}' % number, 2)
            again = Device("ann", level, clean=False, expiry_s=1_000)
            await again.connect(station.port)
            assert again.is_present
            messages = [await again.next()]
            if messages[0].topic == "a/1":  # its answer was lost on the way
                assert messages.pop().dup
            messages += [await again.next() for _ in range(120 - len(messages))]
            assert [each.payload for each in messages if each.topic == "a/x"] == [b"%d" % n for n in range(100)]
            assert [each.payload for each in messages if each.topic == "b"] == [b'{"fuel": %d}' % n for n in range(20)]
            await again.unsubscribe("a/+")
            await bob.publish("a/x", b"too late", 1)
            await bob.publish("b", b'{"fuel": 3}', 1)
            assert await again.payloads(1) == [b'{"fuel": 3}']
            await again.disconnect()
            clean = Device("ann", level)
            await clean.connect(station.port)
            assert not clean.is_present
            await bob.publish("b", b'{"fuel": 4}', 1)
            await clean.subscribe("end")
            await bob.publish("end", b"end")
            assert await clean.payloads(1) == [b"end"]
            await clean.disconnect()
            await bob.disconnect()

    run(scene)


def test_a_client_that_connects_anew_takes_over_and_the_older_is_told():
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann", expiry_s=100), Device("bob")
            await ann.connect(station.port)
            await ann.subscribe("t", 1)
            again = Device("ann", clean=False, expiry_s=100)
            await again.connect(station.port)
            assert again.is_present
            await ann.gone.wait()
            assert ann.gone_because.value == 0x8E
            await ann.disconnect()
            await bob.connect(station.port)
            await bob.publish("t", b"x", 1)
            assert await again.payloads(1) == [b"x"]
            await again.disconnect()
            await bob.disconnect()

    run(scene)


def test_nothing_is_left_of_connections_that_the_machine_has_closed(tmp_path):
    async def scene() -> None:
        async with one_broker(folder=tmp_path) as station:
            closed: list[str] = []
            for name in ("c1", "c2", "c3"):
                inner = InProcessConnection(station.node, name, Principal("ann"), lambda messages: None, closed.append)
                inner.say(Received(1))  # nobody has said who this is
            await station.node.quiet()
            assert len(closed) == 3
            assert not station.node._open
        again = await start(folder=tmp_path)
        assert not again.node.unhandled
        await again.stop()

    run(scene)


def test_of_a_client_that_is_gone_before_it_is_let_in_no_session_stays(tmp_path):
    async def scene() -> None:
        async with one_broker(folder=tmp_path) as station:
            connection = station.gateway.open(lambda data: None, lambda: None, "127.0.0.1")
            connection.data_received(encode(Connect("ghost", 4, clean_start=True), 4))
            assert connection._admitting is not None
            await connection._admitting
            assert "ghost" in station.gateway.clients
            connection.connection_lost()
            await station.node.quiet()
            assert isinstance(station.node.machine, Broker)
            assert station.node.machine.sessions.session("ghost") is None

    run(scene)


def test_what_a_client_is_done_with_is_confirmed_though_it_does_not_read(tmp_path):
    async def scene() -> None:
        async with one_broker(folder=tmp_path) as station:
            connection = station.gateway.open(lambda data: None, lambda: None, "127.0.0.1")
            connection.data_received(encode(Connect("ann", 4, clean_start=False), 4))
            connection.data_received(encode(Subscribe(1, (Subscription("t", 2),)), 4))
            assert connection._admitting is not None
            await connection._admitting
            bob = Device("bob")
            await bob.connect(station.port)
            await bob.publish("t", b"x", 2)
            await station.node.quiet()
            connection.pause_writing()
            connection.data_received(encode(Pubrec(1), 4))
            connection.data_received(encode(Pubcomp(1), 4))
            await station.node.quiet()
            assert isinstance(station.node.machine, Broker)
            session = station.node.machine.sessions.session("ann")
            assert session is not None
            assert "rel/1" not in session.notes
            assert session.queue.confirmed == 1
            connection.connection_lost()
            await bob.disconnect()

    run(scene)


def test_large_events_do_not_stay_in_memory():
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("t", 0)
            size = MESSAGE_BYTES_KEPT // 10
            for _ in range(25):
                await bob.publish("t", bytes(size), 1)
            await ann.payloads(25)
            assert sum(len(message.payload) for _, message in station.gateway._messages.values()) <= MESSAGE_BYTES_KEPT
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_a_will_is_published_when_a_client_vanishes_and_not_when_it_says_good_bye():
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            await ann.connect(station.port)
            await ann.subscribe("will/+", 2)
            for name, is_polite in [("bob", True), ("cat", False)]:
                device = Device(name)
                device.paho.will_set(f"will/{name}", b"gone", 1)
                await device.connect(station.port)
                await (device.disconnect() if is_polite else device.vanish())
            message = await ann.next()
            assert (message.topic, message.payload, message.qos) == ("will/cat", b"gone", 1)
            await ann.disconnect()

    run(scene)


def test_a_will_with_a_delay_waits_and_goes_when_the_client_is_back():
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            await ann.connect(station.port)
            await ann.subscribe("will/+", 2)
            for name, delay_s in [("slow", 1_000), ("quick", 1)]:
                device = Device(name, clean=False, expiry_s=2_000)
                device.paho.will_set(
                    f"will/{name}", b"gone", properties=properties("WILLMESSAGE", WillDelayInterval=delay_s)
                )
                await device.connect(station.port)
                await device.vanish()
            assert (await ann.next()).topic == "will/quick"
            back = Device("slow", clean=False, expiry_s=2_000)
            await back.connect(station.port)
            assert back.is_present
            await back.disconnect()
            third = Device("slow", clean=False, expiry_s=2_000)
            third.paho.will_set("will/slow", b"gone", properties=properties("WILLMESSAGE", WillDelayInterval=1_000))
            await third.connect(station.port)
            await third.vanish()
            clean = Device("slow")  # a clean start ends the session, and that is as late as a will may be
            await clean.connect(station.port)
            assert (await ann.next()).topic == "will/slow"
            assert ann.came.empty()
            await clean.disconnect()
            await ann.disconnect()

    run(scene)


def test_events_expire_and_say_how_long_they_last():
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("t", 1)
            await bob.publish("t", b"x", 1, MessageExpiryInterval=100)
            message = await ann.next()
            assert 98 <= property_of(message, "MessageExpiryInterval") <= 100
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_properties_come_as_they_were_sent_and_requests_find_their_answers():
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann"), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("question", 1)
            await bob.subscribe("answer/bob", 1)
            await bob.publish(
                "question",
                b"2 + 2",
                1,
                ResponseTopic="answer/bob",
                CorrelationData=b"\0\xff",
                ContentType="text/plain",
                PayloadFormatIndicator=1,
                UserProperty=[("b", "2"), ("a", "1"), ("b", "1")],
            )
            question = await ann.next()
            assert property_of(question, "UserProperty") == [("b", "2"), ("a", "1"), ("b", "1")]
            assert property_of(question, "ContentType") == "text/plain"
            assert property_of(question, "PayloadFormatIndicator") == 1
            await ann.publish(
                property_of(question, "ResponseTopic"),
                b"4",
                1,
                CorrelationData=property_of(question, "CorrelationData"),
            )
            answer = await bob.next()
            assert (answer.payload, property_of(answer, "CorrelationData")) == (b"4", b"\0\xff")
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_no_local_identifiers_aliases_and_small_windows():
    async def scene() -> None:
        async with one_broker() as station:
            ann, bob = Device("ann", ReceiveMaximum=2, TopicAliasMaximum=3), Device("bob")
            await ann.connect(station.port)
            await bob.connect(station.port)
            await ann.subscribe("t", 2, properties("SUBSCRIBE", SubscriptionIdentifier=7), noLocal=True)
            await ann.publish("t", b"own", 1)
            for number in range(50):
                await bob.publish("t", b"%d" % number, 2, TopicAlias=1)
            messages = [await ann.next() for _ in range(50)]
            assert [message.payload for message in messages] == [b"%d" % number for number in range(50)]
            assert {message.topic for message in messages} <= {"t", ""}
            assert {tuple(property_of(message, "SubscriptionIdentifier")) for message in messages} == {(7,)}
            assert {property_of(message, "TopicAlias") for message in messages} == {1}
            await ann.disconnect()
            await bob.disconnect()

    run(scene)


def test_what_is_not_allowed_is_said():
    async def scene() -> None:
        async with one_broker() as station:
            ann = Device("ann")
            await ann.connect(station.port)
            assert (await ann.publish("$SYS/x", b"", 1)).value == 0x90
            assert (await ann.publish("t", b"", 1, UserProperty=[("$to", "no filter (")])).value == 0x83
            assert (await ann.publish("t", b"", 2)).value == 0
            assert (await ann.publish("$ctx", b"[]", 1)).value == 0x83
            assert (await ann.subscribe("t?speed >")).value == 0x8F
            assert (await ann.subscribe("x" * 5_000)).value == 0x97
            long = Device("n" * 300)
            assert (await long.connect(station.port)).value == 0x85
            await long.disconnect()
            await ann.disconnect()

    run(scene)
