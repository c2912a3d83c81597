"""Members who leave or are removed: their devices learn it, take nothing that comes later, and may come back."""

import msgspec
import pytest

from godwit.teamwork.machine.bus import Changes, NeedKey, Removed, signed_bytes_of
from godwit.teamwork.machine.departures import BYTES_MAX, Departures
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord, EventCame
from tests.simulation.team_bus import SCOPE, Bus
from tests.unit.teamwork.machine.team_of_peers import Keys

SEALED = pytest.mark.parametrize("is_sealed", [True, False], ids=["sealed", "plain"])


def team(*, is_sealed: bool) -> Bus:
    """Ann has d0 and d2, bob d1 and d3, carl d4."""
    bus = Bus(1, peers=4)
    bus.join("carl", "d4")
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"sealed": is_sealed}))
    for user in ("bob", "carl"):
        bus.tell(0, ChangeRecord(SCOPE, f"member/{user}", {"state": "joined", "role": "editor"}))
    bus.come_together()
    return bus


def later(bus: Bus) -> None:
    bus.deliver()
    bus.pass_time(2000)


def write(bus: Bus, place: int, title: str) -> None:
    bus.tell(place, ChangeRecord(SCOPE, f"artefact/{title}", {"title": title}))


def titles(bus: Bus, place: int) -> set[str]:
    """What is on the disk of a device, whether its user may see it or not."""
    return {change.fields["title"] for change in bus.stores[place].changes_of_kinds(SCOPE, ("artefact",))}


def is_member(bus: Bus, place: int) -> bool:
    """Whether the user of a device is a member, as far as that device knows."""
    return bus.peers[place].governance(SCOPE).role(bus.peers[place].user) is not Role.NONE


def remove(bus: Bus, user: str, state: str = "left") -> None:
    bus.tell(0, ChangeRecord(SCOPE, f"member/{user}", {"state": state}))


@SEALED
@pytest.mark.parametrize("state", ["left", "suspended"])
def test_devices_of_a_removed_member_learn_it_and_take_nothing_more(is_sealed: bool, state: str) -> None:
    bus = team(is_sealed=is_sealed)
    write(bus, 0, "before")
    later(bus)
    remove(bus, "bob", state)
    for number in range(5):
        write(bus, number % 2 * 2, f"after{number}")
    later(bus)
    for place in (1, 3):
        assert titles(bus, place) == {"before"}
        assert not is_member(bus, place)
        assert SCOPE not in bus.peers[place].followed
    assert len(titles(bus, 4)) == 6


@SEALED
def test_a_removed_member_who_was_away_for_longer_than_brokers_wait_learns_it(is_sealed: bool) -> None:
    bus = team(is_sealed=is_sealed)
    bus.detach(1)
    for number in range(30):
        write(bus, 0, f"before{number}")
    remove(bus, "bob")
    write(bus, 0, "after")
    later(bus)
    bus.queues[1].clear()
    bus.attach(1)
    later(bus)
    assert not is_member(bus, 1)
    assert "after" not in titles(bus, 1)


def test_members_who_are_removed_one_after_another_learn_it_all() -> None:
    bus = team(is_sealed=True)
    remove(bus, "bob")
    remove(bus, "carl")
    write(bus, 0, "after")
    later(bus)
    assert not any(is_member(bus, place) for place in (1, 3, 4))
    assert not any(titles(bus, place) for place in (1, 3, 4))


