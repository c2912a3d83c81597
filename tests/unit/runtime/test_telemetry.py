"""Traces: names that every broker finds by itself, and spans from what a node takes in and carries out."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.effects import Arrived, Heard, Send, Tell, Trace
from godwit.broker.messages import Delivery, Frame, Publish, Request
from godwit.filters.events import Event
from godwit.mobility.move_messages import Replay
from godwit.runtime.telemetry import traceparent_of
from godwit.runtime.telemetry.event_spans import LINGER_S, OPEN_MAX, EventSpans, Span
from godwit.runtime.telemetry.trace_context import hop_span, is_sampled, trace_of
from godwit.trace import Record
from tests.unit.runtime.bridges.test_bridge_sections import faults

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def event(number: int = 1, **attributes: Any) -> Event:
    return Event({"topic": "fleet/a", **attributes}, "van", number)


class Watched:
    """One broker's spans."""

    def __init__(self, name: str, ratio: float = 1.0) -> None:
        self.spans: list[Span] = []
        self.watch = EventSpans(name, self.spans.append, {"c1": "ann"}.get, ratio)

    def published(self, made: Event, now: float) -> None:
        self.watch.on_turn([(Heard("c0", Request(1, Publish(made))), b"")], 0.0, now)

    def arrived(self, made: Event, peer: str, now: float) -> None:
        self.watch.on_turn([(Arrived(peer, Frame(1, 1, Publish(made))), b"")], 0.0, now)


def frame(message: Any) -> Frame:
    return Frame(1, 1, message)


def test_the_spans_of_two_brokers_are_one_tree_although_nothing_of_it_was_sent() -> None:
    b1, b2, made = Watched("b1"), Watched("b2"), event()
    b1.published(made, 10.0)
    b1.watch.on_effects([Send("b2", frame(Publish(made)))], 10.2)
    b2.arrived(made, "b1", 10.3)
    b2.watch.on_effects([Tell("c1", Delivery(1, made, ("s",)))], 10.4)
    for each in (b1, b2):
        each.watch.sweep(10.0 + LINGER_S - 0.1)
    assert [span.name for span in (*b1.spans, *b2.spans)] == ["deliver"]
    for each in (b1, b2):
        each.watch.sweep(20.0)
    publish, first, deliver, second = (*b1.spans, *b2.spans)
    assert [each.name for each in (publish, first, second, deliver)] == ["publish", "route b1", "route b2", "deliver"]
    assert len({each.trace for each in (publish, first, second, deliver)}) == 1
    assert (publish.parent, first.parent, second.parent, deliver.parent) == (0, publish.span, first.span, second.span)
    assert (first.began, first.ended, deliver.began, deliver.ended) == (10.0, 10.2, 10.3, 10.4)
    assert first.attributes["godwit.to"] == "b2"
    assert deliver.attributes["messaging.client.id"] == "ann"
    assert deliver.attributes["messaging.destination.name"] == "fleet/a"


def test_an_event_that_names_a_trace_is_in_it_below_its_publishers_span() -> None:
    b1, made = Watched("b1", ratio=0.0), event(traceparent=PARENT)
    b1.published(made, 1.0)
    b1.watch.end()
    publish = b1.spans[0]
    assert publish.trace == 0x0AF7651916CD43DD8448EB211C80319C
    assert publish.parent == 0xB7AD6B7169203331
    assert traceparent_of(made) == f"00-{publish.trace:032x}-{publish.span:016x}-01"


def test_a_publisher_that_does_not_trace_its_event_has_no_spans() -> None:
    b1 = Watched("b1")
    b1.published(event(traceparent=PARENT[:-1] + "0"), 1.0)
    b1.watch.on_effects([Tell("c1", Delivery(1, event(traceparent=PARENT[:-1] + "0"), ("s",)))], 1.0)
    b1.watch.end()
    assert b1.spans == []


@pytest.mark.parametrize(
    "said", ["", "00-0-0-01", PARENT.replace("0af7", "0AF7"), "ff" + PARENT[2:], "x" * 300, PARENT + "0", 7, ("a", "b")]
)
def test_a_traceparent_that_is_not_valid_counts_as_none(said: Any) -> None:
    assert trace_of(event(traceparent=said)) == trace_of(event())


