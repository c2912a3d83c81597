"""Properties of MQTT 5: each has the identifier that the standard gives it."""

import pytest

from godwit.errors import MqttFault
from godwit.mqtt.properties import NAMES, USER_PROPERTIES_MAX, read, varint
from godwit.mqtt.reason_codes import ReasonCode

STANDARD = {  # [mqtt5 table 2-4]
    1: "payload_format_indicator",
    2: "message_expiry_interval",
    3: "content_type",
    8: "response_topic",
    9: "correlation_data",
    11: "subscription_identifier",
    17: "session_expiry_interval",
    18: "assigned_client_identifier",
    19: "server_keep_alive",
    21: "authentication_method",
    22: "authentication_data",
    23: "request_problem_information",
    24: "will_delay_interval",
    25: "request_response_information",
    26: "response_information",
    28: "server_reference",
    31: "reason_string",
    33: "receive_maximum",
    34: "topic_alias_maximum",
    35: "topic_alias",
    36: "maximum_qos",
    37: "retain_available",
    38: "user_property",
    39: "maximum_packet_size",
    40: "wildcard_subscription_available",
    41: "subscription_identifier_available",
    42: "shared_subscription_available",
}


def test_identifiers_are_those_of_the_standard() -> None:
    assert {identifier: name for name, (identifier, _) in NAMES.items()} == STANDARD


def test_a_packet_has_a_bounded_number_of_user_properties() -> None:
    def block(count: int) -> bytes:
        return varint(7 * count) + b"\x26\x00\x01a\x00\x01b" * count

    most = block(USER_PROPERTIES_MAX)
    found, _ = read(most, 0, len(most), "Publish")
    assert len(found["user_property"]) == USER_PROPERTIES_MAX
    more = block(USER_PROPERTIES_MAX + 1)
    with pytest.raises(MqttFault, match="user properties") as caught:
        read(more, 0, len(more), "Publish")
    assert caught.value.reason_code is ReasonCode.QUOTA_EXCEEDED
