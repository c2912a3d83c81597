"""[mobile §4.1, §4.2]: brokers on one network segment, and what multicast at the network layer would save them.

*Theory.* All brokers of a segment can reach each other in one hop, and the network copies a packet that is sent to a
multicast group to every member. An event that a client publishes at one broker must come to every other broker that
has a subscription for it. Four ways are compared, by counting:

| way | packets that the sender sends | brokers that receive it |
|---|---|---|
| *unicast* | one for each interested broker | the interested ones |
| *one group* [mobile §4.1] | one | all |
| *groups by topic* | one, if the group of its topic has another member | members: brokers with a filter on it |
| *exact groups* | one, if any broker is interested | the interested ones: each set that occurs is a group |

A **false reception** is an event that reaches a broker without a matching client. The broker decodes and matches it
needlessly. *Unicast* and *exact groups* need the sender to match the event against the filters of all others, as
brokers do anyway [mobile §4.2]; the other two do not.

A broker's filters are its own, or with a probability of `overlap` one of a pool that all brokers of the segment share:
that is what *common filters* means here.

*Rules.*
1. Counts are exact: every filter is asked about every event. Nothing is timed.
2. The same seed draws the same filters and events for all ways.
3. No way leaves out a broker that is interested.
"""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec

from godwit.filters.events import Event
from godwit.filters.filters import Filter, only
from godwit.filters.sets import one_of
from godwit.reproduce.figures import lines
from godwit.simulator.workloads import RandomWorkload, WorkloadSpec

__all__ = ["SegmentCounts", "SegmentSpec", "counted_segment", "draw_segments", "measured_segments"]

WAYS = ("unicast", "one group", "groups by topic", "exact groups")


class SegmentSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is drawn."""

    brokers: int
    overlap: float  # how likely a filter is one that all brokers share
    clients: int = 20  # of each broker, with one filter each
    events: int = 500
    topics: int = 64
    groups: int = 64  # of the way by topic
    selectivity: float = 0.02
    skew: float = 1.0


class SegmentCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What one way takes, for each event."""

    way: str
    brokers: int
    overlap: float
    packets: float
    receptions: float
    false_receptions: float
    groups: int  # addresses that are needed


def measured_segments(
    sizes: Sequence[int], overlaps: Sequence[float], seed: int, spec: SegmentSpec | None = None
) -> list[SegmentCounts]:
    """All ways, for each number of brokers and each overlap."""
    base = spec or SegmentSpec(brokers=2, overlap=0.0)
    found: list[SegmentCounts] = []
    for overlap in overlaps:
        for brokers in sizes:
            found += counted_segment(msgspec.structs.replace(base, brokers=brokers, overlap=overlap), seed)
    return found


def counted_segment(spec: SegmentSpec, seed: int) -> list[SegmentCounts]:
    """What each way takes on one segment."""
    rng = Random(f"{seed}/segment")
    workload = RandomWorkload(_workload(spec), spec.brokers, rng)
    filters = _filters(spec, workload, seed)
    members = _members(spec, filters)
    sums = {way: [0, 0, 0] for way in WAYS}
    sets: set[frozenset[int]] = set()
    for number in range(spec.events):
        origin = rng.randrange(spec.brokers)
        event = Event(workload.attributes(origin, number, rng))
        interested = frozenset(
            broker
            for broker in range(spec.brokers)
            if broker != origin and any(each.matches(event) for each in filters[broker])
        )
        if interested:
            sets.add(interested)
        group = members[_group(str(event.attributes["topic"]), spec.groups)] - {origin}
        assert interested <= group, "a broker that wants an event must be in its group"  # (rule 3)
        everybody = spec.brokers - 1
        for way, packets, receptions in (
            ("unicast", len(interested), len(interested)),
            ("one group", min(everybody, 1), everybody),
            ("groups by topic", min(len(group), 1), len(group)),
            ("exact groups", min(len(interested), 1), len(interested)),
        ):
            for place, count in enumerate((packets, receptions, receptions - len(interested))):
                sums[way][place] += count
    groups = {"unicast": 0, "one group": 1, "groups by topic": spec.groups, "exact groups": len(sets)}
    return [
        SegmentCounts(
            way=way,
            brokers=spec.brokers,
            overlap=spec.overlap,
            packets=packets / spec.events,
            receptions=receptions / spec.events,
            false_receptions=false / spec.events,
            groups=groups[way],
        )
        for way, (packets, receptions, false) in sums.items()
    ]


