"""The entries of routing tables, as they were when an event came."""

from types import SimpleNamespace
from typing import Any

import pytest

from godwit.broker.graph import GraphRouting
from godwit.broker.tree import HERE, TreeRouting
from godwit.filters.events import Event
from godwit.filters.language import parse
from godwit.filters.memory_sizes import memory_size
from godwit.runtime import entry_history
from godwit.runtime.entry_history import EntryHistory

ID = ("ann", "mine")
EVENT = Event({"n": 7}, "van", 1)


class Clock:
    """A node, as far as a history needs one: its time and its machine."""

    def __init__(self, routing: Any) -> None:
        self.now = 0.0
        self.machine = SimpleNamespace(routing=routing)


def tree() -> tuple[Any, TreeRouting, EntryHistory]:
    routing = TreeRouting("b1", ["b2"])
    node: Any = Clock(routing)
    return node, routing, EntryHistory(node, 0.0)


def found(history: EntryHistory, at: float) -> list[tuple[str, str, bool]]:
    return [(each.source, str(each.filter), each.is_of_then) for each in history.matches(EVENT, at)]


@pytest.mark.parametrize("source", [HERE, "b2"])
def test_an_entry_is_told_as_it_was_at_any_time(source: str) -> None:
    node, routing, history = tree()
    for node.now, text in ((1.0, "n > 5"), (3.0, "n > 8"), (5.0, "n > 6")):
        routing.on_subscribe(ID, parse(text), source)
    node.now = 7.0
    routing.on_unsubscribe(ID, source)
    texts = [[text for _, text, _ in found(history, at)] for at in (0.5, 2.0, 4.0, 6.0, 8.0)]
    assert texts == [[], [str(parse("n > 5"))], [], [str(parse("n > 6"))], []]
    assert [is_of_then for _, _, is_of_then in found(history, 2.0)] == [True]


def test_a_change_in_the_turn_of_the_event_counts_before_and_after() -> None:
    node, routing, history = tree()
    node.now = 1.0
    routing.on_subscribe(ID, parse("n > 5"), HERE)
    assert len(found(history, 1.0)) == 1
    node.now = 2.0
    routing.on_unsubscribe(ID, HERE)
    assert len(found(history, 2.0)) == 1
    assert found(history, 3.0) == []


def test_before_the_oldest_change_that_is_kept_the_present_tables_are_told_as_such(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_history, "CHANGES_MAX", 1)
    node, routing, history = tree()
    for node.now, text in ((1.0, "n > 5"), (3.0, "n > 6")):
        routing.on_subscribe(ID, parse(text), HERE)
    assert found(history, 1.0) == [(HERE, str(parse("n > 6")), False)]
    assert found(history, 2.0) == [(HERE, str(parse("n > 5")), True)]
    assert (history.has_changed("ann", 2.0), history.has_changed("ann", 4.0)) == (True, False)


def test_the_filters_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"n IN ({', '.join(str(first + n) for n in range(1000))})" for first in (0, 1, 2)]  # one literal each
    monkeypatch.setattr(entry_history, "BYTES_MAX", int(1.5 * memory_size(parse(texts[0]))))
    node, routing, history = tree()
    for node.now, text in zip((1.0, 2.0, 3.0), texts, strict=True):
        routing.on_subscribe(ID, parse(text), HERE)
    assert history.since == 2.0


def test_a_machine_that_was_made_again_is_followed_from_then_on() -> None:
    node, routing, history = tree()
    node.now = 1.0
    routing.on_subscribe(ID, parse("n > 5"), HERE)
    node.now, node.machine = 4.0, SimpleNamespace(routing=TreeRouting("b1", ["b2"]))
    assert not history.covers(2.0)
    node.now = 5.0
    node.machine.routing.on_subscribe(ID, parse("n > 5"), HERE)
    assert history.covers(4.5)
    assert (len(found(history, 4.5)), len(found(history, 6.0))) == (0, 1)


def test_the_graph_family_reports_its_changes_too() -> None:
    routing = GraphRouting("b1", costs={"b2": 1.0})
    node: Any = Clock(routing)
    history = EntryHistory(node, 0.0)
    for node.now, text in ((1.0, "n > 5"), (3.0, "n > 8")):
        routing.subscribe(ID, parse(text), node.now)
    node.now = 5.0
    routing.unsubscribe(ID, node.now)
    assert [len(found(history, at)) for at in (0.5, 2.0, 4.0, 6.0)] == [0, 1, 0, 0]
