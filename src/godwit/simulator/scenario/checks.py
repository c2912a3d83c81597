"""Checks of a whole scenario: what no single key can tell.

*Theory.* Each section checks itself where it can; here stand the checks that need several sections.

*Rules.*
1. An error is a `ScenarioError` that names file, line where it is known, key and what is allowed.
"""

from pathlib import Path
from random import Random

from godwit import settings
from godwit.errors import ScenarioError
from godwit.simulator import topologies
from godwit.simulator.scenario.clients_section import Churn, SessionsSection
from godwit.simulator.scenario.contexts_section import Contexts, check_contexts
from godwit.simulator.scenario.faults_section import Faults, check_plans
from godwit.simulator.scenario.fire_section import Fire, check_fire
from godwit.simulator.scenario.movement_checks import check_movement, check_positions
from godwit.simulator.scenario.overlay_section import PARAMETERS
from godwit.simulator.scenario.radio_section import Radio
from godwit.simulator.scenario.rights_section import Rights, check_rights
from godwit.simulator.scenario.roaming_section import check_mode, check_roaming
from godwit.simulator.scenario.routing_section import RoutingSection, check_names, check_routing
from godwit.simulator.scenario.scenario import Scenario, overlay_of, places_of
from godwit.simulator.scenario.unused_keys import check_unused_keys
from godwit.simulator.scenario.walking_section import ground_of

__all__ = ["check", "check_all"]