def _workload(spec: SegmentSpec) -> WorkloadSpec:
    return WorkloadSpec(selectivity=spec.selectivity, skew=spec.skew, topics=spec.topics)


def _filters(spec: SegmentSpec, workload: RandomWorkload, seed: int) -> list[list[Filter]]:
    """By broker. A broker's filters do not depend on how many others there are."""
    shared_rng = Random(f"{seed}/shared filters")
    shared = [workload.filter(number, shared_rng) for number in range(spec.clients)]
    found: list[list[Filter]] = []
    for broker in range(spec.brokers):
        rng = Random(f"{seed}/filters/{broker}")
        own = [workload.filter(number, rng) for number in range(spec.clients)]
        found.append([shared[at] if rng.random() < spec.overlap else own[at] for at in range(spec.clients)])
    return found


def _group(topic: str, groups: int) -> int:
    return int(topic.removeprefix("t")) % groups


def _members(spec: SegmentSpec, filters: Sequence[Sequence[Filter]]) -> list[frozenset[int]]:
    """By group of topics, the brokers that join it: those with a filter that some event of the group may match."""
    found: list[set[int]] = [set() for _ in range(spec.groups)]
    for number in range(spec.groups):
        topics = [f"t{topic}" for topic in range(spec.topics) if _group(f"t{topic}", spec.groups) == number]
        said = only("topic", one_of(topics))
        for broker, own in enumerate(filters):
            if any(each.intersects(said) for each in own):
                found[number].add(broker)
    return [frozenset(each) for each in found]


SIZES = (2, 4, 8, 16, 32)
OVERLAPS = (0.0, 0.25, 0.5, 0.75, 1.0)
USUAL_SIZE, USUAL_OVERLAP = 8, 0.5


def draw_segments(folder: Path, seed: int) -> str:
    """Draw packets and false receptions by number of brokers and by overlap. What it comes to, in words."""
    by_size = measured_segments(SIZES, [USUAL_OVERLAP], seed)
    by_overlap = measured_segments([USUAL_SIZE], OVERLAPS, seed)
    said = f"{SegmentSpec(brokers=2, overlap=0).clients} clients with a filter each at every broker."
    for what, y in (("packets", "packets for each event"), ("false_receptions", "false receptions for each event")):
        ways = WAYS if what == "packets" else WAYS[1:3]
        for name, found, x in (
            ("brokers", by_size, "brokers on the segment"),
            ("overlap", by_overlap, "% of filters that all brokers share"),
        ):
            at = {"brokers": 1.0, "overlap": 100.0}[name]
            fixed = f"{USUAL_OVERLAP:.0%} shared filters" if name == "brokers" else f"{USUAL_SIZE} brokers"
            series = {
                way: [(at * getattr(each, name), getattr(each, what)) for each in found if each.way == way]
                for way in ways
            }
            lines(
                folder,
                f"segment_{what}_by_{name}",
                series,
                title=f"Brokers on one segment: {what.replace('_', ' ')} by {name}, {fixed} [mobile §4.1]",
                x=x,
                y=y,
                x_log=name == "brokers",
                y_range=(0.0, None),
                caption=said,
                seed=seed,
            )
    usual = {each.way: each for each in by_size if each.brokers == USUAL_SIZE}
    return (
        f"On one segment of {USUAL_SIZE} brokers, {USUAL_OVERLAP:.0%} of whose filters are shared, an event takes "
        + (
            "; ".join(
                f"by {way} {each.packets:.2f} packets and {each.false_receptions:.2f} false receptions"
                for way, each in usual.items()
            )
            + f" (exact groups: {usual['exact groups'].groups} addresses)."
        )
    )
