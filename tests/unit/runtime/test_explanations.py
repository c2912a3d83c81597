"""What all brokers know of an event and a client, put together: the first thing that decides is the verdict."""

from typing import Any

import pytest

from godwit.runtime.explanations import explanation
from godwit.runtime.network_questions import Answers

EVENT = {"kind": "alarm", "zone": 4}
SESSION = {"client": "screen"}


def hop(**said: Any) -> dict[str, Any]:
    of_all = {"client": "screen", "records_begin": 0.0, "arrivals": [], "records": [], "session": None}
    return {**of_all, "verdict": "as it is", **said}


def came(at: float, source: str = "van", **said: Any) -> dict[str, Any]:
    return hop(arrivals=[{"at": at, "from": source}], attributes=EVENT, **said)


def wish(filter: str, **more: Any) -> dict[str, Any]:
    return {"name": "mine", "filter": filter, **more}


NEAR = {"name": "near", "filter": "kind = 'alarm' AND zone < 3"}


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ({"b1": came(1, refused="no right")}, "b1: as it is"),
        ({"b1": came(1), "b2": came(2, session=SESSION, deliveries=[{"number": 1}])}, "b2: as it is"),
        (
            {"b1": came(1), "b2": came(2, session=SESSION, records=[{"client": "screen", "kind": "purged"}])},
            "b2: as it is",
        ),
        (
            {
                "b2": came(
                    2, session=SESSION, records=[{"client": "screen", "kind": "not_addressed"}], to_fails=["floor = 7"]
                )
            },
            "b2: as it is; now, floor = 7 does not hold of its context",
        ),
        (
            {
                "b2": came(
                    2, session=SESSION, records=[{"client": "screen", "kind": "out_of_context"}], to_fails=["floor = 7"]
                )
            },
            "b2: as it is; nor is the event addressed to the client: floor = 7 does not hold of its context",
        ),
        ({"b1": came(1), "b2": hop()}, "the client has no session at any broker that answered"),
        (
            {"b1": hop(session=SESSION), "b2": hop(records_begin=5.0)},
            "no broker that answered has recorded the event (all records begin by 1970-01-01T00:00:05Z)",
        ),
        ({"b1": came(1), "b2": came(2, session=SESSION)}, "b2: as it is"),
        ({"b1": came(1), "b2": hop(session=SESSION, subscriptions=[])}, "b2: the client has no subscription"),
        (
            {"b1": came(1), "b2": hop(session=SESSION, subscriptions=[wish("kind = 'alarm' AND zone = 3")])},
            "b2: no subscription of the client matches the event: zone = 3 does not hold (the event has zone = 4)",
        ),
        (
            {"b1": came(1), "b2": hop(session=SESSION, subscriptions=[wish("floor = 3 AND zone = 4")])},
            "b2: no subscription of the client matches the event: floor = 3 does not hold (the event has no floor)",
        ),
        (
            {"b1": came(1), "b2": hop(session=SESSION, subscriptions=[wish("zone = 3"), NEAR, wish("floor = 3")])},
            (
                "b2: no subscription of the client matches the event; "
                "the closest is 'near', where zone < 3 does not hold (the event has zone = 4)"
            ),
        ),
        (
            {"b1": came(1), "b2": hop(session=SESSION, subscriptions=[wish("zone = 3", now="zone = 4")])},
            (
                "the event reached b1, which knew of no further subscriber for it at that moment; "
                "'mine' of the client matches it now: it was made later, or not yet known there"
            ),
        ),
    ],
)
def test_the_first_thing_that_decides_is_the_verdict(answers: dict[str, Any], verdict: str) -> None:
    assert explanation(Answers(answers, []))["verdict"] == verdict


def test_an_event_that_failed_an_exact_test_or_is_over_is_not_delivered() -> None:
    answers = {"b1": came(1, session=SESSION, deliveries=[{"number": 1}], is_withheld=True)}
    assert explanation(Answers(answers, []))["delivered"] is False


def test_hops_are_in_the_order_of_the_events_way() -> None:
    answers = {"a": hop(session=SESSION), "b": came(2), "c": came(1), "d": hop()}
    assert [each["broker"] for each in explanation(Answers(answers, []))["hops"]] == ["c", "b", "a", "d"]


def test_brokers_that_have_not_answered_are_named() -> None:
    told = explanation(Answers({"b1": came(1), "b3": {"error": "no HTTP"}}, ["b2"]))
    assert told["unanswered"] == ["b2"]
    assert told["verdict"].endswith("(b2 did not answer)")
    assert told["delivered"] is False


SENT = [{"peer": "b2", "because_of": ["ann sub: zone = 4"], "more": 0, "basis": "record"}]


@pytest.mark.parametrize(
    ("answers", "unanswered", "basis", "verdict"),
    [
        (
            {"b1": came(7, sent_on=SENT), "b2": hop(basis="unknown", records_begin=9.0, session=SESSION)},
            [],
            "unknown",
            "b1 has sent the event to b2, whose records begin at 1970-01-01T00:00:09Z",
        ),
        ({"b1": came(7, sent_on=SENT)}, ["b2"], "unknown", "b1 has sent the event to b2, which did not answer"),
        (
            {"b1": came(7, is_recorded=False), "b2": hop(basis="unknown")},
            [],
            "unknown",
            "what b1 decided about the event is not recorded any more",
        ),
        (
            {"b1": came(7, is_recorded=True), "b2": hop(basis="unknown", records_begin=9.0)},
            [],
            "tables",
            "the client has no session at any broker that answered",
        ),
    ],
)
def test_what_a_broker_may_have_forgotten_makes_the_answer_unknown(
    answers: dict[str, Any], unanswered: list[str], basis: str, verdict: str
) -> None:
    told = explanation(Answers(answers, unanswered))
    assert (told["delivered"], told["basis"], told["verdict"]) == (False, basis, verdict)


@pytest.mark.parametrize(("begin", "basis"), [(6.0, "record"), (8.0, "unknown")])
def test_an_event_has_not_come_if_the_records_began_before_it(begin: float, basis: str) -> None:
    answers = {"b1": came(7), "b2": hop(basis="unknown", records_begin=begin, session=SESSION)}
    [_, second] = explanation(Answers(answers, []))["hops"]
    assert second["basis"] == basis
