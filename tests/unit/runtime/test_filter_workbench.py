"""A filter held against the last events and the subscriptions of a broker, in slices."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from godwit.broker.effects import Heard
from godwit.broker.messages import Publish, Request, Subscribe
from godwit.broker.query_notes import query_note
from godwit.errors import GodwitError
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.languages.xml_documents import xml_event
from godwit.runtime import filter_workbench, slices
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.edge_tests import EdgeLimits, EdgeTests
from godwit.runtime.filter_workbench import LATEST_MAX, LATEST_SHOWN, FilterWorkbench
from godwit.runtime.slices import SLICE_S, WORK_S, Slices
from tests.unit.runtime.test_edge_tests import Clock


def session(client: str, *filters: str, **queries: str) -> Any:
    wanted = {f"s{at}": Subscribe((client, f"s{at}"), parse(text)) for at, text in enumerate(filters)}
    notes = [query_note(name, (("filter", text),)) for name, text in queries.items()]
    return SimpleNamespace(client=client, subscriptions=wanted, notes={note.key: note.value for note in notes})


class Bench:
    """A workbench of a broker that is not there."""

    def __init__(self, *sessions: Any, **limits: Any) -> None:
        node: Any = SimpleNamespace(watch=None, now=0.0, machine=SimpleNamespace(sessions=list(sessions)))
        self.activity = ActivityMonitor(node)
        self.tests = EdgeTests(node, EdgeLimits(**limits))
        self.bench = FilterWorkbench(node, self.activity, self.tests)

    def publish(self, *events: Any) -> None:
        turn: Any = [(Heard("c", Request(at, Publish(each))), b"") for at, each in enumerate(events)]
        self.activity.on_turn(turn, 0.0, 1.0)

    def matches(self, filter: str, **more: str) -> dict[str, Any]:
        async def ask() -> dict[str, Any]:
            try:
                return await self.bench.matches({"filter": filter, **more})
            finally:
                await self.tests.close()
                await self.tests.helper.close()

        return asyncio.run(ask())

    def latest(self, filter: str, **more: str) -> dict[str, Any]:
        return asyncio.run(self.bench.latest({"filter": filter, **more}))

    def search(self, **asked: str) -> dict[str, Any]:
        return asyncio.run(self.bench.search(asked))

    def comparisons(self, filter: str) -> dict[str, Any]:
        return asyncio.run(self.bench.comparisons({"filter": filter}))


def numbers(*values: int) -> list[Any]:
    return [event({"n": n}, publisher="van", sequence=n) for n in values]


def test_the_events_that_a_filter_would_have_matched_are_counted_and_shown_the_latest_first() -> None:
    bench = Bench()
    bench.publish(*numbers(1, 2, 3, 4))
    found = bench.matches("n > 2")
    assert (found["kept"], found["looked_at"], found["matched"], found["since"]) == (4, 4, 2, 1.0)
    assert [each["event"] for each in found["events"]] == ["van:4", "van:3"]


def test_what_passes_the_filter_and_fails_the_test_is_told_apart() -> None:
    bench = Bench()
    bench.publish(event({"a": 1, "b": 2}), event({"a": 9, "b": 2}), event({"b": 2}))
    found = bench.matches("a + b > 10")
    assert (found["matched"], found["residues"], found["failed"]) == (
        1,
        found["looked_at"] - 1 - found["failed"] - 1,
        0,
    )


def test_documents_are_tested_also_large_ones_and_those_that_are_too_large_are_said_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "WORK_S", 60.0)  # another process starts
    large = b"<car><speed>60</speed><limit>50</limit><x>%b</x></car>" % (b"y" * SMALL_BYTES)
    bench = Bench(test_document_bytes_max=2 * SMALL_BYTES)
    small = b"<car><speed>60</speed><limit>50</limit></car>"
    too_large = b"<car><speed>60</speed><limit>50</limit><x>%b</x></car>" % (b"y" * 2 * SMALL_BYTES)
    bench.publish(*map(xml_event, (small, large, too_large)))
    found = bench.matches("/car[number(speed) > number(limit)]", language="xpath")
    assert (found["matched"], found["failed"]) == (2, 1)


def test_a_filter_on_the_own_context_needs_one() -> None:
    bench = Bench()
    bench.publish(*numbers(1, 2, 2))
    with pytest.raises(GodwitError, match=r"own context \(my.floor\)"):
        bench.matches("n = my.floor")
    assert bench.matches("n = my.floor", context='{"floor": 2}')["matched"] == 2
    with pytest.raises(GodwitError, match="a JSON object"):
        bench.matches("n = my.floor", context="[2]")


def test_when_time_is_over_the_answer_says_how_far_it_got(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(WORK_S / 10)
    monkeypatch.setattr(filter_workbench, "Slices", lambda: Slices(clock))
    monkeypatch.setattr(slices, "REST_FACTOR", 0)
    bench = Bench()
    bench.publish(*numbers(*range(100)))
    found = bench.matches("n >= 0")
    assert 0 < found["looked_at"] < found["kept"] == 100
    assert found["events"][0]["event"] == "van:99"


def test_the_loop_goes_on_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        monkeypatch.setattr(slices, "REST_FACTOR", 0)
        asyncio.get_running_loop().call_soon(turn)
        work = Slices(Clock(SLICE_S / 4))
        for _ in range(40):
            await work.more()
        assert turns > 5

    asyncio.run(scene())


def test_subscriptions_are_compared_and_those_with_a_test_are_not_said_to_be_covered_wrongly() -> None:
    tested = session("bob", "n > 7", s0="n + m > 9")
    bench = Bench(session("ann", "n > 5", "n > 1", "n IS NULL"), tested)
    found = bench.comparisons("n > 3")
    assert found["counts"] == {"covers": 2, "is covered by": 1, "disjoint": 1}
    assert [row["client"] for row in found["rows"]["covers"]] == ["ann", "bob"]
    assert [row["has_test"] for row in found["rows"]["covers"]] == [False, True]
    assert found["rows"]["disjoint"] == []
    assert bench.comparisons("n > 9")["counts"] == {"is covered by": 2, "may intersect": 1, "disjoint": 1}


def test_the_latest_events_of_many_are_told_with_an_estimate_of_how_many_come(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.publish(*numbers(*range(3 * LATEST_MAX)))
    monkeypatch.setattr(filter_workbench, "time", lambda: 1.5)
    found = bench.latest("n >= 0")
    assert [each["event"] for each in found["events"]] == [f"van:{3 * LATEST_MAX - 1 - n}" for n in range(LATEST_SHOWN)]
    assert found["per_s"] == 3 * LATEST_MAX
    assert bench.latest(f"n >= {3 * LATEST_MAX - LATEST_MAX // 2}", seconds="2")["per_s"] == 0.75 * LATEST_MAX
    bench.publish(*numbers(*range(LATEST_MAX)))  # another turn: of the earlier one only the inputs are counted
    assert bench.latest("n >= 0")["per_s"] == 4 * LATEST_MAX
    monkeypatch.setattr(filter_workbench, "time", lambda: 9.0)
    assert bench.latest("n >= 0") == {"events": [], "per_s": 0.0}
    assert not bench.activity.observers


def test_a_search_finds_a_text_and_a_filter_among_all_events_that_are_remembered() -> None:
    bench = Bench()
    planted = event({"driver": "Ann Lee", "zone": 3, "empty": True}, publisher="Van", sequence=1)
    bench.publish(planted, *(event({"zone": at % 7}, publisher="car", sequence=at) for at in range(2, 600)))
    for asked in ({"text": "ann l"}, {"text": "VAN:1"}, {"text": "empty=true"}, {"filter": "driver IS NOT NULL"}):
        found = bench.search(**asked)
        assert [row["event"] for row in found["events"]] == ["Van:1"], asked
        assert found["looked_at"] == 599
    assert bench.search(text="ann", filter="zone = 4")["events"] == []
    latest = bench.search(limit="2")
    assert ([row["event"] for row in latest["events"]], latest["looked_at"]) == (["car:599", "car:598"], 2)
    with pytest.raises(GodwitError, match="limit"):
        bench.search(limit="1001")
