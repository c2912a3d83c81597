"""Changes that cannot be taken: forks, gaps, clocks that run away."""

from msgspec.structs import replace

from godwit.teamwork.machine.changes import CLOCK_STEP_MAX, Change, signed_bytes
from tests.unit.teamwork.machine.team_of_peers import Keys, Replica

SCOPE = "community/ann.1"


def signed(change: Change) -> Change:
    return replace(change, signature=Keys(change.device).sign(signed_bytes(change)))


def test_a_second_change_with_the_same_number_is_named_as_what_it_is() -> None:
    ann, copy = Replica(SCOPE, "ann", "0"), Replica(SCOPE, "ann", "0")
    first = ann.change("artefact/1", title="here").change
    second = copy.change("artefact/1", title="there").change
    assert not ann.log.problem(first)
    assert ann.log.problem(second) == "there is another change 1 of 0: its disk was put back, or its key copied"


def test_a_change_that_does_not_follow_the_one_before_it_is_not_taken() -> None:
    ann, copy, bob = (Replica(SCOPE, "ann", device) for device in ("0", "0", "1"))
    for replica, title in ((ann, "here"), (copy, "there")):
        replica.change("artefact/1", title=title)
    bob.learn_from(ann)
    second = copy.change("artefact/1", title="more").change
    assert bob.log.problem(second) == "change 2 of 0 does not follow the change 1 known here"
    slow = signed(replace(ann.log.make("0", "ann", "artefact/1", {}, 0.0), clock=1))
    assert "clock not below the number" in bob.log.problem(slow)


def test_no_change_leaves_others_without_a_clock() -> None:
    ann, bob = Replica(SCOPE, "ann", "0"), Replica(SCOPE, "ann", "1")
    far = signed(replace(ann.log.make("0", "ann", "artefact/1", {"title": "last"}, 0.0), clock=2**62))
    assert bob.log.problem(far) == "its clock 4,611,686,018,427,387,904 is too far ahead of 0"
    near = signed(replace(far, clock=CLOCK_STEP_MAX))
    assert not bob.log.problem(near)
    bob.take(near)
    assert bob.change("artefact/1", title="next").refused == ""
    assert bob.fields("artefact/1") == {"title": "next"}


def test_a_change_that_was_too_far_ahead_is_taken_when_those_in_between_are_known() -> None:
    ann, bob, cid = (Replica(SCOPE, "ann", device) for device in ("0", "1", "2"))
    between = signed(replace(ann.log.make("0", "ann", "artefact/1", {}, 0.0), clock=CLOCK_STEP_MAX))
    bob.take(between)
    last = signed(bob.log.make("1", "ann", "artefact/2", {}, 0.0))
    last = signed(replace(last, clock=CLOCK_STEP_MAX + 5))
    assert cid.log.problem(last)
    cid.take(between)
    assert not cid.log.problem(last)
