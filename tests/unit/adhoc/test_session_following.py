"""Sessions that follow their clients: when a holder may forget one that it has handed out."""

from typing import Any

from msgspec import structs

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.circuits import Circuit
from godwit.adhoc.device import AdHocConfig
from godwit.adhoc.event_broker import EventBroker
from godwit.adhoc.parted_islands import island_of
from godwit.adhoc.radio_messages import HandSession, OfferSessions, WantSession, check_following
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Heard, Opened
from godwit.broker.messages import Attach, Publish, QueuedEvent, Request, Subscribe, Synced, Unsubscribe
from godwit.client.client import Client, ClientConfig
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.mobility.move_messages import Replay
from tests.unit.adhoc.test_event_broker import handed_over, holding

ATTEMPT = 5  # of the client's greeting at `new`, where it is now


def holder(members_max: int = 256) -> tuple[AdHocNode, EventBroker]:
    """A device that leads, with a session of ann in which event 1 waits."""
    node = AdHocNode("here", Client("here", ClientConfig()), AdHocConfig(meeting="coordinate", members_max=members_max))
    broker = node.device.broker = holding("here", 1)
    return node, broker


def wanted(node: AdHocNode, part: str, to: str = "new", attempt: int = ATTEMPT, client: str = "ann") -> None:
    node.following.on_message("trunk", WantSession(client, attempt, to, part, "here"), 1.0)  # type: ignore[arg-type]


def waiting(broker: EventBroker) -> list[int] | None:
    """The numbers of the events that wait for ann; None: she has no session."""
    session = broker.sessions.session("ann")
    return None if session is None else [item.event.sequence for item in session.queue.waiting()]


def test_a_holder_forgets_a_session_that_has_arrived() -> None:
    node, broker = holder()
    wanted(node, "queue")
    assert waiting(broker) == [1]
    wanted(node, "done")
    assert waiting(broker) is None


def test_a_holder_that_has_joined_another_session_to_the_one_it_handed_out_keeps_both() -> None:
    """Of three event brokers in a row each has a session of ann: the middle one takes that of the last, while the first
    takes that of the middle one."""
    node, broker = holder()
    [old] = handed_over("old", 2)
    wanted(node, "queue")
    node.following.on_message("trunk", OfferSessions("old", {"ann": 0}), 1.0)
    node.following.on_message("trunk", HandSession("old", "here", 30.0, "queue", structs.replace(old, attempt=0)), 1.0)
    assert waiting(broker) == [1, 2]
    wanted(node, "done")  # event 2 is not there
    assert waiting(broker) == [1, 2]
    wanted(node, "queue")
    wanted(node, "done")
    assert waiting(broker) is None


def test_a_holder_listens_to_the_one_that_it_handed_a_session_to_last() -> None:
    node, broker = holder()
    wanted(node, "queue", to="new")
    wanted(node, "queue", to="newer", attempt=ATTEMPT + 1)
    wanted(node, "done", to="new")
    assert waiting(broker) == [1]
    wanted(node, "done", to="newer", attempt=ATTEMPT + 1)
    assert waiting(broker) is None


def test_a_holder_that_handed_out_nothing_forgets_nothing() -> None:
    node, broker = holder()
    wanted(node, "state")
    wanted(node, "done")
    assert waiting(broker) == [1]


def test_a_holder_that_has_lost_a_trunk_since_keeps_what_it_handed_out() -> None:
    """What was published here meanwhile may have been on its way over that trunk."""
    node, broker = holder()
    trunk = node.device.new_circuit("other")
    assert trunk.link is not None
    broker.join(trunk.name, trunk.far, trunk.link, 1.0)
    wanted(node, "queue")
    node.device.drop(trunk, 1.0)
    wanted(node, "done")
    assert waiting(broker) == [1]


def test_of_more_sessions_handed_out_than_an_event_broker_has_members_the_first_is_offered_again() -> None:
    node, broker = holder(members_max=1)
    wanted(node, "queue")
    wanted(node, "queue", client="bob")
    wanted(node, "done")
    assert waiting(broker) == [1]


def test_an_offered_session_is_taken_only_when_its_client_has_subscribed_here() -> None:
    """Without its subscriptions, events that the holder accepts before it forgets the session would not come here."""
    node, _ = holder()  # bob has not
    node.following.on_message("trunk", OfferSessions("old", {"bob": 0}), 1.0)
    assert len(node.following) == 0
    node.following.on_message("trunk", OfferSessions("old", {"ann": 0}), 1.0)
    assert len(node.following) == 1


def trunked(node: AdHocNode, far: str) -> Circuit:
    """A trunk to another event broker, which keeps what is sent over it."""
    assert node.broker is not None
    trunk = node.device.new_circuit(far)
    assert trunk.link is not None
    node.device.let("broker", node.broker.join(trunk.name, far, trunk.link, 1.0))
    return trunk


