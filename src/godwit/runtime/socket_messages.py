"""Messages of the JSON form: an invalid request is refused without closing the connection.

*Theory.* A client in a browser cannot check whether a filter is valid, or an event too large: only the broker can. If
that closed the connection, the client would repeat the request on the next one, without end. So an invalid request with
a readable number becomes one that the machine refuses (`Denied`), with the reason; any other error closes the
connection.

*Rules.*
1. A request that was replaced by `Denied` is handled, numbered and answered like any other.
2. No invalid message reaches the machine.
"""

import json
from typing import Any

from godwit.broker.message_checks import check_request, is_whole
from godwit.broker.messages import Denied, Request
from godwit.errors import PeerFault
from godwit.runtime.wire import JSON

__all__ = ["message_of"]

REASON_CHARS_MAX = 2_000
NO_MESSAGE = "a frame that is not a message: "  # the beginning of the codec's error


def message_of(data: bytes) -> Any:
    """Decode a client's message. PeerFault if it is invalid."""
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
    """The number of a request that may be invalid otherwise."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict) or said.get("type") != "Request" or not isinstance(said.get("wish"), dict):
        return None
    number = said.get("number")
    return number if type(number) is int and number > 0 and is_whole(number) else None
