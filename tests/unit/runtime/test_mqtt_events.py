"""Events and contexts as MQTT has them."""

import pytest

from godwit.runtime.mqtt_events import context_of_payload


@pytest.mark.parametrize("payload", [b'{"\xff":1}', b'"\xff"', b"[" * 1_500])
def test_a_payload_that_is_no_json_is_a_text_of_the_context(payload: bytes) -> None:
    context = context_of_payload("$ctx/bat", payload, {"other": 1})
    assert context == {"other": 1, "bat": payload.decode(errors="replace")}
