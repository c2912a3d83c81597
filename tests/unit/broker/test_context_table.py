"""What is known of another broker's contexts: asked within a bound, beyond which it may match."""

import pytest

from godwit.broker import context_table
from godwit.broker.context_table import MATCHING_EFFORT_MAX, OtherBroker
from godwit.filters import parse
from godwit.filters.contexts import Described, may_match
from godwit.filters.filters import Filter


def broker_with(count: int) -> OtherBroker:
    other = OtherBroker()
    for number in range(1, count + 1):
        other.add(number, {"level": number}, 0)
    return other


def test_a_filter_is_held_against_all_contexts_while_that_is_little_work() -> None:
    other = broker_with(50)
    assert other.may_match(parse("level = 50"))
    assert not other.may_match(parse("level = 51"))


def test_a_filter_that_would_take_too_long_may_match(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Described] = []
    sound = may_match

    def counted(filter: Filter, described: Described) -> bool:
        asked.append(described)
        return sound(filter, described)

    monkeypatch.setattr(context_table, "may_match", counted)
    large = parse(" OR ".join(f"level = {1_000 + i}" for i in range(1_000)))
    assert broker_with(200).may_match(large)
    assert len(asked) * large.weight <= MATCHING_EFFORT_MAX
    assert not broker_with(10).may_match(large)
