"""Metrics for Prometheus, computed at each scrape.

*Theory.* Counters are in the activity monitor (`activity_monitor.py`); gauges are read from the machine at each scrape.
The hot path does not use this module.

*Rules.*
1. Names of clients, events and filters are never labels: the number of series does not grow with use.
2. The matching time is sampled: once in `SAMPLE_S` the last event is matched once more, and timed.
3. The delay of the event loop is measured at the same moments, and pauses for garbage collection meanwhile.
4. Samples are taken from the first request for metrics until `LEASE_S` after the last. A broker without such requests
   has no timer.
"""

import asyncio
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from time import perf_counter, time
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from godwit import __version__
from godwit.filters.events import Event
from godwit.runtime.activity_monitor import ActivityMonitor, Histogram
from godwit.runtime.bridges.bridge import Bridge
from godwit.runtime.edge_tests import OUTCOMES, EdgeTests
from godwit.runtime.matcher_lookup import match_of
from godwit.runtime.memory_account import MemoryAccount
from godwit.runtime.node import Node
from godwit.runtime.security_log import LISTENERS, SecurityLog

__all__ = ["METRICS", "Metrics"]

SAMPLE_S = 1.0
LEASE_S = 150.0  # Prometheus scrapes at least every two minutes
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTED_FROM_0 = ("lost", "published", "relocated", "tail_lost")  # a series that begins with 1 has no increase

METRICS: dict[str, str] = {
    "godwit_info": "The version, the broker's name and its routing family, as labels; always 1.",
    "godwit_inputs_total": "Messages, timers and connections that the machine has handled.",
    "godwit_received_bytes_total": "Bytes of messages that have come.",
    "godwit_records_total": "What happened, by kind: published, relocated, refused, fault, lost and so on.",
    "godwit_deliveries_total": "Deliveries that were sent to clients here.",
    "godwit_refused_logins_total": "Refused logins of clients and brokers, by listener and cause.",
    "godwit_refused_requests_total": "Requests that were refused, by listener and cause.",
    "godwit_refused_connections_total": "Connections refused, or closed for a violation, by listener and cause.",
    "godwit_accepted_connections_total": "Connections that were accepted, by listener.",
    "godwit_connections": "Connections that are open, by listener.",
    "godwit_sessions": "Sessions, by whether their client is attached or away.",
    "godwit_subscriptions": "Subscriptions of clients here.",
    "godwit_queue_events": "Events in the queues of sessions: sent and not confirmed, or waiting.",
    "godwit_queue_events_max": "Events in the longest queue.",
    "godwit_table_entries": "Entries of a routing table, by table.",
    "godwit_query_tests_total": "Exact tests of thin clients' queries, by outcome: wanted, residue or failed.",
    "godwit_suspended_subscriptions_total": "Subscriptions that were suspended because their tests took too long.",
    "godwit_link_up": "Whether the link to a neighbour is open, by peer.",
    "godwit_link_outbox_messages": "Messages to a neighbour that it has not acknowledged, by peer.",
    "godwit_batch_inputs": "Inputs handled in one turn of the loop.",
    "godwit_batch_seconds": "Time that the machine took for one turn.",
    "godwit_match_seconds": "Time to match one event, sampled.",
    "godwit_loop_lag_seconds": "How late the loop was, sampled.",
    "godwit_longest_turn_seconds": "Longest time since the last scrape in which the loop did one thing, by kind.",
    "godwit_journal_write_seconds": "Time until a batch was safe.",
    "godwit_journal_lag_seconds": "Age of the batch that the disk works on; 0 when there is none.",
    "godwit_journal_lag_inputs": "Inputs that are handled and wait for the disk to be asked.",
    "godwit_journal_written_bytes_total": "Bytes of batches written.",
    "godwit_journal_bytes": "Bytes of batches since the last snapshot.",
    "godwit_journal_losses_total": "Losses of the journal after which the broker continued without the lost data.",
    "godwit_journal_failing": "1 while the disk fails and no requests are accepted.",
    "godwit_pending_inputs": "Inputs that wait for their turn.",
    "godwit_memory_bytes": "Bytes held for clients and peers, by what holds them.",
    "godwit_shed_connections_total": "Connections that were closed for the bytes that they held.",
    "godwit_bridge_up": "Whether a bridge is connected to its remote, by bridge.",
    "godwit_bridge_connections_total": "Connections that a bridge has made, by bridge.",
    "godwit_bridge_messages_total": "What happened to messages at a bridge, by bridge, direction and outcome.",
    "godwit_bridge_queue_events": "Events that wait for the remote of a bridge, by bridge.",
    "godwit_bridge_purged_events_total": "Events that were removed because the queue of a bridge was full, by bridge.",
}
"""Every metric of ours, and what it says."""


