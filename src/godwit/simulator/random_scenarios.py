"""The swarm's scenarios: small random ones, over all strategies and faults.

*Theory.* A swarm finds unexpected bugs: it runs hundreds of small networks, each with another combination of strategy,
overlay, workload, churn and faults. The strategy depends on the scenario's number, so that each is used in turn;
everything else is random. Each kind of fault is on in some scenarios and off in others: a fault that is always present
hides bugs that need its absence.

*Rules.*
1. The same seed and number give the same scenario, in any process.
2. Each key has a separate random stream: a new key, or a new kind of fault, changes no other key of any scenario.
3. A random scenario is small (8 brokers, 12 clients, a few hundred events), and valid by `check`.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Literal

from msgspec import structs

from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import (
    Churn,
    Clients,
    Contexts,
    Disconnections,
    FaultKind,
    Faults,
    OverlaySpec,
    Rate,
    Rights,
    Roaming,
    RoutingSection,
    Run,
    Scenario,
    SessionsSection,
    Walking,
    check,
)
from godwit.simulator.workloads import WorkloadSpec

__all__ = ["STRATEGIES", "draw", "drawn", "takes_modes", "with_mode"]

BROKERS_MAX = 8
EVENTS_MAX = 300
WALKING_PROBABILITY = 0.15
CONTEXTS_PROBABILITY = 0.4  # in the tree family
GRAPH_CONTEXTS_PROBABILITY = 0.75
GROWN_UP_S = 65.0  # until brokers of a graph are sure what is wanted, and let sources quench
HOPS_PROBABILITY = 0.4
ADVERTISED_PROBABILITY = 0.3  # in the graph family
QUENCHING_PROBABILITY = 0.15  # on any overlay; on a single broker it is likely anyway
SEED_BITS = 32
FAULT_PROBABILITY = 0.35  # that a kind of fault is on
DAMAGE_PROBABILITY = 0.2  # the same, for each way of damaging disks
RIGHTS_PROBABILITY = 0.15  # that rights of clients change, and the authorisation law alone judges
MODEL_PROBABILITY = 0.5  # that clients who roam do so by another model than at random
CALM_PROBABILITY = 0.15  # that no fault is on at all
MODE_PROBABILITY = 0.4  # that roaming subscribers do not relocate, but
COMPLETE_MODES = ("ask", "carry")  # besides junction; the others lose events, and a swarm counts what is lost
JUNCTION_PROBABILITY = 0.3  # of those
LEFT_BEHIND_S = 30.0  # the time of a session that a naive client leaves behind: shorter than a run settles

Key = Callable[[str], Random]
"""The random stream of each key of a section."""

REDUCTIONS: tuple[tuple[Any, float], ...] = (
    ("flooding", 0.0),
    ("simple", 0.0),
    ("identity", 0.0),
    ("covering", 0.0),
    ("merging", 0.0),
    ("merging", 0.3),
)
ADVERTISEMENTS: tuple[Literal["required", "optional", "off"], ...] = ("required", "optional", "off")

STRATEGIES: tuple[RoutingSection, ...] = (
    *(
        RoutingSection(reduction=reduction, excess_max=excess_max, advertisements=advertisements)
        for reduction, excess_max in REDUCTIONS
        for advertisements in ADVERTISEMENTS
    ),
    *(RoutingSection(family="graph") for _ in range(6)),
)
"""Every strategy; the graph family is a quarter of a swarm."""


def drawn(seed: int, number: int) -> tuple[Scenario, int]:
    """The swarm's scenario of that number, and the seed to run it with."""
    streams = RandomStreams(f"swarm {seed} {number}")
    scenario = _with_roaming(draw(streams, number), partial(streams.stream, "roaming"))
    if streams.stream("quenching").random() < QUENCHING_PROBABILITY:
        scenario = structs.replace(scenario, routing=structs.replace(scenario.routing, quenching=True))
    scenario = _with_movement(scenario, partial(streams.stream, "movement"))
    scenario = _with_walking(scenario, partial(streams.stream, "walking"))
    if streams.stream("modes").random() < MODE_PROBABILITY and takes_modes(scenario):
        by_tables = streams.stream("junction").random() < JUNCTION_PROBABILITY
        mode = "junction" if by_tables else streams.stream("mode").choice(COMPLETE_MODES)
        scenario = with_mode(scenario, mode, streams.stream("announced"))
    scenario = _with_contexts(scenario, partial(streams.stream, "contexts"))
    scenario = _with_rights(scenario, partial(streams.stream, "rights"))
    return scenario, streams.stream("seed").getrandbits(SEED_BITS)


