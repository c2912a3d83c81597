"""How users come into communities: invited, by themselves, by approval, by a rule; and how they go."""

import msgspec
import pytest

from godwit.teamwork.machine.bus import Invite, signed_bytes_of
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord, Follow
from tests.simulation.team_bus import TEAM, Bus
from tests.unit.teamwork.machine.team_of_peers import Keys

NEW = "community/ann.7"


def team() -> Bus:
    """Ann has d0 and d2, bob d1 and d3. Bob does not follow the new community."""
    bus = Bus(1, peers=4)
    for place in range(4):
        bus.tell(place, Follow(TEAM))
    bus.tell(0, ChangeRecord(TEAM, "member/bob", {"state": "joined", "role": "reader"}))
    for place in (0, 2):
        bus.tell(place, Follow(NEW))
    bus.come_together()
    bus.invited.clear()  # to the team
    return bus


def later(bus: Bus) -> None:
    bus.deliver()
    bus.pass_time(600)


def make(bus: Bus, **settings: object) -> None:
    """Ann makes a community, and has changed it often since."""
    bus.tell(0, ChangeRecord(NEW, "scope/self", {"name": "Reviewers", **settings}))
    for number in range(5):
        bus.tell(0, ChangeRecord(NEW, "artefact/1", {"title": str(number)}))
    later(bus)


def follow(bus: Bus) -> None:
    """Bob's first device follows the community."""
    bus.tell(1, Follow(NEW))
    later(bus)


def role(bus: Bus, place: int, user: str = "bob") -> Role:
    return bus.peers[place].governance(NEW).role(user)


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_user_who_was_invited_joins_though_its_peer_knows_nothing_of_the_community(is_sealed: bool) -> None:
    bus = team()
    make(bus, sealed=is_sealed)
    bus.tell(0, ChangeRecord(NEW, "member/bob", {"state": "invited", "role": "editor"}))
    later(bus)
    assert bus.invited == [(1, NEW), (3, NEW)]
    bus.tell(1, Follow(NEW))  # and joins before it has heard anything
    bus.tell(1, ChangeRecord(NEW, "member/bob", {"state": "joined"}))
    later(bus)
    assert [role(bus, place) for place in (0, 1, 2)] == [Role.EDITOR] * 3
    assert bus.stores[1].record(NEW, "artefact/1").fields == {"title": "4"}  # type: ignore[union-attr]


def test_a_user_who_was_not_invited_does_not_get_in() -> None:
    bus = team()
    make(bus)
    follow(bus)
    bus.take(1, bus.peers[1].log(NEW).make("d1", "bob", "member/bob", {"state": "joined"}, 0.0))
    later(bus)
    assert [role(bus, place) for place in (0, 1, 2)] == [Role.NONE] * 3


def test_an_open_community_takes_everybody_of_the_team() -> None:
    bus = team()
    make(bus, join="open")
    follow(bus)
    bus.tell(1, ChangeRecord(NEW, "member/bob", {"state": "joined"}))
    later(bus)
    assert [role(bus, place) for place in (0, 1, 2)] == [Role.READER] * 3


def test_a_user_asks_and_an_owner_approves() -> None:
    bus = team()
    make(bus, join="approval")
    follow(bus)
    bus.tell(1, ChangeRecord(NEW, "member/bob", {"state": "asking"}))
    later(bus)
    assert bus.peers[2].governance(NEW).state("bob") == {"state": "asking"}
    bus.tell(2, ChangeRecord(NEW, "member/bob", {"state": "joined", "role": "editor"}))
    later(bus)
    assert [role(bus, place) for place in (0, 1, 2)] == [Role.EDITOR] * 3


def test_members_by_rule_come_and_go_with_their_profiles() -> None:
    bus = team()
    make(bus, join="rule", rule="optics")
    bus.tell(1, ChangeRecord(TEAM, "user/bob", {"skills": ["optics"]}))
    later(bus)
    assert role(bus, 2) is Role.READER
    assert set(bus.invited) == {(1, NEW), (3, NEW)}
    bus.tell(3, ChangeRecord(TEAM, "user/bob", {"skills": ["law"]}))
    later(bus)
    assert role(bus, 2) is Role.NONE
    bus.tell(0, ChangeRecord(NEW, "scope/self", {"rule": "law"}))
    later(bus)
    assert role(bus, 2) is Role.READER


def test_a_user_whom_an_owner_made_a_member_or_removed_is_not_touched_by_the_rule() -> None:
    bus = team()
    make(bus, join="rule", rule="optics")
    bus.tell(0, ChangeRecord(NEW, "member/bob", {"state": "left"}))
    bus.tell(1, ChangeRecord(TEAM, "user/bob", {"skills": ["optics"]}))
    later(bus)
    assert role(bus, 0) is Role.NONE