def told(node: AdHocNode, trunk: Circuit) -> list[Any]:
    """What was sent over a trunk since this was asked last, but subscriptions."""
    node.device.carry_out(1.0)
    assert trunk.link is not None
    return [message for message in trunk.link.give_up() if type(message) not in (Subscribe, Unsubscribe, Synced)]


FAR = "f" * 256  # a name of the greatest length


def test_what_is_kept_for_another_island_is_offered_handed_to_its_event_broker_and_forgotten() -> None:
    node, broker = holder()
    lost, left = trunked(node, FAR), trunked(node, "left")
    broker.on_trunk(lost.name, Subscribe((FAR, "1"), TRUE), 1.0)
    lost.until = 30.0
    node.device.drop(lost, 1.0)
    broker.handle(Heard("bob", Request(2, Publish(Event({"n": 2}, "bob", 2)))), 1.0)
    told(node, left)
    node.following.offer(1.0)
    [offer] = told(node, left)
    assert (offer.holder, offer.sessions[island_of(FAR)]) == ("here", 0)
    check_following(offer)
    for part in ("queue", "done"):
        question = WantSession(island_of(FAR), 1, FAR, part, "here")
        node.following.on_message(left.name, question, 1.0)
    [handed] = told(node, left)
    check_following(handed)
    assert [item.event.sequence for item in handed.replay.items] == [2]
    assert handed.replay.state.subscriptions == ()
    assert broker.sessions.session(island_of(FAR)) is None
    assert waiting(broker) == [1, 2]


def test_an_event_broker_fetches_what_another_one_keeps_for_its_island_and_hands_it_on() -> None:
    node, broker = holder()
    trunk, beyond = trunked(node, "there"), trunked(node, "beyond")
    broker.on_trunk(beyond.name, Subscribe(("beyond", "1"), TRUE), 1.0)
    told(node, trunk), told(node, beyond)
    offer = OfferSessions("there", {"here/": 0, "beyond/": 0, "bob/": 0})
    node.following.on_message(trunk.name, offer, 1.0)
    [question] = told(node, trunk)
    assert question == WantSession("here/", 1, "here", "queue", "there")
    assert told(node, beyond) == [offer, question]
    session = EventBroker("there", BrokerConfig(), 1).sessions.new("here/")
    items = tuple(QueuedEvent(number, Event({"n": number}, "bob", number), (), 1.0) for number in (1, 2, 3))
    replay = Replay("here/", "here", 0, session.state(), items, True)
    for _ in range(2):  # the second time nobody has asked
        node.following.on_message(trunk.name, HandSession("there", "here", 30.0, "queue", replay), 1.0)
    assert waiting(broker) == [1, 2, 3]  # the first of which she has had before
    assert [each.event.sequence for each in told(node, beyond) if type(each) is Publish] == [1, 2, 3]
    assert told(node, trunk) == [WantSession("here/", 1, "here", "done", "there")]
    assert broker.sessions.session("here/") is None
    assert len(node.following) == 0


def test_a_client_that_was_let_in_without_its_session_and_has_not_subscribed_is_let_in_without_it_again() -> None:
    """It gets its session when it has subscribed: what the holder accepts before that goes nowhere else."""
    node, broker = holder()
    trunk = trunked(node, "old")
    broker.forget("ann", 1.0)
    broker.handle(Opened("ann"), 1.0)
    broker.handle(Heard("ann", Attach("ann", attempt=ATTEMPT - 1)), 1.0)
    broker.handle(Closed("ann"), 1.0)
    told(node, trunk)
    circuit = Circuit(("ann", 1), "ann")
    assert node.following.on_attach(circuit, Attach("ann", session="old/1/1", attempt=ATTEMPT, home="old"), 1.0)
    assert told(node, trunk) == [WantSession("ann", ATTEMPT, "here", "state", "")]
    [old] = handed_over("old", 2)
    state = HandSession("old", "here", 30.0, "state", structs.replace(old, to="here", attempt=1, items=()))
    node.following.on_message(trunk.name, state, 1.0)
    assert not node.following.awaits(circuit)
    assert told(node, trunk) == []
    broker.handle(Opened("again"), 1.0)
    broker.handle(Heard("again", Attach("ann", attempt=ATTEMPT)), 1.0)
    broker.handle(Heard("again", Request(1, Subscribe(("ann", "s"), TRUE))), 1.0)
    node.following.on_message(trunk.name, OfferSessions("old", {"ann": 1}), 1.0)
    assert told(node, trunk) == [WantSession("ann", ATTEMPT, "here", "queue", "old")]
