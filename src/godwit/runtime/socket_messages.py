"""Messages of the JSON twin, as people and programs write them: a request that is wrong is refused, not the connection.

*Theory.* A client in a browser cannot tell whether the text of a filter is right, or whether an event is too large: the
broker can. If that closed the connection, the client would send the same again on the next one, for ever. So a request
of which at least the number can be read becomes one that the machine refuses (`Denied`), with the reason; whatever else
is wrong closes the connection.

*Rules.*
1. A request in whose place `Denied` stands is handled, numbered and answered like any other.
2. Nothing that is wrong reaches the machine.
"""

import json
from typing import Any

from godwit.broker.message_checks import check_request, is_whole
from godwit.broker.messages import Denied, Request
from godwit.errors import PeerFault
from godwit.runtime.wire import JSON

__all__ = ["message_of"]

REASON_CHARS_MAX = 2_000
NO_MESSAGE = "a frame that is not a message: "  # how the codec begins


def message_of(data: bytes) -> Any:
    """The message that a client has sent. PeerFault: it is none."""
    try:
        message = JSON.decode(data)
        if type(message) is Request:
            check_request(message)
        return message
    except PeerFault as fault:
        number = _number_of(data)
        if number is None:
            raise
        return Request(number, Denied(str(fault).removeprefix(NO_MESSAGE)[:REASON_CHARS_MAX]))


def _number_of(data: bytes) -> int | None:
    """The number of a request, of which nothing else need be right."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("type") != "Request" or not isinstance(said.get("wish"), dict):
        return None
    number = said.get("number")
    return number if type(number) is int and number > 0 and is_whole(number) else None
