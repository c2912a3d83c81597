"""What each way to move costs and loses, side by side; and how long a client that subscribes anew is in the dark.

*Theory.* One scenario is run once for each way, with the same seed: publishers, subscribers, filters, events and moves
are the same, and only how subscribers are followed differs. What was **lost** needs a reference, since a trace does not
say what should have come. The reference is a twin run in which nobody moves. Its subscriptions settle before the first
event and never change, so it delivers exactly what is owed; what the twin delivers to a client and the run does not is
lost. What **came twice** and what came **out of order** (after a later event of the same publisher) is counted
from the run's own deliveries. What a move **costs** is what the run needed more than its twin, by moves: messages of
control and their bytes, hop by hop, between brokers and over the air.

The **gap** is from a client's connection to a new broker to the first event that then comes to it; the gap to *new*
events counts only events that entered the network after it connected, which a client that waits for its old session
must wait longer for.

The **blackout** [rebeca §3.3, Fig. 3a] is from the moment that a new border broker has taken a subscription to the
first event that comes for it; t_d is the time that a message takes between the border brokers of publisher and
subscriber. Only subscriptions count that begin when the one before is gone everywhere: as long as events still flow to
where the client was, they may pass where it is.

*Rules.*
1. All figures come from traces (`tables.py`), none from inside a run.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from math import inf
from pathlib import Path
from statistics import median

import msgspec
from msgspec import structs

from godwit.reproduce.claims import Setting
from godwit.reproduce.runs import traced
from godwit.reproduce.tables import CONTROL, EventId, arrivals, deliveries, overtaken, rows
from godwit.simulator.scenario import Clients, OverlaySpec, Rate, Roaming, Routing, Run, Scenario
from godwit.simulator.workloads import WorkloadSpec

__all__ = ["WAYS", "Blackout", "Figures", "blackouts", "compare", "figures", "scenario_of"]

EVENTS = ("Delivery", "Received")  # between a client and its broker
SESSION_S = 30.0  # of what naive clients leave behind

WAYS: dict[str, tuple[str, float]] = {
    "relocate": ("relocate", 1.0),
    "ask": ("ask", 1.0),
    "carry": ("carry", 1.0),
    "explicit, move-out said": ("explicit", 1.0),
    "explicit, none said": ("explicit", 0.0),
    "naive, unsubscribing": ("naive", 1.0),
    "naive, leaving": ("naive", 0.0),
}
"""What is compared: a name, the mode (`mobility/modes.py`), and the share of moves that are announced."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a run shows about a way to move."""

    moves: int
    old_down: int  # of these, while the broker that the client came from was down
    owed: int
    lost: int
    twice: int
    out_of_order: int
    control_per_move: float  # messages between brokers, each hop
    bytes_per_move: float  # of these
    air_per_move: float  # messages of control between clients and brokers
    gap_s: float | None  # median over moves, to the first event
    new_gap_s: float | None  # to the first that entered after the client had connected


# ---------------------------------------------------------------- runs


def scenario_of(way: str, *, full: bool, old_broker_down: bool = False) -> Scenario:
    """The scenario of one way; of "" the twin in which nobody moves."""
    mode, announced = WAYS.get(way, ("relocate", 1.0))
    height, degree = (4, 4) if full else (3, 3)
    roaming = Roaming(
        who="subscribers",
        per_s=0 if way == "" else 2 if full else 1,
        away_s=2,
        subscriber_mode=mode,  # type: ignore[arg-type]
        announced=announced,
        session_s=SESSION_S if mode == "naive" else None,
    )
    scenario = Scenario(
        name=f"handoff-{way.replace(', ', '-').replace(' ', '-') or 'nobody-moves'}",
        description="subscribers move over a tree of brokers; how they are followed is compared",
        overlay=OverlaySpec(kind="balanced_tree", height=height, degree=degree, latency_ms=25),
        routing=Routing(reduction="covering", advertisements="required"),
        clients=Clients(
            publishers=10 if full else 6,
            subscribers=40 if full else 12,
            publish_per_s=10,
            placement="leaves",
            roaming=roaming,
        ),
        workload=WorkloadSpec(selectivity=0.5),
        run=Run(duration_s=60 if full else 30, settle_s=90, leave=False, judge=False),
    )
    if not old_broker_down:
        return scenario
    crash = Rate(per_s=1.5, lasts_s=4)
    return structs.replace(scenario, name=f"{scenario.name}-down", faults=structs.replace(scenario.faults, crash=crash))


def compare(
    setting: Setting, ways: Mapping[str, tuple[str, float]] = WAYS, *, old_broker_down: bool = False
) -> dict[str, Figures]:
    """Run every way, and the twin, and read off their traces what they lose, double and cost."""

    def trace_of(way: str) -> Path:
        scenario = scenario_of(way, full=setting.full, old_broker_down=old_broker_down)
        return traced(scenario, setting.seed, setting.folder, setting.progress)[0]

    twin = trace_of("")
    return {way: figures(trace_of(way), twin) for way in ways}


# ---------------------------------------------------------------- figures


