"""Reason codes: the results of requests in MQTT, and those that each packet may have.

*Theory.* Level 5 has one list of codes; below 0x80 they mean success. Levels 3 and 4 know codes only in CONNACK, where
they are 0 to 5, and in SUBACK, where every failure is 0x80.

*Standard.* [mqtt5 §2.4], and the table of reason codes in the section of each packet; [mqtt311 §3.2.2.3].
"""

from enum import IntEnum

__all__ = ["ALLOWED", "RETURN_CODES", "ReasonCode", "return_code"]


class ReasonCode(IntEnum):
    """The reason codes of level 5. Where one number has several names, the packet says which is meant."""

    SUCCESS = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2


_PUBLISHED = frozenset({0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99})
_RELEASED = frozenset({0x00, 0x92})

ALLOWED: dict[str, frozenset[int]] = {
    "Connack": frozenset({0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, *range(0x99, 0x9E), 0x9F}),
    "Puback": _PUBLISHED,
    "Pubrec": _PUBLISHED,
    "Pubrel": _RELEASED,
    "Pubcomp": _RELEASED,
    "Suback": frozenset({0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}),
    "Unsuback": frozenset({0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91}),
    "Disconnect": frozenset({0x00, 0x04, *range(0x80, 0x84), 0x87, 0x89, 0x8B, *range(0x8D, 0x91), *range(0x93, 0xA3)}),
    "Auth": frozenset({0x00, 0x18, 0x19}),
}
"""By packet, the codes it may bear at level 5, in either direction."""

RETURN_CODES = frozenset(range(6))
"""What CONNACK may say at levels 3 and 4."""

_RETURN_CODE_FOR = {
    ReasonCode.SUCCESS: 0,
    ReasonCode.UNSUPPORTED_PROTOCOL_VERSION: 1,
    ReasonCode.CLIENT_IDENTIFIER_NOT_VALID: 2,
    ReasonCode.BAD_USER_NAME_OR_PASSWORD: 4,
    ReasonCode.NOT_AUTHORIZED: 5,
    ReasonCode.BANNED: 5,
    ReasonCode.BAD_AUTHENTICATION_METHOD: 5,
}


def return_code(reason_code: int) -> int:
    """What CONNACK says at levels 3 and 4 for a reason code: 3 (server unavailable) when nothing fits better."""
    return _RETURN_CODE_FOR.get(ReasonCode(reason_code), 3)
