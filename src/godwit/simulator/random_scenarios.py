"""The swarm's scenarios: small ones drawn from a seed, over every strategy and every fault.

*Theory.* A swarm finds what nobody thought of: it runs hundreds of small networks, each with another mix of strategy,
overlay, workload, churn and faults. The strategy goes by the scenario's number, so that each comes up in turn; all else
is drawn. Each kind of fault is on in some scenarios and off in others: a fault that is always there hides those that
need its absence.

*Rules.*
1. The same seed and number give the same scenario, in any process and whatever was drawn before.
2. A drawn scenario is small (8 brokers, 12 clients, a few hundred events), and `check` lets it through.
"""

from random import Random
from typing import Any, Literal

from msgspec import structs

from godwit.simulator.scenario import (
    Churn,
    Clients,
    Contexts,
    Disconnections,
    Faults,
    OverlaySpec,
    Rate,
    Roaming,
    Routing,
    Run,
    Scenario,
    Sessions,
    Walking,
    check,
)
from godwit.simulator.workloads import WorkloadSpec

__all__ = ["STRATEGIES", "draw", "drawn", "takes_modes", "with_mode", "without_contexts"]

BROKERS_MAX = 8
EVENTS_MAX = 300
WALKING_PROBABILITY = 0.15
CONTEXTS_PROBABILITY = 0.4  # in the tree family
GRAPH_CONTEXTS_PROBABILITY = 0.75
GROWN_UP_S = 65.0  # until brokers of a graph are sure what is wanted, and let sources quench
HOPS_PROBABILITY = 0.4  # where nobody roams and no disk is lost
QUENCHING_PROBABILITY = 0.15  # on any overlay; on a single broker it is likely anyway
SEED_BITS = 32
FAULT_PROBABILITY = 0.35  # that a kind of fault is on
MODEL_PROBABILITY = 0.5  # that clients who roam do so by another model than at random
CALM_PROBABILITY = 0.15  # that no fault is on at all
MODE_PROBABILITY = 0.4  # that roaming subscribers do not relocate, but
COMPLETE_MODES = ("ask", "carry")  # the others lose events, and a swarm counts what is lost
LEFT_BEHIND_S = 30.0  # the time of a session that a naive client leaves behind: shorter than a run settles

REDUCTIONS: tuple[tuple[Any, float], ...] = (
    ("flooding", 0.0),
    ("simple", 0.0),
    ("identity", 0.0),
    ("covering", 0.0),
    ("merging", 0.0),
    ("merging", 0.3),
)
ADVERTISEMENTS: tuple[Literal["required", "optional", "off"], ...] = ("required", "optional", "off")

STRATEGIES: tuple[Routing, ...] = (
    *(
        Routing(reduction=reduction, excess_max=excess_max, advertisements=advertisements)
        for reduction, excess_max in REDUCTIONS
        for advertisements in ADVERTISEMENTS
    ),
    *(Routing(family="graph") for _ in range(6)),
)
"""Every strategy, the graph family as often as it takes to make up a quarter of a swarm."""


def drawn(seed: int, number: int) -> tuple[Scenario, int]:
    """The swarm's scenario of that number, and the seed to run it with."""
    rng = Random(f"swarm {seed} {number}")
    scenario, run_seed = draw(rng, number), rng.getrandbits(SEED_BITS)
    more = Random(f"swarm {seed} {number} roaming")
    is_newer = scenario.routing.family == "graph" or scenario.faults.crash_diskless is not None
    scenario = _with_roaming(scenario, Random(f"swarm {seed} {number} roaming, too") if is_newer else more)
    if more.random() < QUENCHING_PROBABILITY:
        scenario = structs.replace(scenario, routing=structs.replace(scenario.routing, quenching=True))
    scenario = _with_movement(scenario, Random(f"swarm {seed} {number} movement"))
    scenario = _with_walking(scenario, Random(f"swarm {seed} {number} walking"))
    ways = Random(f"swarm {seed} {number} modes")
    if ways.random() < MODE_PROBABILITY and takes_modes(scenario):
        scenario = with_mode(scenario, ways.choice(COMPLETE_MODES), ways)
    return _with_contexts(scenario, Random(f"swarm {seed} {number} contexts")), run_seed


