"""The load generator for MQTT, NATS and AMQP: raw sockets, one process, bytes built beforehand.

All deliveries to a receiver are equally long, so they are counted by dividing what came by that length: nothing is
parsed. With QoS 1 the packet identifiers stand at the same place of each, and are cut out and put into PUBACKs by
slices with a stride. One job for each process, as in `network_load.py`: a JSON object as argument, figures as a JSON
object on the output. What comes is checked at the end: as many deliveries as there must be, and not one byte more.
"""

import contextlib
import json
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from statistics import quantiles
from typing import Any

import msgspec

from benchmarks import network_amqp as amqp
from benchmarks.network_processes import Clock, Usage

READ = 1 << 18
CHUNK = 100  # events in one write
UNDER_WAY = 2_000  # events that have not come to all of their receivers yet
PAYLOAD = bytes(120)
IDS = 65_500  # packet identifiers in use, a multiple of CHUNK
QUIET_S_MAX = 30.0
Matches = Callable[[bytes], int]


class Connection:
    """A socket whose deliveries are all `length` bytes long, the packet identifier of each at `id_at` (-1: none)."""

    def __init__(
        self, link: socket.socket, length: int, id_at: int = -1, first_byte: int = -1, stray: tuple[int, ...] = ()
    ) -> None:
        self.socket = link
        self.length, self.id_at, self.first_byte = length, id_at, first_byte
        self._over = (0, *stray)  # bytes that may be over at the end: the broker asks whether we are alive
        self.unsent = b""
        self.on_frames: Matches | None = None
        self._rest = b""
        self._bytes = 0
        link.setblocking(False)

    def say(self, data: bytes) -> None:
        """Write, as far as there is room, and the rest later."""
        if self.unsent:
            self.unsent += data
            return
        with contextlib.suppress(BlockingIOError):
            sent = self.socket.send(data)
            data = data[sent:] if sent < len(data) else b""
        self.unsent = data

    def say_on(self) -> None:
        """Write what was left."""
        data, self.unsent = self.unsent, b""
        if data:
            self.say(data)

    def hear(self, buffer: memoryview) -> int:
        """Read; how many deliveries are complete now. They are acknowledged at once, where that is asked for."""
        if self.id_at < 0 and self.on_frames is None:
            before = self._bytes
            self._bytes = before + self._read_into(buffer)
            return self._bytes // self.length - before // self.length
        data = self._rest + bytes(buffer[: self._read_into(buffer)])
        count = len(data) // self.length
        used = count * self.length
        self._rest = data[used:]
        if not count:
            return 0
        if data[: used : self.length].count(self.first_byte) != count:
            raise AssertionError("a message came that is not a delivery")
        if self.id_at >= 0:
            answers = bytearray(b"\x40\x02\0\0" * count)
            answers[2::4] = data[self.id_at : used : self.length]
            answers[3::4] = data[self.id_at + 1 : used : self.length]
            self.say(bytes(answers))
        return count if self.on_frames is None else self.on_frames(data[:used])

    @property
    def is_between(self) -> bool:
        """Whether no delivery is half there."""
        return not self._rest and self._bytes % self.length in self._over

    def _read_into(self, buffer: memoryview) -> int:
        try:
            size = self.socket.recv_into(buffer)
        except BlockingIOError:
            return 0
        if not size:
            raise ConnectionError("the broker has closed the connection")
        return size


