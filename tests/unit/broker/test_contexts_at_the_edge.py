"""Contexts at the edges: what clients say of themselves, what servers vouch for, and whom an event is meant for."""

from copy import deepcopy
from typing import Any

import pytest

from godwit.broker.addressing import TO_WEIGHT_MAX
from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Closed, Effect, Heard, Opened, Tell, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import Accepted, Attach, Attached, Bye, Context, Publish, Quench, Receipt, Refused, Request
from godwit.broker.quenching import Quenching
from godwit.client import Client, ClientConfig
from godwit.client.replicas import ReplicaConfig, ReplicatedClient
from godwit.errors import BadEvent, BadValue, FilterError, FilterSyntaxError
from godwit.filters import FALSE, TRUE, Event, all_of, any_of, event, parse
from godwit.filters.contexts import CONTEXT_BYTES_MAX, CONTEXT_MAX, CONTEXT_NAME_MAX
from godwit.filters.events import ATTRIBUTES_MAX
from godwit.mobility import MovementGraph, Movements
from godwit.mobility.relocation import Relocation
from godwit.testing import broker
from tests.snapshots import reborn
from tests.unit.broker.context_edge import Edge


def wishes(effects: list[Effect], kind: type = Context) -> list[Any]:
    requests = [each.message for each in effects if isinstance(each, Tell) and isinstance(each.message, Request)]
    return [request.wish for request in requests if isinstance(request.wish, kind)]


def published(effects: list[Effect]) -> list[Event]:
    return [wish.event for wish in wishes(effects, Publish)]


def attached(name: str = "ann", **config: Any) -> Client:
    client = Client(name, ClientConfig(**config))
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Attached(0, True, Receipt(number=1), "b/1/1", "b")), 0.0)
    return client


# ---------------------------------------------------------------- what a client says of itself


def test_each_part_replaces_what_it_said_before_and_leaves_the_others_alone() -> None:
    client = attached()
    client.set_context({"role": "medic", "level": 3}, 0.0)
    client.set_context({"at": "harbour"}, 0.0, part="gps")
    client.set_context({"role": "medic"}, 0.0)
    assert client.context == {"at": "harbour", "role": "medic"}
    client.set_context({}, 0.0, part="gps")
    assert client.context == {"role": "medic"}


def test_where_two_parts_say_the_same_the_later_word_counts() -> None:
    client = attached()
    client.move_to("here", 0.0)
    client.set_context({"location": "there"}, 0.0)
    assert client.context == {"location": "there"}
    client.move_to("here", 0.0)
    assert client.context == {"location": "here"}


def test_the_shortest_stay_that_any_part_says_counts_and_moving_on_keeps_it() -> None:
    client = attached()
    said = wishes(client.set_context({"mood": "fine"}, 0.0, dwell_s=9.0))
    said += wishes(client.move_to("a", 0.0, dwell_s=2.0))
    said += wishes(client.move_to("b", 0.0))
    said += wishes(client.set_context({"mood": "bad"}, 0.0))
    assert [context.dwell_s for context in said] == [9.0, 2.0, 2.0, 2.0]


def test_nested_and_repeated_data_become_a_context_as_they_become_an_event() -> None:
    client = attached()
    client.set_context({"user": {"zip": [1050, 5473]}, "gone": None}, 0.0)
    assert client.context == {"user/zip": (1050, 5473)}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({f"a{n}": n for n in range(CONTEXT_MAX + 1)}, f"at most {CONTEXT_MAX}"),
        ({"text": "x" * CONTEXT_BYTES_MAX}, f"at most {CONTEXT_BYTES_MAX}"),
        ({"n" * (CONTEXT_NAME_MAX + 1): 1}, f"at most {CONTEXT_NAME_MAX}"),
        ({"": 1}, "1 to 256"),
        ({"x": float("nan")}, "not a finite number"),
        ({"x": object()}, "is not a value"),
        ("red", "a context"),
    ],
)
def test_a_context_that_no_broker_takes_is_an_error_and_changes_nothing(values: Any, why: str) -> None:
    client = attached()
    client.set_context({"a": 1}, 0.0)
    with pytest.raises(BadValue, match=why):
        client.set_context(values, 0.0)
    assert client.context == {"a": 1}
    assert client.set_context({"b": 1}, 0.0, part="other")
    assert client.context == {"a": 1, "b": 1}


@pytest.mark.parametrize("dwell_s", [0, -1.0, float("nan"), float("inf"), "long"])
def test_a_stay_that_is_no_time_is_an_error_and_changes_nothing(dwell_s: Any) -> None:
    client = attached()
    with pytest.raises(BadValue, match="seconds above 0"):
        client.set_context({"a": 1}, 0.0, dwell_s=dwell_s)
    assert client.context == {}


def test_parts_that_are_too_much_together_are_an_error_of_the_one_that_comes_later() -> None:
    client = attached()
    client.set_context({f"a{n}": n for n in range(CONTEXT_MAX)}, 0.0)
    with pytest.raises(BadValue, match=f"{CONTEXT_MAX + 1} attributes"):
        client.set_context({"b": 1}, 0.0, part="gps")
    assert len(client.context) == CONTEXT_MAX


def test_the_longest_name_and_the_largest_context_pass_every_check() -> None:
    edge = Edge()
    ann, bob = edge.client("ann"), edge.client("bob")
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    name = "n" * CONTEXT_NAME_MAX
    edge.ask("ann", ann.set_context({name: "x" * (CONTEXT_BYTES_MAX - CONTEXT_NAME_MAX - 8)}, 0.0))
    edge.ask("ann", ann.publish({"a": 1}, 0.0))
    assert edge.notified("bob") == [("ann", 1)]
    assert not edge.recorded("fault")
    assert not ann.refusals


