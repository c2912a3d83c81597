"""A broker with all components: what runs for an event that no moving client wants."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import FrameType
from typing import Any

import pytest

import godwit.mobility
from godwit.broker.messages import EntryId
from godwit.filters import Event
from godwit.mobility.context_following import ContextFollowing
from godwit.testing import Machines, machines

MOBILITY = str(PurePosixPath(godwit.mobility.__file__).parent)
FOLLOWING = ("ContextFollowing.", "FollowedFilters.", "ToldFollows.")  # the classes of context following


@contextmanager
def mobility_called() -> Iterator[list[str]]:
    """The functions of `godwit.mobility` that are called meanwhile."""
    called: list[str] = []

    def note(frame: FrameType, kind: str, _: Any) -> None:
        if kind == "call" and frame.f_code.co_filename.startswith(MOBILITY):
            called.append(frame.f_code.co_qualname)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(before)


def with_clients(family: str) -> Machines:
    """Three brokers; Ann publishes at one end, and Bob wants it at the other."""
    net = machines("a-b b-c", family=family)
    ann, bob = net.attach("ann", "a"), net.attach("bob", "c")
    net.ask("ann", ann.advertise("all", "x >= 0", net.now))
    net.ask("bob", bob.subscribe("dear", "x > 1", net.now))
    net.run()
    return net


def publish(net: Machines) -> list[str]:
    """Have Ann publish an event; what of `godwit.mobility` ran until Bob had it."""
    seen = len(net.notified("bob"))
    with mobility_called() as called:
        net.ask("ann", net.machine("ann").publish({"x": 2}, net.now))
        net.run(until=net.now)
    assert len(net.notified("bob")) == seen + 1
    return called


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_no_mobility_code_runs_for_an_event_that_no_moving_client_wants(family: str) -> None:
    assert publish(with_clients(family)) == []


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_new_round_trip_is_told_to_context_following_and_nobody_else(family: str) -> None:
    net = with_clients(family)
    net.pass_time(30.0)  # until timers of the beginning were due
    net.set_latency("b", "c", 0.25)
    net.ask("ann", net.machine("ann").publish({"x": 2}, net.now))
    with mobility_called() as called:
        net.pass_time(1.0)
    assert "ContextFollowing._on_round_trip" in called
    assert [name for name in called if not name.startswith(FOLLOWING)] == []


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_mobility_code_that_sees_each_local_delivery_is_caught(family: str) -> None:
    net = with_clients(family)
    [following] = [part for part in net.machine("c").components.values() if isinstance(part, ContextFollowing)]

    def look(event: Event, subscriptions: list[EntryId], *_: Any) -> list[EntryId]:
        following.also_ask(lambda client: None)  # a call of that package
        return subscriptions

    following.host.intercept_local(following.label, look)
    assert "ContextFollowing.also_ask" in publish(net)
