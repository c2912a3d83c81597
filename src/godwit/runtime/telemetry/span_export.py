"""Spans to a collector, by OpenTelemetry's own library: OTLP over HTTP.

*Rules.*
1. A broker never waits for the collector: spans go into a bounded queue, which a thread of the library empties. Spans
   that do not fit, or cannot be sent, are dropped; the library logs it.
2. `trace_context.py` generates the numbers of traces and spans, and decides what is traced.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import getrandbits
from time import time
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags, set_span_in_context

from godwit import __version__
from godwit.runtime.node import Node
from godwit.runtime.node_interfaces import NodeObserver
from godwit.runtime.telemetry.event_spans import LINGER_S, EventSpans, Span

__all__ = ["ObserverPair", "SpanExport", "Telemetry"]

KINDS = {"producer": SpanKind.PRODUCER, "consumer": SpanKind.CONSUMER, "internal": SpanKind.INTERNAL}
NANOSECONDS = 1_000_000_000


class GivenNumbers:
    """The numbers of the next span."""

    def __init__(self) -> None:
        self.trace = self.span = 0

    def generate_trace_id(self) -> int:
        """Called by the library for a span without a parent."""
        return self.trace

    def generate_span_id(self) -> int:
        """Called by the library for each span."""
        return self.span or getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        """The numbers are hashes, or come from the publisher."""
        return False


IdGenerator.register(GivenNumbers)


class SpanExport:
    """Passes spans to the library."""

    def __init__(self, broker: str, service: str, exporter: SpanExporter) -> None:
        self._numbers = GivenNumbers()
        given: Any = self._numbers
        resource = Resource.create(
            {"service.name": service, "service.instance.id": broker, "service.version": __version__}
        )
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=resource,
            id_generator=given,
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("godwit", __version__)

    def __call__(self, span: Span) -> None:
        """This has happened."""
        self._numbers.trace, self._numbers.span = span.trace, span.span
        context = None
        if span.parent:
            parent = SpanContext(span.trace, span.parent, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))
            context = set_span_in_context(NonRecordingSpan(parent))
        made = self._tracer.start_span(
            span.name,
            context=context,
            kind=KINDS[span.kind],
            attributes=dict(span.attributes),
            start_time=int(span.began * NANOSECONDS),
        )
        made.end(int(span.ended * NANOSECONDS))

    def close(self) -> None:
        """Send waiting spans, and stop. It takes as long as the collector does."""
        self._provider.shutdown()


class ObserverPair:
    """Two observers of one node."""

    def __init__(self, first: NodeObserver, second: NodeObserver) -> None:
        self._first, self._second = first, second

    def on_turn(self, inputs: Any, took_s: float, now: float) -> None:
        """The machine has handled these inputs, in this time."""
        self._first.on_turn(inputs, took_s, now)
        self._second.on_turn(inputs, took_s, now)

    def on_effects(self, effects: Any, now: float) -> None:
        """These effects are carried out now."""
        self._first.on_effects(effects, now)
        self._second.on_effects(effects, now)

    def on_written(self, took_s: float, size: int) -> None:
        """The journal has written a batch of this size."""
        self._first.on_written(took_s, size)
        self._second.on_written(took_s, size)


class Telemetry:
    """The traces of one broker, from `start` to `stop`."""

    def __init__(
        self,
        node: Node,
        broker: str,
        *,
        endpoint: str,
        sample_ratio: float = 1.0,
        service_name: str = "godwit",
        exporter: SpanExporter | None = None,
    ) -> None:
        self._export = SpanExport(broker, service_name, exporter or OTLPSpanExporter(endpoint=endpoint))
        client_of: Callable[[str], str | None] = node.machine.sessions.client_of  # type: ignore[attr-defined]
        self._spans = EventSpans(broker, self._export, client_of, sample_ratio)
        self._node = node
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, in addition to an existing observer of the node."""
        watch = self._node.watch
        self._node.watch = self._spans if watch is None else ObserverPair(watch, self._spans)
        self._task = asyncio.create_task(self._sweep(), name="telemetry")

    async def stop(self) -> None:
        """Send the remaining spans, and stop."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._spans.end()
        await asyncio.to_thread(self._export.close)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(LINGER_S)
            self._spans.sweep(time())
