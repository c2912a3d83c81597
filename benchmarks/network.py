"""How much one broker serves over real sockets. `make bench`, or this file with `--help`.

A broker runs in a process of its own, and all its clients in another (`network_load.py`): raw sockets, frames built
beforehand, one confirmation for each read. Each figure is taken with a broker that has just been started. Beside the
figure by the clock stands what the broker's process worked for it, which other programs on the machine change less.

Peers (mosquitto, rabbitmq-server, nats-server) are named when they are not installed; what they reached on such a
machine is in the targets.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine
from benchmarks.reporting import Anchor, Row, json_line, print_tables
from benchmarks.workloads import ROOT

PEERS = ("mosquitto", "rabbitmq-server", "nats-server")
CONTENT = (100, 1_000, 10_000, 100_000)


class Running:
    """A broker's process."""

    def __init__(self, process: "subprocess.Popen[str]", port: int) -> None:
        self.process, self.port = process, port

    def load(self, job: str, **details: Any) -> dict[str, float]:
        """Run a job of the load generator against it."""
        said = {"job": job, "port": self.port, "pid": self.process.pid, **details}
        done = subprocess.run(
            [sys.executable, str(ROOT / "benchmarks" / "network_load.py"), json.dumps(said)],
            capture_output=True,
            text=True,
            check=False,
            env=_environment(),
        )
        if done.returncode:
            raise RuntimeError(f"the load generator has failed at {job}:\n{done.stderr}")
        found: dict[str, float] = json.loads(done.stdout)
        return found


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


@contextmanager
def broker(durability: str = "memory", *, name: str = "b1", **details: Any) -> Iterator[Running]:
    """A broker that has just been started."""
    with tempfile.TemporaryDirectory() as folder:
        said = {"name": name, "durability": durability, "folder": folder, "port": 0, "neighbours": {}, **details}
        command = [sys.executable, str(ROOT / "benchmarks" / "network_broker.py"), json.dumps(said)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_environment()) as process:
            assert process.stdout is not None
            try:
                yield Running(process, int(process.stdout.readline()))
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(30)


# ---------------------------------------------------------------- rows


def content(quick: bool, profile: str) -> Iterator[Row]:
    """Content filtering, by the number of distinct subscriptions; the subscriptions themselves beside it."""
    slowest, fastest = float("inf"), 0.0
    for count in CONTENT[:3] if quick else CONTENT:
        events = 5_000 if quick else 50_000
        with broker(profile=profile) as running:
            found = running.load("content", subscriptions=count, receivers=50, publishers=4, events=events)
        rate, matches = found["events"] / found["seconds"], found["deliveries"] / found["events"]
        slowest, fastest = min(slowest, rate), max(fastest, rate)
        yield Row(
            "content",
            f"content filtering, {count:,} distinct subscriptions, 50 receivers, {matches:.1f} copies an event",
            rate,
            "events/s",
            Anchor(target=15_000),
            is_full=not quick,
            note=f"{_work(found, 'events')} an event; RabbitMQ {(6_000, 1_030, 62, 6)[CONTENT.index(count)]:,}",
        )
        if count >= 10_000:
            yield Row(
                "content",
                f"subscriptions taken in, {count:,}",
                count / found["subscribe_s"],
                "a second",
                Anchor(target=10_000),
                note=f"{found['subscribe_cpu_s'] / count * 1e6:,.0f} µs of work each; RabbitMQ 5,800",
            )
            yield Row(
                "content",
                f"memory of a subscription, of {count:,}",
                found["subscription_bytes"],
                "bytes",
                Anchor(target=1_000),
                at_most=True,
                note="resident, with what sockets and garbage take meanwhile",
            )
    what = "content filtering, the fewest subscriptions beside the most: times slower"
    yield Row("content", what, fastest / slowest, "times", Anchor(target=1.5), at_most=True, is_full=not quick)


def fan_out(quick: bool, profile: str) -> Iterator[Row]:
    """One publisher, one or a hundred receivers, 120 bytes; deliveries are confirmed, as with QoS 1."""
    for receivers, target, theirs in ((1, 40_000, "80,000 / 32,000"), (100, 95_000, "95,000 / 70,000")):
        events = (500_000 if receivers > 1 else 200_000) // receivers // (10 if quick else 1)
        with broker(profile=profile) as running:
            found = running.load("fan_out", receivers=receivers, events=events, under_way=2_000 * receivers)
        yield Row(
            "fan-out",
            f"fan-out 1→{receivers}, 120 bytes, confirmed",
            found["deliveries"] / found["seconds"],
            "deliveries/s",
            Anchor(target=target),
            is_full=not quick,
            note=f"{_work(found, 'deliveries')} a delivery; Mosquitto QoS 0 / 1: {theirs}",
        )