# ---------------------------------------------------------------- stamping


def test_an_event_bears_the_context_of_when_it_was_published_not_of_when_it_is_sent() -> None:
    client = Client("ann")
    client.publish({"a": 1}, 0.0)
    client.set_context({"x": 1, "many": (1, 2)}, 0.0)
    client.publish({"a": 2}, 0.0)
    client.set_context({"x": 2}, 0.0)
    client.publish({"a": 3}, 0.0)
    client.handle(Opened("b"), 0.0)
    sent = published(client.handle(Heard("b", Attached(0, True, Receipt(number=1), "s", "b")), 0.0))
    assert [dict(one.attributes) for one in sent] == [
        {"a": 1},
        {"a": 2, "sender.x": 1, "sender.many": (1, 2)},
        {"a": 3, "sender.x": 2},
    ]


@pytest.mark.parametrize("said", [{"a": 1, "sender.role": "boss"}, event({"a": 1, "sender.role": "boss"})])
def test_an_application_cannot_write_what_is_said_of_the_sender(said: Any) -> None:
    client = attached()
    with pytest.raises(BadEvent, match=r"'sender\.role'.*set_context"):
        client.publish(said, 0.0)
    assert [one.sequence for one in published(client.publish({"a": 1}, 0.0))] == [1]


def test_an_event_that_has_no_room_for_its_senders_context_is_an_error() -> None:
    client = attached()
    client.set_context({"x": 1}, 0.0)
    with pytest.raises(BadEvent, match=f"at most {ATTRIBUTES_MAX} together"):
        client.publish({f"a{n}": n for n in range(ATTRIBUTES_MAX)}, 0.0)
    assert published(client.publish({f"a{n}": n for n in range(ATTRIBUTES_MAX - 1)}, 0.0))


def test_an_event_without_context_and_to_is_the_one_that_was_given() -> None:
    client = attached()
    given = event({"a": 1})
    assert published(client.publish(given, 0.0))[0].attributes is given.attributes


# ---------------------------------------------------------------- to


def test_my_in_to_is_the_publishers_own_context_when_it_publishes() -> None:
    client = attached()
    client.set_context({"room": (4, 5)}, 0.0)
    made = published(client.publish({"a": 1}, 0.0, to=parse("room = my.room AND floor < 3")))[0]
    assert made.to is not None
    assert made.to.holds({"room": 4, "floor": 2})
    assert made.to.holds({"room": 5, "floor": 2})
    assert not made.to.holds({"room": 6, "floor": 2})
    assert not made.to.holds({"room": 4, "floor": 3})


def test_what_the_publisher_has_no_value_for_matches_nobody() -> None:
    made = published(attached().publish({"a": 1}, 0.0, to=parse("room = my.room")))[0]
    assert made.to is not None
    assert not made.to.holds({"room": 4})


def test_to_of_an_event_object_is_filled_in_and_one_beside_it_takes_its_place() -> None:
    client = attached()
    client.set_context({"room": 4}, 0.0)
    given = event({"a": 1}, to=parse("room = my.room"))
    first, second = (published(client.publish(given, 0.0, to=to))[0].to for to in (None, parse("room = 9")))
    assert (first, second) == (parse("room = 4"), parse("room = 9"))


def test_a_filter_on_a_context_that_asks_for_the_senders_is_an_error() -> None:
    client = attached()
    with pytest.raises(FilterError, match=r"a filter on a context cannot name sender\.x"):
        client.publish({"a": 1}, 0.0, to=parse("sender.x = 1"))
    with pytest.raises(FilterError, match=r"a filter on a context cannot name sender\.x"):
        client.subscribe("s", TRUE, 0.0, sender=parse("sender.x = 1"))
    assert not client.wanted
    assert client.sequence == 0


def test_what_lies_around_a_publisher_is_nothing_it_can_say() -> None:
    client = attached()
    client.move_to("a", 0.0)
    with pytest.raises(FilterError, match=r"to: .*2 steps around myloc"):
        client.publish({"a": 1}, 0.0, to=parse("place WITHIN myloc(2)"))
    assert published(client.publish({"a": 1}, 0.0, to=parse("place WITHIN myloc")))


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_who_is_not_meant_does_not_get_it_and_that_is_on_record(family: str) -> None:
    edge = Edge("bc", family=family)
    for name, values in {"near": {"km": 1}, "far": {"km": 9}, "mute": {}}.items():
        client = edge.client(name, at="c")
        edge.ask(name, client.set_context(values, 0.0) if values else [])
        edge.ask(name, client.subscribe("all", TRUE, 0.0))
    ann = edge.client("ann")
    for to in (parse("km < 5"), parse("km IS NULL"), parse("nobody = 1"), None, TRUE, FALSE):
        edge.ask("ann", ann.publish({"a": 1}, 0.0, to=to))
    assert edge.notified("near") == [("ann", 1), ("ann", 4), ("ann", 5)]
    assert edge.notified("far") == [("ann", 4), ("ann", 5)]
    assert edge.notified("mute") == [("ann", 2), ("ann", 4), ("ann", 5)]
    not_addressed = [(record.sequence, record.peer) for record in edge.recorded("not_addressed")]
    assert sorted(not_addressed) == [
        *[(1, "far"), (1, "mute"), (2, "far"), (2, "near")],
        *[(3, "far"), (3, "mute"), (3, "near"), (6, "far"), (6, "mute"), (6, "near")],
    ]


