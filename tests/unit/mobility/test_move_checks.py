"""Checks of messages about moving clients: what honest brokers send passes."""

import msgspec
import pytest

from godwit.broker.held_filters import entry_size
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Received, Request, Subscribe
from godwit.broker.sessions import Sessions
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.mobility.move_checks import NOTES_MAX, check_move, within_budget
from godwit.mobility.move_messages import Replay


def test_the_session_of_a_client_that_came_back_without_its_memory_can_move() -> None:
    """It has confirmed three deliveries, and is sent everything from 0 on again, of which nothing waits."""
    sessions = Sessions(Limits(), "old")
    sessions.attach("c1", Attach("ann"), 0.0)
    sessions.admit("c1", Request(1, Subscribe(("ann", "all"), TRUE)), 0.0)
    for number in range(1, 4):
        sessions.deliver(Event({"x": 1}, "p", number), [("ann", "all")], 0.0)
    sessions.received("c1", Received(3), 0.0)
    sessions.attach("c2", Attach("ann", attempt=1), 1.0)
    session = sessions.session("ann")
    assert session is not None
    state = session.state()
    assert (state.sent_up_to, state.confirmed, state.taken) == (0, 3, 3)
    check_move(Replay("ann", "new", 2, state, (), is_last=True))


def test_a_session_may_bring_the_most_notes_and_no_more() -> None:
    sessions = Sessions(Limits(), "old")
    sessions.attach("c1", Attach("ann"), 0.0)
    session = sessions.session("ann")
    assert session is not None
    notes = {f"n{number}": b"" for number in range(NOTES_MAX)}
    state = msgspec.structs.replace(session.state(), notes=notes)
    check_move(Replay("ann", "new", 2, state, (), is_last=True))
    notes["one more"] = b""
    with pytest.raises(PeerFault, match="notes"):
        check_move(Replay("ann", "new", 2, state, (), is_last=True))


def test_of_what_a_client_brings_only_filters_are_used_that_its_user_may_have() -> None:
    wanted = tuple(Subscribe(("ann", f"s{number}"), parse("x = 1 OR y = 2")) for number in range(3))
    size = entry_size("s0", wanted[0].filter)
    attach = Attach("ann", wanted=wanted)
    assert within_budget(attach, Limits()) is attach
    assert within_budget(attach, Limits(user_filter_bytes_max=3 * size, filter_literals_max=2)) is attach
    assert within_budget(attach, Limits(user_filter_bytes_max=3 * size - 1)).wanted == wanted[:2]
    assert within_budget(attach, Limits(filter_literals_max=1)).wanted == ()
