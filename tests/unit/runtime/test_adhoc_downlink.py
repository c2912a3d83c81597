"""Events of the fixed network in an island: what they are called, and that each is shown once."""

import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from godwit.filters.events import Attributes, Event
from godwit.filters.values import Point
from godwit.runtime import adhoc_downlink
from godwit.runtime.adhoc_downlink import (
    NUMBER,
    PUBLISHER,
    Downlink,
    ShownEvents,
    brought_down,
    downlink_name,
    fixed_id,
    is_brought_down,
)
from godwit.runtime.adhoc_uplink import Uplink
from tests.network.waiting import run, until

NEWS = Event({"n": 1}, publisher="news", sequence=7, payload=b"p")


def in_island(event: Event, device: str, number: int) -> Event:
    return Event(event.attributes, publisher=device, sequence=number, payload=event.payload)


def test_an_event_keeps_its_name_whoever_brings_it() -> None:
    down = in_island(brought_down(NEWS), "dora", 3)
    assert is_brought_down(down)
    assert fixed_id("net", down) == ("news", 7)
    assert not is_brought_down(in_island(NEWS, "anna", 3))
    assert fixed_id("net", in_island(NEWS, "anna", 3)) == ("net/anna", 3)


def test_the_context_of_its_publisher_does_not_come_down() -> None:
    down = brought_down(Event({"n": 1, "sender.role": "tow", "senders": 2}, publisher="news", sequence=7))
    assert down.attributes == {"n": 1, "senders": 2, PUBLISHER: "news", NUMBER: 7}


@pytest.mark.parametrize("attributes", [{PUBLISHER: 1, NUMBER: 1}, {PUBLISHER: "a", NUMBER: "1"}, {PUBLISHER: "a"}])
def test_what_is_no_name_counts_as_none(attributes: dict[str, int | str]) -> None:
    assert fixed_id("net", Event(attributes, publisher="eve", sequence=2)) == ("net/eve", 2)


def test_an_application_gets_an_event_once() -> None:
    shown = ShownEvents("net")
    assert shown.add(in_island(brought_down(NEWS), "dora", 3))
    assert not shown.add(in_island(brought_down(NEWS), "carl", 9))
    own = Event({"n": 2}, publisher="anna", sequence=5)
    assert shown.add(own)
    up = Event({"n": 2}, publisher="net/anna", sequence=5)
    assert not shown.add(in_island(brought_down(up), "dora", 4))


@pytest.mark.parametrize("network", ["net", "net/x"])
@pytest.mark.parametrize("publisher", ["x", "down", "x/down", "x/down/", "down/"])
def test_no_publisher_of_an_island_has_the_name_of_a_session_for_the_way_down(network: str, publisher: str) -> None:
    async def scene() -> None:
        uplink = Uplink(network, ["127.0.0.1:1"], is_journaled=True)
        uplink.take(Event({}, publisher=publisher, sequence=1))
        names = {f"{network}/{event.publisher}" for event in uplink.changes()[0]}
        assert not names & {downlink_name("net", "x"), downlink_name(network, "x")}
        assert uplink.left_out == ("/" in publisher)

    run(scene)


def test_a_forged_name_keeps_no_event_from_anybody() -> None:
    shown = ShownEvents("net")
    assert shown.add(Event({"n": 666, PUBLISHER: "net/anna", NUMBER: 5}, publisher="eve", sequence=1))
    assert shown.add(Event({"n": 2}, publisher="anna", sequence=5))


OTHERS: list[Attributes] = [
    {"n": 2},
    {"n": 1.5},
    {"n": "1"},
    {"n": True},
    {"n": (1, 1)},
    {"n": Point(1.0, 2.0)},
    {"n": datetime(2026, 11, 17, tzinfo=UTC)},
    {"m": 1},
    {},
]


def test_events_with_one_name_and_different_contents_are_different_events() -> None:
    events = [Event(attributes, publisher="a", sequence=1) for attributes in [{"n": 1}, *OTHERS]]
    events += [Event({"n": 1}, publisher="a", sequence=1, payload=payload) for payload in (b"", b"p")]
    for event in events:
        for other in events:
            shown = ShownEvents("net")
            assert shown.add(event)
            assert shown.add(other) == (other is not event)


def test_neither_the_order_of_attributes_nor_the_context_of_the_publisher_makes_another_event() -> None:
    shown = ShownEvents("net")
    assert shown.add(Event({"n": 1, "place": Point(1.0, 2.0), "sender.x": 3}, publisher="a", sequence=1))
    up = Event({"place": Point(1.0, 2.0), "n": 1}, publisher="net/a", sequence=1)
    assert not shown.add(in_island(brought_down(up), "dora", 4))


def test_large_events_are_not_kept() -> None:
    shown = ShownEvents("net")
    shown.add(Event({"n": 1}, publisher="a", sequence=1))  # all that is loaded with the first
    tracemalloc.start()
    try:
        for number in range(2, 66):
            shown.add(Event({"text": "t" * 2**14}, publisher="a", sequence=number, payload=bytes(2**16)))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 64 * 2**10


def test_an_event_that_takes_the_place_of_another_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adhoc_downlink, "SHOWN_MAX", 3)
    shown = ShownEvents("net")
    first, second, third, fourth = (Event({"n": n}, publisher="a", sequence=n) for n in (1, 2, 3, 4))
    again = Event({"n": 10}, publisher="a", sequence=1)
    assert all(map(shown.add, (first, second, again, third, fourth)))  # the second was the oldest
    assert [shown.add(event) for event in (again, third, fourth, second)] == [False, False, False, True]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adhoc_downlink, "SHOWN_MAX", 2)
    shown = ShownEvents("net")
    events = [Event({"n": n}, publisher="a", sequence=n) for n in (1, 2, 3)]
    assert [shown.add(event) for event in (*events, events[2], events[0])] == [True, True, True, False, True]


class Broken:
    """A client whose subscription ends in an unexpected way."""

    async def __aenter__(self) -> "Broken":
        return self

    async def __aexit__(self, *error: object) -> None:
        pass

    async def subscribe(self, filter: str, name: str) -> AsyncIterator[Event]:
        async def events() -> AsyncIterator[Event]:
            yield NEWS
            raise KeyError("unexpected")

        return events()


def test_after_an_unexpected_error_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        attempts: list[tuple[str, bool]] = []

        async def bring(event: Event) -> bool:
            return True

        link = Downlink("net/x/down/", "TRUE", ["127.0.0.1:1"], lambda event: False, bring)

        def connect(*brokers: str, **options: Any) -> Broken:
            attempts.append((link.trouble, link.is_listening))
            return Broken()

        monkeypatch.setattr(adhoc_downlink, "connect", connect)
        monkeypatch.setattr(adhoc_downlink, "RETRY_S", 0.0)
        link.start()
        await until(lambda: len(attempts) > 1, "it has tried again")
        await link.close()
        assert attempts[:2] == [("", False), ("KeyError('unexpected')", False)]
        assert not link.is_listening

    run(scene)