def draw(streams: RandomStreams, number: int) -> Scenario:
    """A small scenario; `number` chooses the strategy."""
    routing = STRATEGIES[number % len(STRATEGIES)]
    overlay = _overlay(partial(streams.stream, "overlay"), is_graph=routing.family == "graph")
    is_single = overlay.kind == "single" or overlay.brokers == 1
    if is_single and streams.stream("quenching-alone").random() < 0.7:
        routing = RoutingSection(
            reduction=routing.reduction,
            excess_max=routing.excess_max,
            advertisements=routing.advertisements,
            quenching=True,
        )
    key = partial(streams.stream, "clients")
    publishers = key("publishers").randint(1, 5)
    duration_s = float(key("duration_s").randint(8, 20))
    clients = Clients(
        publishers=publishers,
        subscribers=key("subscribers").randint(1, 7),
        subscriptions=key("subscriptions").randint(1, 3),
        placement=key("placement").choice(("leaves", "anywhere")),
        publish_per_s=round(
            min(key("publish_per_s").choice((2.0, 5.0, 10.0)), EVENTS_MAX / publishers / duration_s), 2
        ),
        payload_bytes=key("payload_bytes").choice((0, 0, 200)),
        disconnections=_disconnections(partial(streams.stream, "disconnections")),
    )
    scenario = Scenario(
        name=f"swarm-{number}",
        description=f"drawn as number {number} of a swarm",
        overlay=overlay,
        routing=routing,
        clients=clients,
        workload=_workload(partial(streams.stream, "workload")),
        churn=_churn(partial(streams.stream, "churn")),
        faults=_faults(partial(streams.stream, "faults")),
        sessions=_sessions(partial(streams.stream, "sessions")),
        run=Run(warmup_s=3.0, duration_s=duration_s, settle_s=60.0),
    )
    check(scenario)
    return scenario


def _with_roaming(scenario: Scenario, key: Key) -> Scenario:
    """Add roaming clients to some scenarios."""
    if scenario.sessions.subscription_expires_s is not None or key("is_on").random() < 0.5:
        return scenario
    roaming = Roaming(
        who=key("who").choice(("subscribers", "publishers", "all")),
        per_s=key("per_s").choice((0.3, 1.0, 3.0)),
        away_s=key("away_s").choice((0, 2)),
    )
    run = structs.replace(scenario.run, settle_s=180.0)
    return structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=roaming), run=run)


def _with_movement(scenario: Scenario, key: Key) -> Scenario:
    """Use another mobility model in some scenarios with roaming clients; short distances, at the speed of cars."""
    roaming, overlay = scenario.clients.roaming, scenario.overlay
    is_single = overlay.kind == "single" or overlay.brokers == 1
    if not roaming.is_on or is_single or key("is_on").random() >= MODEL_PROBABILITY:
        return scenario
    way: dict[str, Any] = {"model": key("model").choice(("line", "walk", "waypoint"))}
    way |= {"who": roaming.who, "away_s": key("away_s").choice((0.0, 0.5))}
    match way["model"]:
        case "line":
            way |= {"cell_km": 0.03, "speeds_kmh": (20.0, 50.0)}
        case "walk":
            way |= {"graph": key("graph").choice(("line", "grid", "overlay"))}
            way |= {"dwell_s": key("dwell_s").choice((0.5, 3.0))}
        case "waypoint":
            way |= {"stations": key("stations").choice(("grid", "drawn"))}
            way |= {"range_m": key("range_m").choice((40.0, 100.0)), "margin_m": 5.0}
            way |= {"area_km": 0.2, "speeds_kmh": (30.0, 100.0), "pause_s": 0.5}
    moved = structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=Roaming(**way)))
    check(moved)
    return moved


def with_mode(scenario: Scenario, mode: Any, rng: Random) -> Scenario:
    """Set the mode of roaming subscribers. Some announce their moves (`announced`)."""
    roaming = scenario.clients.roaming
    session_s = LEFT_BEHIND_S if mode == "naive" else None
    roaming = structs.replace(roaming, subscriber_mode=mode, announced=rng.choice((0.0, 0.5, 1.0)), session_s=session_s)
    return structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=roaming))


def takes_modes(scenario: Scenario) -> bool:
    """Whether subscribers roam under conditions in which every mode keeps its guarantees
    (`scenario/roaming_section.py`)."""
    roaming, is_tree = scenario.clients.roaming, scenario.routing.family == "tree"
    return roaming.is_on and roaming.who != "publishers" and is_tree and not scenario.faults.lose_disks


