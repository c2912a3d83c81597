"""[spcf §4.1]: the cost of forwarding for ASF, GSF and SPCF, by the selectivity of context filters. Claim S2.

*Theory.* Nets of all strategies carry the same messages in one thread, some at a time by turns, in other orders each
round; so whatever else the machine does hits all alike. Of each message the median over the rounds counts, which what
happens once (an index that puts itself in order, another program) does not move. A net's throughput is the number of
messages over the processor's time in all its brokers (or in the busiest one, which is where a network on machines of
its own fills up first). Times are of this machine; ratios of two nets in one run, and counts, are not.

How sure a ratio is, is seen in two ways. Its *spread*: the rounds are dealt out to three parts, and each part has a
ratio of its own. And a *control*: a second net of a strategy that is measured anyway. What its times differ
by from those of its twin has no cause in the protocol, so no smaller difference between two protocols means anything.

| scenario | content selectivity | context selectivity |
|---|---|---|
| `total` | what makes the product of both 10 % | from 10 % on |
| `content` | 10 % | from 2 % on |

With a matcher *without an index* the work is the filters that are asked, so tables that are smaller pay at once; with
the *index* a message costs little more than what it matches, and the size of the table matters little.

*Rules.*
1. A net that does not deliver what brute force delivers is a fault, and no measurement.
2. The collector of garbage rests while times are taken.
3. Each net follows each other one equally often: one that comes after a net with large tables finds less of its own in
   the processor's cache. In a fixed order that made two equal nets differ by up to 15 %.
"""

from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Literal

import msgspec

from godwit.broker.messages import NodeId
from godwit.filters.events import Event
from godwit.reproduce.garbage import no_garbage
from godwit.reproduce.spcf.routing_net import Net, Sum, net_of
from godwit.reproduce.spcf.workload import Locality, Workload, WorkloadSize

__all__ = [
    "SCENARIOS",
    "TWIN",
    "ForwardingPlan",
    "Measured",
    "balanced_orders",
    "forward",
    "measured",
    "ratios",
    "spread",
]

SCENARIOS = ("total", "content")
TOTAL = 0.1
CHUNK = 8  # messages that one net carries before the next has its turn; with fewer no net finds its tables in the cache
PARTS = 3
TWIN = "GSF again"  # the control

Asks = Literal["subscriptions", "publications"]


class ForwardingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured."""

    size: WorkloadSize
    context: tuple[float, ...]  # selectivities
    messages: int
    rounds: int
    strategies: tuple[str, ...]
    matcher: str
    asks: Asks
    scenario: str
    locality: Locality = "none"


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one strategy took for one message, at one selectivity."""

    context: float
    strategy: str
    per_s: float  # messages, by the work of all brokers
    busiest_per_s: float
    parts_us: tuple[float, ...]  # work for one message, by each third of the rounds
    packet_us: float  # work for each broker that had a message in hand
    packets: float
    vain: float
    asked: float
    delivered: float
    entries: float  # in the tables of a broker


def workloads(plan: ForwardingPlan, seed: int) -> Iterator[Workload]:
    """One for each selectivity of context filters that the scenario allows."""
    for context in plan.context:
        content = TOTAL / context if plan.scenario == "total" else TOTAL
        if content <= 1:
            yield Workload(plan.size, seed, content=content, context=context, asks=plan.asks, locality=plan.locality)


def measured(plan: ForwardingPlan, seed: int, tell: Callable[[float], None] = lambda share: None) -> list[Measured]:
    """All strategies at all selectivities."""
    found: list[Measured] = []
    all_of_them = list(workloads(plan, seed))
    for number, workload in enumerate(all_of_them):
        with no_garbage():
            found += _measured_with(plan, workload)
        tell((number + 1) / len(all_of_them))
    return found


def _measured_with(plan: ForwardingPlan, workload: Workload) -> Iterator[Measured]:
    """All strategies at one selectivity."""
    nets: dict[str, Net] = {}
    for strategy in plan.strategies:
        nets[strategy] = net_of("GSF" if strategy == TWIN else strategy, workload.overlay, plan.matcher)
        workload.deploy(nets[strategy])
    for strategy, sums in forward(nets, workload, workload.events(plan.messages), plan.rounds).items():
        entries = [machine.sizes() for machine in nets[strategy].machines.values()]
        yield _measured(workload.context, strategy, sums, [each.get("matcher", 0) for each in entries])


