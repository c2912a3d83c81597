"""What is kept in mind of events that were checked: only small ones, so that memory does not grow with peers."""

from math import nan

import pytest

from godwit.broker import message_checks
from godwit.broker.messages import Request, SetSessionExpiry
from godwit.errors import PeerFault
from godwit.filters.events import Event


@pytest.mark.parametrize(
    ("event", "is_kept"),
    [
        (Event({"x": 1, "name": "a"}, "p", 1), True),
        (Event({"x": 1}, "p", 1, payload=b"x" * 100), True),
        (Event({"x": 1}, "p", 1, payload=b"x" * 100_000), False),
        (Event({"name": "a" * 10_000}, "p", 1), False),
        (Event({"names": ("a",) * 100}, "p", 1), False),
    ],
    ids=["small", "small payload", "large payload", "long text", "several values"],
)
def test_only_small_events_are_kept_in_mind(event: Event, is_kept: bool) -> None:
    message_checks.check_event(event)
    assert (message_checks._known.get(id(event)) is event) is is_kept


@pytest.mark.parametrize(("seconds", "is_allowed"), [(0, True), (0.0, True), (None, True), (-0.1, False), (nan, False)])
def test_a_session_may_end_with_its_connection_but_not_before(seconds: float | None, is_allowed: bool) -> None:
    request = Request(1, SetSessionExpiry(seconds))
    if is_allowed:
        message_checks.check_request(request)
    else:
        with pytest.raises(PeerFault, match=r"SetSessionExpiry\.seconds"):
            message_checks.check_request(request)
