"""Table 1 of [mobile §5], by simulation: sources, replicas and a displayer, with each of the four filters. Claim H1.

*Theory.* As in the paper's Figure 6, sources send every event to every event broker (EB), and each EB delivers to the
one event displayer (ED). By its footnote 3 events are lost only between a source and an EB; the link from EB to ED is
lossless, since the EB buffers and sends again. So a seed draws, for each source and EB, which events are lost, and how
long the others take, in their order; and for each EB how long the way to the ED is, and when it breaks for a while. The
EBs are the real brokers and the ED the real client (`ReplicatedClient`). The same seed gives each filter the same
losses and delays.

A property is *held* when it was true in every run, and *violated* when it was false in at least one, which is what the
paper's tick and cross say.

*Rules.*
1. All verdicts come from the trace alone (`verdicts`): from the kinds `offered`, `published` and `delivered`. A row's
   node is `filter/seed/name`, so that one file holds all runs.
2. Ways differ by less than `ask_after_s`, and outages last less than `give_up_s`: within the filter's bounds.

*Paper.* [mobile §5, Table 1, Figure 6, footnote 3].
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any

import msgspec

from godwit.broker.broker import Broker
from godwit.broker.broker_config import BrokerConfig
from godwit.broker.effects import Effect, Notify
from godwit.broker.limits import Limits
from godwit.client import FILTERS, Client, MergeBounds, ReplicaConfig, ReplicatedClient
from godwit.filters.events import Event, event
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.simulator.replication_checkers import History, complete, consistent, histories, ordered
from godwit.simulator.world import World
from godwit.trace import Record, TraceSink

__all__ = ["PAPER_TABLE", "ReplicationSpec", "TableRow", "replication_table", "run_replicated", "verdicts"]

ED = "ed"
SUBSCRIPTION = "wanted"
SETTLED_S = 2.0  # when everybody has connected and subscribed

PAPER_TABLE: dict[str, tuple[bool, bool, bool]] = {
    "none": (False, False, True),
    "unique": (False, True, True),
    "ordered": (True, True, False),
    "complete": (True, True, True),
}
"""Ordered, consistent, complete: [mobile §5, Table 1], and below it the row that is ours."""

CHECKS: dict[str, Callable[[History], bool]] = {"ordered": ordered, "consistent": consistent, "complete": complete}


class ReplicationSpec(msgspec.Struct, frozen=True):
    """What is simulated."""

    replicas: int = 2
    sources: int = 2
    events: int = 40  # of each source
    interval_s: float = 0.05  # between two of them, on average
    loss: float = 0.15  # share of events that an EB misses
    source_delay_s_max: float = 0.1
    displayer_delay_s_max: float = 0.4
    outage_s: float = 1.0  # of one EB's way to the ED, in the middle of the run; 0: none
    window: int = 8  # deliveries that may be unconfirmed: after an outage, an EB has a backlog
    matching: str = "value < 70"  # of values from 0 to 99
    bounds: MergeBounds = MergeBounds(ask_after_s=0.5, give_up_s=30.0)


class TableRow(msgspec.Struct, frozen=True):
    """What one filter came to in all runs."""

    filter: str
    runs: int
    violated: dict[str, int]  # by property, in how many runs it was false
    displayed: int
    wanted: int

    @property
    def properties(self) -> tuple[bool, bool, bool]:
        """Ordered, consistent, complete: true when it held in every run."""
        return (not self.violated["ordered"], not self.violated["consistent"], not self.violated["complete"])


def replication_table(
    seeds: Iterable[int],
    spec: ReplicationSpec = ReplicationSpec(),  # noqa: B008 (it is frozen)
    sink: TraceSink | None = None,
    filters: Sequence[str] = FILTERS,
) -> list[TableRow]:
    """Run every filter with every seed. What happens also goes into `sink`; the verdicts need no more than that."""
    rows: list[tuple[str, str, str, int, str]] = []
    for seed in seeds:
        for filter in filters:
            for at, node, record in run_replicated(filter, seed, spec):
                name = f"{filter}/{seed}/{node}"
                if sink is not None:
                    sink.write(at, name, record)
                rows.append((name, record.kind, record.publisher, record.sequence, record.subscription))
    return verdicts(rows)


def verdicts(trace: Any) -> list[TableRow]:
    """The table, from a trace: a pyarrow Table as `trace.read` gives it, or rows as `histories` wants them."""
    if hasattr(trace, "column"):
        columns = ("node", "kind", "publisher", "sequence", "subscription")
        trace = zip(*(trace.column(name).to_pylist() for name in columns), strict=True)
    by_filter: dict[str, list[History]] = {}
    for run, history in histories(trace, SUBSCRIPTION).items():
        by_filter.setdefault(run.partition("/")[0], []).append(history)
    return [
        TableRow(
            filter,
            len(runs),
            {name: sum(not check(history) for history in runs) for name, check in CHECKS.items()},
            sum(len(history.displayed) for history in runs),
            sum(len(history.wanted) for history in runs),
        )
        for filter, runs in by_filter.items()
    ]


def run_replicated(filter: str, seed: int, spec: ReplicationSpec) -> Iterator[tuple[float, str, Record]]:
    """One run: time, node and record of all that happened."""
    records: list[tuple[float, str, Record]] = []
    world = World(seed)
    random = Random(f"{seed}/replication")
    replicas = tuple(f"eb{number}" for number in range(1, spec.replicas + 1))
    wanted = parse(spec.matching)

    def on_record(node: str, record: Record, now: float) -> None:
        records.append((now, node, record))

    def on_notify(node: str, notify: Notify, now: float) -> None:
        publisher, sequence = notify.event.id
        on_record(node, Record("delivered", node, "", publisher, sequence, " ".join(notify.subscriptions)), now)

    world.on_record, world.on_notify = on_record, on_notify
    config = BrokerConfig(advertisements="off", limits=Limits(window=spec.window))
    for replica in replicas:
        world.add_broker(replica, lambda life, name=replica: Broker(name, {}, config, life), journaled=False)  # type: ignore[misc]
    displayer = ReplicatedClient(ED, replicas, ReplicaConfig(filter=filter, bounds=spec.bounds))  # type: ignore[arg-type]
    world.add_client(ED, displayer)
    for replica in replicas:
        world.wire(ED, replica, random.random() * spec.displayer_delay_s_max, None)
        world.connect(ED, replica)
    world.command(ED, lambda machine, now: machine.subscribe(SUBSCRIPTION, wanted, now))
    end = SETTLED_S
    for number in range(1, spec.sources + 1):
        end = max(end, _add_source(world, f"es{number}", replicas, spec, wanted, random))
    if spec.outage_s:
        replica, at = random.choice(replicas), random.uniform(SETTLED_S, end)
        world.at(at, _break, world, replica)
        world.at(at + spec.outage_s, _mend, world, replica)
    world.run(end + spec.outage_s + spec.bounds.ask_after_s + spec.bounds.give_up_s + 5.0)
    return iter(records)


def _add_source(
    world: World, name: str, replicas: tuple[str, ...], spec: ReplicationSpec, wanted: Filter, random: Random
) -> float:
    """A source: one way to each EB, on which events are late, in their order, or lost. Returns when it is done."""
    times = [SETTLED_S]
    for _ in range(spec.events):
        times.append(times[-1] + random.expovariate(1 / spec.interval_s))
    made = [
        event({"value": random.randrange(100)}, publisher=name, sequence=number, published_at=at)
        for number, at in enumerate(times[1:], start=1)
    ]
    for one, at in zip(made, times[1:], strict=True):
        matched = SUBSCRIPTION if wanted.matches(one) else ""
        world.at(at, _offer, world, Record("offered", "", "", name, one.sequence, matched), name)
    for replica in replicas:
        way = f"{name}>{replica}"  # the source's end of it
        world.add_client(way, Client(name))
        world.wire(way, replica, 0.001, None)
        world.connect(way, replica)
        arrival = 0.0
        for one, at in zip(made, times[1:], strict=True):
            is_lost = random.random() < spec.loss
            arrival = max(arrival, at + random.random() * spec.source_delay_s_max)
            if not is_lost:
                world.at(arrival, _send, world, way, one)
    return times[-1] + spec.source_delay_s_max


def _break(world: World, replica: str, _: None) -> None:
    world.disconnect(ED, replica)


def _mend(world: World, replica: str, _: None) -> None:
    world.connect(ED, replica)


def _offer(world: World, record: Record, name: str) -> None:
    assert world.on_record is not None
    world.on_record(name, record, world.now)


def _send(world: World, way: str, one: Event) -> None:
    def publish(machine: Client, now: float) -> list[Effect]:
        return machine.publish_numbered(one)

    world.command(way, publish)
