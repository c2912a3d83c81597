"""A message that crosses Godwit is the same on the other side; what a client sends makes an event, or is left out."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.messages import Publish as Published
from godwit.broker.messages import Request
from godwit.errors import BadValue
from godwit.filters.events import ATTRIBUTES_MAX, Event, event, flattened
from godwit.filters.values import Point
from godwit.mqtt import Publish, encode
from godwit.runtime.mqtt_events import attributes_of, context_of_payload, context_of_properties, message_of
from godwit.runtime.wire import NATIVE

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
NAMES = st.sampled_from(["topic", "mqtt.qos", "retained", "sender.x", "my.x", "$to", "a", "b"]) | TEXTS
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
PAYLOADS = st.binary(max_size=20) | st.dictionaries(NAMES, JSON, max_size=4).map(msgspec.json.encode)
PROPERTIES = st.fixed_dictionaries(
    {},
    optional={
        "payload_format_indicator": st.integers(0, 1),
        "content_type": st.just("application/json") | TEXTS,
        "response_topic": st.just("answer/1"),
        "correlation_data": st.binary(max_size=8),
        "user_property": st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=4).map(tuple),
    },
)


def crossed(topic: str, payload: bytes, qos: int, retain: bool, properties: Any) -> Event:
    attributes = attributes_of(topic, payload, qos, retain, properties, {"sender.zone": "north"})
    content_type = properties.get("content_type")
    made = Event(attributes, "ann", 7, payload, content_type)
    request = NATIVE.decode(NATIVE.encode(Request(1, Published(made))))
    crossing: Event = request.wish.event
    return crossing


@given(st.sampled_from(["t", "a/b", "ü/+x".replace("+", "")]), PAYLOADS, st.integers(0, 2), st.booleans(), PROPERTIES)
def test_a_message_is_the_same_on_the_other_side(topic, payload, qos, retain, properties):
    message = message_of(crossed(topic, payload, qos, retain, properties))
    assert (message.topics, message.payload, message.qos, message.retain) == ((topic,), payload, qos, retain)
    assert message.properties == properties
    assert not message.is_retained
    encode(Publish(topic, message.payload, properties=message.properties), 5)


@given(PAYLOADS, PROPERTIES)
def test_nobody_says_what_is_not_the_clients_to_say(payload, properties):
    attributes = crossed("t", payload, 1, False, properties).attributes
    assert (attributes["topic"], attributes["mqtt.qos"], attributes["sender.zone"]) == ("t", 1, "north")
    assert "retained" not in attributes
    assert "mqtt.retain" not in attributes
    assert [name for name in attributes if name.startswith(("sender.", "my.", "$"))] == ["sender.zone"]
    assert dict(flattened(attributes)) == attributes


@given(
    st.dictionaries(st.text("ab", min_size=1, max_size=3), st.integers(-9, 9), max_size=4), st.text("ab", min_size=1)
)
def test_a_user_property_counts_more_than_a_field(fields, name):
    payload = msgspec.json.encode(fields)
    attributes = crossed("t", payload, 0, False, {"user_property": ((name, "said"),)}).attributes
    assert attributes[name] == "said"
    for field, value in fields.items():
        assert attributes[field] == ("said" if field == name else value)


def test_too_much_is_left_out_and_the_event_is_not():
    many = {f"f{number}": number for number in range(ATTRIBUTES_MAX)}
    attributes = crossed(
        "t", msgspec.json.encode(many), 0, False, {"user_property": (("a", "1"), ("a", "2"))}
    ).attributes
    assert attributes["a"] == ("1", "2")
    assert "f1" not in attributes
    pairs = tuple((f"u{number}", "x") for number in range(2 * ATTRIBUTES_MAX))
    assert len(crossed("t", b"", 0, False, {"user_property": pairs}).attributes) <= ATTRIBUTES_MAX
    assert crossed("t", b"", 0, False, {"user_property": (("x" * 300, "1"), ("y", "2"))}).attributes["y"] == "2"
    assert "a" not in crossed("t", b'{"a": 1, "b": "%s"}' % (b"x" * 70_000), 0, False, {}).attributes
    assert crossed("t", b"[" * 100_000, 0, False, {"content_type": "application/json"}).attributes["topic"] == "t"
    assert crossed("t", b'{"a":' * 5_000, 0, False, {}).attributes["topic"] == "t"


def test_a_native_event_comes_as_json_with_the_subscriptions_qos():
    at = datetime(2026, 11, 15, tzinfo=UTC)
    made = event(
        {"topic": ["a", "b"], "speed": 4.5, "tags": ["x", "y"], "at": at, "here": Point(8.5, 47.4), "retained": True}
    )
    message = message_of(made)
    assert (message.topics, message.qos, message.is_retained) == (("a", "b"), 2, True)
    said = msgspec.json.decode(message.payload)
    assert said == {
        "speed": 4.5,
        "tags": ["x", "y"],
        "at": {"$time": "2026-11-15T00:00:00+00:00"},
        "here": {"lon": 8.5, "lat": 47.4},
    }
    assert flattened(said) == {
        name: value for name, value in made.attributes.items() if name not in ("topic", "retained")
    }
    assert message_of(event({"topic": "t", "mqtt.properties": '{"correlation": "?"}', "mqtt.qos": 9})).properties == {
        "content_type": "application/json"
    }


@given(PROPERTIES, st.binary(max_size=20) | JSON.map(msgspec.json.encode), st.sampled_from(["$ctx", "$ctx/a", "$ctx/"]))
def test_a_context_is_told_or_refused_in_words(properties, payload, topic):
    for told in (lambda: context_of_properties(properties), lambda: context_of_payload(topic, payload, {"b": 1})):
        with suppress(BadValue):
            told()


def test_a_context_comes_by_properties_or_by_topic():
    pairs = (("$ctx", '{"zone": "north", "fuel": 3}'), ("$ctx.role", "driver"), ("other", "x"))
    assert context_of_properties({"user_property": pairs}) == {"zone": "north", "fuel": 3, "role": "driver"}
    assert context_of_properties({"user_property": pairs[2:]}) is None
    assert context_of_payload("$ctx", b'{"a": 1}', {"b": 2}) == {"a": 1}
    assert context_of_payload("$ctx/a", b"1", {"b": 2}) == {"b": 2, "a": 1}
    assert context_of_payload("$ctx/b", b"", {"b": 2}) == {}
    assert context_of_payload("$ctx/b", b"north", {}) == {"b": "north"}
