"""Drawn scenarios in which nobody's rights change, so that every law judges them."""

from msgspec import structs

from godwit.simulator.scenario import Rights, Scenario

__all__ = ["without_rights"]


def without_rights(scenario: Scenario) -> Scenario:
    """The scenario as it would have been drawn before rights changed in a swarm."""
    if not scenario.rights.is_on:
        return scenario
    return structs.replace(scenario, rights=Rights(), run=structs.replace(scenario.run, judge=True, leave=True))
