"""Drawn scenarios without contexts, to compare with those that have them."""

from msgspec import structs

from godwit.simulator.scenario import Contexts, Scenario

__all__ = ["without_contexts"]


def without_contexts(scenario: Scenario) -> Scenario:
    """The scenario as it would have been drawn before there were contexts."""
    routing = structs.replace(scenario.routing, strategy="gsf", matching="source", contexts_max=64)
    return structs.replace(scenario, routing=routing, contexts=Contexts())
