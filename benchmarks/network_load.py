"""The load generator: raw sockets, one process, frames built beforehand; it must not be the limit of what is measured.

One job for each process: a JSON object as argument, its figures as a JSON object on the output. It plays all clients:
it attaches them, lets receivers subscribe, and publishes as fast as what is under way allows: the matches of each event
are known beforehand, and deliveries that have not come yet are bounded. Nothing is decoded but the number of the last
delivery in what a read brought, which is confirmed at once.

How clients speak is `Native` here. Other protocols are in `network_streams.py`.
"""

import contextlib
import json
import random
import selectors
import socket
import struct
import sys
import time
from collections.abc import Callable
from statistics import quantiles
from typing import Any

import msgspec

from benchmarks.network_processes import Clock, Usage
from godwit.broker.messages import Attach, Publish, Received, Request, Subscribe
from godwit.filters.events import Event
from godwit.filters.filters import Filter, all_of, some
from godwit.filters.sets import interval, one_of
from godwit.matching.index_matcher import IndexMatcher
from godwit.runtime.wire import NATIVE, Intro

READ = 1 << 18
UNDER_WAY = 20_000  # deliveries, at most
CHUNK = 200  # events in one write
PAYLOAD = bytes(120)


def frame(message: Any) -> bytes:
    """A message of the native form, as it is written."""
    data = NATIVE.encode(message)
    return len(data).to_bytes(4, "big") + data


class Native:
    """What clients of the native form say and hear."""

    @staticmethod
    def greeting(client: str, **details: Any) -> bytes:
        """To come in."""
        return frame(Intro()) + frame(Attach(client, **details))

    @staticmethod
    def subscription(number: int, client: str, name: str, filter: Filter) -> bytes:
        """The `number`-th request: a subscription."""
        return frame(Request(number, Subscribe((client, name), filter)))

    @staticmethod
    def publication(number: int, client: str, attributes: dict[str, Any], payload: bytes | None) -> bytes:
        """The `number`-th request: an event."""
        return frame(Request(number, Publish(Event(attributes, client, number, payload))))

    @staticmethod
    def confirmation(number: int) -> bytes:
        """All deliveries up to this one have come."""
        return frame(Received(number))


class Client:
    """One connection."""

    def __init__(self, name: str, port: int, **details: Any) -> None:
        self.name = name
        self.requests = 0
        self.accepted = 0
        self.received = 0  # the number of the last delivery
        self.attached: dict[str, Any] | None = None
        self.unsent = bytearray()
        self.buffer = b""
        self.on_delivery: Callable[[bytes], None] | None = None
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.say(Native.greeting(name, **details))

    def say(self, data: bytes) -> None:
        """Write, as far as there is room, and the rest later."""
        if not self.unsent:
            with contextlib.suppress(BlockingIOError):
                data = data[self.socket.send(data) :]
        self.unsent += data

    def say_on(self) -> None:
        """Write what was left."""
        if self.unsent:
            with contextlib.suppress(BlockingIOError):
                del self.unsent[: self.socket.send(self.unsent)]

    def hear(self) -> int:
        """Read; how many deliveries came. They are confirmed at once."""
        try:
            data = self.socket.recv(READ)
        except BlockingIOError:
            return 0
        if not data:
            raise ConnectionError(f"{self.name}: the broker has closed the connection")
        buffer, at, end, count, last = self.buffer + data, 0, 0, 0, -1
        length = len(buffer)
        while at + 4 <= length:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "big")
            if end > length:
                break
            kind = buffer[at + 11 : at + 14]
            if kind == b"Del":
                count += 1
                last = at
                if self.on_delivery is not None:
                    self.on_delivery(buffer[at + 4 : end])
            elif kind == b"Acc":
                self.accepted = _number(buffer, at)
            else:
                self._hear_other(buffer[at + 4 : end])
            at = end
        self.buffer = buffer[at:]
        if count:
            self.received = _number(buffer, last)
            self.say(Native.confirmation(self.received))
        return count

    def _hear_other(self, data: bytes) -> None:
        said = msgspec.msgpack.decode(data)
        if said["type"] == "Attached":
            self.attached = said
            self.accepted = said["accepted"]
        elif said["type"] in ("Bye", "Refused"):
            raise ConnectionError(f"{self.name}: {said['reason']}")