def test_whom_an_event_is_to_is_decided_when_it_arrives_also_for_who_is_away() -> None:
    edge = Edge()
    bob, ann = edge.client("bob"), edge.client("ann")
    edge.ask("bob", bob.set_context({"km": 1}, 0.0))
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    edge.leave("bob")
    edge.ask("ann", ann.publish({"a": 1}, 0.0, to=parse("km < 5")))
    edge.carry_out("bob", bob.set_context({"km": 9}, 0.0))
    edge.client("bob")
    edge.ask("ann", ann.publish({"a": 2}, 0.0, to=parse("km < 5")))
    edge.ask("ann", ann.publish({"a": 3}, 0.0, to=parse("km > 5")))
    assert edge.notified("bob") == [("ann", 1), ("ann", 3)]


def test_who_is_asked_about_the_sender_is_the_publisher_and_about_my_the_subscriber() -> None:
    edge = Edge()
    bob, ann = edge.client("bob"), edge.client("ann")
    edge.ask("bob", bob.set_context({"room": (4, 5)}, 0.0))
    edge.ask("bob", bob.subscribe("near", parse("a > 0"), 0.0, sender=parse("room = my.room AND level >= 2")))
    for values in ({"room": 4, "level": 2}, {"room": 6, "level": 2}, {"room": 5, "level": 1}, {"room": 5, "level": 7}):
        edge.ask("ann", ann.set_context(values, 0.0))
        edge.ask("ann", ann.publish({"a": 1}, 0.0))
    assert edge.notified("bob") == [("ann", 1), ("ann", 4)]
    edge.ask("bob", bob.unsubscribe("near", 0.0))
    edge.ask("ann", ann.publish({"a": 1}, 0.0))
    assert edge.notified("bob") == [("ann", 1), ("ann", 4)]


# ---------------------------------------------------------------- several values


def test_several_values_mean_any_of_them_and_not_is_the_opposite() -> None:
    exact, state = Movements().exact, {"a": (1, 4), "b": (2, 3)}
    for text, yes, no in [
        ("x = my.a", (1, 4), (2,)),
        ("x IN (my.a, 7)", (1, 4, 7), (2,)),
        ("x >= my.a", (1, 9), (0,)),
        ("x BETWEEN my.a AND my.b", (1, 2, 3), (0, 4)),
        ("NOT (x = my.a)", (2,), (1, 4)),
        ("NOT (x IN (my.a, 7))", (2,), (1, 4, 7)),
        ("NOT (x BETWEEN my.a AND my.b)", (0, 4), (1, 2, 3)),
    ]:
        bound = exact(parse(text), state)
        assert all(bound.holds({"x": value}) for value in yes), text
        assert not any(bound.holds({"x": value}) for value in no), text


def test_a_filter_that_grows_too_big_by_the_values_of_its_client_matches_nothing() -> None:
    patterns = tuple(f"p{n}%" for n in range(100))
    either = any_of(*(all_of(parse(f"x{n} LIKE my.a"), parse(f"y = {n}")) for n in range(150)))
    assert Movements().exact(either, {"a": patterns[:10]}).holds({"x7": "p9!", "y": 7})
    assert Movements().exact(either, {"a": patterns}) == FALSE


def test_a_walker_that_is_at_several_places_may_go_on_from_each_of_them() -> None:
    graph = MovementGraph("abcxyz", [("a", "b"), ("b", "c"), ("x", "y"), ("y", "z")])
    movements = Movements({"location": graph})
    filter = parse("at = myloc")
    possible = movements.possible(filter, {"location": ("a", "x")}, 0.5, 1.0)
    loosened = movements.loosened(filter, possible)
    for place, is_possible in {"a": True, "b": True, "c": False, "x": True, "y": True, "z": False}.items():
        assert loosened.holds({"at": place}) is is_possible, place


# ---------------------------------------------------------------- what the server asserts


def test_what_the_server_asserts_nobody_else_says() -> None:
    edge = Edge(asserted=("role",))
    ann, _ = edge.client("ann", asserted={"role": "medic"}), edge.client("bob")
    edge.ask("ann", ann.set_context({"km": 1}, 0.0))
    edge.ask("ann", ann.set_context({"role": "boss"}, 0.0, part="lie"))
    assert [refusal.reason for refusal in ann.refusals] == [
        "role of the context is set by the broker's server: clients cannot set it"
    ]
    assert ann.context == {"km": 1}
    assert edge.context_at("b", "ann") == {"km": 1, "role": "medic"}
    assert edge.context_at("b", "bob") == {}


def test_what_a_client_writes_of_an_asserted_attribute_is_replaced_or_dropped() -> None:
    edge = Edge(asserted=("role", "team"))
    ann, bob, eve = edge.client("ann", asserted={"role": ("medic", "pilot")}), edge.client("bob"), edge.client("eve")
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    for name, client in (("ann", ann), ("eve", eve)):
        lie = event({"a": 1, "sender.role": "boss", "sender.team": 1, "sender.x": 2}, publisher=name, sequence=1)
        edge.ask(name, client.publish_numbered(lie))
    assert [dict(one.attributes) for _, _, one, _ in edge.notifications] == [
        {"a": 1, "sender.x": 2, "sender.role": ("medic", "pilot")},
        {"a": 1, "sender.x": 2},
    ]