class GarbagePauses:
    """The duration of Python's garbage collections, which block the process."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._began = 0.0

    def start(self) -> None:
        """Called at each garbage collection."""
        if self._on_search not in gc.callbacks:
            gc.callbacks.append(self._on_search)

    def stop(self) -> None:
        """Hear of none."""
        with suppress(ValueError):
            gc.callbacks.remove(self._on_search)

    def _on_search(self, phase: str, info: Mapping[str, Any]) -> None:
        now = perf_counter()
        if phase == "start":
            self._began = now
        else:
            self.longest_s = max(self.longest_s, now - self._began)


class Metrics(Collector):
    """The metrics of one broker."""

    def __init__(
        self,
        node: Node,
        memory: MemoryAccount,
        activity: ActivityMonitor,
        tests: EdgeTests,
        audit: SecurityLog,
        connections: Callable[[], Mapping[str, int]],
    ) -> None:
        self._tests = tests
        self._node = node
        self._memory = memory
        self._audit = audit
        self._connections = connections  # open connections by listener
        self.bridges: Callable[[], Mapping[str, Bridge]] = dict  # by name
        self._activity = activity
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)  # `process_…`: only on Linux
        self._sampled: Event | None = None
        self._due = 0.0
        self._until = 0.0  # by the clock of the event loop
        self._timer: asyncio.TimerHandle | None = None
        self._garbage = GarbagePauses()

    def text(self) -> bytes:
        """The present metrics as text."""
        self.keep_sampling()
        return bytes(generate_latest(self._registry))

    # ------------------------------------------------------------ samples

    @property
    def is_sampling(self) -> bool:
        """Whether samples are taken."""
        return self._timer is not None

    def keep_sampling(self) -> None:
        """Metrics are requested: take samples for a while. (rule 4)"""
        self._until = asyncio.get_running_loop().time() + LEASE_S
        if self._timer is None:
            self._garbage.start()
            self.sample_matching()
            self._plan()

    def stop(self) -> None:
        """Take no more."""
        self._garbage.stop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _plan(self) -> None:
        loop = asyncio.get_running_loop()
        self._due = loop.time() + SAMPLE_S
        self._timer = loop.call_at(self._due, self._sample)

    def _sample(self) -> None:
        now = asyncio.get_running_loop().time()
        self._activity.lateness.add(max(0.0, now - self._due))
        self.sample_matching()
        if now < self._until:
            self._plan()
        else:
            self.stop()

    def sample_matching(self) -> None:
        """Match the last event once more, unless it was sampled before. (rule 2)"""
        event = self._activity.last_event()
        match = match_of(getattr(self._node.machine, "routing", None))
        if event is not None and event is not self._sampled and match is not None:
            self._sampled = event
            began = perf_counter()
            match(event)
            self._activity.matching.add(perf_counter() - began)

    # ------------------------------------------------------------ when somebody asks

    def describe(self) -> list[Metric]:
        """Nothing beforehand."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All present metrics."""
        yield from self._machine(self._node.machine)
        yield from self._traffic()
        yield from self._listeners()
        yield from self._journal()
        yield from self._bridges()

    def _machine(self, machine: Any) -> Iterator[Metric]:
        info = _gauge("godwit_info", "version", "broker", "family")
        info.add_metric([__version__, machine.name, machine.config.family], 1)
        yield info
        attached = subscriptions = queued = longest = 0
        for session in machine.sessions:
            length = len(session.queue)
            attached += session.connection is not None
            subscriptions += len(session.subscriptions)
            queued += length
            longest = max(longest, length)
        sessions = _gauge("godwit_sessions", "state")
        sessions.add_metric(["attached"], attached)
        sessions.add_metric(["away"], len(machine.sessions) - attached)
        yield sessions
        for name, value in (("subscriptions", subscriptions), ("queue_events", queued), ("queue_events_max", longest)):
            yield _gauge(f"godwit_{name}", value=value)
        tables = _gauge("godwit_table_entries", "table")
        for table, size in machine.routing.sizes().items():
            tables.add_metric([table], size)
        yield tables
        up, outbox = _gauge("godwit_link_up", "peer"), _gauge("godwit_link_outbox_messages", "peer")
        for peer, link in machine.links.items():
            up.add_metric([peer], int(link.open))
            outbox.add_metric([peer], len(link.outbox))
        yield from (up, outbox)

    def _traffic(self) -> Iterator[Metric]:
        activity = self._activity
        yield _counter("godwit_inputs", activity.inputs)
        yield _counter("godwit_received_bytes", activity.came)
        yield _counter("godwit_deliveries", activity.deliveries)
        records = CounterMetricFamily("godwit_records", METRICS["godwit_records_total"], labels=["kind"])
        for kind in sorted({*COUNTED_FROM_0, *activity.counts}):
            records.add_metric([kind], activity.counts.get(kind, 0))
        yield records
        tested = CounterMetricFamily("godwit_query_tests", METRICS["godwit_query_tests_total"], labels=["outcome"])
        for outcome in OUTCOMES:
            tested.add_metric([outcome], self._tests.counts[outcome])
        yield tested
        yield _counter("godwit_suspended_subscriptions", self._tests.counts["suspended"])
        yield _gauge("godwit_pending_inputs", value=self._node.unhandled)
        memory = _gauge("godwit_memory_bytes", "kind")
        for kind, size in self._memory.held().items():
            memory.add_metric([kind], size)
        yield memory
        yield _counter("godwit_shed_connections", self._memory.shed)
        yield _histogram("godwit_batch_inputs", activity.turns)
        yield _histogram("godwit_batch_seconds", activity.handling)
        yield _histogram("godwit_match_seconds", activity.matching)
        yield _histogram("godwit_loop_lag_seconds", activity.lateness)
        longest = _gauge("godwit_longest_turn_seconds", "kind")
        for kind, of in (("machine", activity), ("tests", self._tests), ("garbage", self._garbage)):
            longest.add_metric([kind], of.longest_s)
            of.longest_s = 0.0
        yield longest

    def _listeners(self) -> Iterator[Metric]:
        audit = self._audit
        for name, counted in (
            ("logins", audit.logins),
            ("requests", audit.requests),
            ("connections", audit.connections),
        ):
            refused = _labelled(f"godwit_refused_{name}", "listener", "cause")
            for (listener, cause), count in sorted(counted.items()):
                refused.add_metric([listener, cause], count)
            yield refused
        accepted = _labelled("godwit_accepted_connections", "listener")
        opened = _gauge("godwit_connections", "listener")
        present = self._connections()
        for listener in LISTENERS:
            accepted.add_metric([listener], audit.accepted[listener])
            opened.add_metric([listener], present.get(listener, 0))
        yield from (accepted, opened)

    def _bridges(self) -> Iterator[Metric]:
        up, waiting = _gauge("godwit_bridge_up", "bridge"), _gauge("godwit_bridge_queue_events", "bridge")
        made = _labelled("godwit_bridge_connections", "bridge")
        purged = _labelled("godwit_bridge_purged_events", "bridge")
        messages = _labelled("godwit_bridge_messages", "bridge", "direction", "outcome")
        for name, bridge in self.bridges().items():
            up.add_metric([name], int(bridge.is_up))
            waiting.add_metric([name], bridge.waiting)
            made.add_metric([name], bridge.connections)
            purged.add_metric([name], bridge.purged)
            for (direction, outcome), count in sorted(bridge.tally.counts.items()):
                messages.add_metric([name, direction, outcome], count)
        yield from (up, waiting, made, purged, messages)

    def _journal(self) -> Iterator[Metric]:
        node, journal = self._node, self._node.journal
        since = node.writing_since
        yield _histogram("godwit_journal_write_seconds", self._activity.writing)
        yield _gauge("godwit_journal_lag_seconds", value=max(0.0, time() - since) if since else 0.0)
        yield _gauge("godwit_journal_lag_inputs", value=node.unsafe)
        yield _counter("godwit_journal_written_bytes", self._activity.written)
        yield _gauge("godwit_journal_bytes", value=0 if journal is None else journal.bytes_since_snapshot)
        yield _counter("godwit_journal_losses", 0 if journal is None else journal.losses)
        yield _gauge("godwit_journal_failing", value=int(bool(node.trouble)))


def _gauge(name: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, METRICS[name], value=value, labels=None if value is not None else labels)


def _counter(name: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, METRICS[f"{name}_total"], value=value)


def _labelled(name: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(name, METRICS[f"{name}_total"], labels=labels)


def _histogram(name: str, buckets: Histogram) -> HistogramMetricFamily:
    seen, rows = 0, []
    for bound, count in zip((*map(str, buckets.bounds), "+Inf"), buckets.counts, strict=True):
        seen += count
        rows.append((bound, seen))
    return HistogramMetricFamily(name, METRICS[name], buckets=rows, sum_value=buckets.total)
