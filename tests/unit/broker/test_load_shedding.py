"""What a broker lets go when its driver holds too much: idle sessions, the oldest first, then events of long queues."""

from godwit.broker.load_shedding import ShedLoad
from godwit.broker.messages import Publish
from tests.snapshots import reborn
from tests.unit.broker.test_user_quotas import BIG, WIDE_BYTES, Edge, large, wide, with_queues


def filled() -> Edge:
    """Of eve/1, eve/2, ann/1 (away) and eve/here (connected) each has ten events."""
    edge = with_queues(1_000 * BIG)
    for n in range(1, 11):
        edge.ask("p", Publish(large(n)))
    return edge


def test_idle_sessions_go_first_and_the_oldest_before_others() -> None:
    edge = filled()
    edge.tell(ShedLoad(1))
    assert edge.clients == ["ann/1", "eve/2", "eve/here", "p"]
    edge.tell(ShedLoad(15 * BIG))
    assert edge.clients == ["eve/here", "p"]
    assert len(edge.broker.routing.matcher) == 1  # type: ignore[attr-defined]
    ended = [record.detail for record in edge.traces if record.kind == "session_ended"]
    assert set(ended) == {"the broker holds too much (limits.memory_bytes_max)"}


def test_then_events_leave_the_longest_queues_and_connected_sessions_stay() -> None:
    edge = filled()
    [here] = [session for session in edge.broker.sessions if session.client == "eve/here"]
    here.queue.pause(edge.now)  # as if it were slow: what was sent waits again when it comes back
    here.queue.resume(0, edge.now)
    before = here.queue.bytes
    edge.tell(ShedLoad(1_000 * BIG))
    assert edge.clients == ["eve/here", "p"]
    assert before / 4 < here.queue.bytes < before
    assert {record.detail for record in edge.traces if record.kind == "lost"} == {"memory"}


def test_a_restored_broker_lets_the_same_go() -> None:
    edge, twin = filled(), filled()
    twin.broker = reborn(twin.broker)
    for size in (5 * BIG, 12 * BIG):
        edge.tell(ShedLoad(size))
        twin.tell(ShedLoad(size))
        assert repr(twin.broker.snapshot()) == repr(edge.broker.snapshot())


def test_the_filters_of_a_session_that_ends_count_as_freed() -> None:
    edge = Edge()
    for client in ("ann/1", "eve/1"):
        edge.come(client)
        assert edge.ask(client, wide(client)) == ""
        edge.go(client)
    edge.tell(ShedLoad(WIDE_BYTES))
    assert edge.clients == ["eve/1"]