def test_the_same_frame_twice_has_one_span() -> None:
    b2 = Watched("b2")
    for now in (1.0, 1.1, 9.0):
        b2.arrived(event(), "b1", now)
    b2.watch.end()
    assert [each.name for each in b2.spans] == ["route b2"]


def test_a_delivery_that_came_with_a_session_is_below_the_publication() -> None:
    b3, made = Watched("b3"), event()
    b3.watch.on_effects([Tell("c1", Delivery(1, made, ("s",)))], 5.0)
    [deliver] = b3.spans
    assert (deliver.parent, deliver.began, deliver.ended) == (trace_of(made).publication, 5.0, 5.0)


def test_a_relocation_is_one_trace_at_both_brokers() -> None:
    old, new, moved = Watched("b1"), Watched("b2"), Replay("ann", "b2", 4, None, (), is_last=True)
    new.watch.on_effects([Trace(Record("relocating", "ann", detail="b1 to b2"))], 1.0)
    old.watch.on_effects([Trace(Record("replayed", "ann", number=0, detail="to b2")), Send("b2", frame(moved))], 1.5)
    new.watch.on_turn([(Arrived("b1", frame(moved)), b"")], 0.0, 1.6)
    new.watch.on_effects([Trace(Record("relocated", "ann", number=3, detail="b2"))], 2.0)
    [hand_over], [relocate] = old.spans, new.spans
    assert (relocate.name, relocate.began, relocate.ended) == ("relocate", 1.0, 2.0)
    assert relocate.attributes["godwit.queued_events"] == 3
    assert (hand_over.trace, hand_over.parent) == (relocate.trace, relocate.span)


def test_a_broker_on_the_way_of_a_session_has_no_span_of_it() -> None:
    between, moved = Watched("b2"), Replay("ann", "b3", 4, None, (), is_last=True)
    between.watch.on_turn([(Arrived("b1", frame(moved)), b"")], 0.0, 1.0)
    between.watch.on_effects([Send("b3", frame(moved)), Trace(Record("relocated", "ann", number=0))], 1.0)
    assert between.spans == []


def test_what_is_remembered_is_bounded() -> None:
    b1 = Watched("b1")
    for number in range(OPEN_MAX + 5):
        b1.published(event(number), 1.0)
    assert sum(span.name == "publish" for span in b1.spans) == 5


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(0, 2**63)), unique=True, min_size=2, max_size=20))
def test_no_two_events_share_a_trace_or_a_span(ids: list[tuple[str, int]]) -> None:
    events = [Event({}, publisher, sequence) for publisher, sequence in ids]
    assert len({trace_of(each).trace for each in events}) == len(ids)
    spans = {hop_span(each, broker) for each in events for broker in ("b1", "b2")}
    assert len(spans | {trace_of(each).publication for each in events}) == 3 * len(ids)


def test_a_ratio_traces_about_that_part_and_a_smaller_one_a_part_of_it() -> None:
    contexts = [trace_of(event(number)) for number in range(1_000)]
    half, tenth = ({each.trace for each in contexts if is_sampled(each, ratio)} for ratio in (0.5, 0.1))
    assert tenth < half
    assert 400 < len(half) < 600
    assert all(is_sampled(each, 1.0) for each in contexts)
    assert not any(is_sampled(each, 0.0) for each in contexts)


def test_a_broker_without_an_endpoint_loads_nothing_of_it() -> None:
    code = "import godwit.runtime.broker_server, sys; print([m for m in sys.modules if m.startswith('opentelemetry')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert said.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('endpoint = "collector:4318"', "telemetry.endpoint is 'collector:4318': allowed is a URL, as in http://127"),
        ("sample_ratio = 1.5", "telemetry.sample_ratio is 1.5: allowed is"),
        ('service_name = ""', "telemetry.service_name is '': "),
    ],
)
def test_faults_of_the_section_are_named(tmp_path: Path, text: str, fault: str) -> None:
    assert any(fault in each for each in faults(tmp_path, f"[telemetry]\n{text}\n")), faults(tmp_path, text)
