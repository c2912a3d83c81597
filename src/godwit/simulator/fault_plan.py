"""The fault plan: all faults of a run, generated from the seed before the run begins.

*Theory.* Each fault has a beginning and an end, and all end by `faults_end_s`, so that everything can settle. Its
broker or link is random, too, unless the scenario names it. `fault_injector.py` injects them.

*Rules.*
1. Each kind has separate random streams: a new kind does not change the others.
2. Every fault ends by the end of faults, whatever its random length.
"""

from collections.abc import Iterator

import msgspec

from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.scenario import FAULT_KINDS, FaultKind, Rate, Scenario
from godwit.simulator.scenario.faults_section import LINK_FAULTS, plan_of
from godwit.simulator.topologies import Overlay

__all__ = ["Fault", "drawn_faults"]

LASTS_S_LEAST = 0.05


class Fault(msgspec.Struct, frozen=True):
    """A fault at a broker or on a link, with its beginning and end."""

    kind: FaultKind
    where: tuple[str, ...]
    begins_s: float
    ends_s: float


def drawn_faults(scenario: Scenario, overlay: Overlay, streams: RandomStreams) -> list[Fault]:
    """All faults of a run, in the order they begin."""
    found = [fault for kind in FAULT_KINDS for fault in _of_kind(kind, scenario, overlay, streams)]
    return sorted(found, key=lambda fault: (fault.begins_s, fault.kind, fault.where))


def _of_kind(kind: FaultKind, scenario: Scenario, overlay: Overlay, streams: RandomStreams) -> Iterator[Fault]:
    plan = plan_of(scenario.faults, kind)
    if plan is None:
        return
    end_s = scenario.faults_end_s
    if not isinstance(plan, Rate):
        for planned in plan:
            if planned.at_s < end_s:
                yield Fault(kind, planned.where, planned.at_s, min(planned.at_s + planned.lasts_s, end_s))
        return
    times, places, lengths = (streams.stream(f"fault-{each}", kind) for each in ("times", "places", "lengths"))
    at = scenario.run.warmup_s
    while plan.per_s > 0 and (at := at + times.expovariate(plan.per_s)) < end_s:
        if kind in LINK_FAULTS:
            if not overlay.links:
                return
            link = places.choice(overlay.links)
            where: tuple[str, ...] = (link.a, link.b) if places.random() < 0.5 else (link.b, link.a)
        else:
            where = (places.choice(overlay.brokers),)
        lasts_s = max(lengths.expovariate(1 / plan.lasts_s), LASTS_S_LEAST)
        yield Fault(kind, where, at, min(at + lasts_s, end_s))
