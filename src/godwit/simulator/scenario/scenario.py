"""A scenario: its sections together, and what follows from them.

*Theory.* A scenario is a frozen struct of structs, one for each section; `docs/guides/simulate.md` explains each key. A
run has three phases:

    0 ........ warmup_s ................ warmup_s + duration_s ................ + settle_s
    clients come, advertise,     publishers publish; churn and faults        nobody publishes, no fault is
    subscribe; all settles       (faults only until `until_s`)               injected; then everyone leaves

*Rules.*
1. Keys carry their unit: `_s`, `_ms`, `_kbps`, `_per_s`.
2. A part of the simulator exists in a run only if its section is on (`is_on`).
"""

from random import Random

import msgspec

from godwit.simulator import topologies
from godwit.simulator.scenario.clients_section import Churn, Clients, SessionsSection
from godwit.simulator.scenario.contexts_section import Contexts
from godwit.simulator.scenario.faults_section import Faults
from godwit.simulator.scenario.fire_section import Fire
from godwit.simulator.scenario.overlay_section import OverlaySpec, built_overlay
from godwit.simulator.scenario.radio_section import Radio
from godwit.simulator.scenario.rights_section import Rights
from godwit.simulator.scenario.routing_section import RoutingSection
from godwit.simulator.scenario.run_section import Run
from godwit.simulator.scenario.units import Text
from godwit.simulator.topologies import Overlay
from godwit.simulator.workloads import WorkloadSpec

__all__ = ["Scenario", "overlay_of", "places_of"]


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run depends on besides its seed."""

    name: Text
    description: str = ""
    overlay: OverlaySpec
    radio: Radio = Radio()
    routing: RoutingSection = RoutingSection()
    clients: Clients = Clients()
    workload: WorkloadSpec = WorkloadSpec()
    contexts: Contexts = Contexts()
    fire: Fire = Fire()
    churn: Churn = Churn()
    faults: Faults = Faults()
    sessions: SessionsSection = SessionsSection()
    rights: Rights = Rights()
    run: Run = Run()

    @property
    def publishing_ends_s(self) -> float:
        """The end of publishing."""
        return self.run.warmup_s + self.run.duration_s

    @property
    def faults_end_s(self) -> float:
        """The last moment of a fault."""
        return self.publishing_ends_s if self.faults.until_s is None else self.faults.until_s

    @property
    def ends_s(self) -> float:
        """The end of the settling, when everyone leaves."""
        return self.publishing_ends_s + self.run.settle_s


def overlay_of(scenario: Scenario, rng: Random) -> Overlay:
    """The network of a scenario; only random kinds draw from `rng`."""
    return built_overlay(scenario.overlay, rng)


def places_of(scenario: Scenario, overlay: Overlay) -> tuple[str, ...]:
    """The brokers that clients are placed at, in the order of the overlay."""
    return topologies.leaves(overlay) if scenario.clients.placement == "leaves" else overlay.brokers
