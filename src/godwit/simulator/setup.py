"""The setup of a run: makes brokers and clients from a scenario, and adds them to a world.

*Theory.* `broker_config` turns the scenario's sections into the settings of brokers; `add_brokers` and `add_clients`
make the nodes and the wires between them.

*Rules.*
1. Brokers and clients are added in the order of the overlay and of the population: that order is part of a run.
"""

from functools import partial

from godwit.broker.broker_config import BrokerConfig
from godwit.broker.limits import Limits
from godwit.broker.links import LinkConfig
from godwit.client.client import Client, ClientConfig
from godwit.mobility.extensions import attach_policy_names, mode_of
from godwit.mobility.mobile_broker import mobile_broker
from godwit.mobility.possible_values import Movements
from godwit.mobility.publisher_presence import PublisherConfig
from godwit.simulator.context_generator import ContextGenerator
from godwit.simulator.ledger import Ledger
from godwit.simulator.message_sizes import sizes
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Scenario, places_of
from godwit.simulator.scenario.contexts_section import ROLE
from godwit.simulator.topologies import Overlay
from godwit.simulator.world import World

__all__ = ["add_brokers", "add_clients", "broker_config", "place_clients"]

DEAD_AFTER_S = 2.0  # graph family


def broker_config(scenario: Scenario) -> BrokerConfig:
    """The settings of every broker."""
    routing, roaming = scenario.routing, scenario.clients.roaming
    modes, session_s = (roaming.subscriber_mode, roaming.publisher_mode), roaming.session_s
    dead_after_s = DEAD_AFTER_S if routing.family == "graph" else None
    return BrokerConfig(
        family=routing.family,
        reduction=routing.reduction,
        excess_max=routing.excess_max,
        open_filters=routing.open_filters,
        advertisements=routing.advertisements if routing.has_advertisements else "off",
        strategy=routing.strategy,
        matching=routing.matching,
        contexts_max=routing.contexts_max,
        components=routing.components,
        attach_policies=tuple(name for name in attach_policy_names() if name in modes),
        asserted=(ROLE,) if scenario.contexts.role_share else (),
        link=LinkConfig(dead_after_s=dead_after_s),
        limits=Limits() if session_s is None else Limits(session_expiry_s=session_s),
    )


def place_clients(scenario: Scenario, streams: RandomStreams, overlay: Overlay, population: Population) -> None:
    """Give each publisher and each subscriber of the workload its first broker."""
    places = places_of(scenario, overlay)
    population.publishers += [f"p{k}" for k in range(scenario.clients.publishers)]
    population.subscribers += [f"s{k}" for k in range(scenario.clients.subscribers)]
    for name in population.members("all"):
        population.homes[name] = streams.single_use("placement", name).choice(places)


def add_brokers(
    world: World,
    scenario: Scenario,
    overlay: Overlay,
    config: BrokerConfig,
    movements: Movements,
    publishers: PublisherConfig,
) -> None:
    """Add the brokers of an overlay to a world, and wires for its links."""
    network = scenario.overlay
    journaled = scenario.faults.has_disks or network.disk_sync_ms > 0
    neighbours: dict[str, dict[str, float]] = {broker: {} for broker in overlay.brokers}
    for link in overlay.links:
        neighbours[link.a][link.b] = neighbours[link.b][link.a] = link.cost
    world.size_of = sizes(network.control_bytes, network.event_bytes)
    for name in overlay.brokers:
        make = partial(mobile_broker, name, neighbours[name], config, movements=movements, moving=publishers)
        world.add_broker(
            name,
            make,
            journaled=journaled,
            sync_s=network.disk_sync_ms / 1_000,
            work_s=network.processing_ms / 1_000,
        )
    for link in overlay.links:
        world.wire(link.a, link.b, link.latency_s, link.bandwidth_bps)


def add_clients(
    world: World,
    scenario: Scenario,
    network: Network,
    population: Population,
    ledger: Ledger,
    contexts: ContextGenerator | None,
) -> None:
    """Add all clients of a population to a world, each with wires to its first broker."""
    roaming = scenario.clients.roaming
    modes: dict[str, str] = dict.fromkeys(population.publishers, roaming.publisher_mode)
    modes |= dict.fromkeys(population.subscribers, roaming.subscriber_mode)
    for name, home in population.homes.items():
        config = ClientConfig(
            buffer_events_max=scenario.clients.buffer_events_max,
            quench=scenario.routing.quenching,
            mode=modes.get(name, "relocate"),
        )
        world.add_client(name, Client(name, config))
        ledger.modes[name] = mode_of(config.mode)
        ledger.asserted[name] = world.asserted[name] = {} if contexts is None else contexts.asserted(name)
        network.wire_client(name, home)