def test_true_is_not_one_when_the_server_says_which() -> None:
    edge = Edge(asserted=("level",))
    ann, bob = edge.client("ann", asserted={"level": True}), edge.client("bob")
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    edge.ask("ann", ann.publish_numbered(event({"sender.level": 1}, publisher="ann", sequence=1)))
    assert edge.notifications[0].event.attributes["sender.level"] is True


def test_an_event_that_says_nothing_of_asserted_attributes_is_not_copied() -> None:
    edge = Edge(asserted=("role",))
    ann, bob = edge.client("ann"), edge.client("bob")
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    given = event({"a": 1}, publisher="ann", sequence=1)
    edge.ask("ann", ann.publish_numbered(given))
    assert edge.notifications[0].event is given


def test_asserted_attributes_count_for_to_and_for_my() -> None:
    edge = Edge(asserted=("role",))
    bob, ann = edge.client("bob", asserted={"role": "medic"}), edge.client("ann")
    edge.ask("bob", bob.subscribe("mine", parse("for = my.role"), 0.0))
    edge.ask("ann", ann.publish({"for": "medic"}, 0.0))
    edge.ask("ann", ann.publish({"for": "boss"}, 0.0))
    edge.ask("ann", ann.publish({"for": "medic"}, 0.0, to=parse("role = 'medic'")))
    edge.ask("ann", ann.publish({"for": "medic"}, 0.0, to=parse("role = 'boss'")))
    assert edge.notified("bob") == [("ann", 1), ("ann", 3)]


@pytest.mark.parametrize("family", ["tree", "graph"])
def test_a_client_that_comes_over_another_connection_is_what_that_ones_driver_vouches_for(family: str) -> None:
    edge = Edge("bc", family=family, asserted=("role",))
    bob, ann = edge.client("bob", asserted={"role": "medic"}), edge.client("ann", at="c")
    edge.ask("bob", bob.subscribe("mine", parse("for = my.role"), 0.0))
    edge.leave("bob")
    edge.run()
    edge.ask("ann", ann.publish({"for": "medic"}, 0.0, to=parse("role = 'medic'")))  # away, it is what it was last
    edge.client("bob", asserted={"role": "boss"})
    edge.ask("ann", ann.publish({"for": "medic"}, 0.0))
    edge.ask("ann", ann.publish({"for": "boss"}, 0.0, to=parse("role = 'boss'")))
    assert edge.notified("bob") == [("ann", 1), ("ann", 3)]


@pytest.mark.parametrize("mode", ["relocate", "ask", "explicit", "carry", "naive"])
def test_a_client_that_roams_brings_its_context_and_is_vouched_for_where_it_comes(mode: str) -> None:
    edge = Edge("bcd", asserted=("role",))
    bob, ann = edge.client("bob", asserted={"role": "medic"}, mode=mode), edge.client("ann", at="c")
    edge.ask("bob", bob.set_context({"km": 1}, 0.0))
    edge.ask("bob", bob.set_context({"at": "x"}, 0.0, part="gps"))
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    if mode == "explicit":
        edge.ask("bob", bob.move_out(0.0))
    else:
        edge.leave("bob")
    edge.run()
    edge.ask("ann", ann.publish({"a": 1}, 0.0, to=parse("km = 1 AND role = 'medic'")))
    edge.client("bob", at="d", asserted={"role": "boss"})
    assert edge.context_at("d", "bob") == {"km": 1, "at": "x", "role": "boss"}
    assert bob.context == {"km": 1, "at": "x"}
    for role in ("medic", "boss"):
        edge.ask("ann", ann.publish({"a": 1}, 0.0, to=parse(f"km = 1 AND role = '{role}'")))
    assert edge.notified("bob") == ([("ann", 3)] if mode == "naive" else [("ann", 1), ("ann", 3)])


@pytest.mark.parametrize("mode", ["standard", "prefetching", "proxy", "delayed", "prefetching+delayed"])
def test_a_publisher_that_moves_brings_its_context_before_its_events(mode: str) -> None:
    edge = Edge("bcd", asserted=("role",), advertisements="off")
    ann, bob = edge.client("ann", asserted={"role": "medic"}, mode=mode), edge.client("bob", at="c")
    edge.ask("bob", bob.subscribe("all", parse("a > 0"), 0.0, sender=parse("km = 1")))
    edge.ask("ann", ann.set_context({"km": 1}, 0.0))
    edge.leave("ann")
    edge.carry_out("ann", ann.publish({"a": 1}, 0.0))
    edge.client("ann", at="d", asserted={"role": "boss"})
    assert edge.context_at("d", "ann") == {"km": 1, "role": "boss"}
    edge.ask("ann", ann.publish({"a": 2}, 0.0))
    assert [dict(one.attributes) for _, _, one, _ in edge.notifications] == [
        {"a": 1, "sender.km": 1, "sender.role": "boss"},
        {"a": 2, "sender.km": 1, "sender.role": "boss"},
    ]


def test_what_comes_before_the_session_is_tested_when_the_session_is_there() -> None:
    edge = Edge("bc")
    bob, ann = edge.client("bob"), edge.client("ann", at="c")
    edge.ask("bob", bob.set_context({"km": 1}, 0.0))
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    edge.leave("bob")
    edge.run()
    edge.arrive("bob", "c")
    while "bob" not in edge.brokers["c"].component(Relocation).arrivals:
        edge.step()
    effects = ann.publish({"a": 1}, 0.0, to=parse("km = 1")) + ann.publish({"a": 2}, 0.0, to=parse("km = 2"))
    requests = [effect.message for effect in effects if isinstance(effect, Tell)]
    for request in requests:  # they overtake the session
        edge.carry_out("c", edge.brokers["c"].handle(Heard("ann", request), 0.0))
    edge.run()
    assert edge.notified("bob") == [("ann", 1)]
    assert ("bob", 2) in [(record.peer, record.sequence) for record in edge.recorded("not_addressed")]


