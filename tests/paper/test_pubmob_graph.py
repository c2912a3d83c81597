"""[pubmob §3.1, §4.1]: the algorithms on overlays with cycles, and the flooding of subscriptions instead."""

import pytest

from godwit.simulator.run import run
from godwit.simulator.scenario import Scenario, with_changes
from tests.simulation.scenarios import GRAPH, SETTLE

MODES = ("standard", "prefetching", "proxy", "delayed", "prefetching+delayed")
UNIQUE = "workload={kind='publications'}"  # each publisher advertises what nobody else does [pubmob §4.1]
ADVERTISED = "routing={family='graph', strategy='advertised', advertisements='required'}"
FLOODED = "routing={family='graph', strategy='gsf', advertisements='off'}"


def moving(routing: str, who: str, mode: str = "standard") -> Scenario:
    publishers = "{delay_s=2, proxies=2, prefetch_s=5}"
    roaming = f"{{who='{who}', per_s=1.2, away_s=0.6, publisher_mode='{mode}', publishers={publishers}}}"
    return with_changes(GRAPH, [routing, UNIQUE, f"clients.roaming={roaming}", *SETTLE])


@pytest.mark.parametrize("mode", MODES)
def test_our_algorithms_work_in_general_graph_topologies(mode: str) -> None:
    summary = run(moving(ADVERTISED, "publishers", mode), 1)
    assert summary.violations == ()
    assert summary.entries_left == 0
    assert min(summary.moves, summary.owed) > 5


def test_one_may_eliminate_advertisement_flooding_and_flood_subscriptions_instead() -> None:
    advertised, flooded = (run(moving(routing, "publishers"), 1) for routing in (ADVERTISED, FLOODED))
    assert advertised.packets["AdvertisementAdded"] > advertised.moves
    assert "AdvertisementAdded" not in flooded.packets, "a publisher that moves rebuilds no tree"
    assert flooded.violations == advertised.violations == ()


def test_then_subscriber_mobility_rebuilds_trees_that_span_the_whole_network() -> None:
    advertised, flooded = (run(moving(routing, "subscribers"), 1) for routing in (ADVERTISED, FLOODED))
    assert flooded.moves == advertised.moves > 5
    assert flooded.packets["Subscribe"] > 2 * advertised.packets["Subscribe"]
