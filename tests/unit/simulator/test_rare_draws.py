"""Rare features of a swarm's scenarios: each is drawn, and usual scenarios stay as they are."""

from collections import Counter

import pytest

from godwit.broker.broker_config import BrokerConfig
from godwit.mobility import mobile_broker
from godwit.mobility.attaching import Attaching
from godwit.mobility.modes import MODES
from godwit.simulator import rare_draws
from godwit.simulator.random_scenarios import drawn
from godwit.simulator.rare_draws import CHANGES, widely_drawn
from godwit.simulator.scenario import Scenario

NUMBERS = range(200)


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [widely_drawn(1, number)[0] for number in NUMBERS]


def test_every_mode_is_drawn_for_those_whom_it_suits(scenarios: list[Scenario]) -> None:
    moving = [each.clients.roaming for each in scenarios if each.clients.roaming.is_on]
    found = {
        who: {getattr(each, f"{who.removesuffix('s')}_mode") for each in moving}
        for who in ("subscribers", "publishers")
    }
    for name in mobile_broker("b", {}, BrokerConfig()).component(Attaching).policies:  # other tests may register more
        mode = MODES[name]
        assert (name in found["subscribers"]) == mode.suits("subscribers"), name
        assert (name in found["publishers"]) == (mode.suits("publishers") and name != "junction"), name


def test_every_queue_rule_and_every_other_rare_key_is_drawn(scenarios: list[Scenario]) -> None:
    for key in ("newest_per", "high_water", "count_max", "age_s_max", "bytes_max", "importance", "event_expires_s"):
        assert any(getattr(each.sessions, key) is not None for each in scenarios), key
    assert any(each.sessions.subscription_expires_s and each.clients.roaming.is_on for each in scenarios)
    assert {each.routing.open_filters for each in scenarios} == {"each", "united"}
    assert Counter(each.routing.strategy for each in scenarios)["advertised"] > 10
    assert {1, 3, 10} < {each.clients.buffer_events_max for each in scenarios}
    assert any(each.overlay.processing_ms for each in scenarios)
    assert any(each.overlay.client_bandwidth_kbps for each in scenarios)
    assert any(each.workload.kind == "publications" for each in scenarios)


def test_some_scenarios_are_as_usual_and_without_rare_features_all_are(
    scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = [drawn(1, number) for number in NUMBERS]
    same = sum(one == other for one, (other, _) in zip(scenarios, usual, strict=True))
    assert len(NUMBERS) / 5 < same < len(NUMBERS) / 2
    monkeypatch.setattr(rare_draws, "CHANGES", {})
    assert [widely_drawn(1, number) for number in NUMBERS[:30]] == usual[:30]


@pytest.mark.parametrize("name", ["open filters", "modes"])
def test_a_kind_of_draw_that_is_missing_changes_nothing_where_it_was_not_on(
    name: str, scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rare_draws, "CHANGES", {each: CHANGES[each] for each in CHANGES if each != name})
    without = [widely_drawn(1, number)[0] for number in NUMBERS[:60]]
    same = sum(one == other for one, other in zip(without, scenarios, strict=False))
    assert 30 < same < 60
