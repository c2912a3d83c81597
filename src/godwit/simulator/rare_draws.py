"""What a swarm draws besides: features that few networks use, and that work together with all others.

*Theory.* `random_scenarios.drawn` draws the usual scenarios, and tests name many of them by seed and number. Each of
the functions here changes a drawn scenario with a probability and leaves the others as they are. So a usual scenario
stays what it was, and a swarm (`widely_drawn`) has usual ones and changed ones.

*Rules.*
1. Rules 1 to 3 of `random_scenarios.py`. Each kind of draw has a separate stream, named after what it draws.
2. Modes that lose events are drawn, too: the checkers hold them to what they promise. Modes of `godwit.baselines` are
   not: they are only for comparison.
3. A mode other than `relocate` is drawn only where no broker loses its memory: it promises nothing else. In other
   scenarios these faults are taken out, or the mode is left as it is.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from godwit.simulator.random_scenarios import Key, drawn
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import Roaming, Scenario, check
from godwit.simulator.scenario.roaming_section import PublisherMoves
from godwit.simulator.workloads import WorkloadSpec

__all__ = ["widely_drawn"]

OPEN_FILTERS_PROBABILITY = 0.3
ADVERTISED_PROBABILITY = 0.25
QUEUE_RULES_PROBABILITY = 0.25
EXPIRY_PROBABILITY = 0.1  # of those in which clients roam
BUFFER_PROBABILITY = 0.15
SLOWNESS_PROBABILITY = 0.15
PUBLICATIONS_PROBABILITY = 0.1
MODES_PROBABILITY = 0.35
FORGETTING_TAKEN_OUT_PROBABILITY = 0.7

SUBSCRIBER_MODES = ("ask", "named", "presubscribe", "explicit")
PUBLISHER_MODES = (
    *("standard", "prefetching", "proxy", "delayed", "prefetching+delayed"),
    *("named", "presubscribe", "relocate"),
)
TREE_MODES = ("junction", "carry")  # of subscribers, in the tree family
SETTLE_S = 180.0  # in a run in which clients roam
LEFT_BEHIND_S = 30.0


def widely_drawn(seed: int, number: int) -> tuple[Scenario, int]:
    """The swarm's scenario of that number, perhaps with rare features, and the seed to run it with."""
    scenario, run_seed = drawn(seed, number)
    streams = RandomStreams(f"rare {seed} {number}")
    for name, change in CHANGES.items():
        scenario = change(scenario, partial(streams.stream, name))
    check(scenario)
    return scenario, run_seed


def _with_open_filters(scenario: Scenario, key: Key) -> Scenario:
    """Let brokers of a tree tell of each filter on clients' states by itself."""
    if scenario.routing.family != "tree" or key("is_on").random() >= OPEN_FILTERS_PROBABILITY:
        return scenario
    return structs.replace(scenario, routing=structs.replace(scenario.routing, open_filters="each"))


def _with_advertised(scenario: Scenario, key: Key) -> Scenario:
    """Route by advertisements in a graph."""
    if scenario.routing.family != "graph" or key("is_on").random() >= ADVERTISED_PROBABILITY:
        return scenario
    advertisements: Any = key("advertisements").choice(("required", "optional"))
    routing = structs.replace(scenario.routing, strategy="advertised", matching="source", contexts_max=64)
    return structs.replace(scenario, routing=structs.replace(routing, advertisements=advertisements))


def _with_queue_rules(scenario: Scenario, key: Key) -> Scenario:
    """Several queue rules at once, and events that expire."""
    if key("is_on").random() >= QUEUE_RULES_PROBABILITY:
        return scenario
    rules: dict[str, Any] = {
        "newest_per": key("newest_per").choice((None, None, "topic", "kind", "price")),
        "high_water": key("high_water").choice((None, None, "x0", "price")),
        "count_max": key("count_max").choice((None, None, 3, 20)),
        "age_s_max": key("age_s_max").choice((None, None, 0.5, 3.0)),
        "bytes_max": key("bytes_max").choice((None, None, 300, 3_000)),
        "importance": key("importance").choice((None, None, "x1", "price")),
        "event_expires_s": key("event_expires_s").choice((None, None, 0.5, 3.0)),
    }
    return structs.replace(scenario, sessions=structs.replace(scenario.sessions, **rules))


