"""Scripts: both routing families, each reduction and strategy, and each rule on advertisements."""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from godwit.broker.limits import Limits
from godwit.broker.messages import QueueRules
from tests.transcripts.network import PATIENT, Network

LINE = "b1-b2 b2-b3"
RING = "b1-b2 b2-b3 b3-b1"
OVERLAY = (("b1", "b2", 1.0), ("b2", "b3", 1.0), ("b1", "b3", 1.0))
REDUCTIONS = ("flooding", "simple", "identity", "covering", "merging")


def tree(reduction: str, **config: Any) -> Network:
    """Filters that equal, cover and overlap each other come, change and go; a link breaks meanwhile."""
    net = Network(LINE, reduction=reduction, **config)
    net.run(0.5)
    net.come("P", "b3")
    net.advertise("P", "x >= 0 AND x < 100")
    net.run(0.3)
    net.come("C", "b1")
    net.come("D", "b1")
    net.come("E", "b2")
    net.subscribe("C", "x < 10")
    net.subscribe("D", "x < 10", "same")
    net.subscribe("D", "x < 5", "less")
    net.subscribe("E", "10 <= x < 20")
    net.run(0.3)
    net.subscribe("C", "x < 20 AND kind = 'a'")
    net.subscribe("D", "5 <= x < 30", "more")
    net.run(0.3)
    net.publish("P", 3, 12, {"x": 15, "kind": "a"}, 50)
    net.run(0.3)
    net.cut("b1", "b2")
    net.unsubscribe("D", "same")
    net.publish("P", 4)
    net.run(0.3)
    net.join("b1", "b2")
    net.run(0.3)
    net.advertise("P", "x < 12", "second")
    net.do("P", "unadvertises A", lambda machine, now: machine.unadvertise("A", now))
    net.run(0.3)
    net.publish("P", 4, 25)
    net.run(0.3)
    for client in ("C", "D", "E", "P"):
        net.leave(client)
    net.run(0.5)
    return net


def graph(strategy: str, family: str = "graph", **config: Any) -> Network:
    """Clients in contexts on a ring: subscriptions on senders, events to some, links and contexts that change."""
    net = Network(RING, family=family, strategy=strategy, **config)
    net.run(1.0)
    net.come("P", "b1")
    net.context("P", {"floor": 1, "role": "sensor"})
    net.come("Q", "b2")
    net.context("Q", {"floor": 2})
    net.come("S", "b3")
    net.context("S", {"floor": 1})
    net.come("T", "b3")
    net.subscribe("S", "x >= 0", sender="floor = my.floor")
    net.subscribe("T", "x > 5", sender="role = 'sensor'")
    net.subscribe("T", "y = 1", "G")
    net.run(1.0)
    net.publish("P", 1, 9)
    net.publish("Q", 2, {"y": 1})
    net.publish("P", 3, to="floor = 1")
    net.run(0.5)
    net.context("Q", {"floor": 1})
    net.run(0.5)
    net.publish("Q", 4)
    net.context("S", {"floor": 3})
    net.run(0.5)
    net.publish("Q", 5)
    net.context("P", {"floor": 3})
    net.run(0.5)
    net.publish("P", 6)
    net.run(0.5)
    net.cut("b1", "b3")
    net.publish("P", 7)
    net.run(8.0)
    net.publish("P", 8, to="floor >= my.floor")
    net.run(0.5)
    net.join("b1", "b3")
    net.run(1.0)
    net.publish("P", 9)
    net.unsubscribe("T", "F")
    net.run(0.5)
    for client in ("P", "Q", "S", "T"):
        net.leave(client)
    net.run(1.0)
    return net


def graph_relays(**config: Any) -> Network:
    """Events over several hops of a graph, also past a broker that does not know its neighbours yet."""
    patient = structs.replace(PATIENT, dead_after_s=2.0)
    net = Network("b1-b2 b2-b3 b3-b4 b4-b1 b2-b4", family="graph", link=patient, **config)
    net.latency["b1", "b2"] = 0.03
    net.run(1.0)
    net.come("S", "b3")
    net.subscribe("S")
    net.come("P", "b1")
    net.publish("P", 1)
    net.run(0.5)
    net.cut("b1", "b4")
    net.publish("P", 2)
    net.run(0.05)
    net.cut("b2", "b3")
    net.publish("P", 3)
    net.run(3.0)
    net.crash("b2")
    net.publish("P", 4)
    net.run(3.0)
    net.restart("b2", keeps_disk=False)
    net.run(3.0)
    net.publish("P", 5)
    net.join("b1", "b4")
    net.run(70.0)
    return net


