"""[spcf §4.2]: the cost of the tables, in packets between brokers, and of changes of context.

*Theory.* All contexts are there before the first subscription, so each subscription that is then deployed is one
measurement of Fig. 5a. When all are deployed, new clients come one by one, each with a context of its own, at a broker
drawn by lot, and leave again: Fig. 5b. What a context costs by itself is told apart from what it attracts.

*When contexts change often* (not in the paper). In a network at rest the mean cost is measured of publishing one
message, of replacing one subscription and of changing the context of one client, in packets and in work. What a mix of
them costs is the sum, weighted by how often each is done: so the rate at which SPCF costs what GSF costs follows from
three numbers of each. Context filters stand in subscriptions and in publications here.

*Rules.*
1. Packets are counted between brokers, each hop of each. The paper's 20 for a flood has one more than our 19: a flood
   of 20 brokers takes 19 links, and the client's own packet is the twentieth, we suppose.
"""

from collections.abc import Callable, Sequence
from math import nan
from random import Random
from statistics import fmean

import msgspec

from godwit.filters.contexts import stamped
from godwit.reproduce.garbage import no_garbage
from godwit.reproduce.spcf.routing_net import Net, by_turns, net_of
from godwit.reproduce.spcf.workload import Locality, Workload, WorkloadSize

__all__ = ["Mix", "RoutingCost", "break_even", "mixes", "per_message", "routing_costs"]

CONTENT = 0.5  # selectivity of content filters, where two context filters come on top
WARM = 300  # messages after which rows have their matchers, and these have seen enough to put themselves in order
CHUNK = 10  # changes that one net takes before the next has its turn


class RoutingCost(msgspec.Struct, frozen=True, kw_only=True):
    """Packets between brokers, on average over many calls."""

    context: float
    strategy: str
    subscribe: float
    set_context: float  # of a new client
    deployed: int  # subscriptions when it was measured


def routing_costs(
    size: WorkloadSize,
    contexts: tuple[float, ...],
    strategies: tuple[str, ...],
    newcomers: int,
    seed: int,
    locality: Locality = "none",
    tell: Callable[[float], None] = lambda share: None,
) -> list[RoutingCost]:
    """At each selectivity, what a subscribe and what a new client's setContext costs each strategy. [spcf Fig. 5]"""
    found: list[RoutingCost] = []
    for number, context in enumerate(contexts):
        workload = Workload(size, seed, context=context, locality=locality)
        with no_garbage():
            found += [_cost(strategy, workload, newcomers) for strategy in strategies]
        tell((number + 1) / len(contexts))
    return found


def _cost(strategy: str, workload: Workload, newcomers: int) -> RoutingCost:
    """What a subscribe and a new client's setContext costs one strategy."""
    net = net_of(strategy, workload.overlay, "plain")
    workload.deploy_contexts(net)
    net.begin()
    workload.deploy_subscriptions(net)
    subscribe, deployed = net.sum.packets / net.sum.operations, net.sum.operations
    came = list(_newcomers(net, workload, newcomers))
    return RoutingCost(
        context=workload.context, strategy=strategy, subscribe=subscribe, set_context=fmean(came), deployed=deployed
    )


def _newcomers(net: Net, workload: Workload, count: int) -> list[int]:
    """The packets of each new client's setContext; each leaves before the next comes."""
    rng = Random(f"{workload.seed}/newcomers")
    found: list[int] = []
    for number in range(count):
        client, home, place = f"new{number}", *workload.newcomer(rng)
        net.begin()
        net.set_context(client, {"x": place}, home)
        found.append(net.sum.packets)
        net.set_context(client, None)
    return found


# ---------------------------------------------------------------- when contexts change often


class Mix(msgspec.Struct, frozen=True, kw_only=True):
    """What each operation costs a strategy on average: packets, and microseconds of work in all brokers."""

    strategy: str
    delivered: float  # clients that are given one message
    publish: tuple[float, float]
    replace: tuple[float, float]  # a subscription by another
    change: tuple[float, float]  # a client's context


def mixes(
    size: WorkloadSize,
    context: float,
    strategies: tuple[str, ...],
    matcher: str,
    count: int,
    seed: int,
    locality: Locality = "none",
    tell: Callable[[float], None] = lambda share: None,
) -> list[Mix]:
    """What each of three operations costs each strategy in a network at rest; `count` of each, the nets by turns."""
    workload = Workload(size, seed, content=CONTENT, context=context, asks="both", locality=locality)
    nets: dict[str, Net] = {}
    for strategy in strategies:
        nets[strategy] = net_of(strategy, workload.overlay, matcher)
        workload.deploy(nets[strategy])
        for event in workload.events(WARM if matcher == "index" else size.clients):
            nets[strategy].publish(event)
    costs: dict[str, dict[str, tuple[float, float]]] = {strategy: {} for strategy in strategies}
    delivered = dict.fromkeys(strategies, 0.0)
    with no_garbage():
        for number, (operation, run) in enumerate(OPERATIONS.items()):
            for net in nets.values():
                run(net, workload, range(CHUNK), Random(seed))  # for all caches
                net.begin()
            for net, some in by_turns(nets.values(), range(CHUNK, CHUNK + count), CHUNK):
                run(net, workload, some, Random(f"{seed}/{operation}/{some[0]}"))
            for strategy, net in nets.items():
                costs[strategy][operation] = net.sum.packets / count, net.sum.total_s * 1e6 / count
                if operation == "publish":
                    delivered[strategy] = net.sum.delivered / count
            tell((number + 1) / len(OPERATIONS))
    return [Mix(strategy=strategy, delivered=delivered[strategy], **costs[strategy]) for strategy in strategies]


def _publish(net: Net, workload: Workload, numbers: Sequence[int], rng: Random) -> None:
    clients = list(workload.homes)
    for number in numbers:
        client = rng.choice(clients)
        net.publish(stamped(workload.event(client, number, rng), net.contexts[client]))


def _replace(net: Net, workload: Workload, numbers: Sequence[int], rng: Random) -> None:
    clients = list(workload.homes)
    for _ in numbers:
        client, kind = rng.choice(clients), rng.randrange(workload.size.subscriptions)
        net.unsubscribe(client, f"s{kind}")
        net.subscribe(client, f"s{kind}", workload.subscription(client, kind, rng))


def _change(net: Net, workload: Workload, numbers: Sequence[int], rng: Random) -> None:
    clients = list(workload.homes)
    for _ in numbers:
        client = rng.choice(clients)
        net.set_context(client, {"x": workload.place_near(client, rng)})


OPERATIONS: dict[str, Callable[[Net, Workload, Sequence[int], Random], None]] = {
    "publish": _publish,
    "replace": _replace,
    "change": _change,
}


def per_message(mix: Mix, changes: float, replaces: float, what: int) -> float:
    """What a mix costs for each message a client is given: packets (0) or microseconds (1).

    `changes` of context and `replaces` of subscriptions go with each message that is published.
    """
    return (mix.publish[what] + changes * mix.change[what] + replaces * mix.replace[what]) / (mix.delivered or nan)


def break_even(ours: Mix, theirs: Mix, replaces: float, what: int) -> float:
    """How many changes of context go with one published message when both cost the same; less than that pays."""
    saved = theirs.publish[what] - ours.publish[what] + replaces * (theirs.replace[what] - ours.replace[what])
    more = ours.change[what] - theirs.change[what]
    return max(saved, 0.0) / more if more > 0 else float("inf")
