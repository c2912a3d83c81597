"""Scenarios: everything that a simulated run depends on besides its seed, read from TOML and checked before it runs.

*Theory.* `scenario.py` puts the sections together; each section is a module with its keys and its own checks,
`checks.py` holds the checks across sections, `loading.py` reads files.

*Rules.*
1. A module of the simulator that a section's checks need (`topologies`, `movement_models`) imports that section alone,
   by its module, and nothing else from here.
"""

from godwit.simulator.scenario.checks import check
from godwit.simulator.scenario.clients_section import Churn, Clients, Disconnections, SessionsSection
from godwit.simulator.scenario.contexts_section import Contexts
from godwit.simulator.scenario.faults_section import FAULT_KINDS, FaultKind, Faults, Planned, Rate
from godwit.simulator.scenario.fire_section import Fire
from godwit.simulator.scenario.loading import SUFFIX, load, named, names, with_changes
from godwit.simulator.scenario.overlay_section import OverlaySpec
from godwit.simulator.scenario.radio_section import Radio
from godwit.simulator.scenario.rights_section import Rights
from godwit.simulator.scenario.roaming_section import Probes, Roaming
from godwit.simulator.scenario.routing_section import RoutingSection
from godwit.simulator.scenario.run_section import Expectations, Run
from godwit.simulator.scenario.scenario import Scenario, overlay_of, places_of
from godwit.simulator.scenario.walking_section import Walking

__all__ = [
    "FAULT_KINDS",
    "SUFFIX",
    "Churn",
    "Clients",
    "Contexts",
    "Disconnections",
    "Expectations",
    "FaultKind",
    "Faults",
    "Fire",
    "OverlaySpec",
    "Planned",
    "Probes",
    "Radio",
    "Rate",
    "Rights",
    "Roaming",
    "RoutingSection",
    "Run",
    "Scenario",
    "SessionsSection",
    "Walking",
    "check",
    "load",
    "named",
    "names",
    "overlay_of",
    "places_of",
    "with_changes",
]
