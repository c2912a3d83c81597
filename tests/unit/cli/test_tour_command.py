"""`godwit tour`: the story holds, and what is shown is true."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from godwit.cli import main, tour_command, tour_moving, tour_network
from godwit.cli.tour_moving import WAYS
from godwit.cli.tour_network import STRATEGIES
from godwit.cli.tour_story import SHOWN, SUBSCRIPTIONS, event_data
from godwit.filters.events import event
from godwit.filters.language import parse
from godwit.matching.naive_matcher import NaiveMatcher


def remembered(run: Callable[..., Any]) -> Callable[..., Any]:
    known: dict[str, Any] = {}

    def once(*options: Any) -> Any:
        if repr(options) not in known:
            known[repr(options)] = run(*options)
        return known[repr(options)]

    return once


@pytest.fixture(autouse=True, scope="module")
def _runs_are_shared() -> Iterator[None]:
    """The whole tour and the tests of its parts run the same simulations: once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tour_network, "outcome_of", remembered(tour_network.outcome_of))
        patch.setattr(tour_moving, "moved_by", remembered(tour_moving.moved_by))
        yield


def test_the_tour_shows_subscriptions_reasons_relations_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tour_command, "GENERATED_SUBSCRIPTIONS", 1_000)
    shown = CliRunner().invoke(main.app, ["tour"])
    assert shown.exit_code == 0, shown.output
    for name, _, _ in SUBSCRIPTIONS:
        assert name in shown.output
    for line in (
        "alert 4 at 07:18  kind 'alert/traffic', severity 2, zip (8002, 8004)",
        "→ Kreis 3    zip BETWEEN 8003 AND 8004",
        "→ Dario      kind = 'parking' and NOT size = 'compact'",
        "Radio covers Police",
        "Anna and Elena merge exactly into kind = 'parking' AND cost < 2 AND size IN ('truck', 'van')",
        "with 1,000 subscriptions",
        "A network that breaks: 13 brokers",
        *STRATEGIES,
        "Things that move",
        *WAYS,
    ):
        assert line in shown.output
    assert "\x1b" not in shown.output


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_strategy_of_the_tour_loses_or_doubles_anything(strategy: str) -> None:
    outcome = tour_network.outcome_of(STRATEGIES[strategy])
    assert outcome.passed
    assert outcome.owed > 100
    assert outcome.faults


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_move_keeps_its_promise_and_naive_ones_are_seen_to_break_what_they_do_not_promise(way: str) -> None:
    mode, announced, _ = WAYS[way]
    outcome = tour_moving.moved_by(mode, announced)
    assert outcome.passed
    assert outcome.moves > 20
    assert (outcome.lost > 0) == (way in ("explicit", "naive"))
    assert (outcome.duplicated > 0) == (way == "naive")


def test_every_subscription_gets_something_and_nobody_gets_everything() -> None:
    matcher = NaiveMatcher()
    matcher.add_many((name, parse(text)) for name, _, text in SUBSCRIPTIONS)
    events = [event(data) for _, data in event_data()]
    receivers = [matcher.match(each) for each in events]
    for name, _, _ in SUBSCRIPTIONS:
        assert 0 < sum(name in names for names in receivers) < len(events) / 2


def test_the_story_is_the_same_on_every_run_and_holds_what_is_explained() -> None:
    names = [name for name, _ in event_data()]
    assert list(event_data()) == list(event_data())
    assert len(set(names)) == len(names)
    assert set(SHOWN) <= set(names)
