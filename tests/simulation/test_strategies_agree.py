"""The law: every strategy delivers what flooding with filtering at the edge delivers.

Clients, subscriptions and events come from the seed alone, so that runs of one scenario under two strategies can be
held beside each other, pair by pair of client and event.
"""

from functools import cache

import pytest

from godwit.simulator.random_scenarios import ADVERTISEMENTS, REDUCTIONS
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import Scenario, with_changes
from godwit.simulator.summary import Summary
from tests.seeds import few
from tests.simulation.scenarios import AWAY, CHURN, GRAPH, TREE, Pairs, delivered_pairs, owed_pairs

TREE_STRATEGIES = [
    (reduction, excess_max, advertisements)
    for reduction, excess_max in REDUCTIONS
    for advertisements in ADVERTISEMENTS
    if reduction != "flooding"
]
SEEDS = few((1, 2), 1)


def tree(reduction: str, excess_max: float, advertisements: str) -> list[str]:
    return [
        f"routing.reduction={reduction}",
        f"routing.excess_max={excess_max}",
        f"routing.advertisements={advertisements}",
    ]


@cache
def ran(scenario: Scenario, seed: int) -> tuple[Summary, Pairs, Pairs]:
    """The summary, what was owed and what was delivered."""
    simulation = Simulation(scenario, seed)
    summary = simulation.run()
    return summary, owed_pairs(simulation), delivered_pairs(simulation)


@pytest.mark.parametrize("advertisements", ADVERTISEMENTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_flooding_delivers_whatever_is_owed(advertisements: str, seed: int) -> None:
    summary, owed, delivered = ran(with_changes(TREE, [*tree("flooding", 0.0, advertisements), *CHURN]), seed)
    assert summary.violations == ()
    assert owed <= delivered
    assert len(owed) == summary.owed > 150


@pytest.mark.parametrize(("reduction", "excess_max", "advertisements"), TREE_STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_without_changes_each_strategy_delivers_exactly_what_flooding_delivers(
    reduction: str, excess_max: float, advertisements: str, seed: int
) -> None:
    calm = [*AWAY]
    summary, owed, delivered = ran(with_changes(TREE, [*tree(reduction, excess_max, advertisements), *calm]), seed)
    _, owed_by_flooding, flooded = ran(with_changes(TREE, [*tree("flooding", 0.0, advertisements), *calm]), seed)
    assert summary.violations == ()
    assert delivered == flooded == owed == owed_by_flooding
    assert summary.allowed == 0


@pytest.mark.parametrize(("reduction", "excess_max", "advertisements"), TREE_STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_while_subscriptions_and_advertisements_change_each_strategy_delivers_what_flooding_owes(
    reduction: str, excess_max: float, advertisements: str, seed: int
) -> None:
    summary, owed, delivered = ran(with_changes(TREE, [*tree(reduction, excess_max, advertisements), *CHURN]), seed)
    _, owed_by_flooding, flooded = ran(with_changes(TREE, [*tree("flooding", 0.0, advertisements), *CHURN]), seed)
    assert summary.violations == ()
    both = owed & owed_by_flooding
    assert both <= delivered & flooded
    assert len(both) > 0.9 * len(owed_by_flooding)  # changes settle a little later than with flooding


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_on_a_graph_with_cycles_gsf_delivers_what_flooding_delivers_on_a_tree(degree: int, seed: int) -> None:
    calm = [*AWAY]
    summary, owed, delivered = ran(with_changes(GRAPH, [f"overlay.degree={degree}", *calm]), seed)
    _, owed_by_flooding, flooded = ran(with_changes(TREE, [*tree("flooding", 0.0, "off"), *calm]), seed)
    assert summary.violations == ()
    assert delivered == flooded == owed == owed_by_flooding


@pytest.mark.parametrize("degree", [2, 3, 4])
@pytest.mark.parametrize("seed", SEEDS)
def test_while_subscriptions_change_gsf_delivers_what_flooding_owes(degree: int, seed: int) -> None:
    summary, owed, delivered = ran(with_changes(GRAPH, [f"overlay.degree={degree}", *CHURN]), seed)
    _, owed_by_flooding, flooded = ran(with_changes(TREE, [*tree("flooding", 0.0, "off"), *CHURN]), seed)
    assert summary.violations == ()
    both = owed & owed_by_flooding
    assert both <= delivered & flooded
    assert len(both) > 0.9 * len(owed_by_flooding)
