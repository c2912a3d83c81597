"""Scripts: contexts of clients, filters that refer to them, events to some, and what a server asserts."""

from collections.abc import Callable
from functools import partial

from godwit.mobility import Drift, Movements, line
from tests.transcripts.network import Network

LINE = "b1-b2 b2-b3"
RING = "b1-b2 b2-b3 b3-b1"
FAMILIES = {"tree": LINE, "graph": RING}
STREET = Movements({"location": line(30), "money": Drift(5)})


def walking(family: str, reduction: str = "covering") -> Network:
    """A client walks along a street, with a stay that it declares and then without one, and moves to another broker."""
    net = Network(FAMILIES[family], family=family, reduction=reduction, movements=STREET)
    net.start(0.5)
    net.come("P", "b3")
    net.come("C", "b1")
    net.do("C", "is at 4", lambda machine, now: machine.move_to("4", now, dwell_s=1.0))
    net.subscribe("C", "location WITHIN myloc(1) AND x >= 0")
    net.subscribe("C", "price <= my.money", "G")
    net.run(0.5)
    net.publish("P", {"x": 1, "location": "5"}, {"x": 2, "location": "9"}, {"price": 3})
    net.context("C", {"money": 3}, dwell_s=0.5)
    net.run(0.5)
    net.publish("P", {"price": 3}, {"price": 7})
    net.do("C", "walks to 5", lambda machine, now: machine.move_to("5", now))
    net.run(0.5)
    net.publish("P", {"x": 3, "location": "6"}, {"x": 4, "location": "2"})
    net.run(0.5)
    net.go("C")
    net.publish("P", {"x": 5, "location": "5"})
    net.run(0.5)
    net.come("C", "b2")
    net.do("C", "walks to 6", lambda machine, now: machine.move_to("6", now))
    net.run(1.0)
    net.publish("P", {"x": 6, "location": "7"})
    net.cut("b2", "b3")
    net.run(0.5)
    net.join("b2", "b3")
    net.run(0.5)
    net.unsubscribe("C")
    net.run(0.5)
    net.leave("C")
    net.run(0.5)
    return net


def crowd(open_filters: str) -> Network:
    """Clients with one filter walk along a street: some steps change where any of them may be, others do not."""
    net = Network(FAMILIES["tree"], family="tree", open_filters=open_filters, movements=STREET)
    net.start(0.5)
    net.come("P", "b3")
    for client, broker, place in (("C", "b1", "1"), ("D", "b1", "2"), ("E", "b2", "3"), ("F", "b1", "9")):
        net.come(client, broker)
        net.do(client, f"is at {place}", lambda machine, now, place=place: machine.move_to(place, now, dwell_s=5.0))  # type: ignore[misc]
        net.subscribe(client, "location = myloc AND x >= 0")
        net.run(0.5)
    for client, place in (("D", "1"), ("D", "2"), ("F", "8"), ("C", "2")):
        net.do(client, f"walks to {place}", lambda machine, now, place=place: machine.move_to(place, now))  # type: ignore[misc]
        net.run(0.5)
        net.publish("P", {"x": 1, "location": place})
    net.run(0.5)
    for client in "FCDE":
        net.leave(client)
        net.run(0.5)
    return net


def refused() -> Network:
    """Requests that nobody can carry out are refused with a reason."""
    net = Network("b1-b2", advertisements="required")
    net.start(0.5)
    net.come("C", "b1")
    net.subscribe("C", "location WITHIN myloc(2)")
    net.advertise("C", "location = myloc")
    net.publish("C", 1)
    net.run(0.5)
    return net


def meant(family: str) -> Network:
    """Events to some: who is not meant does not get them, connected, away or on its way."""
    net = Network(FAMILIES[family], family=family)
    net.start(0.5)
    net.come("P", "b3")
    net.come("C", "b1")
    net.context("C", {"role": ("nurse", "guard"), "floor": 2})
    net.subscribe("C")
    net.come("D", "b2")
    net.subscribe("D")
    net.run(0.5)
    net.publish("P", 1, to="role = 'nurse'")
    net.publish("P", 2, to="floor > 2")
    net.run(0.5)
    net.go("C")
    net.publish("P", 3, to="floor = 2")
    net.run(0.3)
    net.come("C", "b2")
    net.context("C", {"role": "guard", "floor": 3})
    net.run(0.015)
    net.publish("P", 4, to="floor > 2")
    net.run(1.0)
    net.context("P", {"floor": 3})
    net.publish("P", 5, to="floor = my.floor")
    net.run(0.5)
    return net


def asserted(family: str, mode: str) -> Network:
    """The server vouches for a role: the client's own word for it does not count, wherever it comes."""
    net = Network(FAMILIES[family], family=family, asserted=("role",))
    net.start(0.5)
    net.come("P", "b3", asserted={"role": "boss"})
    net.come("C", "b1", mode, asserted={"role": "nurse"})
    net.context("C", {"floor": 1})
    net.subscribe("C", "x >= 0", sender="role = 'boss'")
    net.run(0.5)
    net.publish("P", 1, to="role = 'nurse'")
    net.run(0.5)
    net.context("C", {"role": "boss", "floor": 1})
    net.run(0.5)
    net.come("C", "b2", asserted={"role": "guard"})
    net.run(1.0)
    net.publish("P", 2, to="role = 'guard'")
    net.publish("P", {"x": 3, "role": "nobody"})
    net.run(0.5)
    net.come("C", "b2", asserted={"role": "nurse"})
    net.run(1.0)
    net.publish("P", 4, to="role = 'nurse'")
    net.run(0.5)
    return net


def moving_publisher(mode: str) -> Network:
    """A publisher brings its context to the next broker, where subscriptions ask for it."""
    net = Network(RING, family="graph", strategy="spcf")
    net.start(0.5)
    net.come("S", "b3")
    net.subscribe("S", "x >= 0", sender="floor = 1")
    net.come("P", "b1", mode)
    net.context("P", {"floor": 1})
    net.run(0.5)
    net.publish("P", 1)
    net.run(0.5)
    net.go("P")
    net.run(0.5)
    net.come("P", "b2")
    net.publish("P", 2)
    net.run(1.0)
    net.context("P", {"floor": 2})
    net.run(0.5)
    net.publish("P", 3)
    net.run(12.0)
    return net


SCRIPTS: dict[str, Callable[[], Network]] = {
    **{f"context_walking_{family}": partial(walking, family) for family in FAMILIES},
    "context_walking_tree_flooding": partial(walking, "tree", "flooding"),
    "context_walking_tree_merging": partial(walking, "tree", "merging"),
    **{f"context_crowd_{setting}": partial(crowd, setting) for setting in ("united", "each")},
    "context_refused": refused,
    **{f"context_meant_{family}": partial(meant, family) for family in FAMILIES},
    "context_asserted_tree": partial(asserted, "tree", "relocate"),
    "context_asserted_graph": partial(asserted, "graph", "ask"),
    "context_moving_publisher_relocate": partial(moving_publisher, "relocate"),
    "context_moving_publisher_delayed": partial(moving_publisher, "delayed"),
}