def test_a_driver_that_vouches_for_what_is_not_asserted_here_is_in_error() -> None:
    broker = Broker("b", {}, BrokerConfig(asserted=("role",)))
    with pytest.raises(ValueError, match=r"Opened\.asserted names team; BrokerConfig\.asserted allows role"):
        broker.handle(Opened("c1", {"team": 1}), 0.0)
    with pytest.raises(ValueError, match="allows none"):
        Broker("b", {}, BrokerConfig()).handle(Opened("c1", {"team": 1}), 0.0)


def test_what_is_vouched_for_is_forgotten_with_the_connection_and_bounded() -> None:
    broker = Broker("b", {}, BrokerConfig(asserted=("role",), limits=Limits(sessions_max=2)))
    vouched = broker.sessions._vouched
    broker.handle(Opened("c1", {"role": "x"}), 0.0)
    broker.handle(Closed("c1"), 0.0)
    assert not vouched
    broker.handle(Opened("c2", {"role": "x"}), 0.0)
    broker.handle(Heard("c2", Bye()), 0.0)  # a fault
    assert not vouched
    for name in ("c3", "c4", "c5"):
        broker.handle(Opened(name, {"role": "x"}), 0.0)
        broker.handle(Heard(name, Attach(name)), 0.0)  # there is room for two
    assert not vouched
    assert len(broker.sessions) == 2
    effects = [broker.handle(Opened(f"d{n}", {"role": "x"}), 0.0) for n in range(3)]
    assert len(vouched) == 2
    assert [len(each) for each in effects] == [0, 0, 1]


def test_a_session_of_a_broker_that_asserts_less_does_not_bring_a_forged_role() -> None:
    edge = Edge("bc")
    edge.brokers["c"].sessions.asserted = ("role",)
    eve = edge.client("eve")
    edge.ask("eve", eve.set_context({"role": "boss", "km": 1}, 0.0))
    edge.leave("eve")
    edge.client("eve", at="c")
    assert edge.context_at("c", "eve") == {"km": 1}


# ---------------------------------------------------------------- refusals


def agree(edge: Edge, name: str, at: str = "b") -> None:
    session = edge.brokers[at].sessions.session(name)
    assert session is not None
    client = edge.clients[name]
    assert client.context == session.context.values
    said: dict[str, Any] = {}
    for values, _ in client.own.parts.values():
        said.update(values)
    assert client.context == said
    assert not client.has_unanswered_changes()


def test_a_refused_word_takes_nothing_with_it_that_another_part_said_since() -> None:
    edge = Edge(asserted=("role",))
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.carry_out("ann", ann.set_context({"mood": "bad", "role": "boss"}, 0.0))
    edge.carry_out("ann", ann.set_context({"km": 1}, 0.0, part="gps"))
    edge.carry_out("ann", ann.set_context({"km": 2}, 0.0, part="gps"))
    edge.run()
    assert ann.context == {"mood": "fine", "km": 2}
    agree(edge, "ann")
    assert len(ann.refusals) == 3


def test_a_bad_word_that_was_taken_back_before_it_was_refused_changes_nothing() -> None:
    edge = Edge(asserted=("role",))
    ann = edge.client("ann")
    edge.carry_out("ann", ann.set_context({"role": "boss"}, 0.0))
    edge.carry_out("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.run()
    assert ann.context == {"mood": "fine"}
    agree(edge, "ann")


def test_what_was_said_while_away_and_is_refused_leaves_what_was_granted() -> None:
    edge = Edge("bc", asserted=("role",))
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.leave("ann")
    edge.run()
    ann.set_context({"role": "boss"}, 0.0)
    edge.client("ann", at="c")
    assert ann.context == {"mood": "fine"}
    agree(edge, "ann", "c")


@pytest.mark.parametrize("is_handled", [False, True])
def test_a_bad_word_under_way_when_the_connection_breaks_does_not_come_in_with_the_greeting(is_handled: bool) -> None:
    edge = Edge("bc", asserted=("role",))
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.carry_out("ann", ann.set_context({"mood": "bad", "role": "boss"}, 0.0))
    if is_handled:
        edge.step()  # the broker has heard it, and its answer is lost
    edge.leave("ann")
    edge.run()
    edge.client("ann", at="c")
    assert ann.context == {"mood": "fine"}
    agree(edge, "ann", "c")


def test_a_session_that_was_lost_gets_what_was_granted_before_when_the_last_word_is_refused() -> None:
    edge = Edge(asserted=("role",))
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.leave("ann")
    edge.brokers["b"] = type(edge.brokers["b"])(
        "b", {}, edge.brokers["b"].config, incarnation=2
    )  # it has lost its disk
    ann.set_context({"role": "boss"}, 0.0)
    edge.client("ann")
    assert ann.context == {"mood": "fine"}
    agree(edge, "ann")


def test_where_even_that_is_refused_nothing_is_said_at_all() -> None:
    edge = Edge()
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"role": "fine"}, 0.0))
    edge.leave("ann")
    edge.brokers["b"] = broker("b", {}, BrokerConfig(asserted=("role",)), incarnation=2)
    edge.client("ann")
    assert ann.context == {}
    agree(edge, "ann")