def latency(quick: bool, profile: str) -> Iterator[Row]:
    """From the publisher's write to the receiver's read."""
    count, rate = (10_000, 500) if quick else (100_000, 2_000)
    with broker(profile=profile) as running:
        found = running.load("latency", subscriptions=count, rate=rate, events=rate * (2 if quick else 10))
    for share, target, theirs in (("p50", 1.0, "0.08"), ("p99", 5.0, "0.14")):
        what = f"latency {share}, {rate:,} events/s, 5 receivers, {count:,} subscriptions"
        note = f"Mosquitto without filters {theirs}"
        yield Row(
            "latency",
            what,
            found[f"{share}_ms"],
            "ms",
            Anchor(target=target),
            at_most=True,
            is_full=not quick,
            note=note,
        )


def durability(quick: bool, profile: str) -> Iterator[Row]:
    """What it costs that nothing is lost."""
    base = 0.0
    for promise in ("memory", "relaxed", "full"):
        events = 5_000 if quick else 30_000
        with broker(promise, profile=profile) as running:
            found = running.load("content", subscriptions=1_000, receivers=50, publishers=4, events=events)
        rate = found["events"] / found["seconds"]
        base = base or rate
        target = Anchor(target=base / 2) if promise == "full" else Anchor()
        what = f"content filtering, 1,000 subscriptions, durability {promise}"
        note = f"{rate / base:.0%} of memory; {_work(found, 'events')} an event"
        yield Row("durability", what, rate, "events/s", target, is_full=not quick, note=note)


def idle(quick: bool, profile: str) -> Iterator[Row]:
    """Sessions of which nothing is asked."""
    sessions = 500 if quick else 4_000
    with broker(profile=profile, watch=False) as running:
        found = running.load("idle", sessions=sessions)
    note = f"{sessions / found['attached_s']:,.0f} clients attached a second"
    bound = Anchor(target=5_000)
    yield Row("idle", "memory of a session, its client away", found["away_bytes"], "bytes", bound, at_most=True)
    what = "memory of a session with its connection"
    yield Row("idle", what, found["present_bytes"], "bytes", at_most=True, note=note)


def hand_over(quick: bool, profile: str) -> Iterator[Row]:
    """From the greeting at the new broker to the first event, with 1,000 in the queue at the old one."""
    with ExitStack() as stack:
        first = stack.enter_context(broker(name="b1", neighbours={"b2": 0}, profile=profile))
        second = stack.enter_context(broker(name="b2", neighbours={"b1": first.port}))
        ports = {"b1": first.port, "b2": second.port}
        found = first.load("hand_over", ports=ports, queued=1_000, moves=10 if quick else 100)
    whole = f"all 1,000: {found['whole_p50_ms']:.0f} ms"
    yield Row("hand-over", "hand-over, 1,000 queued: first event, p50", found["p50_ms"], "ms", note=whole)
    what = "hand-over, 1,000 queued: first event, p99"
    yield Row("hand-over", what, found["p99_ms"], "ms", Anchor(target=100), at_most=True, is_full=not quick)


def _work(found: dict[str, float], per: str) -> str:
    return f"{found['cpu_s'] / found[per] * 1e6:.1f} µs of work"


PARTS: dict[str, Callable[[bool, str], Iterator[Row]]] = {
    part.__name__.replace("_", "-"): part for part in (content, fan_out, latency, durability, idle, hand_over)
}


def main(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer events and clients; figures are rough.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="PART", help=f"One of {', '.join(PARTS)}.")] = None,
    profile: Annotated[str, typer.Option(metavar="FILE", help="Write a profile of the last broker there.")] = "",
) -> None:
    """Measure one broker over sockets."""
    unknown = [part for part in only or () if part not in PARTS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: allowed are {', '.join(PARTS)}")
    missing = [peer for peer in PEERS if shutil.which(peer) is None]
    if missing:
        print(f"Not installed, so not measured beside: {', '.join(missing)}", file=sys.stderr)
    rows: list[Row] = []
    machine = this_machine()
    is_plain = json or not sys.stdout.isatty()
    for part in only or PARTS:
        for row in partial(PARTS[part], quick, profile)():
            rows.append(row)
            if is_plain:
                print(json_line(row, machine), flush=True)
    if not is_plain:
        print_tables(rows, machine)


if __name__ == "__main__":
    typer.run(main)
