"""What contexts cost and save: messages on links by strategy, time by number of subscriptions, what summaries attract.

The network of [spcf §4]: 20 brokers of degree 6, 100 clients at random positions on a plane, 30 subscriptions each on
senders in a square around anywhere; squares of 1 % and of 4 % of the plane. Each operation is done for itself, and
what it sets going is counted until nothing is under way: messages on links, each hop. GSF and SPCF as they run in
brokers (`matching = "source"`); their figures beside the paper's own form are in `godwit reproduce spcf`.

Summaries: 1,000 clients at one broker, in 40 groups or anywhere; of 1,000 small squares in which nobody is, the share
that is attracted all the same; and the messages about contexts when clients take a small step.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import one_core, this_machine
from benchmarks.reporting import Row, json_line, print_tables
from godwit.broker.context_table import OwnContexts
from godwit.broker.graph import GraphRouting
from godwit.broker.routing import Forward
from godwit.broker.spcf import spcf_routing
from godwit.filters.contexts import may_match, stamped
from godwit.filters.events import event
from godwit.filters.filters import Filter, all_of, some
from godwit.filters.sets import at_least, between
from godwit.simulator.topologies import random_graph

SEED = 1
CLIENTS = 100
PLANE_M = 1_000.0

Position = dict[str, float]


class Net:
    """Routing machines that forward to each other, first in, first out, on links that lose nothing."""

    def __init__(self, make: Callable[..., GraphRouting], brokers: int, degree: int) -> None:
        self.hops = 0
        self.queue: deque[tuple[str, str, Any]] = deque()
        overlay = random_graph(brokers, degree, Random(f"{SEED}/overlay"))
        self.routing = {name: make(name) for name in overlay.brokers}
        for link in overlay.links:
            for a, b in ((link.a, link.b), (link.b, link.a)):
                self.do(a, lambda routing, a=a, b=b: routing.on_peer_up(b, 0.0))  # type: ignore[misc]
        self.homes = {f"c{number}": overlay.brokers[number % brokers] for number in range(CLIENTS)}

    def do(self, broker: str, what: Callable[[GraphRouting], list[Any]]) -> int:
        """Let something happen at a broker, and all that follows. How many messages went over links."""
        before = self.hops
        self._send(broker, what(self.routing[broker]))
        while self.queue:
            source, target, message = self.queue.popleft()
            self._send(target, self.routing[target].on_message(source, message, 0.0))
        return self.hops - before

    def _send(self, broker: str, answers: list[Any]) -> None:
        for answer in answers:
            if isinstance(answer, Forward):
                self.hops += 1
                self.queue.append((broker, answer.peer, answer.message))


def anywhere(rng: Random) -> Position:
    """A position on the plane."""
    return {"x": rng.uniform(0, PLANE_M), "y": rng.uniform(0, PLANE_M)}


def step(rng: Random, position: Position) -> Position:
    """A position near another."""
    return {name: min(PLANE_M, max(0.0, at + rng.uniform(-10, 10))) for name, at in position.items()}


def square(rng: Random, half: float, prefix: str = "") -> Filter:
    """The positions in a square around anywhere."""
    return all_of(*(some(prefix + name, between(at - half, at + half)) for name, at in anywhere(rng).items()))


def messages(make: Callable[..., GraphRouting], share: float, subscriptions: int) -> Iterator[Row]:
    """What each operation costs in messages, and how large tables are."""
    rng, half = Random(f"{SEED}/{share}"), PLANE_M * share**0.5 / 2
    net = Net(make, 20, 6)
    at: dict[str, Position] = {}
    where = f"{'SPCF' if make is spcf_routing else 'GSF'}, squares of {share:.0%}"

    def moved(client: str, position: Position) -> int:
        at[client] = position
        return net.do(net.homes[client], lambda routing: routing.set_context(client, position, 0.0))

    def subscribed(client: str, number: int) -> int:
        wanted = all_of(some("level", at_least(rng.randrange(10))), square(rng, half, "sender."))
        return net.do(net.homes[client], lambda routing: routing.subscribe((client, str(number)), wanted, 0.0))

    def published(client: str, number: int, to: Filter | None) -> int:
        said = event({"level": rng.randrange(10)}, publisher=client, sequence=number, to=to)
        return net.do(net.homes[client], lambda routing: routing.publish(stamped(said, at[client]), 0.0))

    for client in net.homes:
        moved(client, anywhere(rng))
    started = perf_counter()
    costs = [subscribed(client, number) for number in range(subscriptions) for client in net.homes]
    yield Row(where, "subscribe", sum(costs) / len(costs), "messages")
    yield Row(where, "time of a subscribe, all brokers", (perf_counter() - started) / len(costs) * 1e3, "ms")
    held = [routing.sizes()["remote"] for routing in net.routing.values()]
    yield Row(where, "entries of others at a broker", sum(held) / len(held), "entries")
    costs = [published(client, number, None) for number in range(1, 6) for client in net.homes]
    yield Row(where, "publish", sum(costs) / len(costs), "messages")
    costs = [published(client, number, square(rng, half)) for number in range(6, 11) for client in net.homes]
    yield Row(where, "publish to a square", sum(costs) / len(costs), "messages")
    started = perf_counter()
    costs = [moved(client, step(rng, at[client])) for client in net.homes]
    yield Row(where, "set_context, a small step", sum(costs) / len(costs), "messages")
    costs = [moved(client, anywhere(rng)) for client in net.homes]
    yield Row(where, "set_context, anywhere", sum(costs) / len(costs), "messages")
    yield Row(where, "time of a set_context, all brokers", (perf_counter() - started) / 2 / len(costs) * 1e3, "ms")


def summaries(groups: int | None, contexts_max: int) -> Iterator[Row]:
    """What bounds attract needlessly, and what a step costs."""
    rng = Random(f"{SEED}/{groups}")
    centres = [anywhere(rng) for _ in range(groups or 1)]
    at = [
        {name: centre + rng.gauss(0, 15) for name, centre in rng.choice(centres).items()} if groups else anywhere(rng)
        for _ in range(1_000)
    ]
    own = OwnContexts(contexts_max)
    started = perf_counter()
    for number, position in enumerate(at):
        own.put(f"c{number}", position)
    seconds = perf_counter() - started
    squares = [square(rng, 5.0) for _ in range(1_000)]
    unneeded = [asked for asked in squares if not any(asked.holds(position) for position in at)]
    vain = sum(any(may_match(asked, described) for described in own.described.values()) for asked in unneeded)
    told = sum(len(own.put(f"c{number}", step(rng, position))) for number, position in enumerate(at))
    where = f"{contexts_max} summaries, clients {f'in {groups} groups' if groups else 'anywhere'}"
    yield Row(where, "subscriptions attracted needlessly", 100 * vain / len(unneeded), "%")
    yield Row(where, "messages about contexts for a small step", told / len(at), "messages")
    yield Row(where, "time to take a client in", seconds / len(at) * 1e3, "ms")


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Few subscriptions; figures are rough.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
) -> None:
    """Measure what contexts cost and save."""
    with one_core():
        measured = _all(5 if quick else 30, (16, 64) if quick else (16, 64, 256))
        rows = [row for rows in measured for row in rows]
    machine = this_machine()
    if json or not sys.stdout.isatty():
        for row in rows:
            print(json_line(row, machine))
    else:
        print_tables(rows, machine)


def _all(subscriptions: int, limits: tuple[int, ...]) -> Iterator[Iterator[Row]]:
    for share in (0.01, 0.04):
        for make in (GraphRouting, spcf_routing):
            yield messages(make, share, subscriptions)
    for groups in (40, None):
        for contexts_max in limits:
            yield summaries(groups, contexts_max)


if __name__ == "__main__":
    typer.run(main)