def _with_publications(scenario: Scenario, key: Key) -> Scenario:
    """The workload of [pubmob §4]: each publisher has one publication."""
    if scenario.workload.kind == "places" or key("is_on").random() >= PUBLICATIONS_PROBABILITY:
        return scenario
    workload = WorkloadSpec(kind="publications", locality=key("locality").choice((0.0, 0.5, 1.0)))
    return structs.replace(scenario, workload=workload)


def _with_small_buffers(scenario: Scenario, key: Key) -> Scenario:
    """Publishers that cannot keep much while they are away."""
    if key("is_on").random() >= BUFFER_PROBABILITY:
        return scenario
    buffered = key("buffer_events_max").choice((1, 3, 10))
    return structs.replace(scenario, clients=structs.replace(scenario.clients, buffer_events_max=buffered))


def _with_slowness(scenario: Scenario, key: Key) -> Scenario:
    """Narrow wires of clients, and brokers that take time for each message."""
    if key("is_on").random() >= SLOWNESS_PROBABILITY:
        return scenario
    overlay = structs.replace(
        scenario.overlay,
        processing_ms=key("processing_ms").choice((0.0, 5.0)),
        client_bandwidth_kbps=key("client_bandwidth_kbps").choice((None, 64.0)),
    )
    return structs.replace(scenario, overlay=overlay)


def _with_modes(scenario: Scenario, key: Key) -> Scenario:
    """Clients that move in any mode, in both families."""
    is_single = scenario.overlay.kind == "single" or scenario.overlay.brokers == 1
    if is_single or scenario.rights.is_on or key("is_on").random() >= MODES_PROBABILITY:
        return scenario
    roaming, faults = scenario.clients.roaming, scenario.faults
    if not roaming.is_on:
        roaming = Roaming(
            who=key("who").choice(("subscribers", "publishers", "all")),
            per_s=key("per_s").choice((0.3, 1.0, 3.0)),
            away_s=key("away_s").choice((0.0, 0.2, 2.0)),
        )
    if faults.lose_disks and key("remembers").random() < FORGETTING_TAKEN_OUT_PROBABILITY:
        faults = structs.replace(faults, crash_diskless=None, disk_rolled_back=None, disk_torn=None, disk_flipped=None)
    if not faults.lose_disks:
        names = SUBSCRIBER_MODES + TREE_MODES * (scenario.routing.family == "tree")
        mode = key("subscriber_mode").choice(names)
        session_s = key("session_s").choice((None, LEFT_BEHIND_S)) if mode == "explicit" else None
        announced = key("announced").choice((0.0, 0.5, 1.0))
        roaming = structs.replace(roaming, subscriber_mode=mode, session_s=session_s, announced=announced)
    moves = PublisherMoves(
        delay_s=key("delay_s").choice((0.5, 3.0)),
        proxies=key("proxies").choice((1, 2, 5)),
        prefetch_s=key("prefetch_s").choice((1.0, 5.0, 30.0)),
        wrong_rate=key("wrong_rate").choice((0.0, 0.3, 1.0)),
    )
    publisher_mode = key("publisher_mode").choice(PUBLISHER_MODES)
    roaming = structs.replace(roaming, publisher_mode=publisher_mode, publishers=moves)
    clients, run = structs.replace(scenario.clients, roaming=roaming), structs.replace(scenario.run, settle_s=SETTLE_S)
    return structs.replace(scenario, clients=clients, faults=faults, run=run)


def _with_expiry(scenario: Scenario, key: Key) -> Scenario:
    """Subscriptions of clients that roam, and that expire by the clock of one of several brokers."""
    if not scenario.clients.roaming.is_on or key("is_on").random() >= EXPIRY_PROBABILITY:
        return scenario
    expires_s = key("subscription_expires_s").choice((6.0, 12.0))
    return structs.replace(scenario, sessions=structs.replace(scenario.sessions, subscription_expires_s=expires_s))


CHANGES: dict[str, Callable[[Scenario, Key], Scenario]] = {
    "open filters": _with_open_filters,
    "advertised": _with_advertised,
    "queue rules": _with_queue_rules,
    "publications": _with_publications,
    "small buffers": _with_small_buffers,
    "slowness": _with_slowness,
    "modes": _with_modes,
    "expiry": _with_expiry,
}
"""The rare features, each after its stream."""
