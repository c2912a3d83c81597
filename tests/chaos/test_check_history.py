"""The checker finds each kind of fault in a history, and nothing in a good one."""

import json
from typing import Any

import pytest

from tests.chaos.check_history import LAWS, judge


def line(what: str, at: float, **fields: Any) -> str:
    return json.dumps({"at": at, "what": what, **fields})


def history(*more: str, promise: str = "once") -> list[str]:
    """Two events of one publisher, owed to one subscriber; then more, and the end."""
    return [
        line("subscribe", 0.0, who="s", topics=["a"], promise=promise),
        line("stands", 1.0, who="s"),
        line("publish", 2.0, by="p", id="p/1", topic="a", promise="once"),
        line("publish", 3.0, by="p", id="p/2", topic="a", promise="once"),
        line("acknowledge", 3.5, id="p/1"),
        line("acknowledge", 3.6, id="p/2"),
        *more,
        line("end", 9.0),
    ]


def came(*ids: str) -> list[str]:
    return [line("deliver", 4.0 + at, to="s", id=id) for at, id in enumerate(ids)]


def broken(lines: list[str]) -> dict[str, int]:
    return {law: len(texts) for law, texts in judge(lines).broken.items() if texts}


def test_a_good_history_breaks_nothing() -> None:
    found = judge(history(*came("p/1", "p/2")))
    assert found.is_good
    assert (found.published, found.acknowledged, found.owed, found.delivered) == (2, 2, 2, 2)


def published(id: str, topic: str) -> str:
    return line("publish", 3.9, by=id.partition("/")[0], id=id, topic=topic, promise="once")


BROKEN = [
    ("lost", history(*came("p/1"))),
    ("doubled", history(*came("p/1", "p/2", "p/1"))),
    ("out of order", history(*came("p/2", "p/1"))),
    ("unwanted", history(*came("p/1", "p/2", "nobody/1"))),
    ("unwanted", history(published("q/1", "b"), line("acknowledge", 4.0, id="q/1"), *came("p/1", "p/2", "q/1"))),
    ("stuck", history(published("p/3", "a"), *came("p/1", "p/2"))),
    ("untold", history(line("fault", 5.0, kind="x", where="b", loss_from=2.5), line("settled", 6.0), *came("p/1"))),
]


@pytest.mark.parametrize(("law", "lines"), BROKEN)
def test_each_law_is_seen_to_break(law: str, lines: list[str]) -> None:
    assert broken(lines) == {law: 1}
    assert law in LAWS


def test_what_a_promise_allows_is_counted_and_no_fault() -> None:
    found = judge(history(*came("p/1", "p/1", "p/2"), promise="repeated"))
    assert found.is_good
    assert found.repeated == 1


def test_a_loss_is_excused_only_in_its_time_and_if_somebody_was_told() -> None:
    fault = line("fault", 5.0, kind="rolled back", where="b", loss_from=2.5)
    told = line("receipt", 5.5, to="s", says="session lost")
    settled = line("settled", 6.0)
    assert broken(history(*came("p/1"), fault, told, settled)) == {}
    assert broken(history(*came("p/2"), fault, told, settled)) == {"lost": 1}
    later = line("publish", 7.0, by="p", id="p/3", topic="a", promise="once")
    lines = history(*came("p/1"), fault, told, settled, later, line("acknowledge", 7.5, id="p/3"))
    assert broken(lines) == {"lost": 1}


FAULT = line("fault", 5.0, kind="rolled back", where="b", loss_from=2.5)
SETTLED = line("settled", 6.0)


@pytest.mark.parametrize(
    ("to", "at", "is_told"),
    [("s", 5.0, True), ("s", 8.0, True), ("s", 4.9, False), ("other", 5.5, False), ("p", 5.5, False)],
)
def test_who_misses_an_event_must_be_told_at_or_after_the_fault(to: str, at: float, is_told: bool) -> None:
    receipt = line("receipt", at, to=to, says="session lost")
    lines = sorted([FAULT, SETTLED, receipt], key=lambda text: json.loads(text)["at"])
    other = line("subscribe", 0.0, who="other", topics=["b"], promise="once")
    assert broken([other, *history(*came("p/1"), *lines)]) == ({} if is_told else {"untold": 1})


def test_to_be_told_of_a_loss_says_nothing_of_a_later_one() -> None:
    lines = [FAULT, line("receipt", 5.5, to="s", says="session lost"), SETTLED]
    lines += [line("publish", 7.0, by="p", id="p/3", topic="a", promise="once"), line("acknowledge", 7.1, id="p/3")]
    lines += [line("fault", 7.5, kind="bit flipped", where="b", loss_from=6.5)]
    assert broken(history(*came("p/1", "p/2"), *lines)) == {"untold": 1}
    told = line("receipt", 8.5, to="s", says="lost its last inputs")
    assert broken(history(*came("p/1", "p/2"), *lines, told)) == {}


def test_a_history_without_its_end_is_not_good() -> None:
    assert not judge(history(*came("p/1", "p/2"))[:-1]).is_good


def test_what_was_published_before_a_subscription_stood_is_not_owed() -> None:
    lines = history(*came("p/1", "p/2"))
    lines.insert(1, line("publish", 0.5, by="q", id="q/1", topic="a", promise="once"))
    lines.insert(2, line("acknowledge", 0.6, id="q/1"))
    assert broken(lines) == {}