def _with_contexts(scenario: Scenario, key: Key) -> Scenario:
    """Add contexts, in most scenarios of the graph family and some of the others."""
    is_graph = scenario.routing.family == "graph"
    if is_graph:
        strategy = key("strategy").choice(("gsf", "spcf", "spcf"))
        at_hops = key("matching").random() < HOPS_PROBABILITY
        routing = structs.replace(scenario.routing, strategy=strategy, matching="hops" if at_hops else "source")
        if strategy == "spcf":
            routing = structs.replace(routing, contexts_max=key("contexts_max").choice((64, 64, 2, 1)))
        if key("is_advertised").random() < ADVERTISED_PROBABILITY:
            advertisements: Any = key("advertisements").choice(("required", "optional"))
            routing = structs.replace(scenario.routing, strategy="advertised", advertisements=advertisements)
        scenario = structs.replace(scenario, routing=routing)
    if key("is_on").random() >= (GRAPH_CONTEXTS_PROBABILITY if is_graph else CONTEXTS_PROBABILITY):
        return scenario
    contexts = Contexts(
        attributes=key("attributes").choice((1, 2, 3)),
        values=key("values").choice((2, 5, 20)),
        kind=key("kind").choice(("ranges", "mixed")),
        locality=key("locality").choice((0.0, 0.9)),
        sender_share=key("sender_share").choice((0.0, 0.5, 1.0)),
        sender_selectivity=key("sender_selectivity").choice((0.1, 0.3, 0.8)),
        to_share=key("to_share").choice((0.0, 0.3, 1.0)),
        to_selectivity=key("to_selectivity").choice((0.1, 0.3, 0.8)),
        changes_per_s=key("changes_per_s").choice((0.0, 1.0, 4.0, 15.0)),
        role_share=key("role_share").choice((0.0, 0.0, 0.6)),
    )
    if not contexts.sender_share:
        contexts = structs.replace(contexts, sender_selectivity=Contexts().sender_selectivity)
    if not contexts.to_share:
        contexts = structs.replace(contexts, to_selectivity=Contexts().to_selectivity)
    scenario = structs.replace(scenario, contexts=contexts)
    if is_graph and scenario.routing.quenching:
        scenario = structs.replace(scenario, run=structs.replace(scenario.run, warmup_s=GROWN_UP_S))
    check(scenario)
    return scenario


def _with_walking(scenario: Scenario, key: Key) -> Scenario:
    """Add walking subscribers to some scenarios, some of these without faults, so that they have a twin."""
    if key("is_on").random() >= WALKING_PROBABILITY:
        return scenario
    walking = Walking(
        graph=key("graph").choice(("line 6", "grid 4x4", "grid 8x3")),
        dwell_s=key("dwell_s").choice((0.1, 0.5, 2.0)),
        linger_s=key("linger_s").choice((0.1, 2.0)),
        declared=key("declared").random() < 0.8,
    )
    clients = structs.replace(scenario.clients, walking=walking)
    workload = WorkloadSpec(kind="places", topics=key("topics").choice((1, 3)), radius=key("radius").choice((0, 1)))
    scenario = structs.replace(scenario, clients=clients, workload=workload)
    if key("is_calm").random() >= 0.5:
        return scenario
    peace = structs.replace(clients, disconnections=Disconnections(), roaming=Roaming())
    overlay = structs.replace(scenario.overlay, bandwidth_kbps=None, disk_sync_ms=0.0)
    routing = structs.replace(scenario.routing, quenching=False)
    calm = {"clients": peace, "overlay": overlay, "routing": routing, "churn": Churn(), "faults": Faults()}
    return structs.replace(scenario, sessions=SessionsSection(), **calm)


def _with_rights(scenario: Scenario, key: Key) -> Scenario:
    """Add changes of rights to some scenarios: there only the authorisation law is checked."""
    if key("is_on").random() >= RIGHTS_PROBABILITY:
        return scenario
    rights = Rights(changes_per_s=key("changes_per_s").choice((1.0, 4.0, 8.0)))
    return structs.replace(scenario, rights=rights, run=structs.replace(scenario.run, judge=False, leave=False))


def _overlay(key: Key, *, is_graph: bool) -> OverlaySpec:
    brokers = key("brokers").randint(1, BROKERS_MAX)
    wires: dict[str, Any] = {
        "latency_ms": key("latency_ms").choice((1.0, 10.0, 40.0)),
        "bandwidth_kbps": key("bandwidth_kbps").choice((None, None, 256.0)),
        "client_latency_ms": key("client_latency_ms").choice((1.0, 10.0, 60.0)),
        "disk_sync_ms": key("disk_sync_ms").choice((0.0, 5.0)),
    }
    if is_graph and brokers > 3 and key("is_graph").random() < 0.8:
        return OverlaySpec(
            kind="random_graph", brokers=brokers, degree=key("degree").randint(2, min(4, brokers - 1)), **wires
        )
    match key("kind").choice(("line", "star", "balanced_tree", "random_tree", "random_tree", "single")):
        case "line":
            return OverlaySpec(kind="line", brokers=brokers, **wires)
        case "star":
            return OverlaySpec(kind="star", brokers=brokers, **wires)
        case "balanced_tree":
            height, degree = key("degree").choice(((2, 2), (2, 4), (3, 2)))
            return OverlaySpec(kind="balanced_tree", height=height, degree=degree, **wires)
        case "random_tree":
            return OverlaySpec(kind="random_tree", brokers=brokers, **wires)
    return OverlaySpec(kind="single", **wires)