@SEALED
def test_a_device_whose_user_leaves_follows_until_another_one_knows(is_sealed: bool) -> None:
    bus = team(is_sealed=is_sealed)
    bus.detach(1)
    bus.tell(1, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    bus.outboxes[1].clear()  # a broker has lost it
    bus.attach(1)
    bus.deliver()
    assert SCOPE in bus.peers[1].followed
    later(bus)
    assert bus.peers[0].governance(SCOPE).role("bob") is Role.NONE
    assert SCOPE not in bus.peers[1].followed
    write(bus, 2, "after")
    later(bus)
    assert not titles(bus, 1) | titles(bus, 3)


@SEALED
def test_who_comes_back_gets_everything(is_sealed: bool) -> None:
    bus = team(is_sealed=is_sealed)
    write(bus, 0, "before")
    for leave in (
        lambda: remove(bus, "bob"),
        lambda: bus.tell(1, ChangeRecord(SCOPE, "member/bob", {"state": "left"})),
    ):
        leave()
        later(bus)
        write(bus, 2, f"without{len(titles(bus, 0))}")
        later(bus)
        assert SCOPE not in bus.peers[1].followed
        assert SCOPE not in bus.peers[3].followed
        bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined", "role": "editor"}))
        later(bus)
        assert titles(bus, 1) == titles(bus, 3) == titles(bus, 0)
        assert is_member(bus, 1)


@SEALED
def test_who_was_removed_and_is_invited_while_away_gets_everything(is_sealed: bool) -> None:
    bus = team(is_sealed=is_sealed)
    bus.detach(1)
    for state in ("left", "joined", "left", "joined"):
        remove(bus, "bob", state)
        write(bus, 0, f"after{bus.stores[0].clock(SCOPE)}")
    later(bus)
    bus.attach(1)
    later(bus)
    assert is_member(bus, 1)
    assert titles(bus, 1) == titles(bus, 0)


def told(bus: Bus, user: str, place: int) -> list[Removed]:
    """What a device that asks for a key is told."""
    need = NeedKey(f"d{place}", user, SCOPE, "a key")
    signed = msgspec.structs.replace(need, signature=Keys(f"d{place}").sign(signed_bytes_of(need)))
    before = len(bus.travelled)
    bus.tell(0, EventCame(msgspec.msgpack.encode(signed)))
    found = []
    for payload in bus.travelled[before:]:
        try:
            message = msgspec.msgpack.decode(payload, type=Changes | Removed)
        except msgspec.MsgspecError:
            continue
        if isinstance(message, Removed):
            found.append(message)
    return found


def test_a_removed_member_is_told_nothing_that_was_made_after_the_removal_also_if_that_is_repeated() -> None:
    bus = team(is_sealed=True)
    write(bus, 0, "before")
    remove(bus, "bob")
    write(bus, 0, "after")
    remove(bus, "bob")
    remove(bus, "bob", "suspended")
    [message] = told(bus, "bob", 1)
    assert message.for_device == "d1"
    records = [change.record for change in message.changes]
    assert records[-1] == "member/bob"
    assert "artefact/before" in records
    assert "artefact/after" not in records
    assert not told(bus, "bob", 1)  # once in a while
    bus.pass_time(100)
    assert told(bus, "bob", 1)


def test_nobody_else_is_told_of_removals() -> None:
    bus = team(is_sealed=True)
    remove(bus, "bob")
    assert not told(bus, "carl", 4)  # a member
    assert not told(bus, "eve", 9)  # who never was one
    need = NeedKey("d1", "bob", SCOPE, "a key")
    bus.tell(0, EventCame(msgspec.msgpack.encode(need)))  # without a signature
    assert not bus.published["removed"]


def test_what_a_removed_member_is_told_has_a_bound() -> None:
    bus = team(is_sealed=True)
    for number in range(30):
        bus.tell(0, ChangeRecord(SCOPE, f"artefact/{number}", {"title": "x" * (BYTES_MAX // 20)}))
    remove(bus, "bob")
    [message] = told(bus, "bob", 1)
    assert sum(len(msgspec.msgpack.encode(change)) for change in message.changes) <= BYTES_MAX
    assert 10 < len(message.changes) < 25
    numbers = [change.number for change in message.changes]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))


def test_a_peer_that_goes_on_after_its_user_was_removed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Departures, "_valid_removal", lambda self, scope: None)
    with pytest.raises(AssertionError):
        test_devices_of_a_removed_member_learn_it_and_take_nothing_more(False, "left")
