"""Checks of CONNECT: the client's name and its mode of moving.

The user property `$mode` of CONNECT names a [mode of moving](docs/reference/modes.md). Without it a client is `named`:
its session is found by its name. In the modes of publishers each connection has a separate session, which ends with it;
so they cannot be used with a session that is kept.
"""

from godwit.filters.events import NAME_LENGTH_MAX
from godwit.mobility.publisher_presence import PUBLISHER_MODES
from godwit.mqtt.mqtt_effects import Attach
from godwit.mqtt.reason_codes import ReasonCode
from godwit.runtime.mqtt_events import MODE, NAMED, mode_of

__all__ = ["why_refused"]


def why_refused(name: str, attach: Attach) -> tuple[int, str] | None:
    """The reason code and text with which an authenticated client is refused; None if it is accepted."""
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        reason = f"a client's name of {len(name)} characters: at most {NAME_LENGTH_MAX} are allowed"
        return ReasonCode.CLIENT_IDENTIFIER_NOT_VALID, reason
    mode = mode_of(attach.connect)
    if mode not in (NAMED, *PUBLISHER_MODES):
        reason = f"{MODE} is {mode[:40]!r}: allowed are {', '.join((NAMED, *PUBLISHER_MODES))}"
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, reason
    if mode != NAMED and attach.expiry_s != 0:
        ends = "a session in this mode ends with its connection, so the Session Expiry Interval must be 0"
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, f"{MODE} is {mode!r}: {ends}"
    return None
