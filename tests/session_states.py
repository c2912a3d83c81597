"""The state of a session in which nothing has happened yet, for tests that hand one to a machine."""

from typing import Any

from msgspec.structs import replace

from godwit.broker.messages import Receipt, SessionState

__all__ = ["session_state"]

_EMPTY = SessionState(
    client="ann",
    name="far/1/1",
    accepted=0,
    refusals=(),
    subscriptions=(),
    advertisements=(),
    has_advertised=False,
    taken=0,
    sent_up_to=0,
    confirmed=0,
    expired=0,
    purged={},
    suppressed=0,
    lost=(),
    lost_more=0,
    settled=Receipt(),
    told=Receipt(),
    accepted_then=0,
    seen=(),
)


def session_state(**fields: Any) -> SessionState:
    """The state of ann's session, with these fields changed."""
    return replace(_EMPTY, **fields)
