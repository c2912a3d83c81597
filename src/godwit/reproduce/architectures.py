"""[mobile §3.2, §4, §4.3]: quenching, broadcast against multicast, and what may leave a queue. Claims H2, H3 and H5.

*Theory.* Each claim is decided by runs that differ in one thing and share a seed. Publishers, subscribers, filters,
events, connections and their times are then the same, so what is delivered in one run and not in the other is what that
one thing changed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from godwit.reproduce.claims import Claim, Setting
from godwit.reproduce.runs import traced
from godwit.reproduce.tables import EventId, deliveries, hops, ids, rows
from godwit.simulator.scenario import (
    Churn,
    Clients,
    Disconnections,
    OverlaySpec,
    Routing,
    Run,
    Scenario,
    Sessions,
)
from godwit.simulator.workloads import WorkloadSpec

__all__ = ["broadcast_and_multicast", "purging", "quenching"]


def _given(folder: Path) -> dict[str, set[EventId]]:
    return {client: set(got) for client, got in deliveries(folder).items()}


# ---------------------------------------------------------------- H2


def _quenched(name: str, full: bool, *, quenching: bool, is_away: bool) -> Scenario:
    size = 4 if full else 1
    return Scenario(
        name=name,
        overlay=OverlaySpec(kind="single", client_latency_ms=20),
        routing=Routing(reduction="simple", advertisements="off", quenching=quenching),
        clients=Clients(
            publishers=10 * size,
            subscribers=5 * size,
            publish_per_s=4,
            disconnections=Disconnections(who="publishers", per_s=0.5 * size if is_away else 0, lasts_s=2),
        ),
        workload=WorkloadSpec(selectivity=0.02, skew=1.0, topics=50),
        churn=Churn(subscribe_per_s=1 if is_away else 0, burst_s=1, pause_s=2),
        run=Run(duration_s=20, settle_s=20),
    )


def quenching(setting: Setting) -> Claim:
    """H2: what is dropped at the source is what nobody wants; a source that is away keeps what somebody may want."""
    results = {}
    for is_away in (False, True):
        for quenches in (True, False):
            name = f"quenching_{'on' if quenches else 'off'}{'_sources_away' if is_away else ''}"
            scenario = _quenched(name, setting.full, quenching=quenches, is_away=is_away)
            results[is_away, quenches] = traced(scenario, setting.seed, setting.folder, setting.progress)[0]
    on, off = results[False, True], results[False, False]
    quenched, wanted = ids(on, "quenched"), {id for got in _given(off).values() for id in got}
    unwanted = ids(off, "published") - wanted
    away_on, away_off = _given(results[True, True]), _given(results[True, False])
    missed = sum(len(got - away_on.get(client, set())) for client, got in away_off.items())
    sent = len(ids(on, "published"))
    return Claim(
        key="H2",
        where="§3.2",
        claim="quenching drops at the source exactly what no subscription matches; a source that buffers while it is "
        "away never drops what a subscription it has not learnt of yet wanted, while there is room",
        paper="exactly; never",
        ours=f"{len(quenched)} of {sent + len(quenched)} events dropped, {len(quenched ^ unwanted)} wrongly; with "
        f"sources that go away {len(ids(results[True, True], 'quenched'))} dropped, {missed} deliveries missed",
        holds=quenched == unwanted
        and not missed
        and min(len(quenched), len(away_off), len(rows(results[True, True], "link_down", "node"))) > 0,
    )


# ---------------------------------------------------------------- H3


def broadcast_and_multicast(setting: Setting) -> Claim:
    """H3: the same is delivered, in fewer messages."""
    found = {}
    for reduction in ("flooding", "covering"):
        scenario = Scenario(
            name="broadcast" if reduction == "flooding" else "multicast",
            overlay=OverlaySpec(kind="balanced_tree", height=4 if setting.full else 3, degree=3),
            routing=Routing(reduction=reduction, advertisements="off"),
            clients=Clients(publishers=10, subscribers=60, publish_per_s=2),
            workload=WorkloadSpec(selectivity=0.02),
            run=Run(duration_s=20, settle_s=10),
        )
        found[reduction] = traced(scenario, setting.seed, setting.folder, setting.progress)[0]
    broadcast, multicast = (hops(found[reduction], "Publish") for reduction in ("flooding", "covering"))
    published = ids(found["flooding"], "published")
    brokers = sum(3**level for level in range(4 if setting.full else 3))
    to_all = all(broadcast[id] == brokers - 1 for id in published)
    same = _given(found["flooding"]) == _given(found["covering"])
    before, after = broadcast.total(), multicast.total()
    return Claim(
        key="H3",
        where="§4",
        claim="broadcast sends every event to every broker; multicast delivers the same set with fewer messages",
        paper="all brokers; the same; fewer",
        ours=f"{brokers - 1} hops for each of {len(published)} events{'' if to_all else ' (NOT FOR ALL)'}; deliveries "
        f"{'the same' if same else 'DIFFERENT'}; {before:,} messages against {after:,}",
        holds=to_all and same and after < before,
    )


# ---------------------------------------------------------------- H5

AGE_S = 2.0
RULES: dict[str, Sessions] = {
    "none": Sessions(),
    "age": Sessions(age_s_max=AGE_S),
    "newest_per": Sessions(newest_per="key"),
    "high_water": Sessions(high_water="value"),
}


def purging(setting: Setting) -> Claim:
    """H5: what leaves a queue is what its rule says, on record, and all else is delivered."""
    events = _write_events(setting.folder, Random(setting.seed))
    folders = {}
    for rule, sessions in RULES.items():
        scenario = Scenario(
            name=f"purging_{rule}",
            overlay=OverlaySpec(kind="single"),
            clients=Clients(
                publishers=1,
                subscribers=20 if setting.full else 6,
                publish_per_s=20,
                disconnections=Disconnections(who="subscribers", per_s=2 if setting.full else 0.6, lasts_s=5),
            ),
            workload=WorkloadSpec(
                kind="files",
                subscriptions_file=str(setting.folder / "purging_subscriptions.jsonl"),
                events_file=str(setting.folder / "purging_events.jsonl"),
            ),
            sessions=sessions,
            run=Run(duration_s=30, settle_s=30),
        )
        folders[rule] = traced(scenario, setting.seed, setting.folder, setting.progress)[0]
    everything = _given(folders["none"])
    counts, wrong = {}, 0
    for rule, folder in folders.items():
        if rule == "none":
            continue
        counts[rule], faults = _judged(rule, folder, everything, events)
        wrong += faults
    purged = ", ".join(f"{count} by {rule}" for rule, count in counts.items())
    return Claim(
        key="H5",
        where="§4.3",
        claim="a queue may be purged by age, by keeping the newest of each key, and by a high-water mark",
        paper="described",
        ours=f"{purged}; {wrong} that the rule does not allow or that were not on record",
        holds=all(counts.values()) and not wrong,
        note="Each run is compared with one without the rule: what is missing is what the trace says was purged.",
    )


def _write_events(folder: Path, rng: Random) -> list[dict[str, int]]:
    """The events of the runs, in the order in which the one publisher says them."""
    folder.mkdir(parents=True, exist_ok=True)
    events = [{"key": rng.randrange(5), "value": rng.randrange(1_000_000)} for _ in range(1_000)]
    lines = (json.dumps({"id": number, "attributes": event}) for number, event in enumerate(events))
    (folder / "purging_events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = json.dumps({"id": 1, "filter": "value >= 0"})
    (folder / "purging_subscriptions.jsonl").write_text(f"{text}\n", encoding="utf-8")
    return events


def _judged(
    rule: str, folder: Path, everything: dict[str, set[EventId]], events: list[dict[str, int]]
) -> tuple[int, int]:
    """How many were purged, and how many of them wrongly."""
    published = {(who, number): at for at, who, number in rows(folder, "published", "at", "publisher", "sequence")}
    given = _given(folder)
    wrong = 0
    purged = rows(folder, "purged", "at", "peer", "publisher", "sequence", "detail")
    by_client: dict[str, set[EventId]] = {}
    for at, client, publisher, sequence, reason in purged:
        by_client.setdefault(client, set()).add((publisher, sequence))
        event, later = events[sequence - 1], _said_since(published, sequence, at, events)
        wrong += reason != rule
        match rule:
            case "age":
                wrong += at - published[publisher, sequence] < AGE_S
            case "newest_per":
                wrong += not any(other["key"] == event["key"] for other in later)
            case "high_water":  # a higher one waited already, or came since
                before = [events[number - 1] for _, number in published if number < sequence]
                wrong += not any(other["value"] >= event["value"] for other in (*before, *later))
    for client, all_of_it in everything.items():
        missing = all_of_it - given.get(client, set())
        wrong += len(missing ^ by_client.get(client, set()))
    return len(purged), wrong


def _said_since(
    published: dict[EventId, float], sequence: int, at: float, events: list[dict[str, int]]
) -> Iterator[dict[str, int]]:
    return (events[number - 1] for (_, number), when in published.items() if number > sequence and when <= at)
