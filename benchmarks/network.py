"""How much one broker serves over real sockets, beside others. `make bench`, or this file with `--help`.

A broker runs in a process of its own, and all its clients in another (`network_load.py` for native clients,
`network_streams.py` for MQTT and the protocols of peers): raw sockets, bytes built beforehand. Each figure is the
median of three runs; each run of Godwit's has a broker that has just been started. Runs of Godwit and of its peers take
turns, so that whatever else the machine does falls on all. Beside the figure by the clock stands what the broker's
processes worked for it, which other programs change less.

Peers (Mosquitto, NATS, RabbitMQ) are started here when they are installed, and named when they are not. They are
stopped and their folders removed at the end, even when this process is killed (`network_guard.py`).
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Any, NoReturn

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.measuring import this_machine
from benchmarks.network_processes import IN_FLIGHT, PEERS, Failed, Running, godwit, missing_peers, peer
from benchmarks.network_reporting import Line, Measured, json_line, print_table

ROUNDS = 3
SECONDS_MAX = 540.0  # after that, a row has one run
CONTENT = (100, 1_000, 10_000, 100_000)
RABBITMQ_EVENTS = {100: 3_000, 1_000: 600, 10_000: 40}  # more bindings take it minutes
RABBITMQ_ANCHORS = {100: 6_000, 1_000: 1_030, 10_000: 62, 100_000: 6}
Found = dict[str, float]
Run = Callable[[], Found]


class Bench:
    """The options of a run, and what has been measured."""

    def __init__(self, quick: bool, profile: str = "") -> None:
        self.quick, self.profile = quick, profile
        self.missing = missing_peers()
        self.part = ""
        self.number = 0  # of the run: names of clients at peers do not come again
        self._started = time.monotonic()

    def size(self, full: int, quick: int) -> int:
        """How many: fewer in a quick run."""
        return quick if self.quick else full

    @property
    def is_late(self) -> bool:
        """Whether there is time for one run only."""
        return time.monotonic() - self._started > SECONDS_MAX

    def say(self, text: str) -> None:
        """Show what is being done, to people."""
        seconds = int(time.monotonic() - self._started)
        line = f"{seconds // 60}:{seconds % 60:02} {self.part}: {text}"
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)

    @contextmanager
    def peers(self, *names: str) -> Iterator[dict[str, Running]]:
        """Those of these peers that are installed, and start."""
        with ExitStack() as stack:
            there: dict[str, Running] = {}
            for name in names:
                if name not in self.missing:
                    self.say(f"{name} starts")
                    try:
                        there[name] = stack.enter_context(peer(name))
                    except Failed as error:
                        self.say(str(error))
            yield there

    def runs(self, what: str, by_name: dict[str, Run]) -> tuple[dict[str, list[Found]], list[str]]:
        """Let brokers take turns; what each found, and what went wrong."""
        found: dict[str, list[Found]] = {}
        faults: list[str] = []
        rounds = 1 if self.quick else ROUNDS
        for round in range(rounds):
            if round and self.is_late:
                break
            for name, run in by_name.items():
                self.number += 1
                self.say(f"{what}, {name}, run {round + 1} of {rounds}")
                try:
                    found.setdefault(name, []).append(run())
                except Failed as error:
                    faults.append(f"{name} failed: {error}")
                    self.say(faults[-1])
        return {name: each for name, each in found.items() if each}, faults

    def native(self, job: str, durability: str = "memory", *, watch: bool = True, **details: Any) -> Found:
        """A job of native clients, with a new broker."""
        with godwit(durability, profile=self.profile, watch=watch) as running:
            return running.load(job, "native", **details)

    def mqtt(self, job: str, **details: Any) -> Found:
        """A job of MQTT clients, with a new broker."""
        with godwit(profile=self.profile) as running:
            return self.stream(running, job, "mqtt", **details)

    def stream(self, running: Running, job: str, protocol: str, **details: Any) -> Found:
        """A job against a broker that runs."""
        return running.load(job, protocol, run=self.number, **details)


def measured(found: list[Found], value: Callable[[Found], float], per: str = "") -> Measured:
    """The figure of some runs, and what each of `per` cost."""
    cost = median(each["cpu_s"] / each[per] * 1e6 for each in found) if per else None
    shares = [each["generator"] for each in found if "generator" in each]
    return Measured([value(each) for each in found], cost, median(shares) if shares else None)


def rate_of(per: str, seconds: str = "seconds") -> Callable[[Found], float]:
    """So many a second."""
    return lambda found: found[per] / found[seconds]


def line_of(
    bench: Bench,
    what: str,
    unit: str,
    found: dict[str, list[Found]],
    value: Callable[[Found], float],
    counted: str = "",
    **details: Any,
) -> Line:
    """A row from what runs have found, those of Godwit and of its peers."""
    figures = {name: measured(each, value, counted) for name, each in found.items()}
    ours = figures.pop("Godwit", None)
    if ours is not None and len(ours.runs) < ROUNDS and not bench.quick:
        details["note"] = "; ".join(filter(None, [details.get("note", ""), f"runs: {len(ours.runs)}"]))
    word = {"deliveries": "delivery", "events": "event"}.get(counted, "")
    return Line(bench.part, what, unit, ours, figures, **{"is_full": not bench.quick, "per": word, **details})


# ---------------------------------------------------------------- rows


def content(bench: Bench) -> Iterator[Line]:
    """Content filtering, by the number of distinct subscriptions; the subscriptions themselves beside it."""
    rates: list[float] = []
    with bench.peers("RabbitMQ", "Mosquitto") as there:
        for count in (100, 10_000) if bench.quick else CONTENT:
            found, faults = bench.runs(f"{count:,} subscriptions", _content_runs(bench, there, count))
            ours = found.get("Godwit", [])
            rates += [measured(ours, rate_of("events")).figure] if ours else []
            copies = ours[0]["deliveries"] / ours[0]["events"] if ours else 0.0
            what = f"content filtering, {count:,} distinct subscriptions, 50 receivers, {copies:.1f} copies an event"
            note = "" if "RabbitMQ" in found else f"RabbitMQ not measured; elsewhere {RABBITMQ_ANCHORS[count]:,}"
            yield line_of(
                bench,
                what,
                "events/s",
                found,
                rate_of("events"),
                "events",
                target=15_000,
                note=note,
                faults=faults,
            )
            if count >= 10_000 and ours:
                yield from _taken_in(bench, count, {name: each for name, each in found.items() if name != "Mosquitto"})
    if len(rates) > 1:
        what = "content filtering, fastest row beside the slowest"
        yield Line(
            bench.part,
            what,
            "times",
            Measured([max(rates) / min(rates)]),
            target=1.5,
            at_most=True,
            is_full=not bench.quick,
        )


def _content_details(count: int) -> dict[str, Any]:
    return {"subscriptions": count, "receivers": 50, "publishers": 4}


def _content_runs(bench: Bench, there: dict[str, Running], count: int) -> dict[str, Run]:
    details = _content_details(count)
    runs: dict[str, Run] = {
        "Godwit": partial(bench.native, "content", events=bench.size(20_000, 5_000), **details),
    }
    if "RabbitMQ" in there and count in RABBITMQ_EVENTS and not (bench.quick and count > 1_000):
        events = RABBITMQ_EVENTS[count] // bench.size(1, 5)
        runs["RabbitMQ"] = partial(bench.stream, there["RabbitMQ"], "headers", "amqp", events=events, **details)
    if "Mosquitto" in there and count == 10_000:
        runs["Mosquitto"] = partial(
            bench.stream,
            there["Mosquitto"],
            "client_filters",
            "mqtt",
            events=bench.size(3_000, 1_000),
            qos=0,
            **details,
        )
    return runs


def _taken_in(bench: Bench, count: int, found: dict[str, list[Found]]) -> Iterator[Line]:
    """How subscriptions come in, and what they hold."""
    ours = found["Godwit"]
    cost = median(each["subscribe_cpu_s"] / count * 1e6 for each in ours)
    speed = line_of(bench, f"subscriptions taken in, {count:,}", "a second", found, lambda f: count / f["subscribe_s"])
    assert speed.ours is not None
    yield Line(
        bench.part,
        speed.what,
        speed.unit,
        Measured(speed.ours.runs, cost),
        speed.peers,
        "subscription",
        target=10_000,
        is_full=not bench.quick,
    )
    weighed = partial(bench.native, "content", events=100, watch=False, **_content_details(count))
    yield line_of(
        bench,
        f"memory of a subscription, of {count:,}",
        "bytes",
        {"Godwit": [weighed() for _ in ours]},  # a peer runs on: what it had taken before it takes again
        lambda each: each["subscription_bytes"],
        target=1_000,
        at_most=True,
        note="resident, with what sockets and garbage take meanwhile; as for sessions, nobody looks on",
    )


def fan_out(bench: Bench) -> Iterator[Line]:
    """One publisher, one or a hundred receivers, 120 bytes: MQTT with both qualities, then native clients."""
    with bench.peers("Mosquitto", "NATS") as there:
        for receivers in (1, 100):
            for qos in (0, 1):
                yield _mqtt_fan_out(bench, there, receivers, qos)
            count = bench.size(100_000 if receivers == 1 else 3_000, 20_000 if receivers == 1 else 500)
            details: dict[str, Any] = {"receivers": receivers, "events": count, "under_way": 2_000 * receivers}
            what = f"fan-out 1→{receivers}, 120 bytes, native clients, confirmed"
            found, faults = bench.runs(what, {"Godwit": partial(bench.native, "fan_out", **details)})
            yield line_of(bench, what, "deliveries/s", found, rate_of("deliveries"), "deliveries", faults=faults)


def _mqtt_fan_out(bench: Bench, there: dict[str, Running], receivers: int, qos: int) -> Line:
    events = bench.size(40_000 if receivers == 1 else 2_000, 10_000 if receivers == 1 else 500)
    details: dict[str, Any] = {"receivers": receivers, "events": events, "qos": qos}
    runs: dict[str, Run] = {"Godwit": partial(bench.mqtt, "fan_out", **details)}
    if "Mosquitto" in there:
        runs["Mosquitto"] = partial(bench.stream, there["Mosquitto"], "fan_out", "mqtt", **details)
    if "NATS" in there and not qos:
        many = {"receivers": receivers, "events": events * bench.size(15, 20)}
        runs["NATS"] = partial(bench.stream, there["NATS"], "nats_fan_out", "nats", **many)
    what = f"fan-out 1→{receivers}, 120 bytes, MQTT QoS {qos}"
    found, faults = bench.runs(what, runs)
    note = f"in flight at most {IN_FLIGHT}" if qos else ""
    line = partial(line_of, bench, what, "deliveries/s", found, rate_of("deliveries"), "deliveries", faults=faults)
    theirs = found.get("Mosquitto")
    if not theirs:
        anchor = {(1, 0): 80_000, (1, 1): 32_000, (100, 0): 95_000, (100, 1): 70_000}[receivers, qos]
        return line(note=f"Mosquitto not measured; elsewhere {anchor:,}")
    share = 0.5 if receivers == 1 else 1.0  # wanted: half of Mosquitto's 1→1, more than its 1→100
    return line(target=share * measured(theirs, rate_of("deliveries")).figure, note=note)


def latency(bench: Bench) -> Iterator[Line]:
    """From the publisher's write to the receiver's read."""
    count, rate = bench.size(100_000, 10_000), bench.size(2_000, 500)
    details: dict[str, Any] = {"rate": rate, "events": rate * bench.size(5, 2)}
    with bench.peers("Mosquitto") as there:
        runs: dict[str, Run] = {"Godwit": partial(bench.native, "latency", subscriptions=count, **details)}
        if "Mosquitto" in there:
            more = {"receivers": 5, "qos": 0, **details}
            runs["Mosquitto"] = partial(bench.stream, there["Mosquitto"], "latency", "mqtt", **more)
        found, faults = bench.runs(f"{rate:,} events/s", runs)
    for share, target in (("p50_ms", 1.0), ("p99_ms", 5.0)):
        what = f"latency {share[:3]}, {rate:,} events/s, 5 receivers, {count:,} subscriptions"

        def value(each: Found, share: str = share) -> float:
            return each[share]

        note = "Mosquitto: without other subscriptions"
        yield line_of(bench, what, "ms", found, value, "events", target=target, at_most=True, note=note, faults=faults)


def durability(bench: Bench) -> Iterator[Line]:
    """What it costs that nothing is lost."""
    details: dict[str, Any] = {
        "subscriptions": 1_000,
        "receivers": 50,
        "publishers": 4,
        "events": bench.size(15_000, 4_000),
    }
    promises = ("memory", "relaxed", "full")
    found, faults = bench.runs(
        "1,000 subscriptions", {each: partial(bench.native, "content", each, **details) for each in promises}
    )
    base = measured(found["memory"], rate_of("events")).figure if "memory" in found else 0.0
    for promise in promises:
        what = f"content filtering, 1,000 subscriptions, durability {promise}"
        mine = {"Godwit": found[promise]} if promise in found else {}
        line = line_of(bench, what, "events/s", mine, rate_of("events"), "events", faults=faults)
        note = f"{line.ours.figure / base:.0%} of memory" if base and line.ours else ""
        target = base / 2 if promise == "full" and base else None
        yield line_of(
            bench, what, "events/s", mine, rate_of("events"), "events", faults=faults, note=note, target=target
        )


def idle(bench: Bench) -> Iterator[Line]:
    """Sessions of which nothing is asked."""
    sessions = bench.size(4_000, 500)
    found, faults = bench.runs(
        f"{sessions:,} sessions", {"Godwit": partial(bench.native, "idle", watch=False, sessions=sessions)}
    )
    what = "memory of a session, its client away"
    away = partial(line_of, bench, what, "bytes", found, lambda each: each["away_bytes"])
    yield away(target=5_000, at_most=True, faults=faults)
    what = "memory of a session with its connection"
    yield line_of(bench, what, "bytes", found, lambda each: each["present_bytes"])
    yield line_of(bench, "clients attached", "a second", found, rate_of("events"), "events", per="client")


def hand_over(bench: Bench) -> Iterator[Line]:
    """From the greeting at the new broker to the first event, with 1,000 in the queue at the old one."""
    moves = bench.size(40, 8)
    found, faults = bench.runs("1,000 queued", {"Godwit": partial(_moves, bench, moves)})
    for share, target in (("p50", None), ("p99", 100.0)):

        def value(each: Found, share: str = share) -> float:
            return each[f"{share}_ms"]

        what = f"hand-over, 1,000 queued: first event, {share}"
        whole = median(each["whole_p50_ms"] for each in found["Godwit"]) if found else 0.0
        note = f"all 1,000: {whole:.0f} ms" if share == "p50" else ""
        line = partial(line_of, bench, what, "ms", found, value, "events", per="move, at one of two brokers")
        yield line(target=target, at_most=True, note=note, faults=faults)


def _moves(bench: Bench, moves: int) -> Found:
    with ExitStack() as stack:
        first = stack.enter_context(godwit(name="b1", neighbours={"b2": 0}, profile=bench.profile))
        second = stack.enter_context(godwit(name="b2", neighbours={"b1": first.ports["native"]}))
        ports = {"b1": first.ports["native"], "b2": second.ports["native"]}
        return first.load("hand_over", "native", ports=ports, queued=1_000, moves=moves)


PARTS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    part.__name__.replace("_", "-"): part for part in (content, fan_out, latency, durability, idle, hand_over)
}


def _load_average() -> str:
    """What the machine has to do besides."""
    return "load average " + ", ".join(f"{each:.1f}" for each in os.getloadavg())


def _stop(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def main(
    quick: Annotated[bool, typer.Option("--quick", help="One short run for each row; figures are rough.")] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, also on a terminal.")] = False,
    table: Annotated[bool, typer.Option("--table", help="The table, also on a pipe.")] = False,
    only: Annotated[list[str] | None, typer.Option(metavar="PART", help=f"One of {', '.join(PARTS)}.")] = None,
    profile: Annotated[str, typer.Option(metavar="FILE", help="Write a profile of the last broker there.")] = "",
) -> None:
    """Measure one broker over sockets, beside others."""
    unknown = [part for part in only or () if part not in PARTS]
    if unknown:
        raise typer.BadParameter(f"{', '.join(unknown)}: allowed are {', '.join(PARTS)}")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    bench, machine, before = (
        Bench(quick, str(Path(profile).resolve()) if profile else ""),
        this_machine(),
        _load_average(),
    )
    if bench.missing:
        print(f"Not installed, so not measured beside: {', '.join(bench.missing)}", file=sys.stderr)
    is_plain = json or not (table or sys.stdout.isatty())
    lines: list[Line] = []
    for part in only or PARTS:
        bench.part = part
        for line in PARTS[part](bench):
            lines.append(line)
            if is_plain:
                print(json_line(line, machine), flush=True)
    bench.say("done\n")
    if not is_plain:
        missing = f"; not installed: {', '.join(bench.missing)}" if bench.missing else ""
        beside = ", ".join(name for name in PEERS if name not in bench.missing)
        said = f"{before} at the beginning, {_load_average()} at the end; beside {beside or 'nobody'}{missing}"
        print_table(lines, machine, said, None if sys.stdout.isatty() else 220)
    if any(line.ours is None for line in lines):
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
