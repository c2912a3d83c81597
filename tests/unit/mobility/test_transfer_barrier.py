"""Which brokers a session waits for before it leaves, in the graph family."""

from types import SimpleNamespace
from typing import Any

import pytest

from godwit.broker.messages import Attach, Attached
from godwit.mobility.move_messages import Relocate
from godwit.mobility.relocation import Relocation
from godwit.mobility.transfer_barrier import GraphBarrier
from godwit.testing import machines
from tests.property.roaming_line import RoamingLine

KEY = ("ann", 1, "n")


def barrier(hops: dict[str, str | None]) -> GraphBarrier:
    """One at a broker that knows these others, each with the next hop towards it."""
    routes: Any = SimpleNamespace(
        graph=SimpleNamespace(topology=SimpleNamespace(next_hop=hops.get)),
        others=lambda besides: [name for name in hops if name != besides],
    )
    return GraphBarrier(routes)


def test_who_cannot_be_reached_is_waited_for_once_and_who_can_be_is_waited_for_again() -> None:
    hops: dict[str, str | None] = {"n": "n", "far": "n", "gone": None}
    waiting = barrier(hops)
    assert not waiting.has_flushed(KEY)
    waiting.stop_waiting(KEY)
    assert list(waiting.absent) == ["gone"]
    waiting.flushed[KEY] = {"far": None}
    assert waiting.has_flushed(KEY)
    hops["gone"] = "n"  # it is back
    assert not waiting.has_flushed(KEY)
    assert list(waiting.absent) == []


@pytest.mark.parametrize(
    ("family", "mode"), [(family, mode) for family in ("tree", "graph") for mode in ("relocate", "ask", "named")]
)
def test_a_question_for_a_session_that_died_with_a_disk_ends_where_it_was_before(family: str, mode: str) -> None:
    """It was at c and at a in turn, and was lost; what both remember leads from one to the other."""
    net = RoamingLine(family=family)
    net.say("a", "c1", Attach("ann", mode=mode))
    net.pass_time(1.0)
    [session] = net.sessions_told()
    net.brokers["a"].sessions.end("ann", net.now, "lost")
    for name, to, attempt in (("a", "c", 12), ("c", "a", 13)):
        net.brokers[name].component(Relocation).remember_moved(Relocate("ann", name, to, attempt))
    net.say("b", "c2", Attach("ann", session=session, home="a", attempt=14, mode=mode))
    net.pass_time(1.0)
    assert net.is_attached("b", "c2")
    assert all(not link.outbox for broker in net.brokers.values() for link in broker.links.values())


@pytest.mark.parametrize("family", ["tree", "graph"])
@pytest.mark.parametrize("mode", ["relocate", "ask"])
def test_a_question_follows_a_session_to_a_broker_where_it_was_before(family: str, mode: str) -> None:
    net = machines("a-b b-c c-d", family=family)
    net.pass_time(1.0)
    net.say("a", "c1", Attach("ann", mode=mode))
    [session] = [said.session for _, _, said in net.told if isinstance(said, Attached)]
    for attempt, (before, name) in enumerate(
        (("a", "b"), ("b", "a"), ("a", "c"), ("b", "d")), 2
    ):  # with the last it has forgotten some
        net.say(name, f"c{attempt}", Attach("ann", session=session, home=before, attempt=attempt, mode=mode))
        net.pass_time(1.0)
        assert [said.session for _, over, said in net.told if over == f"c{attempt}" and isinstance(said, Attached)] == [
            session
        ]