def test_a_rule_that_cannot_be_read_is_reported_and_changes_nobody() -> None:
    bus = team()
    make(bus, join="rule", rule="optics")
    bus.tell(1, ChangeRecord(TEAM, "user/bob", {"skills": ["optics"]}))
    later(bus)
    bus.tell(0, ChangeRecord(NEW, "scope/self", {"rule": "?"}))
    later(bus)
    assert role(bus, 0) is Role.READER
    assert "a query does not begin with ?" in {each.reason for each in bus.rejected}


def test_a_user_who_is_suspended_in_the_team_is_suspended_everywhere_until_resumed() -> None:
    bus = team()
    make(bus, join="open")
    follow(bus)
    bus.tell(1, ChangeRecord(NEW, "member/bob", {"state": "joined"}))
    bus.tell(0, ChangeRecord(NEW, "member/bob", {"state": "joined", "role": "editor"}))
    later(bus)
    bus.tell(0, ChangeRecord(TEAM, "member/bob", {"state": "suspended"}))
    later(bus)
    assert [role(bus, place) for place in (0, 1, 2)] == [Role.NONE] * 3
    bus.tell(0, ChangeRecord(NEW, "artefact/1", {"title": "meanwhile"}))
    bus.tell(0, ChangeRecord(TEAM, "member/bob", {"state": "joined"}))
    later(bus)
    assert [role(bus, place) for place in (0, 1, 2)] == [Role.EDITOR] * 3
    assert bus.stores[1].record(NEW, "artefact/1") is not None


def test_a_member_who_was_removed_is_not_taken_back_when_the_team_resumes_the_user() -> None:
    bus = team()
    make(bus)
    follow(bus)
    bus.tell(0, ChangeRecord(NEW, "member/bob", {"state": "joined", "role": "editor"}))
    bus.tell(0, ChangeRecord(NEW, "member/bob", {"state": "left"}))
    for state in ("suspended", "joined"):
        bus.tell(0, ChangeRecord(TEAM, "member/bob", {"state": state}))
    later(bus)
    assert role(bus, 0) is Role.NONE


def test_an_invitation_in_the_name_of_another_is_refused() -> None:
    bus = team()
    make(bus)
    bus.attached[1] = bus.attached[3] = False
    bus.tell(0, ChangeRecord(NEW, "member/bob", {"state": "invited"}))
    bus.queues[1] = [payload.replace(b"Reviewers", b"Reviewerz") for payload in bus.queues[1]]
    bus.attached[1] = True
    bus.deliver()
    assert bus.invited == []
    assert [each.reason for each in bus.rejected] == ["no signature of d0"]


def test_an_invitation_with_a_clock_that_is_far_ahead_is_refused_and_leaves_the_user_able_to_join() -> None:
    bus = team()
    make(bus, join="open")
    invite = Invite("d2", "ann", "bob", NEW, "Reviewers", 2**61)
    payload = msgspec.msgpack.encode(
        msgspec.structs.replace(invite, signature=Keys("d2").sign(signed_bytes_of(invite)))
    )
    bus.queues[1].append(payload)
    bus.deliver()
    assert [each.reason for each in bus.rejected] == ["its clock 2,305,843,009,213,693,952 is too far ahead of 0"]
    follow(bus)
    bus.tell(1, ChangeRecord(NEW, "member/bob", {"state": "joined"}))
    later(bus)
    assert role(bus, 0) is Role.READER


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_community_that_a_user_founds_on_one_device_is_on_all_devices_of_that_user(is_sealed: bool) -> None:
    bus = team()
    mine = "community/bob.8"
    bus.tell(1, Follow(mine))
    bus.tell(1, ChangeRecord(mine, "scope/self", {"name": "Own", "sealed": is_sealed}))
    later(bus)
    assert bus.invited == [(3, mine)]  # his other device, and nobody else's
    bus.tell(3, Follow(mine))
    later(bus)
    assert bus.stores[3].record(mine, "scope/self") is not None
    assert bus.peers[3].keys.unknown(mine) == ""


def test_a_community_that_a_user_joins_on_one_device_is_on_all_devices_of_that_user() -> None:
    bus = team()
    make(bus, join="open")
    follow(bus)
    bus.tell(1, ChangeRecord(NEW, "member/bob", {"state": "joined"}))
    later(bus)
    assert bus.invited == [(3, NEW)]


def test_a_device_that_comes_later_hears_of_the_communities_of_its_user() -> None:
    bus = team()
    mine = "community/bob.8"
    bus.tell(1, Follow(mine))
    bus.tell(1, ChangeRecord(mine, "scope/self", {"name": "Own"}))
    bus.tell(0, ChangeRecord(TEAM, "device/d4", {"user": "bob"}))
    later(bus)
    bus.invited.clear()
    bus.join("bob", "d4")
    bus.attach(4)
    bus.tell(4, Follow(TEAM))
    later(bus)
    assert (4, mine) in bus.invited