def draw(rng: Random, number: int) -> Scenario:
    """A small scenario; `number` chooses the strategy."""
    routing = STRATEGIES[number % len(STRATEGIES)]
    overlay = _overlay(rng, is_graph=routing.family == "graph")
    is_single = overlay.kind == "single" or overlay.brokers == 1
    if is_single and rng.random() < 0.7:
        routing = Routing(
            reduction=routing.reduction,
            excess_max=routing.excess_max,
            advertisements=routing.advertisements,
            quenching=True,
        )
    publishers = rng.randint(1, 5)
    duration_s = float(rng.randint(8, 20))
    clients = Clients(
        publishers=publishers,
        subscribers=rng.randint(1, 7),
        subscriptions=rng.randint(1, 3),
        placement=rng.choice(("leaves", "anywhere")),
        publish_per_s=round(min(rng.choice((2.0, 5.0, 10.0)), EVENTS_MAX / publishers / duration_s), 2),
        payload_bytes=rng.choice((0, 0, 200)),
        disconnections=_disconnections(rng),
    )
    scenario = Scenario(
        name=f"swarm-{number}",
        description=f"drawn as number {number} of a swarm",
        overlay=overlay,
        routing=routing,
        clients=clients,
        workload=_workload(rng),
        churn=_churn(rng),
        faults=_faults(rng),
        sessions=_sessions(rng),
        run=Run(warmup_s=3.0, duration_s=duration_s, settle_s=60.0),
    )
    check(scenario)
    return scenario


def _with_roaming(scenario: Scenario, rng: Random) -> Scenario:
    """Let the clients of some scenarios roam; drawn apart, so that all else stays as it was."""
    if scenario.sessions.subscription_expires_s is not None or rng.random() < 0.5:
        return scenario
    roaming = Roaming(
        who=rng.choice(("subscribers", "publishers", "all")),
        per_s=rng.choice((0.3, 1.0, 3.0)),
        away_s=rng.choice((0, 2)),
    )
    run = structs.replace(scenario.run, settle_s=180.0)
    return structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=roaming), run=run)


def _with_movement(scenario: Scenario, rng: Random) -> Scenario:
    """Let clients who roam do so by another model, in some scenarios; short ways, at the speed of cars."""
    roaming, overlay = scenario.clients.roaming, scenario.overlay
    is_single = overlay.kind == "single" or overlay.brokers == 1
    if not roaming.is_on or is_single or rng.random() >= MODEL_PROBABILITY:
        return scenario
    way: dict[str, Any] = {"model": rng.choice(("line", "walk", "waypoint"))}
    way |= {"who": roaming.who, "away_s": rng.choice((0.0, 0.5))}
    match way["model"]:
        case "line":
            way |= {"cell_km": 0.03, "speeds_kmh": (20.0, 50.0)}
        case "walk":
            way |= {"graph": rng.choice(("line", "grid", "overlay")), "dwell_s": rng.choice((0.5, 3.0))}
        case "waypoint":
            way |= {"stations": rng.choice(("grid", "drawn")), "range_m": rng.choice((40.0, 100.0)), "margin_m": 5.0}
            way |= {"area_km": 0.2, "speeds_kmh": (30.0, 100.0), "pause_s": 0.5}
    moved = structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=Roaming(**way)))
    check(moved)
    return moved


def with_mode(scenario: Scenario, mode: Any, rng: Random) -> Scenario:
    """Let its subscribers, if any roam, move in that way. Some manage to say so before they go (`announced`)."""
    roaming = scenario.clients.roaming
    session_s = LEFT_BEHIND_S if mode == "naive" else None
    roaming = structs.replace(roaming, subscriber_mode=mode, announced=rng.choice((0.0, 0.5, 1.0)), session_s=session_s)
    return structs.replace(scenario, clients=structs.replace(scenario.clients, roaming=roaming))


