"""Wires: one direction of a link or connection, with latency, bandwidth, a FIFO queue and faults.

*Theory.* A message is sent when those before it have been sent (`free_at`), takes its size divided by the bandwidth to
be sent and the latency to arrive. A wire belongs to a connection; when that breaks, messages on the wire are lost, and
messages of an older connection never arrive on a newer one.

*Rules.*
1. Without faults messages arrive in order.
2. Each kind of draw has a separate stream on each wire, and is made only while that fault is on: so faults and wires
   are independent.
"""

from random import Random
from typing import Any

__all__ = ["Wire"]


class Wire:
    """One direction between two nodes."""

    __slots__ = (
        "blocked",
        "connection",
        "delay_rate",
        "delay_s",
        "duplicate_rate",
        "faulty",
        "free_at",
        "latency_s",
        "linked",
        "loss_rate",
        "seconds_per_byte",
        "seed",
        "source",
        "streams",
        "target",
        "up",
    )

    def __init__(self, source: Any, target: Any, latency_s: float, bandwidth_bps: float | None, seed: int) -> None:
        self.source = source
        self.target = target
        self.latency_s = latency_s
        self.seconds_per_byte = 8 / bandwidth_bps if bandwidth_bps else 0.0
        self.seed = seed
        self.streams: dict[str, Random] = {}  # by kind of draw; made when the first one is drawn
        self.up = False
        self.connection = 0
        self.linked = -1  # the connection that the source's machine knows of and sends on; an older one leads nowhere
        self.free_at = 0.0
        self.blocked = False  # a one-way partition: everything is lost silently
        self.loss_rate = 0.0
        self.duplicate_rate = 0.0
        self.delay_rate = 0.0
        self.delay_s = 0.0
        self.faulty = False  # whether any of the four above is on

    def set_faults(
        self, loss: float = 0.0, duplicate: float = 0.0, delay: float = 0.0, delay_s: float = 0.0, blocked: bool = False
    ) -> None:
        """Set this wire's faults."""
        self.loss_rate, self.duplicate_rate, self.delay_rate, self.delay_s = loss, duplicate, delay, delay_s
        self.blocked = blocked
        self.faulty = blocked or loss > 0 or duplicate > 0 or delay > 0

    def arrival(self, size: int, now: float) -> float:
        """The arrival time of a message of that size that is sent now."""
        self.free_at = at = max(self.free_at, now) + size * self.seconds_per_byte
        return at + self.latency_s

    def arrivals(self, size: int, now: float) -> tuple[float, ...]:
        """The same on a wire with faults: once, or never, or more than once."""
        at = self.arrival(size, now)
        if self.blocked or (self.loss_rate and self._draw("loss") < self.loss_rate):
            return ()
        if self.delay_rate and self._draw("delay") < self.delay_rate:
            at += self._draw("delay-length") * self.delay_s
        if self.duplicate_rate and self._draw("duplicate") < self.duplicate_rate:
            return (at, at + self._draw("duplicate-delay") * max(self.delay_s, self.latency_s))
        return (at,)

    def _draw(self, kind: str) -> float:
        stream = self.streams.get(kind)
        if stream is None:
            wire = f"{self.source.name}>{self.target.name}"
            stream = self.streams[kind] = Random(f"{self.seed}/frame-{kind}/{wire}")
        return stream.random()
