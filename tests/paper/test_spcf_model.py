"""The context-aware interface, sentence by sentence, whatever the overlay. [spcf §2, §3, Tables 1, 2]

Positions are in metres. The paper's `ALL` is a filter that is left out.
"""

import pytest

from godwit.client import Client
from godwit.filters import event, parse
from tests.unit.broker.context_edge import Edge

OVERLAYS = [{"family": "tree"}, {"family": "graph"}]


@pytest.fixture(params=OVERLAYS, ids=lambda options: options["family"])
def edge(request):
    return Edge("bcd", **request.param)


def values(edge, name, attribute="n"):
    """What a client got, by one attribute."""
    return [made.attributes[attribute] for _, who, made, _ in edge.notifications if who == name]


# ---------------------------------------------------------------- §2


def test_messages_reach_sprinklers_within_thirty_metres_of_the_smoke(edge):
    """'causing sprinklers at the same floor and within 30 meters from the smoke to automatically activate' [§2]"""
    for name, x in {"near": 25.0, "far": 45.0}.items():
        sprinkler = edge.client(name, at="c")
        edge.ask(name, sprinkler.set_context({"floor": 1, "low": x - 30, "high": x + 30}, 0.0))
        wanted = parse("floor = my.floor AND x BETWEEN my.low AND my.high")
        edge.ask(name, sprinkler.subscribe("alert", parse("msgType = 'Alert'"), 0.0, sender=wanted))
    detector = edge.client("smoke")
    for floor, x in ((1, 10.0), (2, 10.0)):
        edge.ask("smoke", detector.set_context({"floor": floor, "x": x}, 0.0))
        edge.ask("smoke", detector.publish({"msgType": "Alert", "n": floor}, 0.0))
    assert values(edge, "near") == [1]
    assert values(edge, "far") == []


def test_signals_east_and_west_of_the_fire_are_told_different_things(edge):
    """'publishes a message toward the signals at the east of the detected fire …' [§2, Table 2, last two rows]"""
    for name, x in {"east": 30.0, "west": 10.0}.items():
        signal = edge.client(name, at="d")
        edge.ask(name, signal.set_context({"x": x}, 0.0))
        edge.ask(name, signal.subscribe("plan", parse("msgType LIKE 'Evacuate%'"), 0.0))
    planner = edge.client("planner")
    edge.ask("planner", planner.publish({"msgType": "EvacuateL"}, 0.0, to=parse("x < 20")))
    edge.ask("planner", planner.publish({"msgType": "EvacuateR"}, 0.0, to=parse("x > 20")))
    assert values(edge, "west", "msgType") == ["EvacuateL"]
    assert values(edge, "east", "msgType") == ["EvacuateR"]


def test_no_matching_is_inverted(edge):
    """'requires the subscribers … to specify their location (a datum) into subscriptions' [§2]: not so here.

    What a signal wants is a constraint on events, what it is stands in its context, and the event holds no constraint
    among its data.
    """
    signal, planner = edge.client("signal", at="d"), edge.client("planner")
    edge.ask("signal", signal.set_context({"x": 30.0}, 0.0))
    edge.ask("signal", signal.subscribe("plan", parse("msgType LIKE 'Evacuate%'"), 0.0))
    edge.ask("planner", planner.publish({"msgType": "EvacuateR"}, 0.0, to=parse("x > 20")))
    (got,) = [made for _, who, made, _ in edge.notifications if who == "signal"]
    assert dict(got.attributes) == {"msgType": "EvacuateR"}
    assert signal.wanted["subscription", "plan"].filter == parse("msgType LIKE 'Evacuate%'")


class GpsReader:
    """The component 'in charge of notifying the location of a mobile node (i.e., its context)' [§2]."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def fix(self, x: float, now: float):
        return self.client.set_context({"x": x}, now, part="gps")


class Application:
    """The components that 'implement the node's application logic' [§2]: they know of no position."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def begin(self, now: float):
        effects = self.client.set_context({"kind": "van"}, now)
        return effects + self.client.subscribe("calls", parse("call = TRUE"), now)

    def report(self, number: int, now: float):
        return self.client.publish({"n": number}, now)


def test_a_gps_controller_and_the_application_need_not_know_of_each_other(edge):
    """'Tying the two concepts together might … [force] complex interaction among parts of the application' [§2]"""
    van, watcher = edge.client("van"), edge.client("watcher", at="d")
    gps, application = GpsReader(van), Application(van)
    edge.ask("watcher", watcher.subscribe("vans", parse("n > 0"), 0.0, sender=parse("kind = 'van' AND x < 10")))
    edge.ask("van", application.begin(0.0))
    for number, x in enumerate((5.0, 15.0, 7.0), start=1):
        edge.ask("van", gps.fix(x, 0.0))
        edge.ask("van", application.report(number, 0.0))
        edge.ask("watcher", watcher.publish({"call": True, "n": number}, 0.0, to=parse("kind = 'van' AND x < 10")))
    assert values(edge, "watcher") == [1, 3]
    assert values(edge, "van") == [1, 3]
    edge.ask("van", application.begin(0.0))  # what it says anew leaves the position as it is
    assert van.context == {"kind": "van", "x": 7.0}