def figures(folder: Path, twin: Path) -> Figures:
    """What a trace shows, beside that of the twin in which nobody moves."""
    got, owed = deliveries(folder), deliveries(twin)
    came = arrivals(folder)
    starts = {client: [at for at, _, _ in times] for client, times in came.items()}
    moves = sum(map(len, starts.values()))
    entered = {(who, number): at for at, who, number in rows(folder, "published", "at", "publisher", "sequence")}
    gaps = [gap for gap, _ in _gaps(folder, starts, entered) if gap is not None]
    new_gaps = [gap for _, gap in _gaps(folder, starts, entered) if gap is not None]
    ours, theirs = _control(folder), _control(twin)
    share = max(moves, 1)
    return Figures(
        moves=moves,
        old_down=_old_down(folder, came),
        owed=sum(len(set(events)) for events in owed.values()),
        lost=sum(len(set(events) - set(got.get(client, ()))) for client, events in owed.items()),
        twice=sum(len(events) - len(set(events)) for events in got.values()),
        out_of_order=sum(map(overtaken, got.values())),
        control_per_move=(ours["messages"] - theirs["messages"]) / share,
        bytes_per_move=(ours["bytes"] - theirs["bytes"]) / share,
        air_per_move=(ours["air"] - theirs["air"]) / share,
        gap_s=median(gaps) if gaps else None,
        new_gap_s=median(new_gaps) if new_gaps else None,
    )


def _old_down(folder: Path, came: Mapping[str, list[tuple[float, str, str]]]) -> int:
    """Moves at whose end the broker that the client came from was down."""
    down = rows(folder, "crashed", "at", "node")
    up = rows(folder, "restarted", "at", "node")
    spans = [(node, at, min((end for end, who in up if who == node and end > at), default=inf)) for at, node in down]
    return sum(
        any(node == old and start <= at < end for node, start, end in spans)
        for times in came.values()
        for at, old, _ in times
    )


def _gaps(
    folder: Path, starts: Mapping[str, list[float]], entered: Mapping[EventId, float]
) -> Iterator[tuple[float | None, float | None]]:
    """For each move, how long until an event came, and one that had entered since; None: none before the next move."""
    came: dict[str, list[tuple[float, float]]] = {}
    for at, node, publisher, number in rows(folder, "delivered", "at", "node", "publisher", "sequence"):
        came.setdefault(node, []).append((at, entered.get((publisher, number), 0.0)))
    for client, times in starts.items():
        for start, end in zip(times, [*times[1:], float("inf")], strict=True):
            stay = [(at, said) for at, said in came.get(client, ()) if start <= at < end]
            first = next((at - start for at, _ in stay), None)
            yield first, next((at - start for at, said in stay if said >= start), None)


def _control(folder: Path) -> Counter[str]:
    """Messages of control between brokers and their bytes, each hop, and those between clients and brokers."""
    found: Counter[str] = Counter()
    for node, peer, message, size in rows(folder, "handled", "node", "peer", "message", "size"):
        if node.startswith("b") and peer.startswith("b"):
            if message in CONTROL:
                found["messages"] += 1
                found["bytes"] += size
        elif message not in EVENTS:
            found["air"] += 1
    return found


# ---------------------------------------------------------------- blackout


class Blackout(msgspec.Struct, frozen=True, kw_only=True):
    """One subscription made anew, and when its first event came."""

    delay_s: float  # t_d: between the border brokers of publisher and subscriber
    blackout_s: float


def blackouts(setting: Setting, reduction: str = "simple", latency_ms: float = 50.0) -> list[Blackout]:
    """Let a naive subscriber move along a line of brokers, at one of which a publisher speaks all the time.

    It unsubscribes before it goes. The delays of clients' own connections are near zero.
    """
    brokers = 12 if setting.full else 8
    scenario = Scenario(
        name=f"blackout-{reduction}",
        overlay=OverlaySpec(kind="line", brokers=brokers, latency_ms=latency_ms, client_latency_ms=0.1),
        routing=Routing(reduction=reduction, advertisements="off"),  # type: ignore[arg-type]
        clients=Clients(
            publishers=1,
            subscribers=1,
            publish_per_s=400,
            roaming=Roaming(who="subscribers", per_s=0.4, away_s=2, subscriber_mode="naive", session_s=SESSION_S),
        ),
        workload=WorkloadSpec(kind="publications"),
        run=Run(duration_s=60 if setting.full else 30, settle_s=40, leave=False),
    )
    folder, _ = traced(scenario, setting.seed, setting.folder, setting.progress)
    return list(_blackouts(folder, latency_ms / 1_000, brokers))


def _blackouts(folder: Path, latency_s: float, brokers: int) -> Iterator[Blackout]:
    source = next(peer for node, peer in rows(folder, "link_up", "node", "peer") if node == "p0")
    begun = [(at, node) for at, node, peer in rows(folder, "subscribed", "at", "node", "peer") if peer == "s0"]
    ended = [at for at, peer in rows(folder, "session_ended", "at", "peer") if peer == "s0"]
    came = [at for at, node in rows(folder, "delivered", "at", "node") if node == "s0"]
    for (start, border), end in zip(begun, [*(at for at, _ in begun[1:]), float("inf")], strict=True):
        first = next((at for at in came if start <= at < end), None)
        is_gone = (
            any(at < start for at in ended) and start - max(at for at in ended if at < start) > brokers * latency_s
        )
        if first is not None and is_gone:
            delay_s = abs(int(border[1:]) - int(source[1:])) * latency_s
            yield Blackout(delay_s=delay_s, blackout_s=first - start)
