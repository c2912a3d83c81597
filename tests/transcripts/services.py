"""Scripts: quenching, retained events, groups, what brokers tell each other of these, and replicated sessions."""

from collections.abc import Callable
from functools import partial

from godwit.broker.authorisation import RightsChanged, RightsGranted
from godwit.broker.client_rights import ClientRights
from godwit.broker.limits import Limits
from godwit.client.replicas import ReplicaConfig, ReplicatedClient
from godwit.filters.language import parse
from tests.transcripts.network import Network

LINE = "b1-b2 b2-b3"
RING = "b1-b2 b2-b3 b3-b1"
FAMILIES = {"tree": LINE, "graph": RING}


def quenching(family: str) -> Network:
    """A source is told what anybody wants, as subscriptions come and go, and after it has moved."""
    net = Network(FAMILIES[family], family=family)
    net.start(0.5 if family == "tree" else 65.0)
    net.come("P", "b3", quench=True)
    net.run(0.5)
    net.publish("P", 1)
    net.come("C", "b1")
    net.subscribe("C", "x > 5")
    net.run(0.5)
    net.publish("P", 2, 6)
    net.subscribe("C", "x > 3", "G")
    net.run(0.5)
    net.unsubscribe("C", "G")
    net.run(3.0)
    net.context("P", {"floor": 1})
    net.publish("P", 4)
    net.run(0.5)
    net.go("P")
    net.publish("P", 7, 1)
    net.come("P", "b2")
    net.run(1.0)
    net.leave("C")
    net.run(3.0)
    return net


def retained(family: str) -> Network:
    """Later subscribers get the last event of each key; keys are replaced and cleared; a broker loses its disk."""
    net = Network(FAMILIES[family], family=family, limits=Limits(retained_max=3))
    net.start(0.5)
    net.come("P", "b3")
    for key, value in (("a", 1), ("b", 2), ("a", 3)):
        net.publish("P", value, retain=key)
    net.run(0.5)
    net.come("C", "b1")
    net.subscribe("C", retained=True)
    net.run(0.5)
    net.publish("P", 4, retain="b", clear=True)
    net.publish("P", {"x": 5, "kind": "a"}, retain="c")
    net.publish("P", 6, retain="d")
    net.publish("P", 7, retain="e")
    net.run(0.5)
    net.crash("b2")
    net.restart("b2", keeps_disk=False)
    net.run(1.0)
    net.come("D", "b2")
    net.subscribe("D", "kind = 'a'", retained=True)
    net.subscribe("D", "x > 0", "G")
    net.run(0.5)
    net.come("C", "b2")
    net.run(1.0)
    return net


def groups(family: str) -> Network:
    """Each event goes to one member of a group: members at several brokers, away, moving, leaving."""
    net = Network(FAMILIES[family], family=family)
    net.start(0.5)
    net.come("P", "b3")
    for client, broker in (("C", "b1"), ("D", "b2"), ("E", "b3")):
        net.come(client, broker)
        net.subscribe(client, share="g")
    net.subscribe("E", "x >= 0", "alone")
    net.run(0.5)
    net.publish("P", *range(6))
    net.run(0.5)
    net.go("D")
    net.publish("P", *range(3))
    net.run(0.5)
    net.come("D", "b1")
    net.run(0.5)
    net.publish("P", *range(3))
    net.run(0.5)
    net.unsubscribe("E")
    net.leave("C")
    net.run(0.5)
    net.publish("P", *range(3))
    net.crash("b1")
    net.restart("b1", keeps_disk=False)
    net.run(1.0)
    net.publish("P", 1)
    net.run(0.5)
    return net


def replicated(filter: str, publish: str) -> Network:
    """A client with sessions at two brokers, of which one is slow, goes away and crashes; events come once."""
    net = Network(LINE)
    net.latency["b1", "b2"] = 0.2
    net.start(3.0)
    config = ReplicaConfig(filter=filter, publish=publish)  # type: ignore[arg-type]
    net.add("R", ReplicatedClient("R", ("b1", "b3"), config))
    net.come("R", "b1")
    net.come("R", "b3")
    net.come("P", "b2")
    net.subscribe("R")
    net.run(1.0)
    net.publish("P", 1, 2)
    net.run(0.1)
    net.publish("P", 3)
    net.run(1.0)
    net.go("R", "b1")
    net.publish("P", 4)
    net.run(0.5)
    net.come("R", "b1")
    net.run(1.0)
    net.come("C", "b2")
    net.subscribe("C", "y = 1")
    net.run(0.5)
    net.publish("R", {"y": 1})
    net.run(0.5)
    net.crash("b1")
    net.publish("R", {"y": 1})
    net.publish("P", 5)
    net.run(0.5)
    net.restart("b1", keeps_disk=False)
    net.come("R", "b1")
    net.run(3.0)
    net.publish("P", 6)
    net.run(3.0)
    net.leave("R")
    net.run(0.5)
    return net


def rights(family: str) -> Network:
    """A client's rights shrink while it is here, while it is away, while it moves; then its user is gone."""

    def having(subscribe: str, publish: str = "TRUE") -> ClientRights:
        return ClientRights("C", parse(publish), parse(subscribe), "narrow")

    net = Network(FAMILIES[family], family=family)
    net.start(0.5)
    net.come("P", "b3")
    net.publish("P", 1, retain="a")
    net.give("b1", RightsGranted("C", having("TRUE", "y > 0")))
    net.come("C", "b1")
    net.subscribe("C")
    net.subscribe("C", "y > 0", "G")
    net.publish("C", {"y": 1}, retain="a", clear=True)
    net.run(0.5)
    net.give("b1", RightsChanged("C", having("x < 3", "y > 0")))
    net.publish("P", 2, 4)
    net.run(0.5)
    net.go("C")
    net.publish("P", 1, 2)
    net.run(0.5)
    net.give("b1", RightsChanged("C", having("x < 2")))
    net.give("b2", RightsGranted("C", having("x = 1")))
    net.come("C", "b2")
    net.run(0.5)
    net.publish("P", 1, 2)
    net.run(0.5)
    net.give("b2", RightsChanged("C", None))
    net.run(0.5)
    net.publish("P", 1)
    net.run(0.5)
    return net


SCRIPTS: dict[str, Callable[[], Network]] = {
    **{f"services_quenching_{family}": partial(quenching, family) for family in FAMILIES},
    **{f"services_retained_{family}": partial(retained, family) for family in FAMILIES},
    **{f"services_groups_{family}": partial(groups, family) for family in FAMILIES},
    **{f"services_rights_{family}": partial(rights, family) for family in FAMILIES},
    "services_replicated_complete": partial(replicated, "complete", "all"),
    "services_replicated_unique": partial(replicated, "unique", "one"),
}