def _number(buffer: bytes, at: int) -> int:
    """The number in a Delivery or Accepted at this place: both begin with the same fields."""
    place = at + 4 + 1 + 5 + 9 + 7
    kind = buffer[place]
    if kind < 0x80:
        return kind
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}[kind]
    return int.from_bytes(buffer[place + 1 : place + 1 + size], "big")


class Load:
    """All clients of a job."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.usage = Usage(job["group"])
        self.clients: list[Client] = []
        self.selector = selectors.DefaultSelector()
        self.deliveries = 0

    def come(self, name: str, port: int | None = None, **details: Any) -> Client:
        """A client attaches; its answer has not come yet."""
        client = Client(name, self.job["port"] if port is None else port, **details)
        self.clients.append(client)
        self.selector.register(client.socket, selectors.EVENT_READ, client)
        return client

    def go(self, client: Client) -> None:
        """A client's connection ends."""
        self.selector.unregister(client.socket)
        client.socket.close()
        self.clients.remove(client)

    def turn(self, timeout_s: float = 1.0) -> None:
        """Hear who has something to say, and say what was left."""
        for key, _ in self.selector.select(timeout_s):
            self.deliveries += key.data.hear()
        for client in self.clients:
            if client.unsent:
                client.say_on()

    def until(self, is_so: Callable[[], bool], seconds_max: float = 60.0) -> None:
        """Turn until something is so."""
        ends = time.monotonic() + seconds_max
        while not is_so():
            self.turn(0.2)
            if time.monotonic() > ends:
                raise TimeoutError(f"nothing has happened for {seconds_max} s: {self.deliveries} deliveries came")

    def all_attached(self) -> None:
        """Until every client is welcome."""
        self.until(lambda: all(client.attached is not None for client in self.clients))

    def subscribe_all(self, wanted: list[tuple[Client, Filter]]) -> float:
        """Let all subscriptions be made; the seconds until all are accepted."""
        said: dict[Client, list[bytes]] = {}
        for number, (client, filter) in enumerate(wanted):
            client.requests += 1
            name = "s" if len(wanted) <= len(self.clients) else f"s{number}"
            said.setdefault(client, []).append(Native.subscription(client.requests, client.name, name, filter))
        started = time.perf_counter()
        for client, parts in said.items():
            client.say(b"".join(parts))
        self.until(lambda: all(client.accepted >= client.requests for client in said))
        return time.perf_counter() - started

    def publish_all(self, publishers: list[Client], events: list[tuple[dict[str, Any], int]]) -> dict[str, float]:
        """Publish events, of each of which it is known how often it is delivered."""
        chunks: list[tuple[Client, bytes, int]] = []
        for first in range(0, len(events), CHUNK):
            client = publishers[first // CHUNK % len(publishers)]
            parts = []
            for attributes, _ in events[first : first + CHUNK]:
                client.requests += 1
                parts.append(Native.publication(client.requests, client.name, attributes, PAYLOAD))
            copies = sum(copies for _, copies in events[first : first + CHUNK])
            chunks.append((client, b"".join(parts), copies))
        goal = self.deliveries + sum(copies for _, _, copies in chunks)
        under_way_max = self.job.get("under_way", UNDER_WAY)
        clock, sent = Clock(self.usage), self.deliveries
        for client, data, copies in chunks:
            while sent - self.deliveries > under_way_max:
                self.turn()
            client.say(data)
            sent += copies
            self.turn(0.0)
        self.until(lambda: self.deliveries >= goal)
        self.until(lambda: all(client.accepted >= client.requests for client in publishers))
        phase = clock.read()
        if self.deliveries != goal:
            raise AssertionError(f"{self.deliveries - goal} deliveries too many")
        return phase


# ---------------------------------------------------------------- what is wanted and published


def distinct_filters(count: int, seed: int = 5) -> list[Filter]:
    """Ten of each kind, half of which want any given price: five matches an event on average."""
    draw = random.Random(seed)
    kinds = max(1, count // 10)
    return [
        all_of(
            some("kind", one_of([f"K{number % kinds}"])),
            some("price", interval(low := round(draw.uniform(0, 50), 6), low + 50.0)),
        )
        for number in range(count)
    ]


def drawn_events(count: int, subscriptions: int, seed: int = 6) -> list[dict[str, Any]]:
    """Events on those filters, and more attributes that nobody asks for."""
    draw = random.Random(seed)
    kinds = max(1, subscriptions // 10)
    return [
        {
            "kind": f"K{draw.randrange(kinds)}",
            "price": round(draw.uniform(0, 100), 2),
            "volume": draw.randrange(1_000),
            "place": f"hall {draw.randrange(9)}",
        }
        for _ in range(count)
    ]


# ---------------------------------------------------------------- jobs


def content(job: dict[str, Any]) -> dict[str, float]:
    """Many distinct subscriptions over some receivers; events that match a few."""
    load, count = Load(job), job["subscriptions"]
    receivers = [load.come(f"r{number}") for number in range(job["receivers"])]
    publishers = [load.come(f"p{number}") for number in range(job["publishers"])]
    load.all_attached()
    draw = random.Random(1)
    wanted = [(draw.choice(receivers), filter) for filter in distinct_filters(count)]
    before, worked = load.usage.memory_bytes(), load.usage.cpu_s()
    subscribe_s = load.subscribe_all(wanted)
    subscribe_cpu_s, memory = load.usage.cpu_s() - worked, load.usage.memory_bytes() - before
    matcher = IndexMatcher()
    matcher.add_many((number, filter) for number, (_, filter) in enumerate(wanted))
    events: list[tuple[dict[str, Any], int]] = []
    for attributes in drawn_events(job["events"], count):
        who = {wanted[number][0] for number in matcher.match(Event(attributes))}  # type: ignore[call-overload]
        events.append((attributes, len(who)))
    warm = len(events) // 10
    load.publish_all(publishers, events[:warm])
    phase = load.publish_all(publishers, events[warm:])
    copies = sum(copies for _, copies in events[warm:])
    return {
        "events": len(events) - warm,
        "deliveries": copies,
        **phase,
        "subscribe_s": subscribe_s,
        "subscribe_cpu_s": subscribe_cpu_s,
        "subscription_bytes": memory / count,
    }


def fan_out(job: dict[str, Any]) -> dict[str, float]:
    """One publisher, some receivers of everything."""
    load = Load(job)
    receivers = [load.come(f"r{number}") for number in range(job["receivers"])]
    publisher = load.come("p")
    load.all_attached()
    load.subscribe_all([(client, some("topic", one_of(["news"]))) for client in receivers])
    events: list[tuple[dict[str, Any], int]] = [({"topic": "news"}, len(receivers))] * job["events"]
    load.publish_all([publisher], events[: len(events) // 10])
    return {"deliveries": len(events) * len(receivers), **load.publish_all([publisher], events)}


def latency(job: dict[str, Any]) -> dict[str, float]:
    """Events at a given pace, each for five receivers, while many other subscriptions are there."""
    load, count = Load(job), job["subscriptions"]
    receivers = [load.come(f"r{number}") for number in range(5)]
    others = [load.come(f"o{number}") for number in range(50)]
    publisher = load.come("p")
    load.all_attached()
    load.subscribe_all([(others[number % 50], filter) for number, filter in enumerate(distinct_filters(count))])
    load.subscribe_all([(client, some("topic", one_of(["news"]))) for client in receivers])
    took: list[float] = []
    clock = Clock(load.usage)

    def note(data: bytes) -> None:
        sent_at = struct.unpack_from(">d", data, data.index(b"SENT") + 4)[0]
        took.append(time.perf_counter() - sent_at)

    for client in receivers:
        client.on_delivery = note
    for phase in (job["events"] // 10, job["events"]):
        took.clear()
        clock = Clock(load.usage)
        started = time.perf_counter()
        for number in range(phase):
            at = started + number / job["rate"]
            while (left := at - time.perf_counter()) > 0:
                load.turn(left)
            publisher.requests += 1
            payload = b"SENT" + struct.pack(">d", time.perf_counter())
            publisher.say(Native.publication(publisher.requests, "p", {"topic": "news", "kind": "none"}, payload))
            load.turn(0.0)
        load.until(lambda phase=phase: len(took) >= 5 * phase)  # type: ignore[misc]
    cuts = quantiles(took, n=100)
    return {"events": job["events"], "p50_ms": cuts[49] * 1_000, "p99_ms": cuts[98] * 1_000, **clock.read()}


def idle(job: dict[str, Any]) -> dict[str, float]:
    """Sessions without subscriptions: with their connection, and when their clients have gone."""
    load, count = Load(job), job["sessions"]
    warm = [load.come(f"w{number}") for number in range(100)]
    load.all_attached()
    for client in warm:
        load.go(client)
    before, clock = load.usage.memory_bytes(), Clock(load.usage)
    for number in range(count):
        load.come(f"i{number}")
        if number % 100 == 99:
            load.all_attached()
    load.all_attached()
    phase = clock.read()
    present = load.usage.memory_bytes()
    for client in list(load.clients):
        load.go(client)
    last = load.come("last")
    load.until(lambda: last.attached is not None)
    return {
        "present_bytes": (present - before) / count,
        "away_bytes": (load.usage.memory_bytes() - before) / count,
        "events": count,
        **phase,
    }


def hand_over(job: dict[str, Any]) -> dict[str, float]:
    """A client with events in its queue goes to the other broker, again and again; until the first one comes."""
    load, filter = Load(job), some("topic", one_of(["news"]))
    publisher = load.come("p")
    client = load.come("c", attempt=1)
    load.all_attached()
    load.subscribe_all([(client, filter)])
    wanted = (Subscribe(("c", "s"), filter),)
    attempt, home, firsts, wholes, clock = 1, "b1", [], [], Clock(load.usage)
    for number in range(job["moves"]):
        attached, received = client.attached, client.received
        assert attached is not None
        load.go(client)
        data = []
        for _ in range(job["queued"]):
            publisher.requests += 1
            data.append(Native.publication(publisher.requests, "p", {"topic": "news"}, PAYLOAD))
        publisher.say(b"".join(data))
        load.until(lambda: publisher.accepted >= publisher.requests)
        attempt, to = attempt + 1, ("b2", "b1")[number % 2]
        goal, started = load.deliveries + job["queued"], time.perf_counter()
        client = load.come(
            "c",
            job["ports"][to],
            received=received,
            session=attached["session"],
            home=home,
            attempt=attempt,
            since=attempt - 1,
            wanted=wanted,
        )
        first = load.deliveries
        load.until(lambda first=first: load.deliveries > first)  # type: ignore[misc]
        firsts.append(time.perf_counter() - started)
        load.until(lambda goal=goal: load.deliveries >= goal)  # type: ignore[misc]
        wholes.append(time.perf_counter() - started)
        home = to
    firsts, wholes = sorted(firsts[2:]), sorted(wholes[2:])  # the first two find brokers that have matched nothing yet
    high = min(len(firsts) - 1, round(0.99 * len(firsts)))
    return {
        "p50_ms": firsts[len(firsts) // 2] * 1_000,
        "p99_ms": firsts[high] * 1_000,
        "whole_p50_ms": wholes[len(wholes) // 2] * 1_000,
        "events": job["moves"],
        **clock.read(),
    }


JOBS: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "content": content,
    "fan_out": fan_out,
    "latency": latency,
    "idle": idle,
    "hand_over": hand_over,
}

if __name__ == "__main__":
    said = json.loads(sys.argv[1])
    print(json.dumps(JOBS[said["job"]](said)))
