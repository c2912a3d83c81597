"""A bridge to Kafka without a cluster: where reading goes on after a kill, records, topics, configuration."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.errors import BadValue
from godwit.mqtt.client_end import Outgoing
from godwit.runtime.bridges.bridge_sections import BridgeTopic
from godwit.runtime.bridges.kafka_offsets import Partition, ReadBatch, place_note, places
from godwit.runtime.bridges.kafka_records import kafka_topic_of, message_of, reads, record_of
from godwit.runtime.bridges.routes import Route
from godwit.runtime.configuration import load
from tests.unit.runtime.bridges.test_bridge_sections import faults

BRIDGE = '[[bridge]]\nname = "plant"\nkind = "kafka"\naddress = "10.0.0.9:9092, 10.0.0.8:9092"\n'
TOPICS = '[[bridge.topics]]\npattern = "a/#"\n'
AT = Partition("orders/with.dots", 3)


class Session:
    """What a broker keeps of a session: the notes, the requests that it has accepted, and the events of them."""

    def __init__(self) -> None:
        self.notes: dict[str, bytes] = {}
        self.accepted = 0
        self.events: list[int] = []

    def take(self, requests: list[Any], survive: int) -> None:
        """Of these requests the first are on the disk when the process is killed."""
        for request in requests[:survive]:
            self.accepted += 1
            if isinstance(request, int):
                self.events.append(request)
            else:
                self.notes[request.key] = request.value


def lives(carried: list[bool], batch_max: int, kills: list[int], *, trusts_end: bool = False) -> list[int]:
    """The records that come in when a bridge that reads batches is killed after so many requests, again and again."""
    session = Session()
    for survive in [*kills, 10_000]:
        at = places(session.notes, session.accepted).get(AT, 0)
        left = survive
        while at < len(carried) and left > 0:
            records = range(at, min(at + batch_max, len(carried)))
            offsets = tuple(offset for offset in records if carried[offset])
            at = records[-1] + 1
            first = 0 if trusts_end else session.accepted + 2
            requests = [place_note(AT, ReadBatch(at, first, offsets)), *offsets]
            session.take(requests, left)
            left -= len(requests)
    return session.events


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 9), st.lists(st.integers(0, 12), max_size=6))
def test_each_record_comes_in_once_wherever_the_process_is_killed(
    carried: list[bool], batch_max: int, kills: list[int]
) -> None:
    assert lives(carried, batch_max, kills) == [offset for offset, is_carried in enumerate(carried) if is_carried]


def test_a_bridge_that_trusted_the_end_of_its_batch_would_lose_records() -> None:
    assert lives([True] * 6, 3, [2], trusts_end=True) != list(range(6))


def outgoing(topic: str, payload: bytes = b"x", *, retain: bool = False, **properties: Any) -> Outgoing:
    return Outgoing(7, topic, payload, 1, retain, {"user_property": (("unit", "m"), ("unit", "s")), **properties})


def test_a_message_is_the_same_after_a_record() -> None:
    route = Route.of(BridgeTopic(pattern="#", kafka_topic="all"))
    said: dict[str, Any] = {"content_type": "text/plain", "message_expiry_interval": 60}
    sent = record_of(route, outgoing("a/b c", retain=True, **said), "s1")
    assert (sent.topic, sent.key, sent.value) == ("all", b"a/b c", b"x")
    assert ("godwit-delivery", b"s1.7") in sent.headers
    back = message_of(SimpleNamespace(**{name: getattr(sent, name) for name in sent.__struct_fields__}), by_key=True)
    assert (back.topic, back.payload, back.qos, back.retain) == ("a/b c", b"x", 1, True)
    assert back.properties["user_property"] == (("unit", "m"), ("unit", "s"))
    assert back.properties["content_type"] == "text/plain"
    assert 58 <= back.properties["message_expiry_interval"] <= 61


def test_a_message_that_deletes_a_retained_one_is_a_record_without_a_value() -> None:
    route = Route.of(BridgeTopic(pattern="#"))
    assert record_of(route, outgoing("a", b"", retain=True), "s1").value is None
    assert record_of(route, outgoing("a", b""), "s1").value == b""


def test_headers_of_others_that_are_no_text_or_no_numbers_are_taken_as_they_are() -> None:
    headers = [("godwit-qos", b"9"), ("godwit-expires-at", b"-1"), ("odd", b"\xff"), ("none", None)]
    message = message_of(SimpleNamespace(topic="a.b", key=b"k", value=None, headers=headers), by_key=False)
    assert (message.topic, message.payload, message.qos) == ("a/b", b"", 2)
    assert message.properties == {"user_property": (("odd", "\N{REPLACEMENT CHARACTER}"), ("none", ""))}


@pytest.mark.parametrize("topic", ["a//b", "a.b", "a b", "ä", "x" * 250, ""])
def test_a_topic_that_kafka_cannot_say_is_refused(topic: str) -> None:
    with pytest.raises(BadValue, match="cannot be a topic of Kafka"):
        kafka_topic_of(topic)


def test_a_route_reads_the_topics_of_its_pattern_or_its_own_and_none_of_kafka_itself() -> None:
    pattern, named = Route.of(BridgeTopic(pattern="a/#")), Route.of(BridgeTopic(pattern="#", kafka_topic="b.c"))
    assert [reads(pattern, each) for each in ("a.b", "a", "b.c")] == [True, True, False]
    assert [reads(named, each) for each in ("a.b", "b.c")] == [False, True]
    assert not reads(Route.of(BridgeTopic(pattern="#")), "__consumer_offsets")


def test_a_bridge_to_kafka_is_read_with_its_own_keys(tmp_path: Path) -> None:
    pytest.importorskip("aiokafka")
    text = BRIDGE + 'sasl = "SCRAM-SHA-512"\nstart = "earliest"\n' + TOPICS + 'kafka_topic = "all"\n'
    (tmp_path / "broker.toml").write_text(text)
    [bridge] = load(tmp_path / "broker.toml").settled.bridge
    assert (bridge.sasl, bridge.start, bridge.topics[0].kafka_topic) == ("SCRAM-SHA-512", "earliest", "all")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (BRIDGE.replace(", 10.0.0.8:9092", ", b"), "allowed is host:port, as in 10.0.0.9:1883, or several with commas"),
        (BRIDGE + "keep_alive_s = 9\n", "bridge[0].keep_alive_s is 9: a bridge of kind 'kafka' has no such key"),
        (BRIDGE + TOPICS + 'kafka_topic = "a/b"\n', "topics[0].kafka_topic is 'a/b': allowed are letters, digits"),
        (BRIDGE.replace("kafka", "mqtt") + TOPICS + 'kafka_topic = "a"\n', "for a bridge of kind 'kafka'"),
        (BRIDGE + TOPICS + TOPICS + 'kafka_topic = "a.b"\n', "overlaps with 'a/#' of topics[0]"),
        (BRIDGE.replace("kafka", "mqtt") + 'start = "earliest"\n', "a bridge of kind 'mqtt' has no such key"),
    ],
)
def test_faults_of_a_bridge_to_kafka_are_named(tmp_path: Path, text: str, fault: str) -> None:
    text = text if "topics" in text else text + TOPICS
    assert any(fault in each for each in faults(tmp_path, text)), faults(tmp_path, text)


def test_routes_with_topics_of_their_own_may_have_the_same_pattern(tmp_path: Path) -> None:
    pytest.importorskip("aiokafka")
    text = BRIDGE + TOPICS + 'kafka_topic = "x"\n' + TOPICS + 'kafka_topic = "y"\n'
    (tmp_path / "broker.toml").write_text(text)
    assert len(load(tmp_path / "broker.toml").settled.bridge[0].topics) == 2


def test_the_client_library_is_told_user_password_and_tls(tmp_path: Path) -> None:
    pytest.importorskip("aiokafka")
    from godwit.runtime.bridges.kafka_remote import options_of

    (tmp_path / "secret").write_text("s3cret\n")
    (tmp_path / "broker.toml").write_text(BRIDGE + 'user = "me"\npassword = "secret"\ntls = true\n' + TOPICS)
    [section] = load(tmp_path / "broker.toml").settled.bridge
    options = options_of(SimpleNamespace(section=section, broker="b1"))  # type: ignore[arg-type]
    assert options["bootstrap_servers"] == ["10.0.0.9:9092", "10.0.0.8:9092"]
    assert (options["security_protocol"], options["sasl_mechanism"]) == ("SASL_SSL", "PLAIN")
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("me", "s3cret")
    assert options["client_id"] == "godwit-b1-plant"
