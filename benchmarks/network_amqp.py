"""As much of AMQP 0-9-1 as a headers exchange needs: frames as bytes, built once. [amqp §2.3, §4.2]

A delivery is three frames (method, header, body). As all names, attributes and payloads here are equally long, so are
all deliveries of a connection.
"""

import socket
import struct
from collections.abc import Mapping

FRAME_END = b"\xce"
METHOD, HEADER, BODY = 1, 2, 3
FRAME_BYTES_MAX = 131_072
START, START_OK, TUNE, TUNE_OK, OPEN, OPEN_OK = ((10, number) for number in (10, 11, 30, 31, 40, 41))
CHANNEL_OPEN, CHANNEL_OPEN_OK = (20, 10), (20, 11)
EXCHANGE_DECLARE, EXCHANGE_DECLARE_OK = (40, 10), (40, 11)
QUEUE_DECLARE, QUEUE_DECLARE_OK, QUEUE_BIND, QUEUE_BIND_OK = (50, 10), (50, 11), (50, 20), (50, 21)
CONSUME, CONSUME_OK, PUBLISH, DELIVER = (60, 20), (60, 21), (60, 40), (60, 60)
EXCLUSIVE, NO_ACK, NO_WAIT_BIND = b"\x04", b"\x02", b"\x01"
HAS_HEADERS = 1 << 13
Value = str | int | float


def short(text: str) -> bytes:
    """A short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """A long string, or the outside of a table."""
    return struct.pack(">I", len(data)) + data


def table(fields: Mapping[str, Value]) -> bytes:
    """Names and values."""
    return long(b"".join(short(name) + _value(value) for name, value in fields.items()))


def _value(value: Value) -> bytes:
    if isinstance(value, str):
        return b"S" + long(value.encode())
    return b"I" + struct.pack(">i", value) if isinstance(value, int) else b"d" + struct.pack(">d", value)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """A frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + FRAME_END


def method(name: tuple[int, int], arguments: bytes, channel: int = 1) -> bytes:
    """A frame with a method."""
    return frame(METHOD, channel, struct.pack(">HH", *name) + arguments)


def declare_exchange(name: str) -> bytes:
    """A headers exchange that is gone with the server."""
    return method(EXCHANGE_DECLARE, bytes(2) + short(name) + short("headers") + bytes(1) + table({}))


def declare_queue(name: str) -> bytes:
    """A queue that is gone with its connection."""
    return method(QUEUE_DECLARE, bytes(2) + short(name) + EXCLUSIVE + table({}))


def bind(queue: str, exchange: str, wanted: Mapping[str, Value], *, is_last: bool) -> bytes:
    """A queue wants what has these headers. Only the last of many is answered."""
    flags = bytes(1) if is_last else NO_WAIT_BIND
    asked = table({"x-match": "all", **wanted})
    return method(QUEUE_BIND, bytes(2) + short(queue) + short(exchange) + short("") + flags + asked)


def consume(queue: str) -> bytes:
    """Have a queue's events sent, without answers."""
    return method(CONSUME, bytes(2) + short(queue) + short("c") + NO_ACK + table({}))


def _content(headers: Mapping[str, Value], payload: bytes) -> bytes:
    said = struct.pack(">HHQH", 60, 0, len(payload), HAS_HEADERS) + table(headers)
    return frame(HEADER, 1, said) + frame(BODY, 1, payload)


def publication(exchange: str, headers: Mapping[str, Value], payload: bytes) -> bytes:
    """An event."""
    return method(PUBLISH, bytes(2) + short(exchange) + short("") + bytes(1)) + _content(headers, payload)


def delivery_bytes(exchange: str, headers: Mapping[str, Value], payload: bytes) -> int:
    """How long a delivery of such an event is."""
    said = short("c") + bytes(8) + bytes(1) + short(exchange) + short("")
    return len(method(DELIVER, said) + _content(headers, payload))


class Connection:
    """A connection while it is set up: one thing at a time."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60.0)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self.socket.makefile("rb", buffering=0)
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.expect(START)
        login = table({}) + short("PLAIN") + long(b"\0guest\0guest") + short("en_US")
        self.ask(method(START_OK, login, 0), TUNE)
        self.socket.sendall(method(TUNE_OK, struct.pack(">HIH", 100, FRAME_BYTES_MAX, 0), 0))
        self.ask(method(OPEN, short("/") + short("") + bytes(1), 0), OPEN_OK)
        self.ask(method(CHANNEL_OPEN, short("")), CHANNEL_OPEN_OK)

    def ask(self, data: bytes, answer: tuple[int, int]) -> None:
        """Say something and wait for the answer."""
        self.socket.sendall(data)
        self.expect(answer)

    def expect(self, name: tuple[int, int]) -> None:
        """Wait for a method."""
        size = struct.unpack(">BHI", self._exactly(7))[2]
        payload = self._exactly(size + 1)
        found = struct.unpack_from(">HH", payload)
        if found != name:
            raise ConnectionError(f"RabbitMQ said {found}, not {name}: {payload[4:200]!r}")

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._file.read(size - len(data))
            if not more:
                raise ConnectionError("RabbitMQ has closed the connection")
            data += more
        return data
