"""The faults section of a scenario: which faults are injected, how often, where and for how long.

*Theory.* Three faults befall single frames with a probability. The others are of a *kind* (`FaultKind`), last for a
time, and befall a broker or a link; each is drawn at a rate or planned for a time and place. To add a kind: name it in
`FaultKind` and in `LINK_FAULTS` or `BROKER_FAULTS`, add its key to `Faults`, and inject it in `fault_injector.py`; the
type checker and `tests/unit/simulator/test_fault_injector.py` name what is missing.

*Rules.*
1. Each kind is a key of `Faults`, and each key whose value is a `Plan` is a kind.
2. Planned faults name brokers and links that exist.
"""

from typing import Literal, get_args

import msgspec

from godwit import settings
from godwit.errors import ScenarioError
from godwit.simulator.scenario.units import Count, Milliseconds, PerSecond, Probability, Seconds, SomeSeconds, Text
from godwit.simulator.topologies import Overlay

__all__ = ["BROKER_FAULTS", "FAULT_KINDS", "LINK_FAULTS", "FaultKind", "Faults", "Planned", "Rate", "check_plans"]


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that comes at random: how often over the whole network, and for how long on average."""

    per_s: PerSecond
    lasts_s: SomeSeconds = 1.0


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A fault at a given time and place: a broker, or both ends of a link (one way: from the first to the second)."""

    at_s: Seconds
    where: tuple[Text, ...]
    lasts_s: SomeSeconds = 1.0


Plan = Rate | tuple[Planned, ...] | None


class Faults(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong. The first three befall single frames between brokers, the others links and nodes for a time."""

    link_loss: Probability = 0.0  # a frame is lost
    duplicate: Probability = 0.0  # a frame comes twice
    delay: Probability = 0.0  # a frame comes late, perhaps after younger ones
    delay_ms_max: Milliseconds = 200.0
    link_break: Plan = None  # a connection breaks, with what is under way, and returns
    partition_one_way: Plan = None  # frames in one direction are lost, and nobody is told
    crash: Plan = None  # a broker stops, and comes back with what its disk holds
    crash_diskless: Plan = None  # a broker stops, and comes back with nothing
    disk_rolled_back: Plan = None  # a broker stops, and its disk has lost the last inputs
    rolled_back_inputs: Count = 20  # how many at most
    disk_torn: Plan = None  # a broker stops, and the last writes to its disk are cut anywhere
    disk_flipped: Plan = None  # a broker stops, and a bit on its disk is flipped
    durability: Literal["relaxed", "full"] = "full"  # of these two: what may be lost without asking an operator
    disk_full: Plan = None  # a broker's disk takes nothing, and what it does waits
    disk_slow: Plan = None  # a broker's disk takes long
    disk_slow_ms: Milliseconds = 200.0  # for each batch
    slow_node: Plan = None
    slow_ms: Milliseconds = 50.0  # what a slow node takes longer for each message
    clock_skew_s: Seconds = 0.0  # each node's clock is wrong by up to this, fast or slow
    until_s: Seconds | None = None  # the last moment of a fault; without it, the end of publishing

    @property
    def has_disks(self) -> bool:
        """Whether brokers keep a journal: disks matter."""
        return any(plan_of(self, kind) is not None for kind in DISK_FAULTS)

    @property
    def lose_disks(self) -> bool:
        """Whether a broker may forget, wholly or in part."""
        return any(plan_of(self, kind) is not None for kind in LOSSES)

    @property
    def lose_tails(self) -> bool:
        """Whether a disk may lose the last inputs and keep the others."""
        return any(plan_of(self, kind) is not None for kind in TAIL_LOSSES)

    @property
    def is_on(self) -> bool:
        """Whether anything can go wrong."""
        return msgspec.structs.replace(self, until_s=None) != Faults()


FaultKind = Literal[
    "link_break",
    "partition_one_way",
    "crash",
    "crash_diskless",
    "disk_rolled_back",
    "disk_torn",
    "disk_flipped",
    "disk_full",
    "disk_slow",
    "slow_node",
]
"""What can go wrong at a broker or on a link for a time."""

FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
LINK_FAULTS: tuple[FaultKind, ...] = ("link_break", "partition_one_way")
DISK_FAULTS: tuple[FaultKind, ...] = (
    *("crash", "disk_rolled_back", "disk_torn", "disk_flipped"),
    *("disk_full", "disk_slow"),
)
TAIL_LOSSES: tuple[FaultKind, ...] = ("disk_rolled_back", "disk_torn", "disk_flipped")
LOSSES: tuple[FaultKind, ...] = ("crash_diskless", *TAIL_LOSSES)
BROKER_FAULTS: tuple[FaultKind, ...] = (*DISK_FAULTS, "crash_diskless", "slow_node")


def plan_of(faults: Faults, kind: FaultKind) -> Plan:
    """When and where faults of that kind come."""
    plan: Plan = getattr(faults, kind)
    return plan


def check_plans(faults: Faults, overlay: Overlay, ends_s: float, where: settings.Where, *, is_random: bool) -> None:
    """Raise `ScenarioError` unless planned faults name brokers and links that exist."""
    ends = {frozenset((link.a, link.b)) for link in overlay.links}
    for kind in FAULT_KINDS:
        plan = plan_of(faults, kind)
        for place, planned in enumerate(plan if isinstance(plan, tuple) else ()):
            at = where(("faults", kind, place, "where"))
            for broker in planned.where:
                if broker not in overlay.brokers:
                    near = settings.nearest(broker, overlay.brokers)
                    raise ScenarioError(f"{at} is {list(planned.where)}: there is no broker {broker!r}{near}")
            if kind in LINK_FAULTS and is_random:
                raise ScenarioError(f"{at} is set: the links of a random overlay differ from seed to seed, give a rate")
            if kind in LINK_FAULTS and frozenset(planned.where) not in ends:
                raise ScenarioError(f"{at} is {list(planned.where)}: allowed are the two ends of a link")
            if kind in BROKER_FAULTS and len(planned.where) != 1:
                raise ScenarioError(f"{at} is {list(planned.where)}: allowed is one broker")
            if planned.at_s > ends_s:
                raise ScenarioError(
                    f"{where(('faults', kind, place, 'at_s'))} is {planned.at_s}: faults end at {ends_s:g} s"
                )