class Load:
    """One publisher or more, and receivers."""

    def __init__(self, group: int, publishers: list[Connection], receivers: list[Connection]) -> None:
        self.usage = Usage(group)
        self.publishers = publishers
        self.deliveries = 0
        self.answers = 0  # to publishers
        self.said = 0  # that publishers wait for answers to
        self._receivers = {each.socket.fileno(): each for each in receivers}
        self._answered = {each.socket.fileno(): each for each in publishers}
        self._all = {**self._receivers, **self._answered}
        self._buffer = memoryview(bytearray(READ))
        self._poll = select.epoll()
        for number in self._all:
            self._poll.register(number, select.EPOLLIN)

    def turn(self, timeout_s: float) -> bool:
        """Hear who has something to say, and say what was left; whether anything came."""
        found = self._poll.poll(timeout_s)
        buffer, receivers = self._buffer, self._receivers
        for number, _ in found:
            if number in receivers:
                self.deliveries += receivers[number].hear(buffer)
            else:
                self.answers += self._answered[number].hear(buffer)
        for each in self._all.values():
            if each.unsent:
                each.say_on()
        return bool(found)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Turn until something is so."""
        heard = time.monotonic()
        while not is_so():
            if self.turn(0.001 if any(each.unsent for each in self.publishers) else 0.2):
                heard = time.monotonic()
            elif time.monotonic() > heard + QUIET_S_MAX:
                raise TimeoutError(f"{self.deliveries} deliveries came, and then nothing for {QUIET_S_MAX:.0f} s")

    def publish(self, chunks: Iterator[tuple[bytes, int]], under_way_max: int, is_answered: bool) -> dict[str, float]:
        """Publish chunks, of each of which it is known how many deliveries it makes."""
        clock, goal, publishers = Clock(self.usage), self.deliveries, cycle(self.publishers)
        for data, copies in chunks:
            if goal - self.deliveries > under_way_max or self.said - self.answers > UNDER_WAY:
                low = goal - under_way_max
                self.until(lambda low=low: self.deliveries >= low and self.said - self.answers <= UNDER_WAY)  # type: ignore[misc]
            publisher = next(publishers)
            publisher.say(data)
            self.until(lambda publisher=publisher: not publisher.unsent)  # type: ignore[misc]
            goal += copies
            self.said += CHUNK if is_answered else 0
            self.turn(0.0)
        self.until(lambda: self.deliveries >= goal and self.answers >= self.said)
        found = clock.read()
        self.turn(0.01)
        if self.deliveries != goal or not all(each.is_between for each in self._receivers.values()):
            raise AssertionError(f"{self.deliveries - goal} deliveries too many")
        return found


# ---------------------------------------------------------------- MQTT 3.1.1


def mqtt_packet(first_byte: int, body: bytes) -> bytes:
    """A packet of less than 16 KiB."""
    size = len(body)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([first_byte]) + length + body


def mqtt_text(text: str) -> bytes:
    """A text with its length."""
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def mqtt_publish(topic: str, qos: int, packet_id: int, payload: bytes) -> bytes:
    """A PUBLISH."""
    identifier = packet_id.to_bytes(2, "big") if qos else b""
    return mqtt_packet(0x30 | qos << 1, mqtt_text(topic) + identifier + payload)


def _exactly(link: socket.socket, answer: bytes) -> None:
    """Wait for these bytes."""
    data = b""
    while len(data) < len(answer):
        more = link.recv(len(answer) - len(data))
        if not more:
            raise ConnectionError("the broker has closed the connection")
        data += more
    if data != answer:
        raise ConnectionError(f"the broker said {data!r}, not {answer!r}")


def _connected(port: int) -> socket.socket:
    link = socket.create_connection(("127.0.0.1", port), 30.0)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return link


def mqtt_client(port: int, name: str, topic: str = "", qos: int = 0) -> socket.socket:
    """A connection with a clean session, and a subscription if a topic is named."""
    link = _connected(port)
    link.sendall(mqtt_packet(0x10, mqtt_text("MQTT") + b"\x04\x02\0\0" + mqtt_text(name)))
    _exactly(link, b"\x20\x02\0\0")
    if topic:
        link.sendall(mqtt_packet(0x82, b"\0\x01" + mqtt_text(topic) + bytes([qos])))
        _exactly(link, b"\x90\x03\0\x01" + bytes([qos]))
    return link


def mqtt_load(job: dict[str, Any], payload: bytes = PAYLOAD) -> Load:
    """Receivers of the topic `news`, and who publishes there."""
    qos, length = job["qos"], len(mqtt_publish("news", job["qos"], 1, payload))
    id_at = length - len(payload) - 2 if qos else -1
    first_byte = 0x30 | qos << 1
    port = job["port"]
    receivers = [
        Connection(mqtt_client(port, f"r{job['run']}-{number}", "news", qos), length, id_at, first_byte)
        for number in range(job["receivers"])
    ]
    return Load(job["group"], [Connection(mqtt_client(port, f"p{job['run']}"), 4)], receivers)


def mqtt_fan_out(job: dict[str, Any]) -> dict[str, float]:
    """One publisher, some receivers of everything."""
    load, qos, copies = mqtt_load(job), job["qos"], job["receivers"] * CHUNK
    ids = IDS if qos else CHUNK
    packets = [mqtt_publish("news", qos, number + 1, PAYLOAD) for number in range(ids)]
    chunks = cycle([(b"".join(packets[first : first + CHUNK]), copies) for first in range(0, ids, CHUNK)])
    return _measured(load, chunks, job, bool(qos))


def _measured(
    load: Load, chunks: Iterator[tuple[bytes, int]], job: dict[str, Any], is_answered: bool
) -> dict[str, float]:
    count, under_way = job["events"] // CHUNK, UNDER_WAY * job["receivers"]
    load.publish((next(chunks) for _ in range(count // 10)), under_way, is_answered)
    found = load.publish((next(chunks) for _ in range(count)), under_way, is_answered)
    return {"events": count * CHUNK, "deliveries": count * CHUNK * job["receivers"], **found}


def mqtt_content(job: dict[str, Any]) -> dict[str, float]:
    """Filtering at the client: each receiver gets everything as JSON, and looks at what it wants.

    What is wanted is that of `network_load.distinct_filters`, looked up by kind, which is the least work there is.
    """
    draw, size = random.Random(5), 100
    kinds = job["subscriptions"] // 10
    decode = msgspec.json.Decoder().decode

    def made(attributes: dict[str, Any]) -> bytes:
        return msgspec.json.encode(attributes).ljust(size)

    load = mqtt_load(job, bytes(size))
    receivers = list(load._receivers.values())
    wanted: list[dict[str, list[float]]] = [{} for _ in receivers]
    for number in range(job["subscriptions"]):
        wanted[draw.randrange(len(receivers))].setdefault(f"K{number % kinds}", []).append(draw.uniform(0, 50))
    matched = [0]

    def looking(mine: dict[str, list[float]], length: int) -> Matches:
        def look(data: bytes) -> int:
            for at in range(0, len(data), length):
                event = decode(data[at + length - size : at + length])
                for low in mine.get(event["kind"], ()):
                    if low <= event["price"] <= low + 50.0:
                        matched[0] += 1
                        break
            return len(data) // length

        return look

    for receiver, mine in zip(receivers, wanted, strict=True):
        receiver.on_frames = looking(mine, receiver.length)
    events = [{"kind": f"K{draw.randrange(kinds)}", "price": draw.uniform(0, 100), "volume": 1} for _ in range(1_000)]
    packets = [mqtt_publish("news", 0, 1, made(each)) for each in events]
    copies = CHUNK * len(receivers)
    chunks = cycle([(b"".join(packets[at : at + CHUNK]), copies) for at in range(0, len(packets), CHUNK)])
    found = _measured(load, chunks, job, False)
    return {**found, "matched": matched[0]}


def mqtt_latency(job: dict[str, Any]) -> dict[str, float]:
    """Events at a given pace, each for all receivers."""
    load, took = mqtt_load(job), list[float]()
    publisher, clock = load.publishers[0], Clock(load.usage)
    for receiver in load._receivers.values():

        def note(data: bytes, length: int = receiver.length) -> int:
            now = time.perf_counter()
            took.extend(now - struct.unpack_from(">d", data, at)[0] for at in range(length - 120, len(data), length))
            return len(data) // length

        receiver.on_frames = note
    for phase in (job["events"] // 10, job["events"]):
        took.clear()
        clock = Clock(load.usage)
        started = time.perf_counter()
        for number in range(phase):
            at = started + number / job["rate"]
            while (left := at - time.perf_counter()) > 0:
                load.turn(left)
            publisher.say(mqtt_publish("news", 0, 1, struct.pack(">d", time.perf_counter()).ljust(120, b"\0")))
            load.turn(0.0)
        load.until(lambda phase=phase: len(took) >= job["receivers"] * phase)  # type: ignore[misc]
    cuts = quantiles(took, n=100)
    return {"events": job["events"], "p50_ms": cuts[49] * 1_000, "p99_ms": cuts[98] * 1_000, **clock.read()}


# ---------------------------------------------------------------- NATS


def nats_client(port: int, *, is_receiver: bool) -> socket.socket:
    """A connection, and a subscription for a receiver."""
    link = _connected(port)
    while not link.recv(4_096).endswith(b"\r\n"):  # INFO
        pass
    wish = b"SUB news 1\r\n" if is_receiver else b""
    link.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\n' + wish + b"PING\r\n")
    _exactly(link, b"PONG\r\n")
    return link


def nats_fan_out(job: dict[str, Any]) -> dict[str, float]:
    """One publisher, some receivers of everything."""
    length = len(b"MSG news 1 120\r\n") + len(PAYLOAD) + 2
    pings = (len(b"PING\r\n"), 2 * len(b"PING\r\n"))
    receivers = [
        Connection(nats_client(job["port"], is_receiver=True), length, stray=pings) for _ in range(job["receivers"])
    ]
    load = Load(job["group"], [Connection(nats_client(job["port"], is_receiver=False), 4)], receivers)
    chunk = (b"PUB news 120\r\n" + PAYLOAD + b"\r\n") * CHUNK
    return _measured(load, cycle([(chunk, CHUNK * job["receivers"])]), job, False)


# ---------------------------------------------------------------- RabbitMQ


def amqp_content(job: dict[str, Any]) -> dict[str, float]:
    """Content filtering by a headers exchange, which knows equality only: five queues for each kind."""
    count, exchange, draw = job["subscriptions"], f"bench-{job['run']}", random.Random(6)
    receivers = [amqp.Connection(job["port"]) for _ in range(job["receivers"])]
    publishers = [amqp.Connection(job["port"]) for _ in range(job["publishers"])]
    publishers[0].ask(amqp.declare_exchange(exchange), amqp.EXCHANGE_DECLARE_OK)
    queues = [f"q-{job['run']}-{number}" for number in range(len(receivers))]
    wanted: list[list[str]] = [[] for _ in receivers]
    for number in range(count):
        wanted[number % len(receivers)].append(f"K{number // 5:06}")
    for number, receiver in enumerate(receivers):
        receiver.ask(amqp.declare_queue(queues[number]), amqp.QUEUE_DECLARE_OK)
    usage, started = Usage(job["group"]), time.perf_counter()
    before = usage.memory_bytes()
    for number, (receiver, kinds) in enumerate(zip(receivers, wanted, strict=True)):
        said = [amqp.bind(queues[number], exchange, {"kind": kind}, is_last=kind is kinds[-1]) for kind in kinds]
        receiver.ask(b"".join(said), amqp.QUEUE_BIND_OK)
    subscribe_s, memory = time.perf_counter() - started, usage.memory_bytes() - before
    for number, receiver in enumerate(receivers):
        receiver.ask(amqp.consume(queues[number]), amqp.CONSUME_OK)

    def drawn() -> dict[str, amqp.Value]:
        place = f"hall {draw.randrange(9)}"
        kind = f"K{draw.randrange(count // 5):06}"
        return {"kind": kind, "price": draw.uniform(0, 100), "volume": draw.randrange(1_000), "place": place}

    length = amqp.delivery_bytes(exchange, drawn(), PAYLOAD)
    load = Load(
        job["group"],
        [Connection(each.socket, 1) for each in publishers],
        [Connection(each.socket, length) for each in receivers],
    )
    size = min(CHUNK, max(1, job["events"] // 10))
    chunks = [
        (b"".join(amqp.publication(exchange, drawn(), PAYLOAD) for _ in range(size)), 5 * size)
        for _ in range(job["events"] // size)
    ]
    load.publish(iter(chunks[: len(chunks) // 10 + 1]), 5 * UNDER_WAY, False)
    found = load.publish(iter(chunks), 5 * UNDER_WAY, False)
    events = len(chunks) * size
    taken = {"subscribe_s": subscribe_s, "subscription_bytes": memory / count}
    return {"events": events, "deliveries": 5 * events, **taken, **found}


JOBS: dict[str, Callable[[dict[str, Any]], dict[str, float]]] = {
    "fan_out": mqtt_fan_out,
    "client_filters": mqtt_content,
    "latency": mqtt_latency,
    "nats_fan_out": nats_fan_out,
    "headers": amqp_content,
}

if __name__ == "__main__":
    said = json.loads(sys.argv[1])
    print(json.dumps(JOBS[said["job"]](said)))
