"""Spans from the inputs and effects of a node: publications, hops, deliveries, and relocations.

*Theory.* Like the activity monitor (`activity_monitor.py`), this observes inputs and effects and changes nothing.
Machines do not use traces.

```text
   publish          at the broker of the publisher: from the request until it is in the journal
   └─ route b1      one at each broker that an event comes to: from its arrival until it is sent on
      ├─ deliver    one for each client: from the arrival until it is sent to the client; a queue is in between
      └─ route b2
         └─ deliver
   relocate         at the broker that a client came to: from its greeting until its session is there
   └─ hand over     at the broker that it came from: when the session was sent
```

*Rules.*
1. The span of a hop is emitted `LINGER_S` after the event has arrived: by then it was forwarded, or matched nothing.
2. At most `OPEN_MAX` events and relocations are remembered. Beyond that the oldest is emitted, or forgotten.
3. A duplicate event has no second span, as long as the first is remembered.
4. The span of a delivery whose arrival is not remembered (it waited long, or came with a session) has no duration, and
   is a child of the publication.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from godwit.broker.effects import Arrived, Effect, Heard, Input, Send, Tell
from godwit.broker.effects import Trace as TraceRecord
from godwit.broker.messages import Delivery, Frame, Packet
from godwit.broker.stream_messages import HopPacket
from godwit.filters.events import Event
from godwit.mobility.move_messages import Replay
from godwit.runtime.activity_monitor import event_in
from godwit.runtime.telemetry.trace_context import TraceContext, hop_span, is_sampled, trace_named, trace_of

__all__ = ["LINGER_S", "OPEN_MAX", "EventSpans", "Span"]

LINGER_S = 1.0
OPEN_MAX = 10_000
TOPIC_LENGTH_MAX = 256

Kind = Literal["producer", "consumer", "internal"]
EventId = tuple[str, int]


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """One span. `span` 0: any unique number."""

    name: str
    kind: Kind
    trace: int
    span: int = 0
    parent: int = 0
    began: float
    ended: float
    attributes: Mapping[str, Any]


class _Hop(msgspec.Struct):
    """An event at this broker."""

    event: Event
    context: TraceContext
    peer: str  # the neighbour that it came from; "": a client published it here
    began: float
    ended: float
    sent_to: list[str] = []


class EventSpans:
    """Observes one node; `emit` is called with each span."""

    def __init__(
        self, broker: str, emit: Callable[[Span], None], client_of: Callable[[str], str | None], ratio: float = 1.0
    ) -> None:
        self._broker = broker
        self._emit = emit
        self._client_of = client_of
        self._ratio = ratio
        self._hops: dict[EventId, _Hop] = {}  # whose span is not emitted yet
        self._known: dict[EventId, float] = {}  # when those came that are traced
        self._relocating: dict[str, float] = {}  # when, by client
        self._attempts: dict[str, int] = {}  # of the session that came last, by client

    # ------------------------------------------------------------ what the node shows

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """The machine has handled these."""
        for input, _ in inputs:
            if (event := event_in(input)) is not None:
                self._on_event(event, input, now, now + took_s)
            elif type(input) is Arrived:
                message = _message_in(input.frame)
                if type(message) is Replay and message.to == self._broker:
                    _remember(self._attempts, message.client, message.attempt)
        self.sweep(now)

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """These effects are carried out now."""
        replayed: set[str] = set()  # clients whose sessions go from here
        for effect in effects:
            kind = type(effect)
            if kind is Tell:
                if type(effect.message) is Delivery:  # type: ignore[union-attr]
                    self._on_delivery(effect.connection, effect.message, now)  # type: ignore[union-attr]
            elif kind is Send:
                message = _message_in(effect.frame)  # type: ignore[union-attr]
                if type(message) is not Replay:
                    self._on_sent(effect.peer, message, now)  # type: ignore[union-attr]
                elif message.is_last and message.client in replayed:
                    self._emit_hand_over(message, now)
            elif kind is TraceRecord:
                record = effect.record  # type: ignore[union-attr]
                self._on_record(record, now)
                if record.kind == "replayed":
                    replayed.add(record.peer)

    def on_written(self, took_s: float, size: int) -> None:
        """Batches are ignored."""

    def sweep(self, now: float) -> None:
        """Emit complete spans. (rule 1)"""
        while self._hops:
            id, hop = next(iter(self._hops.items()))
            if now - hop.began < LINGER_S and len(self._hops) <= OPEN_MAX:
                return
            del self._hops[id]
            self._emit_hop(hop)

    def end(self) -> None:
        """Emit all open spans."""
        for hop in self._hops.values():
            self._emit_hop(hop)
        self._hops.clear()

    # ------------------------------------------------------------ events

    def _on_event(self, event: Event, input: Input, began: float, ended: float) -> None:
        if event.id in self._known:  # rule 3
            return
        context = trace_of(event)
        if not is_sampled(context, self._ratio):
            return
        peer = input.peer if type(input) is Arrived else ""
        if not peer and type(input) is not Heard:
            return
        _remember(self._known, event.id, began)
        self._hops[event.id] = _Hop(event, context, peer, began, ended)

    def _on_sent(self, peer: str, message: Any, now: float) -> None:
        event = getattr(message, "event", None)
        if isinstance(event, Event) and (hop := self._hops.get(event.id)) is not None:
            hop.ended = now
            hop.sent_to.append(peer)

    def _on_delivery(self, connection: str, delivery: Delivery, now: float) -> None:
        event = delivery.event
        context = trace_of(event)
        if not is_sampled(context, self._ratio):
            return
        began = self._known.get(event.id)
        if (hop := self._hops.get(event.id)) is not None:
            hop.ended = now
        client = self._client_of(connection)
        self._emit(
            Span(
                name="deliver",
                kind="consumer",
                trace=context.trace,
                parent=context.publication if began is None else hop_span(event, self._broker),  # rule 4
                began=now if began is None else began,
                ended=now,
                attributes=self._attributes(event, {"messaging.client.id": client or connection}),
            )
        )

    def _emit_hop(self, hop: _Hop) -> None:
        event, context = hop.event, hop.context
        if hop.peer:
            parent = hop_span(event, hop.peer)
        else:
            parent = context.publication
            self._emit(
                Span(
                    name="publish",
                    kind="producer",
                    trace=context.trace,
                    span=context.publication,
                    parent=context.publisher,
                    began=hop.began,
                    ended=hop.ended,
                    attributes=self._attributes(event, {"messaging.client.id": event.publisher}),
                )
            )
        further = {"godwit.from": hop.peer} if hop.peer else {}
        if hop.sent_to:
            further["godwit.to"] = ",".join(hop.sent_to)
        self._emit(
            Span(
                name=f"route {self._broker}",
                kind="internal",
                trace=context.trace,
                span=hop_span(event, self._broker),
                parent=parent,
                began=hop.began,
                ended=hop.ended,
                attributes=self._attributes(event, further),
            )
        )

    def _attributes(self, event: Event, further: Mapping[str, str]) -> dict[str, Any]:
        topic = event.attributes.get("topic")
        said: dict[str, Any] = {
            "messaging.system": "godwit",
            "messaging.message.id": f"{event.publisher}/{event.sequence}",
            "godwit.broker": self._broker,
            **further,
        }
        if isinstance(topic, str):
            said["messaging.destination.name"] = topic[:TOPIC_LENGTH_MAX]
        return said

    # ------------------------------------------------------------ relocations

    def _on_record(self, record: Any, now: float) -> None:
        client = record.peer
        if record.kind == "relocating":
            _remember(self._relocating, client, now)
        elif record.kind == "relocated" and (attempt := self._attempts.pop(client, None)) is not None:
            trace = trace_named("relocation", client, attempt)
            self._emit(
                Span(
                    name="relocate",
                    kind="internal",
                    trace=trace,
                    span=_relocation_span(trace),
                    began=self._relocating.pop(client, now),
                    ended=now,
                    attributes={
                        "godwit.broker": self._broker,
                        "messaging.client.id": client,
                        "godwit.queued_events": record.number,
                    },
                )
            )

    def _emit_hand_over(self, message: Replay, now: float) -> None:
        trace = trace_named("relocation", message.client, message.attempt)
        said = {"godwit.broker": self._broker, "godwit.to": message.to, "messaging.client.id": message.client}
        parent = _relocation_span(trace)
        self._emit(
            Span(name="hand over", kind="internal", trace=trace, parent=parent, began=now, ended=now, attributes=said)
        )


def _relocation_span(trace: int) -> int:
    """The span of a relocation, from its trace."""
    return trace & (2**64 - 1) or 1


def _message_in(frame: Any) -> Any:
    """The message of a frame, without routing wrappers."""
    message: Any = frame.message if type(frame) is Frame else None
    return message.message if type(message) in (Packet, HopPacket) else message


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Put into a table that forgets its oldest entry. (rule 2)"""
    table.pop(key, None)
    table[key] = value
    if len(table) > OPEN_MAX:
        del table[next(iter(table))]
