"""How many simulated messages a second of wall time handles. `make bench`, or this file with `--help`.

The overlay of [pubmob §4]: 85 brokers in a tree, 50 publishers, 500 subscribers and then 5,000, covering. A message is
whatever one node sends another and the other handles, each hop counted; acknowledgements alone are not counted. Set-up
(connecting, advertising, subscribing) is done before the clock starts. Everything runs on one core.
"""

import sys
from functools import partial
from heapq import heappop, heappush
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import median_of, one_core, this_machine, timed
from benchmarks.reporting import Anchor, Row, json_line, print_tables
from godwit.broker.messages import Accepted, Ack, Received
from godwit.broker.tree import TreeRouting
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, named, with_changes

TARGET = 40_000
SEED = 1
ALONE = (Ack, Accepted, Received)
"""What only acknowledges."""


def scenario(subscribers: int, seconds: float) -> Scenario:
    """The overlay of [pubmob §4] with so many subscribers, publishing for so many simulated seconds."""
    return with_changes(
        named("city"),
        [
            f"clients.subscribers={subscribers}",
            "clients.events=none",
            "clients.publish_per_s=10",
            "overlay.bandwidth_kbps=none",
            "overlay.client_bandwidth_kbps=none",
            "run.warmup_s=10",
            f"run.duration_s={seconds}",
            "run.settle_s=2",
        ],
    )


def messages_handled(simulation: Simulation) -> tuple[int, int]:
    """Messages so far: acknowledgements apart, and with them."""
    handled = simulation.world.handled
    return sum(count for kind, count in handled.items() if kind not in ALONE), sum(handled.values())


def simulated(subscribers: int, seconds: float, repeat: int) -> tuple[float, float, float, float]:
    """Messages a second of wall time, µs for any message and for one match in a broker's table, share of the core."""
    timings, messages, all_messages = [], 0, 0
    for _ in range(repeat):
        simulation = Simulation(scenario(subscribers, seconds), SEED)
        simulation.plan()
        simulation.world.run(simulation.scenario.run.warmup_s)
        before = messages_handled(simulation)
        timings.append(timed(partial(simulation.world.run, simulation.scenario.ends_s)))
        after = messages_handled(simulation)
        messages, all_messages = after[0] - before[0], after[1] - before[1]
    timing = median_of(timings)
    return messages / timing.seconds, timing.seconds / all_messages * 1e6, match_us(simulation), timing.share


def match_us(simulation: Simulation) -> float:
    """What one match costs in the tables as they are now: all brokers, the same events."""
    events = [fact.event for fact in list(simulation.ledger.facts.values())[:50]]
    routings = [simulation.broker(name).routing for name in simulation.overlay.brokers]
    matchers = [routing.matcher for routing in routings if isinstance(routing, TreeRouting)]

    def match_all() -> None:
        for matcher in matchers:
            for event in events:
                matcher.match(event)

    match_all()
    return timed(match_all).seconds / (len(matchers) * len(events)) * 1e6


def bare_loop(turns: int = 1_000_000) -> float:
    """Turns a second of a heap and nothing else: what any driver in Python is bounded by."""
    heap: list[tuple[float, int, None]] = []
    for number in range(1_000):
        heappush(heap, (float(number), number, None))

    def loop() -> None:
        for number in range(turns):
            at, _, _ = heappop(heap)
            heappush(heap, (at + 1.0, number, None))

    return turns / timed(loop).seconds


def measure(seconds: float, repeat: int) -> list[Row]:
    """All rows."""
    rows = []
    costs = {}
    for subscribers in (500, 5_000):
        rate, cost, match, share = simulated(subscribers, seconds / (1 if subscribers == 500 else 10), repeat)
        costs[subscribers] = (cost, match)
        what = f"85 brokers, 50 publishers, {subscribers:,} subscribers, covering"
        anchor = Anchor(TARGET if subscribers == 500 else None)
        rows.append(Row("simulator", what, rate, "messages/s", anchor, share=share))
        rows.append(Row("match", f"one match in a broker's table, {subscribers:,} subscribers", match, "µs"))
    (small, small_match), (large, large_match) = costs[500], costs[5_000]
    growth = "cost of a message, acknowledgements too, 5,000 subscribers over 500 (at most what a match grows by)"
    rows.append(Row("growth", growth, large / small, "times", Anchor(large_match / small_match), at_most=True))
    rows.append(Row("loop", "a bare heap loop", bare_loop(), "turns/s"))
    return rows


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the time; figures are rough.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
) -> None:
    """Measure the simulator."""
    with one_core():
        rows = measure(2.0 if quick else 20.0, 1 if quick else 3)
    machine = this_machine()
    if json or not sys.stdout.isatty():
        for row in rows:
            print(json_line(row, machine))
    else:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
