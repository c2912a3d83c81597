"""What changes on a map: an answer has what is new since the last one, and a page that adds them up knows all."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.broker.effects import Heard
from godwit.errors import GodwitError
from godwit.filters.events import Event, event
from godwit.filters.values import Point
from godwit.runtime import map_changes
from godwit.runtime.map_changes import SCAN_S, MapChanges, mark_of
from godwit.runtime.observations import LEASE_S
from godwit.runtime.positions import COMPLETE_S, EventPlaces, positions_of
from godwit.trace import Record


class Activity:
    """What a broker did lately: events and records, the latest first."""

    def __init__(self) -> None:
        self.observers: dict[Any, None] = {}
        self.counts: dict[str, int] = {}
        self.events: list[tuple[float, Event]] = []
        self.records: list[tuple[float, Record]] = []
        self.turns_kept = 0  # each has one event here
        self.turns_looked_at = 0

    def latest_events(self, since: float = -1e9, after: int = 0) -> Iterator[tuple[float, Event]]:
        for at, each in self.events[: self.turns_kept - after]:
            self.turns_looked_at += 1
            if at >= since:
                yield at, each

    def latest_records(self) -> Iterator[tuple[float, Record]]:
        return iter(self.records)

    def hear(self, client: str) -> None:
        """Something came from a client."""
        for observe in list(self.observers):
            observe([(Heard(f"connection of {client}", None), b"")], 0.0)

    def publish(self, at: float, publisher: str, lon: float | None) -> None:
        attributes = {"n": 1} if lon is None else {"n": 1, "p": {"lon": lon, "lat": 2.0}}
        self.events.insert(0, (at, replace(event(attributes), publisher=publisher)))
        self.turns_kept += 1


class Sessions:
    """Sessions whose contexts are other objects when they have changed, as those of a broker are."""

    def __init__(self) -> None:
        self.by_client: dict[str, Any] = {}
        self.looked_at = 0

    def put(self, client: str, *, is_attached: bool = True, **context: Any) -> None:
        session = self.by_client.setdefault(client, SimpleNamespace(client=client))
        session.connection = f"connection of {client}" if is_attached else None
        session.whole_context = lambda: context

    def __iter__(self) -> Iterator[Any]:
        self.looked_at += len(self.by_client)
        return iter(list(self.by_client.values()))


class Page:
    """What a page knows of the clients of one broker."""

    def __init__(self) -> None:
        self.mark = ""
        self.names: dict[int, str] = {}
        self.shown: dict[str, tuple[float, float, bool, float | None]] = {}

    def take(self, told: dict[str, Any]) -> None:
        self.mark = told["mark"]
        if told["is_whole"]:
            self.names, self.shown = {}, {}
        self.names.update(zip(told["names"]["numbers"], told["names"]["names"], strict=True))
        for number in told["gone"]:
            if number in self.names:
                self.shown.pop(self.names.pop(number), None)
        for number, *row in zip(
            *(told["moved"][key] for key in ("numbers", "lon", "lat", "attached", "at")), strict=True
        ):
            self.shown[self.names[number]] = tuple(row)


def changes(sessions: Sessions, activity: Activity) -> MapChanges:
    return MapChanges(lambda: sessions, activity, {"market": Point(8.5, 47.4)})  # type: ignore[arg-type]


HERE, THERE = Point(8.0, 47.0), Point(9.0, 47.0)


def test_an_answer_has_only_what_changed_since_the_one_whose_mark_is_sent() -> None:
    sessions, page = Sessions(), Page()
    told = changes(sessions, Activity())
    sessions.put("ann", location=HERE)
    sessions.put("bob", location="market")
    first = told.since("", 0.0)
    assert (first["is_whole"], sorted(first["names"]["names"])) == (True, ["ann", "bob"])
    page.take(first)
    assert page.shown == {"ann": (8.0, 47.0, True, None), "bob": (8.5, 47.4, True, None)}
    second = told.since(page.mark, 1 * SCAN_S)
    assert (second["is_whole"], second["moved"]["numbers"], second["names"]["names"]) == (False, [], [])
    sessions.put("ann", location=THERE)
    third = told.since(page.mark, 2 * SCAN_S)
    assert (third["moved"]["lon"], third["names"]["names"]) == ([9.0], [])
    assert told.since(page.mark, 3 * SCAN_S)["moved"]["lon"] == [
        9.0
    ]  # the third answer was lost: the next one says it again
    page.take(third)
    sessions.put("bob", is_attached=False, location="market")
    del sessions.by_client["ann"]
    page.take(told.since(page.mark, 4 * SCAN_S))
    assert page.shown == {"bob": (8.5, 47.4, False, None)}


def test_between_two_looks_at_all_sessions_only_those_are_looked_at_whose_clients_have_said_something() -> None:
    sessions, activity = Sessions(), Activity()
    told = changes(sessions, activity)
    for client in ("ann", "bob"):
        sessions.put(client, location=HERE)
    mark = told.since("", 0.0)["mark"]
    sessions.looked_at = 0
    sessions.put("ann", location=THERE)
    sessions.put("bob", location=THERE)
    activity.hear("ann")
    activity.hear("nobody")
    answer = told.since(mark, SCAN_S / 2)
    assert (len(answer["moved"]["numbers"]), sessions.looked_at) == (1, 0)
    answer = told.since(answer["mark"], SCAN_S)
    assert (len(answer["moved"]["numbers"]), sessions.looked_at) == (1, 2)


def test_a_client_that_comes_to_the_map_again_is_named_again() -> None:
    sessions, page = Sessions(), Page()
    told = changes(sessions, Activity())
    for at, location in enumerate((HERE, None, THERE)):
        sessions.put("ann", **cast(Any, {} if location is None else {"location": location}))
        page.take(told.since(page.mark, at * SCAN_S))
        assert list(page.shown) == ([] if location is None else ["ann"])
    del sessions.by_client["ann"]
    page.take(told.since(page.mark, 3 * SCAN_S))
    sessions.put("ann", location=HERE)
    page.take(told.since(page.mark, 4 * SCAN_S))
    assert page.shown["ann"][0] == 8.0


def test_events_and_hand_overs_are_told_once_and_not_to_who_has_just_come() -> None:
    activity = Activity()
    told = changes(Sessions(), activity)
    activity.publish(1.0, "van", 3.0)
    activity.records = [(1.0, Record("replayed", "car-1", number=3, detail="to north"))]
    activity.counts = {"replayed": 1}
    first = told.since("", 1.0)
    assert (first["events"]["lon"], first["hand_overs"], first["moved"]["lon"]) == ([], [], [3.0])
    activity.publish(2.0, "bus", 4.0)
    activity.publish(2.0, "nowhere", None)
    activity.records.insert(0, (2.0, Record("replayed", "car-2", number=-1, detail="to east")))
    activity.counts = {"replayed": 2}
    second = told.since(first["mark"], 2.0)
    assert (second["events"], second["moved"]["at"]) == ({"lon": [4.0], "lat": [2.0], "is_cut": False}, [2.0])
    assert second["hand_overs"] == [{"at": 2.0, "client": "car-2", "to": "east", "events": 0}]
    third = told.since(second["mark"], 2.1)
    assert (third["events"]["lon"], third["hand_overs"]) == ([], [])


def test_events_are_looked_for_only_in_turns_since_the_last_question() -> None:
    activity = Activity()
    told = changes(Sessions(), activity)
    for _ in range(10):
        activity.publish(1.0, "van", None)  # which says nothing of a place
    mark = told.since("", 1.0)["mark"]
    activity.turns_looked_at = 0
    mark = told.since(mark, 1.1)["mark"]
    assert activity.turns_looked_at == 0
    activity.publish(1.2, "van", 3.0)
    assert told.since(mark, 1.2)["moved"]["lon"] == [3.0]
    assert activity.turns_looked_at == 1


def test_more_events_than_are_looked_at_or_told_are_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_changes, "EVENTS_LOOKED_AT", 3)
    activity = Activity()
    told = changes(Sessions(), activity)
    mark = told.since("", 0.0)["mark"]
    for publisher in "abcde":
        activity.publish(1.0, publisher, 1.0)
    answer = told.since(mark, 1.0)
    assert (len(answer["events"]["lon"]), answer["events"]["is_cut"]) == (3, True)
    assert not told.since(answer["mark"], 1.1)["events"]["is_cut"]


def test_publishers_whose_events_are_not_kept_any_more_are_gone_after_a_while() -> None:
    activity, page = Activity(), Page()
    told = changes(Sessions(), activity)
    activity.publish(1.0, "van", 3.0)
    page.take(told.since("", 1.0))
    activity.events.clear()
    page.take(told.since(page.mark, 2.0))
    assert "van" in page.shown
    page.take(told.since(page.mark, 1.0 + COMPLETE_S))
    assert page.shown == {}


def test_who_comes_after_too_many_have_gone_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(map_changes, "GONE_MAX", 2)
    sessions, page, late = Sessions(), Page(), Page()
    told = changes(sessions, Activity())
    for number in range(5):
        sessions.put(f"c{number}", location=HERE)
    page.take(told.since("", 0.0))
    late.take(told.since("", 0.0))
    for number in range(4):
        del sessions.by_client[f"c{number}"]
        page.take(told.since(page.mark, (1 + number) * SCAN_S))
    answer = told.since(late.mark, 5 * SCAN_S)
    assert answer["is_whole"]
    late.take(answer)
    assert list(late.shown) == list(page.shown) == ["c4"]


def test_nothing_is_kept_when_nobody_has_asked_for_long_and_old_marks_get_everything() -> None:
    sessions, activity = Sessions(), Activity()
    told = changes(sessions, activity)
    sessions.put("ann", location=HERE)
    mark = told.since("", 0.0)["mark"]
    [observe] = activity.observers
    observe([], LEASE_S + 1)
    assert activity.observers == {}
    answer = told.since(mark, LEASE_S + 2)
    assert (answer["is_whole"], answer["names"]["names"]) == (True, ["ann"])


@pytest.mark.parametrize("mark", ["x", "1.2", ".", "0a1b2c3d.99999999999999999999", "0a1b2c3d.²"])
def test_a_mark_that_is_not_known_gets_everything(mark: str) -> None:
    assert changes(Sessions(), Activity()).since(mark, 0.0)["is_whole"]


def test_marks_are_an_object_by_broker() -> None:
    assert mark_of("", "b1") == ""
    assert mark_of('{"b1": "a.1", "b2": "b.2"}', "b2") == "b.2"
    assert mark_of('{"b1": "a.1"}', "b3") == ""
    with pytest.raises(GodwitError, match="since must be a JSON object of marks by broker"):
        mark_of('["b1"]', "b1")


steps = st.lists(
    st.tuples(
        st.sampled_from(["move", "leave", "detach", "silent", "publish", "ask", "ask late"]),
        st.sampled_from(["ann", "bob", "eve"]),
        st.integers(0, 5),
    ),
    max_size=30,
)


@given(steps)
def test_a_page_that_puts_answers_together_knows_what_a_new_page_is_told(steps: list[tuple[str, str, int]]) -> None:
    sessions, activity, page, late = Sessions(), Activity(), Page(), Page()
    told = changes(sessions, activity)
    for at, (step, client, lon) in enumerate(steps):
        match step:
            case "move":
                sessions.put(client, location=Point(float(lon), 47.0))
                activity.hear(client)
            case "detach":
                sessions.put(client, is_attached=False, location=Point(float(lon), 47.0))
            case "silent":
                sessions.put(client)
            case "leave":
                sessions.by_client.pop(client, None)
            case "publish":
                activity.publish(at / 100, client, float(lon))
            case _:
                (page if step == "ask" else late).take(told.since((page if step == "ask" else late).mark, at / 100))
    end = len(steps) / 100 + SCAN_S
    for each in (page, late):
        each.take(told.since(each.mark, end))
    published = EventPlaces().of(activity, {}, end)
    expected = {row.client: (row.lon, row.lat, row.attached, row.at) for row in positions_of(sessions, published)}
    assert page.shown == late.shown == expected