def test_a_broker_that_refuses_everything_is_not_asked_for_ever() -> None:
    client = attached()
    client.set_context({"a": 1}, 0.0)
    client.handle(Closed("b"), 0.0)
    client.handle(Opened("b"), 0.0)
    effects = client.handle(Heard("b", Attached(0, True, Receipt(number=1), "b/2/1", "b")), 0.0)
    for _ in range(10):
        numbers = [each.message.number for each in effects if isinstance(each, Tell)]
        if not numbers:
            return
        effects = client.handle(Heard("b", Refused(numbers[-1], "no")), 0.0)
    raise AssertionError("it goes on and on")


def test_granted_words_that_have_no_room_beside_later_ones_come_back_alone() -> None:
    client = attached()
    half = {f"a{n}": n for n in range(CONTEXT_MAX // 2 + 1)}
    client.set_context(half, 0.0)
    client.handle(Heard("b", Accepted(1)), 0.0)
    client.set_context({"bad": 1}, 0.0)
    client.set_context({f"b{n}": n for n in range(CONTEXT_MAX // 2 + 1)}, 0.0, part="gps")
    effects = client.handle(Heard("b", Refused(2, "no")), 0.0)
    assert client.context == half
    assert [context.values for context in wishes(effects)] == [half]


def test_after_leaving_nothing_is_said_any_more() -> None:
    edge = Edge()
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.ask("ann", ann.leave(0.0))
    assert ann.context == {}
    edge.client("ann")
    agree(edge, "ann")
    assert dict(ann.publish({"a": 1}, 0.0)[0].message.wish.event.attributes) == {"a": 1}  # type: ignore[union-attr]


def test_a_client_can_be_stored_with_words_under_way() -> None:
    edge = Edge(asserted=("role",))
    ann = edge.client("ann")
    edge.ask("ann", ann.set_context({"mood": "fine"}, 0.0))
    edge.carry_out("ann", ann.set_context({"role": "boss"}, 0.0))
    edge.carry_out("ann", ann.set_context({"km": 1}, 0.0, part="gps"))
    edge.clients["ann"] = deepcopy(ann)
    edge.brokers["b"] = reborn(edge.brokers["b"])
    edge.run()
    assert edge.clients["ann"].context == {"mood": "fine", "km": 1}
    agree(edge, "ann")


def test_a_context_is_said_before_anything_else_in_a_new_session() -> None:
    client = attached()
    client.subscribe("all", TRUE, 0.0)
    client.publish({"a": 1}, 0.0)
    client.set_context({"x": 1}, 0.0)
    client.handle(Closed("b"), 0.0)
    client.handle(Opened("b"), 0.0)
    effects = client.handle(Heard("b", Attached(0, True, Receipt(number=1), "b/2/1", "b")), 0.0)
    said = [type(each.message.wish).__name__ for each in effects if isinstance(each, Tell)]
    assert said == ["Context", "Subscribe", "Publish"]


# ---------------------------------------------------------------- bad input from the wire


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (Context({f"a{n}": n for n in range(CONTEXT_MAX + 1)}), f"at most {CONTEXT_MAX}"),
        (Context({"a": ("x" * 2_000, "y" * 3_000)}), f"at most {CONTEXT_BYTES_MAX}"),
        (
            Publish(event({}, publisher="c", sequence=1, to=any_of(*(parse(f"a{n} = 1") for n in range(11))))),
            "`to` of 11",
        ),
        (
            Publish(event({}, publisher="c", sequence=1, to=parse(f"a LIKE '%{'ab_' * 60}%'"))),
            "at most 10",
        ),
    ],
)
def test_what_is_too_large_is_refused_with_a_reason(wish: Any, why: str) -> None:
    broker = Broker("b", {}, BrokerConfig(limits=Limits(filter_literals_max=10)))
    broker.handle(Opened("c1"), 0.0)
    broker.handle(Heard("c1", Attach("c")), 0.0)
    effects = broker.handle(Heard("c1", Request(1, wish)), 0.0)
    (refused,) = [each.message for each in effects if isinstance(each, Tell)]
    assert isinstance(refused, Refused)
    assert why in refused.reason


def test_a_to_takes_few_steps_whatever_a_filter_may_take_since_it_is_tested_in_every_context() -> None:
    assert Limits().filter_literals_max > TO_WEIGHT_MAX
    broker = Broker("b", {}, BrokerConfig())
    broker.handle(Opened("c1"), 0.0)
    broker.handle(Heard("c1", Attach("c")), 0.0)
    for number, count in ((1, TO_WEIGHT_MAX), (2, TO_WEIGHT_MAX + 1)):
        to = any_of(*(parse(f"a{n} = 1") for n in range(count)))
        wish = Publish(event({}, publisher="c", sequence=number, to=to))
        effects = broker.handle(Heard("c1", Request(number, wish)), 0.0)
        refused = [each for each in effects if isinstance(each, Tell) and isinstance(each.message, Refused)]
        assert bool(refused) == (count > TO_WEIGHT_MAX)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (Context({"n" * (CONTEXT_NAME_MAX + 1): 1}), "1 to"),
        (Context({"": 1}), "1 to"),
        (Context({"x": float("nan")}), "not a finite number"),
        (Context({"x": (1,)}), "one value stands alone"),
        (Context({"x": ()}), "none is absent"),
        (Context({"x": [1, 2]}), "is not a value"),  # type: ignore[dict-item]
        (Publish(event({}, publisher="c", sequence=1, to=parse("a = my.a"))), "its publisher fills that in"),
    ],
)
def test_what_no_honest_client_sends_closes_its_connection(wish: Any, why: str) -> None:
    broker = Broker("b", {}, BrokerConfig())
    broker.handle(Opened("c1"), 0.0)
    broker.handle(Heard("c1", Attach("c")), 0.0)
    effects = broker.handle(Heard("c1", Request(1, wish)), 0.0)
    (fault,) = [each.record for each in effects if isinstance(each, Trace)]
    assert fault.kind == "fault"
    assert why in fault.detail


@pytest.mark.parametrize(
    "context",
    [Context({f"a{n}": n for n in range(CONTEXT_MAX + 1)}), Context({"x": (1,)}), Context({"x": "y" * 5_000})],
)
def test_a_greeting_with_a_context_that_no_request_could_have_made_is_a_fault(context: Context) -> None:
    edge = Edge()
    effects = edge.brokers["b"].handle(Opened("c1"), 0.0)
    effects = edge.brokers["b"].handle(Heard("c1", Attach("c", context=context)), 0.0)
    assert [each.record.kind for each in effects if isinstance(each, Trace)] == ["fault"]


def test_an_event_that_has_no_room_for_what_is_vouched_for_is_refused_before_a_neighbour_sees_it() -> None:
    edge = Edge("bc", asserted=("role",))
    eve, bob = edge.client("eve", asserted={"role": "x"}), edge.client("bob", at="c")
    edge.ask("bob", bob.subscribe("all", TRUE, 0.0))
    full = event({f"a{n}": n for n in range(ATTRIBUTES_MAX)})
    edge.ask("eve", eve.publish(full, 0.0))
    assert [f"at most {ATTRIBUTES_MAX}" in refusal.reason for refusal in eve.refusals] == [True]
    edge.ask("eve", eve.publish({"a": 1}, 0.0))
    assert edge.notified("bob") == [("eve", 2)]
    assert not edge.recorded("fault")


# ---------------------------------------------------------------- quenching


def test_a_source_is_not_told_what_anybody_asks_of_senders() -> None:
    """What is asserted of a source it does not know itself: by such a filter it would quench what is wanted."""
    edge = Edge(asserted=("role",))
    ann, bob = edge.client("ann", asserted={"role": "medic"}, quench=True), edge.client("bob")
    edge.ask("bob", bob.subscribe("medics", parse("a = 1"), 0.0, sender=parse("role = 'medic'")))
    edge.ask("bob", bob.subscribe("pilots", parse("b = 1"), 0.0, sender=parse("role = 'pilot'")))
    for said in ({"a": 1}, {"a": 2}, {"b": 1}):
        edge.ask("ann", ann.publish(said, 0.0))
    assert edge.notified("bob") == [("ann", 1)]
    assert [(record.kind, record.sequence) for record in edge.recorded("quenched")] == [("quenched", 2)]
    edge.client("ann", asserted={"role": "medic"})  # made anew, too
    edge.ask("ann", ann.publish({"a": 1}, 0.0))
    assert edge.notified("bob") == [("ann", 1), ("ann", 4)]


class Attracting(Edge):
    """A border broker that hears of what others want only after a context of its clients has attracted it."""

    def __init__(self) -> None:
        super().__init__()
        broker = self.brokers["b"]
        self.wanted = [parse("a = 1")]
        broker.routing.wanted = lambda: list(self.wanted)


def test_a_source_that_has_set_its_context_does_not_quench_until_the_broker_has_spoken_since() -> None:
    edge = Attracting()
    ann = edge.client("ann", quench=True)
    assert published(ann.publish({"a": 2}, 0.0)) == []
    edge.wanted = [TRUE]  # nobody knows yet what is wanted from the new context
    effects = ann.set_context({"x": 1}, 0.0)
    effects += ann.publish({"a": 2}, 0.0)
    assert [one.sequence for one in published(effects)] == [2]  # without the rule it would be quenched
    edge.carry_out("ann", effects)
    edge.run()
    assert edge.quenches("ann")[-1].filter == TRUE
    assert [one.sequence for one in published(ann.publish({"a": 2}, 0.0))] == [3]


def test_a_filter_that_was_under_way_when_the_context_was_set_does_not_count() -> None:
    client = Client("ann", ClientConfig(quench=True))
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    client.handle(Heard("b", Attached(0, True, Receipt(number=1), "s", "b")), 0.0)
    assert not published(client.publish({"a": 2}, 0.0))
    client.set_context({"x": 1}, 0.0)
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    assert published(client.publish({"a": 2}, 0.0))
    client.handle(Heard("b", Accepted(1)), 0.0)
    assert published(client.publish({"a": 2}, 0.0))
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    assert not published(client.publish({"a": 2}, 0.0))


def test_a_refused_context_leaves_the_filter_of_before_in_force() -> None:
    client = Client("ann", ClientConfig(quench=True))
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    client.handle(Heard("b", Attached(0, True, Receipt(number=1), "s", "b")), 0.0)
    client.set_context({"x": 1}, 0.0)
    assert published(client.publish({"a": 2}, 0.0))
    client.handle(Heard("b", Refused(1, "no")), 0.0)
    assert not published(client.publish({"a": 2}, 0.0))


def test_what_waits_from_another_context_is_sent_whatever_the_filter_says() -> None:
    client = Client("ann", ClientConfig(quench=True))
    client.set_context({"x": 1}, 0.0)
    client.publish({"a": 2}, 0.0)
    client.set_context({"x": 2}, 0.0)
    client.publish({"a": 2}, 0.0)
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    effects = client.handle(Heard("b", Attached(0, True, Receipt(number=1), "s", "b")), 0.0)
    assert [one.sequence for one in published(effects)] == [1, 2]  # nobody has heard of the context yet
    client.handle(Closed("b"), 0.0)
    client.publish({"a": 2}, 0.0)
    client.publish({"a": 1}, 0.0)
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    effects = client.handle(Heard("b", Attached(3, False, Receipt(number=2), "s", "b")), 0.0)
    assert [one.sequence for one in published(effects)] == [4]  # the context was accepted: 3 is quenched


def test_on_overflow_what_waits_from_another_context_counts_as_lost_not_as_unwanted() -> None:
    client = Client("ann", ClientConfig(quench=True, buffer_events_max=2))
    client.handle(Opened("b"), 0.0)
    client.handle(Heard("b", Quench(parse("a = 1"))), 0.0)
    client.handle(Heard("b", Attached(0, True, Receipt(number=1), "s", "b")), 0.0)
    client.handle(Closed("b"), 0.0)
    client.publish({"a": 2}, 0.0)
    client.set_context({"x": 1}, 0.0)
    client.publish({"a": 2}, 0.0)
    effects = client.publish({"a": 2}, 0.0)
    assert [each.record.kind for each in effects if isinstance(each, Trace)] == ["lost"]


def test_a_broker_that_learns_only_by_a_context_what_is_wanted_tells_all_sources_everything_until_then() -> None:
    quenching, wanted = Quenching(), [parse("a = 1")]
    quenching.attach("c1", lambda: wanted)
    quenching.attach("c2", lambda: wanted)
    assert quenching.on_context("c3", lambda: wanted, 0.0) == []
    assert quenching.on_context("c1", lambda: wanted, 0.0) == [Tell("c1", Quench(parse("a = 1")))]
    wanted.append(TRUE)
    effects = quenching.on_context("c1", lambda: wanted, 0.0)
    assert [each for each in effects if isinstance(each, Tell)] == [Tell("c1", Quench(TRUE)), Tell("c2", Quench(TRUE))]
    assert quenching.attach("c4", lambda: wanted) == [Tell("c4", Quench(TRUE))]
    wanted.pop()
    assert quenching.on_timer_due(lambda: wanted)[0] == Tell("c1", Quench(parse("a = 1")))


# ---------------------------------------------------------------- several sessions


def test_all_replicas_hear_the_context_and_get_one_event_as_of_one_context() -> None:
    client = ReplicatedClient("ann", ("a", "b"), ReplicaConfig(filter="unique"))
    for name in ("a", "b"):
        client.handle(Opened(name), 0.0)
        client.handle(Heard(name, Attached(0, True, Receipt(number=1), f"{name}/1/1", name)), 0.0)
    effects = client.set_context({"x": 1}, 0.0, part="app") + client.move_to("here", 0.0)
    assert [context.values for context in wishes(effects)] == [{"x": 1}, {"x": 1}, *[{"x": 1, "location": "here"}] * 2]
    first, second = published(client.publish({"a": 1}, 0.0, to=parse("place WITHIN myloc")))
    assert first is second
    assert dict(first.attributes) == {"a": 1, "sender.x": 1, "sender.location": "here"}
    assert first.to is not None
    assert first.to.holds({"place": "here"})
    filters = [
        wish.filter for wish in wishes(client.subscribe("s", parse("a = 1"), 0.0, sender=parse("x = 1")), object)
    ]
    assert filters == [parse("a = 1 AND sender.x = 1")] * 2
    with pytest.raises(BadEvent, match="set_context"):
        client.publish({"sender.x": 2}, 0.0)
    with pytest.raises(BadValue):
        client.set_context({"x": float("inf")}, 0.0)
    assert client.context == {"x": 1, "location": "here"}
    assert client.sequence == 1


# ---------------------------------------------------------------- filters as texts


def either_kind() -> list[Any]:
    return [Client("ann"), ReplicatedClient("ann", ("a", "b"))]


@pytest.mark.parametrize("client", either_kind())
def test_a_client_takes_filters_as_texts(client: Any) -> None:
    inner: Any = next(iter(client.clients.values())) if isinstance(client, ReplicatedClient) else client
    client.subscribe("s", "kind = 'fire'", 0.0, sender="battery > 20")
    assert inner.wanted["subscription", "s"].filter == parse("kind = 'fire' AND sender.battery > 20")
    client.advertise("a", "kind = 'fire'", 0.0)
    assert inner.wanted["advertisement", "a"].filter == parse("kind = 'fire'")
    client.set_context({"floor": 2}, 0.0)
    client.publish({}, 0.0, to="floor = my.floor")
    assert [each.to for each in inner.unanswered()] == [parse("floor = 2")]


@pytest.mark.parametrize("client", either_kind())
def test_what_is_no_filter_is_told_so_and_changes_nothing(client: Any) -> None:
    asks: list[Any] = [
        lambda bad: client.subscribe("s", bad, 0.0),
        lambda bad: client.subscribe("s", TRUE, 0.0, sender=bad),
        lambda bad: client.advertise("a", bad, 0.0),
        lambda bad: client.publish({}, 0.0, to=bad),
    ]
    for ask in asks:
        with pytest.raises(FilterSyntaxError, match="column 6"):
            ask("role ?")
        for bad in ({"role": "medic"}, b"role = 1", 7, ["role = 1"]):
            with pytest.raises(FilterError, match="is not a filter: allowed is one of"):
                ask(bad)
    assert not client.has_unanswered_changes()
    assert client.sequence == 0