def _workload(key: Key) -> WorkloadSpec:
    if key("kind").random() < 0.5:
        return WorkloadSpec(kind="mixed")
    return WorkloadSpec(
        kind="random",
        selectivity=key("selectivity").choice((0.05, 0.2, 0.5, 0.9)),
        skew=key("skew").choice((0.0, 1.0)),
        topics=key("topics").choice((2, 10)),
        attributes=2,
        predicates=key("predicates").choice((1, 2)),
    )


def _disconnections(key: Key) -> Disconnections:
    if key("is_on").random() < 0.5:
        return Disconnections()
    return Disconnections(
        who=key("who").choice(("subscribers", "publishers", "all")),
        per_s=key("per_s").choice((0.2, 0.6)),
        lasts_s=key("lasts_s").choice((0.5, 3.0)),
    )


def _churn(key: Key) -> Churn:
    if key("is_on").random() < 0.25:
        return Churn()
    rates = (0.0, 1.0, 4.0)
    return Churn(
        subscribe_per_s=key("subscribe_per_s").choice(rates),
        unsubscribe_per_s=key("unsubscribe_per_s").choice(rates),
        replace_per_s=key("replace_per_s").choice(rates),
        advertise_per_s=key("advertise_per_s").choice(rates),
        burst_s=key("burst_s").choice((0.5, 2.0)),
        pause_s=key("pause_s").choice((2.0, 4.0)),
    )


def _faults(key: Key) -> Faults:
    if key("is_calm").random() < CALM_PROBABILITY:
        return Faults()

    def probability(name: str, *values: float) -> float:
        return key(name).choice(values) if key(f"{name} is on").random() < FAULT_PROBABILITY else 0.0

    def rate(
        kind: FaultKind, per_s: tuple[float, ...], lasts_s: tuple[float, ...], is_on: float = FAULT_PROBABILITY
    ) -> Rate | None:
        if key(f"{kind} is on").random() >= is_on:
            return None
        return Rate(per_s=key(kind).choice(per_s), lasts_s=key(f"{kind} lasts_s").choice(lasts_s))

    return Faults(
        link_loss=probability("link_loss", 0.01, 0.1, 0.3),
        duplicate=probability("duplicate", 0.02, 0.2),
        delay=probability("delay", 0.05, 0.3),
        delay_ms_max=key("delay_ms_max").choice((50.0, 500.0)),
        link_break=rate("link_break", (0.1, 0.5), (0.2, 2.0)),
        partition_one_way=rate("partition_one_way", (0.1, 0.3), (0.5, 3.0)),
        crash=rate("crash", (0.1, 0.3), (0.2, 2.0)),
        crash_diskless=rate("crash_diskless", (0.05, 0.1), (0.2, 2.0)),
        disk_rolled_back=rate("disk_rolled_back", (0.05, 0.2), (0.2, 2.0)),
        rolled_back_inputs=key("rolled_back_inputs").choice((1, 5, 50)),
        disk_torn=rate("disk_torn", (0.1, 0.3), (0.2, 2.0), DAMAGE_PROBABILITY),
        disk_flipped=rate("disk_flipped", (0.1, 0.3), (0.2, 2.0), DAMAGE_PROBABILITY),
        durability=key("durability").choice(("relaxed", "full")),
        disk_full=rate("disk_full", (0.1,), (0.5, 2.0)),
        disk_slow=rate("disk_slow", (0.2,), (1.0,)),
        slow_node=rate("slow_node", (0.1, 0.3), (1.0,)),
        slow_ms=key("slow_ms").choice((20.0, 100.0)),
        clock_skew_s=probability("clock_skew_s", 0.1, 5.0),
    )


def _sessions(key: Key) -> SessionsSection:
    """Mostly no queue rules, because a purged event cannot be found missing."""
    match key("rule").choice(("", "", "", "count", "age", "expiry")):
        case "count":
            return SessionsSection(count_max=key("count_max").choice((3, 20)))
        case "age":
            return SessionsSection(age_s_max=key("age_s_max").choice((0.5, 3.0)))
        case "expiry":
            return SessionsSection(subscription_expires_s=key("subscription_expires_s").choice((6.0, 12.0)))
    return SessionsSection()
