"""Which subscriptions have had a retained event before the event itself came."""

from typing import Any

from godwit.broker import early_copies
from godwit.broker.early_copies import EARLY_S, EarlyCopies
from godwit.broker.limits import Limits
from godwit.broker.session import Session
from godwit.filters.events import Event


def session(name: str = "x") -> Session:
    return Session("ann", name, Limits())


def said(number: int) -> Event:
    return Event({}, "pub", number)


def ids(*names: str) -> list[Any]:
    return [("ann", name) for name in names]


def test_an_event_is_left_out_once_for_the_subscriptions_that_have_had_it() -> None:
    copies, ann = EarlyCopies(), session()
    for name in ("s", "t", "s"):
        copies.put(ann, name, said(1), 0.0)
    copies.put(ann, "s", said(2), 0.0)
    assert copies.left_of(ann, said(1), ids("s", "t", "u")) == ids("u")
    assert copies.left_of(ann, said(1), ids("s", "t", "u")) == ids("s", "t", "u")
    assert len(copies) == 1
    assert not ann.seen.has("pub", 1)


def test_an_event_that_all_have_had_counts_as_seen() -> None:
    copies, ann = EarlyCopies(), session()
    copies.put(ann, "s", said(1), 0.0)
    assert copies.left_of(ann, said(1), ids("s")) == ids("s")
    assert ann.seen.has("pub", 1)


def test_another_session_of_the_client_gets_everything() -> None:
    copies = EarlyCopies()
    copies.put(session("x"), "s", said(1), 0.0)
    copies.put(session("y"), "t", said(1), 0.0)
    assert copies.left_of(session("y"), said(1), ids("s", "t")) == ids("s")
    copies.put(session("x"), "s", said(1), 0.0)
    assert copies.left_of(session("y"), said(1), ids("s")) == ids("s")


def test_the_oldest_are_forgotten(monkeypatch: Any) -> None:
    monkeypatch.setattr(early_copies, "EARLY_MAX", 2)
    copies, ann = EarlyCopies(), session()
    for number in (1, 2, 3):
        copies.put(ann, "s", said(number), float(number))
    assert [one.sequence for one in copies.snapshot()] == [2, 3]
    copies.sweep(2.0 + EARLY_S)
    assert [one.sequence for one in EarlyCopies(copies.snapshot()).snapshot()] == [3]
    copies.sweep(3.0 + EARLY_S)
    assert not copies
