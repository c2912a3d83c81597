"""[spcf §4.1]: what forwarding messages costs ASF, GSF and SPCF, by how selective context filters are. Claim S2.

*Theory.* Nets of all strategies carry the same messages, some at a time by turns, in one thread; so whatever else the
machine does hits all alike. A net's throughput is the number of messages over the processor's time in all its brokers
(or in the busiest one, which is where a network on machines of its own fills up first). Each message is carried several
times, and the quickest counts. Times are of this machine; ratios of two nets in one run, and counts, are not.

| scenario | content selectivity | context selectivity |
|---|---|---|
| `total` | what makes the product of both 10 % | from 10 % on |
| `content` | 10 % | from 2 % on |

With a matcher *without an index* the work is the filters that are asked, so tables that are smaller pay at once; with
the *index* a message costs little more than what it matches, and the size of the table matters little.

*Rules.*
1. A net that does not deliver what brute force delivers is a fault, and no measurement.
2. The collector of garbage rests while times are taken.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec

from godwit.filters.events import Event
from godwit.reproduce.spcf_net import Net, Sum, by_turns, net_of, no_garbage
from godwit.reproduce.spcf_workload import Locality, Size, Workload

__all__ = ["SCENARIOS", "Measured", "Plan", "forward", "measured", "ratios"]

SCENARIOS = ("total", "content")
TOTAL = 0.1
CHUNK = 20  # messages that one net carries before the next has its turn

Asks = Literal["subscriptions", "publications"]


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured."""

    size: Size
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
    packet_us: float  # work for each broker that had a message in hand
    packets: float
    vain: float
    asked: float
    delivered: float
    entries: float  # in the tables of a broker


def workloads(plan: Plan, seed: int) -> Iterator[Workload]:
    """One for each selectivity of context filters that the scenario allows."""
    for context in plan.context:
        content = TOTAL / context if plan.scenario == "total" else TOTAL
        if content <= 1:
            yield Workload(plan.size, seed, content=content, context=context, asks=plan.asks, locality=plan.locality)


def measured(plan: Plan, seed: int, tell: Callable[[float], None] = lambda share: None) -> list[Measured]:
    """All strategies at all selectivities."""
    found: list[Measured] = []
    all_of_them = list(workloads(plan, seed))
    for number, workload in enumerate(all_of_them):
        nets: dict[str, Net] = {}
        for strategy in plan.strategies:
            nets[strategy] = net_of(strategy, workload.overlay, plan.matcher)
            workload.deploy(nets[strategy])
        best = forward(nets, workload, workload.events(plan.messages), plan.rounds)
        for strategy, sum in best.items():
            entries = [machine.sizes() for machine in nets[strategy].machines.values()]
            found.append(_measured(workload.context, strategy, sum, [each.get("matcher", 0) for each in entries]))
        tell((number + 1) / len(all_of_them))
    return found


def forward(nets: dict[str, Net], workload: Workload, events: list[Event], rounds: int) -> dict[str, Sum]:
    """Carry the events through all nets by turns, `rounds` times; each event counts as it was quickest."""
    meant = workload.meant(events)
    for strategy, net in nets.items():  # once for all caches, and to see that it is right
        for event, clients in zip(events, meant, strict=True):
            given = net.publish(event)
            assert sorted(given) == sorted(clients), f"{strategy} delivers to {given}, not to {clients}"
    best: dict[str, list[Sum]] = {strategy: [] for strategy in nets}
    names = {id(net): strategy for strategy, net in nets.items()}
    numbered = list(enumerate(events))
    with no_garbage():
        for turn in range(rounds):
            for net, some in by_turns(nets.values(), numbered, CHUNK):
                quickest = best[names[id(net)]]
                for number, event in some:
                    net.begin()
                    net.publish(event)
                    if not turn:
                        quickest.append(net.sum)
                    elif net.sum.total_s < quickest[number].total_s:
                        quickest[number] = net.sum
    return {strategy: _added(sums) for strategy, sums in best.items()}


def _added(sums: list[Sum]) -> Sum:
    total = Sum(work_ns=dict.fromkeys(sums[0].work_ns, 0))
    for each in sums:
        for field in ("operations", "packets", "handled", "delivered", "vain", "asked"):
            setattr(total, field, getattr(total, field) + getattr(each, field))
        for broker, work_ns in each.work_ns.items():
            total.work_ns[broker] += work_ns
    return total


def _measured(context: float, strategy: str, sum: Sum, entries: Sequence[int]) -> Measured:
    count = sum.operations
    return Measured(
        context=context,
        strategy=strategy,
        per_s=count / sum.total_s,
        busiest_per_s=count / sum.busiest_s,
        packet_us=sum.total_s * 1e6 / sum.handled,
        packets=sum.packets / count,
        vain=sum.vain / count,
        asked=sum.asked / count,
        delivered=sum.delivered / count,
        entries=0.0 if not entries else _mean(entries),
    )


def _mean(values: Sequence[int]) -> float:
    return sum(values) / len(values)


def ratios(found: list[Measured], ours: str, theirs: str, what: str = "per_s") -> list[tuple[float, float]]:
    """By selectivity, how many times as much of something one strategy has as another."""
    of = {(each.strategy, each.context): getattr(each, what) for each in found}
    contexts = dict.fromkeys(each.context for each in found)
    return [(context, of[ours, context] / of[theirs, context]) for context in contexts]