# ---------------------------------------------------------------- §3


def test_a_node_sets_its_current_context(edge):
    """'we allow each node n to set its current context by invoking the setContext(c) operation' [§3]"""
    node, other = edge.client("n"), edge.client("o", at="d")
    edge.ask("n", node.subscribe("all", parse("n > 0"), 0.0))
    for number, context in enumerate(({"x": 1}, {"x": 2}, {"y": 1}), start=1):
        edge.ask("n", node.set_context(context, 0.0))
        assert edge.context_at("b", "n") == context
        edge.ask("o", other.publish({"n": number}, 0.0, to=parse("x = 2")))
    assert values(edge, "n") == [2]


def test_subscribers_filter_by_content_and_by_the_context_of_publishers(edge):
    """'subscribe to messages matching the content filter f_msg and coming from publishers whose context matches …'"""
    node, other = edge.client("n", at="d"), edge.client("o")
    edge.ask("n", node.subscribe("f", parse("n >= 2"), 0.0, sender=parse("x = 1")))
    for number, x in ((1, 1), (2, 2), (3, 1)):
        edge.ask("o", other.set_context({"x": x}, 0.0))
        edge.ask("o", other.publish({"n": number}, 0.0))
    assert values(edge, "n") == [3]


def test_unsubscribe_does_the_opposite(edge):
    """'while the unsubscribe(f_msg; f_ctx) operation does the opposite' [§3]; here a name says which of them."""
    node, other = edge.client("n", at="d"), edge.client("o")
    edge.ask("o", other.set_context({"x": 1}, 0.0))
    edge.ask("n", node.subscribe("f", parse("n > 0"), 0.0, sender=parse("x = 1")))
    edge.ask("n", node.subscribe("g", parse("n > 0"), 0.0, sender=parse("x = 2")))
    edge.ask("o", other.publish({"n": 1}, 0.0))
    edge.ask("n", node.unsubscribe("f", 0.0))
    edge.ask("o", other.publish({"n": 2}, 0.0))
    edge.ask("o", other.set_context({"x": 2}, 0.0))
    edge.ask("o", other.publish({"n": 3}, 0.0))
    assert values(edge, "n") == [1, 3]


def test_publishers_filter_by_the_context_of_subscribers(edge):
    """'publish messages for subscribers whose context matches the context filter f_ctx …' [§3]"""
    publisher = edge.client("p")
    for name, x in {"one": 1, "two": 2}.items():
        node = edge.client(name, at="cd"[x - 1])
        edge.ask(name, node.set_context({"x": x}, 0.0))
        edge.ask(name, node.subscribe("all", parse("n > 0"), 0.0))
    edge.ask("p", publisher.publish({"n": 1}, 0.0, to=parse("x = 1")))
    edge.ask("p", publisher.publish({"n": 2}, 0.0, to=parse("x >= 1")))
    edge.ask("p", publisher.publish({"n": 3}, 0.0))
    edge.ask("p", publisher.publish({"n": 4}, 0.0, to=parse("nothing_that_anybody_has = 1")))
    assert values(edge, "one") == [1, 2, 3]
    assert values(edge, "two") == [2, 3]


def test_false_positives_are_removed_at_the_last_hop(edge):
    """'at this step the context of clients potentially interested in the message is actually matched' [§3, note 3]"""
    node, publisher = edge.client("n", at="d"), edge.client("p")
    edge.ask("n", node.set_context({"x": 1}, 0.0))
    edge.ask("n", node.subscribe("all", parse("n > 0"), 0.0))
    edge.ask("p", publisher.publish({"n": 1}, 0.0, to=parse("x = 2")))
    assert values(edge, "n") == []
    assert [(record.peer, record.sequence) for record in edge.recorded("not_addressed")] == [("n", 1)]


def test_key_value_pairs_for_messages_and_contexts_boolean_predicates_for_filters(edge):
    """'It uses key-value pairs for messages and context descriptors and boolean predicates for filters' [§3]"""
    node, publisher = edge.client("n", at="d"), edge.client("p")
    edge.ask("n", node.set_context({"x": 1, "tags": ["a", "b"], "at": {"lon": 8.5, "lat": 47.4}}, 0.0))
    edge.ask(
        "n", node.subscribe("all", parse("n > 0 AND NOT (n = 2)"), 0.0, sender=parse("kind = 'k' OR kind IS NULL"))
    )
    for number in (1, 2, 3):
        to = parse("tags = 'b' AND (x < 1 OR at WITHIN BOX(8, 47, 9, 48))")
        edge.ask("p", publisher.publish(event({"n": number}), 0.0, to=to))
    assert values(edge, "n") == [1, 3]