def check(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless the scenario can be run."""
    check_all(scenario, lambda path: f"{scenario.name}: {settings.key_text(path)}")


def check_all(scenario: Scenario, where: settings.Where) -> None:
    """Raise `ScenarioError`, beginning with what `where` says of the key, unless the scenario can be run."""
    _check_overlay(scenario, where)
    _check_radio(scenario, where)
    check_contexts(scenario.contexts, where)
    check_fire(scenario.fire, scenario.run.duration_s, where)
    check_rights(scenario.rights, scenario.run, where)
    routing, faults, workload = scenario.routing, scenario.faults, scenario.workload
    check_names(routing, where)
    check_routing(routing.family, routing.strategy, routing.matching, where)
    if (routing.family, routing.strategy, routing.advertisements) == ("graph", "advertised", "off"):
        at = where(("routing", "advertisements"))
        raise ScenarioError(
            f"{at} is 'off': the strategy 'advertised' routes by them; allowed is 'required' or 'optional'"
        )
    check_unused_keys(scenario, where)
    if routing.excess_max > 0 and routing.reduction != "merging":
        raise ScenarioError(
            f"{where(('routing', 'excess_max'))} is {routing.excess_max}: only the reduction 'merging' has an excess"
        )
    if faults.until_s is not None and faults.until_s > scenario.publishing_ends_s:
        raise ScenarioError(
            f"{where(('faults', 'until_s'))} is {faults.until_s}: faults end with publishing at the latest, "
            f"at {scenario.publishing_ends_s:g} s (run.warmup_s + run.duration_s)"
        )
    probes = scenario.clients.probes
    if probes.count and probes.from_s >= scenario.publishing_ends_s:
        raise ScenarioError(
            f"{where(('clients', 'probes', 'from_s'))} is {probes.from_s}: publishing ends at "
            f"{scenario.publishing_ends_s:g} s (run.warmup_s + run.duration_s); allowed is less than that"
        )
    if workload.predicates > workload.attributes:
        raise ScenarioError(
            f"{where(('workload', 'predicates'))} is {workload.predicates}: "
            f"allowed is a whole number from 1 to {workload.attributes}, which is workload.attributes"
        )
    if (workload.kind == "places") != bool(scenario.clients.walking.graph):
        raise ScenarioError(
            f"{where(('workload', 'kind'))} is {workload.kind!r}: 'places' and clients.walking.graph need each other"
        )
    try:
        ground_of(scenario.clients.walking)
    except ScenarioError as error:
        raise ScenarioError(f"{where(('clients', 'walking', 'graph'))}: {error}") from None
    for key in ("subscriptions_file", "events_file"):
        file = getattr(workload, key)
        if workload.kind == "files" and not Path(file).is_file():
            raise ScenarioError(f"{where(('workload', key))} is {file!r}: it must be a file, for a workload of files")


def _check_radio(scenario: Scenario, where: settings.Where) -> None:
    """Devices have one event broker an island, and what befalls them is that they move."""
    if scenario.overlay.kind != "radio":
        if scenario.radio != Radio():
            raise ScenarioError(f"{where(('radio',))} is set: only an overlay of kind 'radio' has devices")
        return
    for key, value, default in (
        ("routing", scenario.routing, RoutingSection()),
        ("contexts", scenario.contexts, Contexts()),
        ("fire", scenario.fire, Fire()),
        ("churn", scenario.churn, Churn()),
        ("faults", scenario.faults, Faults()),
        ("sessions", scenario.sessions, SessionsSection()),
        ("rights", scenario.rights, Rights()),
    ):
        if value != default:
            raise ScenarioError(f"{where((key,))} is set: an overlay of kind 'radio' has none of it")
    for key in ("publishers", "subscribers"):
        count = getattr(scenario.clients, key)
        if count > scenario.radio.devices:
            raise ScenarioError(f"{where(('clients', key))} is {count}: allowed is radio.devices at most")
    for key in ("disconnections", "roaming"):
        if getattr(scenario.clients, key).per_s:
            raise ScenarioError(f"{where(('clients', key))} is set: devices move by the keys of radio")
    if scenario.clients.publishers and not scenario.clients.publish_per_s:
        raise ScenarioError(
            f"{where(('clients', 'publish_per_s'))} is 0: it must be above 0 where there are publishers"
        )


def _check_overlay(scenario: Scenario, where: settings.Where) -> None:
    spec = scenario.overlay
    needed = PARAMETERS[spec.kind]
    for key in ("brokers", "height", "degree", "file"):
        is_set = getattr(spec, key) is not None
        if key in needed and not is_set:
            raise ScenarioError(
                f"{where(('overlay', key))} is missing: a {spec.kind} overlay needs {' and '.join(needed)}"
            )
        if is_set and key not in needed:
            allowed = f"only {' and '.join(needed)}" if needed else "none of brokers, height, degree and file"
            raise ScenarioError(f"{where(('overlay', key))} is set: a {spec.kind} overlay has {allowed}")
    try:
        overlay = overlay_of(scenario, Random(0))
    except ScenarioError as error:
        raise ScenarioError(f"{where(('overlay',))}: {error}") from None
    parts = topologies.components(overlay)
    if len(parts) > 1:
        raise ScenarioError(
            f"{where(('overlay',))} falls into {len(parts)} parts: no way leads from {parts[0][0]} to {parts[1][0]}"
        )
    if scenario.routing.family == "tree" and not topologies.is_tree(overlay):
        raise ScenarioError(
            f"{where(('routing', 'family'))} is 'tree', but the overlay has a cycle: "
            "allowed are an overlay without cycles, or the family 'graph'"
        )
    is_random = spec.kind.startswith("random")
    check_plans(scenario.faults, overlay, scenario.faults_end_s, where, is_random=is_random)
    clients = scenario.clients
    movers = clients.publishers * (clients.roaming.who != "subscribers")
    movers += clients.subscribers * (clients.roaming.who != "publishers")
    lose_disks = scenario.faults.lose_disks
    family, settle_s = scenario.routing.family, scenario.run.settle_s
    check_mode(clients.roaming, family, lose_disks=lose_disks, settle_s=settle_s, where=where)
    check_roaming(clients.roaming, places_of(scenario, overlay), movers, scenario.run.duration_s, where)
    check_movement(clients.roaming, overlay, places_of(scenario, overlay), movers, scenario.run.duration_s, where)
    if scenario.overlay.positions is not None:
        check_positions(scenario.overlay.positions, overlay, where)
