"""Scenarios in which brokers of every family, clients of every mode and every fault come up."""

from godwit.simulator.scenario import Scenario, with_changes
from tests.simulation.scenarios import ALL_FAULTS, AWAY, CHURN, FAULTS, GRAPH, SETTLE, TREE
from tests.simulation.test_contexts import HOPS, SPCF
from tests.simulation.test_modes import STORM, moving
from tests.simulation.test_publisher_moves import ROAM
from tests.simulation.test_walking import CITY

__all__ = ["SCENARIOS"]

EVERYTHING = [*ALL_FAULTS, *CHURN, *AWAY, *SETTLE]
ROAMING = ["clients.roaming={per_s=2, away_s=1}", "run.settle_s=180"]

REDUCTIONS: dict[str, list[str]] = {
    "flooding": ["routing.reduction=flooding"],
    "simple": ["routing.reduction=simple", "routing.advertisements=required"],
    "identity": ["routing.reduction=identity", "routing.advertisements=optional"],
    "covering": ["routing.reduction=covering", "routing.advertisements=optional", "routing.quenching=true"],
    "merging": ["routing.reduction=merging", "routing.excess_max=0.3", "routing.advertisements=required"],
}

SCENARIOS: dict[str, tuple[Scenario, int]] = {
    **{name: (with_changes(TREE, [*changes, *EVERYTHING, *ROAMING]), 1) for name, changes in REDUCTIONS.items()},
    "graph": (with_changes(GRAPH, [*EVERYTHING, *ROAMING]), 1),
    "advertised": (
        with_changes(GRAPH, ["routing.strategy=advertised", "routing.advertisements=required", *EVERYTHING, *ROAMING]),
        1,
    ),
    "spcf": (with_changes(SPCF, ["contexts.changes_per_s=8", *EVERYTHING, *ROAMING]), 2),
    "spcf, many contexts": (with_changes(SPCF, ["contexts.changes_per_s=8", "routing.contexts_max=2", *CHURN]), 3),
    "hops": (with_changes(HOPS, ["contexts.changes_per_s=8", *EVERYTHING, *ROAMING]), 1),
    **{f"mode {mode}": (moving(STORM, mode), 3) for mode in ("ask", "named", "carry", "explicit", "naive")},
    **{
        f"publishers {mode}": (
            with_changes(ROAM, [f"clients.roaming.publisher_mode={mode}", "routing.advertisements=optional", *AWAY]),
            1,
        )
        for mode in ("prefetching+delayed", "proxy")
    },
    "walking": (with_changes(CITY, ["clients.roaming={per_s=1, away_s=0.5}", *FAULTS["link_break"], *SETTLE]), 4),
}
"""By name, a scenario and the seed to run it with."""