def graph_gap(strategy: str) -> Network:
    """A broker on the way loses its disk with packets in hand: they are missed, asked for and sent again."""
    net = Network(LINE, family="graph", strategy=strategy)
    net.run(1.0)
    net.come("S", "b3")
    net.subscribe("S")
    net.come("P", "b1")
    net.context("P", {"floor": 1})
    net.run(0.5)
    net.cut("b2", "b3")
    net.publish("P", 1, 2)
    net.subscribe("S", "y = 1", "G")
    net.run(0.5)
    net.crash("b2")
    net.restart("b2", keeps_disk=False)
    net.run(1.0)
    net.publish("P", 3, {"y": 1})
    net.run(20.0)
    return net


def strangers() -> Network:
    """A broker that expects clients who publish as soon as they have come."""
    net = Network(LINE, expects_strangers=True)
    net.run(0.5)
    net.come("S", "b1")
    net.subscribe("S")
    net.run(0.5)
    net.come("P", "b3")
    net.publish("P", 1)
    net.run(0.5)
    return net


def queues() -> Network:
    """What may leave the queue of a client that is away, by each rule, and what a subscription's end does."""
    net = Network("b1-b2", limits=Limits(queue_events_max=6, window=2))
    net.run(0.5)
    net.come("P", "b2")
    net.come("C", "b1")
    rules = {
        "age": QueueRules(age_s_max=0.3),
        "per": QueueRules(newest_per="k"),
        "high": QueueRules(high_water="x"),
        "count": QueueRules(count_max=1),
        "bytes": QueueRules(bytes_max=60, importance="x"),
    }
    for name, queue in rules.items():
        net.subscribe("C", f"kind = '{name}'", name, queue=queue)
    net.subscribe("C", "kind = 'plain'", "plain", expires=3.0)
    net.run(0.5)
    net.publish("P", *({"kind": "plain", "x": n} for n in range(4)))
    net.run(0.5)
    net.go("C")
    for name in rules:
        net.publish("P", *({"kind": name, "x": n % 3, "k": n % 2} for n in range(4)))
    net.publish("P", {"kind": "plain", "x": 9})
    net.run(0.5)
    net.come("C", "b1")
    net.run(0.5)
    net.go("C")
    net.publish("P", *({"kind": "count", "x": n} for n in range(8)))
    net.run(3.0)
    net.come("C", "b1")
    net.run(0.5)
    return net


SCRIPTS: dict[str, Callable[[], Network]] = {
    **{f"routing_tree_{reduction}": partial(tree, reduction) for reduction in REDUCTIONS},
    "routing_tree_merging_imperfect": partial(tree, "merging", excess_max=0.5),
    "routing_tree_covering_required": partial(tree, "covering", advertisements="required"),
    "routing_tree_covering_off": partial(tree, "covering", advertisements="off"),
    "routing_graph_gsf": partial(graph, "gsf"),
    "routing_graph_spcf": partial(graph, "spcf"),
    "routing_graph_advertised": partial(graph, "advertised"),
    "routing_graph_spcf_summed_up": partial(graph, "spcf", contexts_max=1),
    **{f"routing_hops_{strategy}": partial(graph, strategy, matching="hops") for strategy in ("gsf", "spcf")},
    **{
        f"routing_fixed_hops_{strategy}": partial(graph, strategy, "fixed_hops", overlay=OVERLAY)
        for strategy in ("gsf", "spcf")
    },
    "routing_graph_relays": graph_relays,
    "routing_hops_relays": partial(graph_relays, matching="hops"),
    **{f"routing_graph_gap_{strategy}": partial(graph_gap, strategy) for strategy in ("gsf", "spcf")},
    "routing_strangers": strangers,
    "routing_queues": queues,
}
