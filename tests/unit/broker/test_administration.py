"""What administrators ask for is an input: sessions end, queues are emptied, retained events are cleared."""

from godwit.broker.administration import ClearRetained, DropQueue, EndSession
from godwit.broker.messages import Publish, Retain
from godwit.broker.retained import Retained
from tests.snapshots import reborn
from tests.unit.broker.test_load_shedding import filled
from tests.unit.broker.test_user_quotas import large


def test_a_session_ends_with_its_reason_and_leaves_routing() -> None:
    edge = filled()
    before = len(edge.broker.routing.matcher)  # type: ignore[attr-defined]
    edge.tell(EndSession("eve/here", "it is misbehaving"))
    assert "eve/here" not in edge.clients
    assert len(edge.broker.routing.matcher) == before - 1  # type: ignore[attr-defined]
    ended = [record.detail for record in edge.traces if record.kind == "session_ended"]
    assert ended == ["an administrator has ended the session: it is misbehaving"]


def test_what_waits_is_dropped_and_counted_and_the_next_event_waits_again() -> None:
    edge = filled()
    edge.tell(DropQueue("ann/1"))
    session = edge.broker.sessions.session("ann/1")
    assert session is not None
    assert len(session.queue) == 0
    assert session.queue.purged == {"administrator": 10}
    edge.ask("p", Publish(large(11)))
    assert len(session.queue) == 1


def test_a_retained_event_is_cleared() -> None:
    edge = filled()
    edge.ask("p", Retain(large(11), "k"))
    retained = edge.broker.component(Retained)
    assert [key for key, _ in retained.items()] == ["k"]
    edge.tell(ClearRetained("k"))
    assert retained.event("k") is None


def test_a_client_or_key_that_is_not_here_changes_nothing() -> None:
    edge = filled()
    before = edge.clients
    for input in (EndSession("nobody"), DropQueue("nobody"), ClearRetained("nothing")):
        edge.tell(input)
    assert edge.clients == before


def test_a_restored_broker_does_the_same() -> None:
    edge = filled()
    twin = reborn(edge.broker)
    for input in (EndSession("eve/1"), DropQueue("ann/1")):
        assert edge.broker.handle(input, edge.now) == twin.handle(input, edge.now)
