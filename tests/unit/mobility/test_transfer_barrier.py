"""Which brokers a session waits for before it leaves, in the graph family."""

from types import SimpleNamespace
from typing import Any

from godwit.mobility.transfer_barrier import GraphBarrier

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
