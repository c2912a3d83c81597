"""The fault injector: every kind of fault has its effect while it lasts, and is counted once it is injected."""

import typing
from collections.abc import Callable
from typing import Any

import pytest

from godwit.simulator import damaged_disks
from godwit.simulator.fault_plan import Fault
from godwit.simulator.run import Simulation
from godwit.simulator.scenario import FAULT_KINDS, FaultKind, Faults, OverlaySpec, Run, Scenario, with_changes
from godwit.simulator.scenario.faults_section import BROKER_FAULTS, LINK_FAULTS, Plan

LINE = Scenario(
    name="a line of brokers",
    overlay=OverlaySpec(kind="line", brokers=3),
    run=Run(warmup_s=1.0, duration_s=4.0, settle_s=30.0),
)

EFFECTS: dict[FaultKind, Callable[[Simulation], bool]] = {
    "link_break": lambda run: not run.world.nodes["b0"].wires["b1"].up,
    "partition_one_way": lambda run: run.world.nodes["b0"].wires["b1"].blocked,
    "crash": lambda run: not run.world.nodes["b0"].alive and run.world.nodes["b0"].incarnation == 1,
    "crash_diskless": lambda run: not run.world.nodes["b0"].alive and run.world.nodes["b0"].incarnation == 2,
    "disk_rolled_back": lambda run: not run.world.nodes["b0"].alive and run.world.nodes["b0"].incarnation == 1,
    "disk_torn": lambda run: not run.world.nodes["b0"].alive,
    "disk_flipped": lambda run: not run.world.nodes["b0"].alive,
    "disk_full": lambda run: run.world.nodes["b0"].is_full,
    "disk_slow": lambda run: run.world.nodes["b0"].sync_s > 0,
    "slow_node": lambda run: run.world.nodes["b0"].slow_s > 0,
}
"""By kind, whether the fault is seen to be there."""

CRASHES: tuple[FaultKind, ...] = ("crash", "crash_diskless", "disk_rolled_back", "disk_torn", "disk_flipped")


def planned(kind: FaultKind) -> Simulation:
    """A run in which one fault of that kind lasts from 2 s to 3 s."""
    where = "['b0', 'b1']" if kind in LINK_FAULTS else "['b0']"
    return Simulation(with_changes(LINE, [f"faults.{kind}=[{{at_s=2, where={where}, lasts_s=1}}]"]), 1)


def test_every_kind_has_an_effect_that_is_tested_here_and_a_key_in_the_scenario() -> None:
    plans = [name for name, hint in typing.get_type_hints(Faults).items() if hint == Plan]
    assert sorted(FAULT_KINDS) == sorted(plans) == sorted(EFFECTS)
    assert sorted(FAULT_KINDS) == sorted([*LINK_FAULTS, *BROKER_FAULTS])


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_a_fault_has_its_effect_while_it_lasts_and_is_counted(kind: FaultKind) -> None:
    run, seen = planned(kind), []
    for at in (1.9, 2.5, 3.5):
        run.world.clock.call_at(at, lambda: seen.append(EFFECTS[kind](run)))
    summary = run.run()
    assert seen == [False, True, False]
    assert summary.faults == {kind: 1}
    assert summary.violations == ()


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_of_two_faults_at_one_place_the_later_one_ends_the_effect(kind: FaultKind) -> None:
    run = planned(kind)
    assert run.faults is not None
    run.plan()
    run.world.run(1.5)
    where = ("b0", "b1") if kind in LINK_FAULTS else ("b0",)
    longer = Fault(kind, where, 1.5, 9.0)
    run.faults.begin(longer)
    run.world.run(5.0)  # the planned one has begun and ended
    assert EFFECTS[kind](run)
    run.faults.end(longer)
    run.world.run(6.0)  # an operator has accepted what a disk has lost
    assert not EFFECTS[kind](run)
    assert run.faults.counts == {kind: 1 if kind in CRASHES else 2}  # a broker that is down does not crash again


def test_a_broker_whose_start_is_refused_stays_down_until_the_loss_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(damaged_disks, "TORN_MARK_SHARE", 0.0)  # of a torn mark the other slot is whole
    run, kinds = planned("disk_torn"), []
    assert run.faults is not None
    kept = ("crashed", "start_refused", "loss_accepted", "restarted", "tail_lost")
    run.recorder.listen(kept, lambda node, record, now: kinds.append(record.kind))
    run.plan()
    run.world.run(3.1)
    assert kinds == ["crashed", "start_refused"]
    crash = Fault("crash", ("b0",), 3.1, 3.9)
    run.faults.begin(crash)
    run.world.run(3.7)
    assert kinds == ["crashed", "start_refused", "loss_accepted"]  # another crash lasts
    run.faults.end(crash)
    assert kinds == [*("crashed", "start_refused", "loss_accepted"), "restarted", "tail_lost"]


def test_faults_are_counted_as_what_they_were() -> None:
    times = (("b0", 1.0), ("b0", 2.0), ("b1", 3.0), ("b1", 3.1))
    plan = ", ".join(f"{{at_s={at_s}, where=['{name}'], lasts_s=0.5}}" for name, at_s in times)
    run, crashes = Simulation(with_changes(LINE, [f"faults.disk_rolled_back=[{plan}]"]), 1), []
    run.recorder.listen(("crashed",), lambda node, record, now: crashes.append((node, record.detail)))
    summary = run.run()
    # Of the first loss the disk tells, of the second one nobody: until that is found out, no other disk loses anything.
    assert crashes == [("b0", "disk rolled back"), ("b0", "disk rolled back"), ("b1", "disk kept")]
    assert summary.faults == {"crash": 1, "disk_rolled_back": 2}
    assert summary.violations == ()


def test_a_kind_that_nothing_injects_is_an_error_and_not_counted() -> None:
    run = planned("crash")
    assert run.faults is not None
    unknown: Any = "flood"
    for act in (run.faults.begin, run.faults.end):
        with pytest.raises(AssertionError):
            act(Fault(unknown, ("b0",), 0.0, 1.0))
    assert run.faults.counts == {}


def test_a_run_without_faults_has_no_injector() -> None:
    assert Simulation(LINE, 1).faults is None
    assert Simulation(LINE, 1).run().faults == {}
