"""Events and contexts as MQTT has them."""

import msgspec
import pytest

from godwit.filters.events import Event
from godwit.runtime.mqtt_events import context_of_payload, properties_of


@pytest.mark.parametrize("payload", [b'{"\xff":1}', b'"\xff"', b"[" * 1_500])
def test_a_payload_that_is_no_json_is_a_text_of_the_context(payload: bytes) -> None:
    context = context_of_payload("$ctx/bat", payload, {"other": 1})
    assert context == {"other": 1, "bat": payload.decode(errors="replace")}


@pytest.mark.parametrize("content_type", ["text/\0", "x" * 70_000])
def test_a_content_type_that_no_packet_can_have_is_left_out_and_not_the_event(content_type: str) -> None:
    assert properties_of(Event({"topic": "t"}, "p", 1, b"x", content_type)) == {}
    assert properties_of(Event({"topic": "t"}, "p", 1, b"x", "text/plain\n")) == {"content_type": "text/plain\n"}


@pytest.mark.parametrize("topic", ["a/#", "+", "", "a\0b"])
def test_a_response_topic_for_which_clients_would_disconnect_is_left_out(topic: str) -> None:
    kept = msgspec.json.encode({"response_topic": topic, "format": 1}).decode()
    assert properties_of(Event({"topic": "t", "mqtt.properties": kept}, "p", 1)) == {"payload_format_indicator": 1}
    kept = msgspec.json.encode({"response_topic": "a/b"}).decode()
    assert properties_of(Event({"topic": "t", "mqtt.properties": kept}, "p", 1)) == {"response_topic": "a/b"}