def takes_modes(scenario: Scenario) -> bool:
    """Whether subscribers roam where every mode keeps its promises (`scenario/roaming.py`)."""
    roaming, is_tree = scenario.clients.roaming, scenario.routing.family == "tree"
    return roaming.is_on and roaming.who != "publishers" and is_tree and scenario.faults.crash_diskless is None


def without_contexts(scenario: Scenario) -> Scenario:
    """The scenario as it would have been drawn before there were contexts."""
    routing = structs.replace(scenario.routing, strategy="gsf", matching="source", contexts_max=64)
    return structs.replace(scenario, routing=routing, contexts=Contexts())


def _with_contexts(scenario: Scenario, rng: Random) -> Scenario:
    """Let clients have contexts, in most scenarios of the graph family and some of the others."""
    is_graph = scenario.routing.family == "graph"
    if is_graph:
        strategy = rng.choice(("gsf", "spcf", "spcf"))
        at_hops = rng.random() < HOPS_PROBABILITY and _takes_hops(scenario)
        routing = structs.replace(scenario.routing, strategy=strategy, matching="hops" if at_hops else "source")
        if strategy == "spcf":
            contexts_max = rng.choice((64, 64, 2, 1))
            routing = structs.replace(routing, contexts_max=64 if at_hops else contexts_max)
        scenario = structs.replace(scenario, routing=routing)
    if rng.random() >= (GRAPH_CONTEXTS_PROBABILITY if is_graph else CONTEXTS_PROBABILITY):
        return scenario
    contexts = Contexts(
        attributes=rng.choice((1, 2, 3)),
        values=rng.choice((2, 5, 20)),
        kind=rng.choice(("ranges", "mixed")),
        locality=rng.choice((0.0, 0.9)),
        sender_share=rng.choice((0.0, 0.5, 1.0)),
        sender_selectivity=rng.choice((0.1, 0.3, 0.8)),
        to_share=rng.choice((0.0, 0.3, 1.0)),
        to_selectivity=rng.choice((0.1, 0.3, 0.8)),
        changes_per_s=rng.choice((0.0, 1.0, 4.0, 15.0)),
        role_share=rng.choice((0.0, 0.0, 0.6)),
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


def _takes_hops(scenario: Scenario) -> bool:
    return scenario.faults.crash_diskless is None and not scenario.clients.roaming.is_on


def _with_walking(scenario: Scenario, rng: Random) -> Scenario:
    """Let the subscribers of some scenarios walk, and some of these in peace, so that they have a twin."""
    if rng.random() >= WALKING_PROBABILITY:
        return scenario
    walking = Walking(
        graph=rng.choice(("line 6", "grid 4x4", "grid 8x3")),
        dwell_s=rng.choice((0.1, 0.5, 2.0)),
        linger_s=rng.choice((0.1, 2.0)),
        declared=rng.random() < 0.8,
    )
    clients = structs.replace(scenario.clients, walking=walking)
    workload = WorkloadSpec(kind="places", topics=rng.choice((1, 3)), radius=rng.choice((0, 1)))
    scenario = structs.replace(scenario, clients=clients, workload=workload)
    if rng.random() < 0.5:
        return scenario
    peace = structs.replace(clients, disconnections=Disconnections(), roaming=Roaming())
    overlay = structs.replace(scenario.overlay, bandwidth_kbps=None, disk_sync_ms=0.0)
    routing = structs.replace(scenario.routing, quenching=False)
    calm = {"clients": peace, "overlay": overlay, "routing": routing, "churn": Churn(), "faults": Faults()}
    return structs.replace(scenario, sessions=Sessions(), **calm)


def _overlay(rng: Random, *, is_graph: bool) -> OverlaySpec:
    brokers = rng.randint(1, BROKERS_MAX)
    wires: dict[str, Any] = {
        "latency_ms": rng.choice((1.0, 10.0, 40.0)),
        "bandwidth_kbps": rng.choice((None, None, 256.0)),
        "client_latency_ms": rng.choice((1.0, 10.0, 60.0)),
        "disk_sync_ms": rng.choice((0.0, 5.0)),
    }
    if is_graph and brokers > 3 and rng.random() < 0.8:
        return OverlaySpec(kind="random_graph", brokers=brokers, degree=rng.randint(2, min(4, brokers - 1)), **wires)
    match rng.choice(("line", "star", "balanced_tree", "random_tree", "random_tree", "single")):
        case "line":
            return OverlaySpec(kind="line", brokers=brokers, **wires)
        case "star":
            return OverlaySpec(kind="star", brokers=brokers, **wires)
        case "balanced_tree":
            height, degree = rng.choice(((2, 2), (2, 4), (3, 2)))
            return OverlaySpec(kind="balanced_tree", height=height, degree=degree, **wires)
        case "random_tree":
            return OverlaySpec(kind="random_tree", brokers=brokers, **wires)
    return OverlaySpec(kind="single", **wires)


def _workload(rng: Random) -> WorkloadSpec:
    if rng.random() < 0.5:
        return WorkloadSpec(kind="mixed")
    return WorkloadSpec(
        kind="random",
        selectivity=rng.choice((0.05, 0.2, 0.5, 0.9)),
        skew=rng.choice((0.0, 1.0)),
        topics=rng.choice((2, 10)),
        attributes=2,
        predicates=rng.choice((1, 2)),
    )


def _disconnections(rng: Random) -> Disconnections:
    if rng.random() < 0.5:
        return Disconnections()
    return Disconnections(
        who=rng.choice(("subscribers", "publishers", "all")),
        per_s=rng.choice((0.2, 0.6)),
        lasts_s=rng.choice((0.5, 3.0)),
    )


def _churn(rng: Random) -> Churn:
    if rng.random() < 0.25:
        return Churn()
    rates = (0.0, 1.0, 4.0)
    return Churn(
        subscribe_per_s=rng.choice(rates),
        unsubscribe_per_s=rng.choice(rates),
        replace_per_s=rng.choice(rates),
        advertise_per_s=rng.choice(rates),
        burst_s=rng.choice((0.5, 2.0)),
        pause_s=rng.choice((2.0, 4.0)),
    )


def _faults(rng: Random) -> Faults:
    if rng.random() < CALM_PROBABILITY:
        return Faults()

    def some(values: tuple[float, ...]) -> float:
        return rng.choice(values) if rng.random() < FAULT_PROBABILITY else 0.0

    def rate(values: tuple[float, ...], lasts_s: tuple[float, ...]) -> Rate | None:
        per_s, length_s = rng.choice(values), rng.choice(lasts_s)
        return Rate(per_s=per_s, lasts_s=length_s) if rng.random() < FAULT_PROBABILITY else None

    return Faults(
        link_loss=some((0.01, 0.1, 0.3)),
        duplicate=some((0.02, 0.2)),
        delay=some((0.05, 0.3)),
        delay_ms_max=rng.choice((50.0, 500.0)),
        link_break=rate((0.1, 0.5), (0.2, 2.0)),
        partition_one_way=rate((0.1, 0.3), (0.5, 3.0)),
        crash=rate((0.1, 0.3), (0.2, 2.0)),
        crash_diskless=rate((0.05, 0.1), (0.2, 2.0)),
        slow_node=rate((0.1, 0.3), (1.0,)),
        slow_ms=rng.choice((20.0, 100.0)),
        clock_skew_s=some((0.1, 5.0)),
    )


def _sessions(rng: Random) -> Sessions:
    """Mostly without rules: what a rule has purged cannot be missed any more."""
    match rng.choice(("", "", "", "count", "age", "expiry")):
        case "count":
            return Sessions(count_max=rng.choice((3, 20)))
        case "age":
            return Sessions(age_s_max=rng.choice((0.5, 3.0)))
        case "expiry":
            return Sessions(subscription_expires_s=rng.choice((6.0, 12.0)))
    return Sessions()