def forward(nets: dict[str, Net], workload: Workload, events: list[Event], rounds: int) -> dict[str, list[list[Sum]]]:
    """Carry the events through all nets by turns, `rounds` times. By net and event, what it took in each round."""
    meant = workload.meant(events)
    for strategy, net in nets.items():  # once for all caches, and to see that it is right
        for event, clients in zip(events, meant, strict=True):
            given = net.publish(event)
            assert sorted(given) == sorted(clients), f"{strategy} delivers to {given}, not to {clients}"
    found: dict[str, list[list[Sum]]] = {strategy: [[] for _ in events] for strategy in nets}
    orders = balanced_orders(list(nets))
    numbered = list(enumerate(events))
    with no_garbage():
        for turn in range(rounds):
            for chunk, first in enumerate(range(0, len(numbered), CHUNK)):
                for strategy in orders[(turn + chunk) % len(orders)]:  # (rule 3)
                    net = nets[strategy]
                    for number, event in numbered[first : first + CHUNK]:
                        net.begin()
                        net.publish(event)
                        found[strategy][number].append(net.sum)
    return found


def balanced_orders(names: Sequence[str]) -> list[list[str]]:
    """Orders in which each name follows each other one equally often (Williams, 1949)."""
    count = len(names)
    zigzag = [(number + 1) // 2 if number % 2 else -(number // 2) for number in range(count)]
    orders = [[names[(place + shift) % count] for place in zigzag] for shift in range(count)]
    return orders if count % 2 == 0 else orders + [order[::-1] for order in orders]


def _measured(context: float, strategy: str, sums: list[list[Sum]], entries: Sequence[int]) -> Measured:
    count = len(sums)
    parts = min(PARTS, len(sums[0]))
    total_s = sum(median(each.total_s for each in rounds) for rounds in sums)
    busiest = _medians(sums)
    return Measured(
        context=context,
        strategy=strategy,
        per_s=count / total_s,
        busiest_per_s=count * 1e9 / max(busiest.values()),
        parts_us=tuple(
            round(sum(median(each.total_s for each in rounds[part::PARTS]) for rounds in sums) * 1e6 / count, 2)
            for part in range(parts)
        ),
        packet_us=total_s * 1e6 / sum(rounds[0].handled for rounds in sums),
        packets=fmean(rounds[0].packets for rounds in sums),  # counts are the same in every round
        vain=fmean(rounds[0].vain for rounds in sums),
        asked=fmean(rounds[0].asked for rounds in sums),
        delivered=fmean(rounds[0].delivered for rounds in sums),
        entries=fmean(entries),
    )


def _medians(sums: list[list[Sum]]) -> dict[NodeId, float]:
    """By broker, its work for all messages, each as in the median round."""
    found: dict[NodeId, float] = dict.fromkeys(sums[0][0].work_ns, 0.0)
    for rounds in sums:
        for broker in found:
            found[broker] += median(each.work_ns.get(broker, 0) for each in rounds)
    return found


def ratios(found: list[Measured], ours: str, theirs: str, what: str = "per_s") -> list[tuple[float, float]]:
    """By selectivity, how many times as much of something one strategy has as another."""
    of = {(each.strategy, each.context): getattr(each, what) for each in found}
    contexts = dict.fromkeys(each.context for each in found)
    return [(context, of[ours, context] / of[theirs, context]) for context in contexts]


def spread(found: list[Measured], ours: str, theirs: str) -> float:
    """How far the ratios of the parts lie apart, as a share of the ratio; the most of all selectivities."""
    of = {(each.strategy, each.context): each.parts_us for each in found}
    widest = 0.0
    for context in dict.fromkeys(each.context for each in found):
        parts = [their / our for our, their in zip(of[ours, context], of[theirs, context], strict=True)]
        widest = max(widest, (max(parts) - min(parts)) / median(parts))
    return widest
