"""Sealed scopes: members read, those who left do not, and nobody without a role gets a key."""

from random import Random

import msgspec
import pytest

from godwit.teamwork.machine import scope_keys
from godwit.teamwork.machine.bus import Changes, NeedKey, signed_bytes_of
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.peer_effects import ChangeRecord, EventCame
from tests.seeds import few
from tests.simulation.team_bus import SCOPE, Bus
from tests.unit.teamwork.machine.team_of_peers import Keys


def sealed_team() -> Bus:
    """Ann has d0 and d2, bob d1 and d3; the scope is sealed from the start."""
    bus = Bus(1, peers=4)
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"sealed": True}))
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined", "role": "editor"}))
    bus.come_together()
    return bus


def titles(bus: Bus, place: int) -> set[str]:
    return {record.fields["title"] for record in bus.stores[place].records(SCOPE, "artefact")}


def later(bus: Bus) -> None:
    bus.deliver()
    bus.pass_time(2000)


def test_members_read_what_is_sealed() -> None:
    bus = sealed_team()
    bus.tell(1, ChangeRecord(SCOPE, "artefact/1", {"title": "plan"}))
    later(bus)
    assert all(titles(bus, place) == {"plan"} for place in range(4))
    assert not any(b"plan" in payload for payload in bus.travelled)
    assert any(bus.rings[1].opened(payload) for payload in bus.travelled)


def test_a_member_who_left_reads_nothing_that_was_made_later() -> None:
    bus = sealed_team()
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "before"}))
    later(bus)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    bus.tell(2, ChangeRecord(SCOPE, "artefact/2", {"title": "unaware"}))  # d2 has not heard of it: the old key
    later(bus)
    bus.tell(2, ChangeRecord(SCOPE, "artefact/3", {"title": "after"}))
    later(bus)
    assert titles(bus, 0) == titles(bus, 2) == {"before", "unaware", "after"}
    assert "after" not in titles(bus, 1) | titles(bus, 3)
    assert not any(can_read(bus, place, b"after") for place in (1, 3))


def can_read(bus: Bus, place: int, word: bytes) -> bool:
    """Whether a device has the key to something that travelled, wanted or not."""
    opened = (bus.rings[place].opened(payload) for payload in bus.travelled)
    return any(isinstance(each, bytes) and word in each for each in opened)


def test_a_member_who_leaves_by_himself_reads_nothing_that_was_made_later() -> None:
    bus = sealed_team()
    bus.tell(1, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    later(bus)
    bus.tell(2, ChangeRecord(SCOPE, "artefact/1", {"title": "after"}))
    later(bus)
    assert titles(bus, 0) == {"after"}
    assert titles(bus, 1) == titles(bus, 3) == set()
    assert not bus.rejected


def test_a_key_that_was_due_is_made_after_the_process_has_ended() -> None:
    bus = sealed_team()
    bus.detach(2)
    bus.tell(1, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    bus.deliver()  # d0 knows of it, and waits for its turn
    bus.end(0)
    bus.start_again(0)
    later(bus)
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "after"}))
    later(bus)
    assert titles(bus, 0) == {"after"}
    assert titles(bus, 1) == titles(bus, 3) == set()
    keys = len(list(bus.stores[0].records(SCOPE, "key")))
    for _ in range(2):
        bus.end(0)
        bus.start_again(0)
        later(bus)
    assert len(list(bus.stores[0].records(SCOPE, "key"))) == keys  # no more is due


def test_a_key_is_not_given_by_a_peer_that_may_not_know_who_was_removed_before() -> None:
    bus = sealed_team()
    name = bus.rings[0].made(SCOPE)
    need = NeedKey("d1", "bob", SCOPE, name)
    signed = msgspec.structs.replace(need, signature=Keys("d1").sign(signed_bytes_of(need)))
    given = bus.published["key_given"]
    bus.tell(0, EventCame(msgspec.msgpack.encode(signed)))
    later(bus)
    assert bus.published["key_given"] == given
    bus.tell(0, ChangeRecord(SCOPE, f"key/{name}", {}))
    bus.tell(0, EventCame(msgspec.msgpack.encode(signed)))
    later(bus)
    assert bus.published["key_given"] > given


def test_a_member_who_comes_back_gets_everything() -> None:
    bus = sealed_team()
    for state in ("left", "joined"):
        bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": state}))
        bus.tell(0, ChangeRecord(SCOPE, f"artefact/{state}", {"title": state}))
        later(bus)
    assert titles(bus, 1) == titles(bus, 3) == {"left", "joined"}


def test_a_new_device_of_a_member_gets_the_key_and_one_of_a_stranger_does_not() -> None:
    bus = sealed_team()
    bus.tell(0, ChangeRecord(SCOPE, "artefact/1", {"title": "plan"}))
    later(bus)
    bus.join("bob", "bob new")
    bus.join("eve", "eve")
    for place in (4, 5):
        bus.attach(place)
    later(bus)
    assert titles(bus, 4) == {"plan"}
    assert titles(bus, 5) == set()


def test_one_peer_gives_the_key() -> None:
    bus = sealed_team()
    given = bus.published["key_given"]
    bus.join("bob", "new")
    bus.attach(4)
    later(bus)
    assert bus.published["key_given"] - given <= 2


@pytest.mark.parametrize("seed", few(range(20), 6))
def test_members_of_a_sealed_scope_converge_whoever_comes_and_goes(seed: int) -> None:
    bus, random = sealed_team(), Random(seed)
    for number in range(40):
        match random.choice(["change", "change", "leave", "join", "detach", "attach", "time"]):
            case "change":
                bus.tell(random.randrange(4), ChangeRecord(SCOPE, f"artefact/{number % 5}", {"title": str(number)}))
            case "leave":
                bus.tell(random.choice([0, 2]), ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
            case "join":
                bus.tell(random.choice([0, 2]), ChangeRecord(SCOPE, "member/bob", {"state": "joined"}))
            case "detach":
                bus.detach(random.randrange(4))
            case "attach":
                bus.attach(random.randrange(4))
            case "time":
                bus.deliver()
                bus.pass_time(random.random() * 5)
    bus.come_together()
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined"}))
    bus.come_together()
    first, *others = [store.vector(SCOPE) for store in bus.stores]
    assert all(other == first for other in others)


def test_a_peer_that_gives_keys_to_everybody_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_keys, "Role", type("Everybody", (), {"NONE": None, "OWNER": Role.OWNER}))
    with pytest.raises(AssertionError):
        test_a_member_who_left_reads_nothing_that_was_made_later()


def test_a_device_that_lacks_the_settings_or_the_key_of_a_scope_has_nothing_to_send_there() -> None:
    bus = Bus(1, peers=3)
    wanted = ChangeRecord(SCOPE, "artefact/1", {"title": "plan"})
    assert "the settings of" in bus.peers[2].unsendable(wanted)
    assert not bus.peers[2].unsendable(ChangeRecord(SCOPE, "member/bob", {"state": "joined"}))
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"sealed": True}))
    [settings] = bus.stores[0].changes_of(SCOPE, "scope/self")
    bus.peers[2].handle(EventCame(msgspec.msgpack.encode(Changes("d0", SCOPE, (settings,), {}))), bus.now)
    assert "the key of" in bus.peers[2].unsendable(wanted)
    bus.come_together()
    assert not bus.peers[2].unsendable(wanted)


def team_with_carl() -> Bus:
    """As `sealed_team`, with carl at d4."""
    bus = Bus(1, peers=4)
    bus.join("carl", "d4")
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"sealed": True}))
    for user in ("bob", "carl"):
        bus.tell(0, ChangeRecord(SCOPE, f"member/{user}", {"state": "joined", "role": "editor"}))
    bus.come_together()
    return bus


def test_a_member_who_left_offline_does_not_read_with_a_key_whose_maker_did_not_know() -> None:
    bus = team_with_carl()
    bus.detach(1)
    bus.tell(1, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    for title in ("first", "second"):  # so the next key stands after bob's change in the order
        bus.tell(2, ChangeRecord(SCOPE, "artefact/1", {"title": title}))
    bus.tell(2, ChangeRecord(SCOPE, "member/carl", {"state": "left"}))
    later(bus)
    bus.tell(2, ChangeRecord(SCOPE, "artefact/2", {"title": "before"}))
    later(bus)
    assert "before" in titles(bus, 3)
    bus.attach(1)
    bus.come_together()
    later(bus)
    assert bus.peers[2].governance(SCOPE).role("bob") is Role.NONE
    bus.tell(2, ChangeRecord(SCOPE, "artefact/3", {"title": "after"}))
    later(bus)
    assert "after" in titles(bus, 0)
    assert not any("after" in titles(bus, place) for place in (1, 3, 4))


@pytest.mark.parametrize("is_key_lost", [False, True])
def test_two_devices_remove_two_members_at_once_and_neither_reads_on(is_key_lost: bool) -> None:
    bus = team_with_carl()
    bus.detach(0)
    for title in ("first", "second"):
        bus.tell(2, ChangeRecord(SCOPE, "artefact/1", {"title": title}))
    bus.tell(2, ChangeRecord(SCOPE, "member/carl", {"state": "left"}))
    later(bus)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    if is_key_lost:
        del bus.outboxes[0][1:]
    bus.attach(0)
    bus.come_together()
    later(bus)
    bus.tell(2, ChangeRecord(SCOPE, "artefact/3", {"title": "after"}))
    later(bus)
    assert "after" in titles(bus, 0)
    assert not any("after" in titles(bus, place) for place in (1, 3, 4))


def test_a_key_is_not_given_by_a_peer_that_lacks_a_removal_that_its_maker_knew() -> None:
    bus = sealed_team()
    name = bus.rings[0].made(SCOPE)
    need = NeedKey("d1", "bob", SCOPE, name)
    signed = msgspec.structs.replace(need, signature=Keys("d1").sign(signed_bytes_of(need)))
    last = bus.stores[0].vector(SCOPE).get("d3", 0)
    bus.tell(0, ChangeRecord(SCOPE, f"key/{name}", {"removals": {"d3": last + 1}}))
    given = bus.published["key_given"]
    bus.tell(0, EventCame(msgspec.msgpack.encode(signed)))
    bus.pass_time(10)
    assert bus.published["key_given"] == given
    bus.tell(3, ChangeRecord(SCOPE, "artefact/1", {"title": "any"}))
    later(bus)
    bus.tell(0, EventCame(msgspec.msgpack.encode(signed)))
    bus.pass_time(10)
    assert bus.published["key_given"] > given


def test_a_key_whose_record_states_no_removals_is_replaced_once_if_somebody_was_removed() -> None:
    bus = sealed_team()
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "left"}))
    later(bus)
    name = bus.rings[0].made(SCOPE)
    bus.tell(0, ChangeRecord(SCOPE, f"key/{name}", {}))  # as earlier versions made it
    later(bus)
    replaced = bus.peers[0].keys.in_use(SCOPE)
    assert replaced != name
    bus.come_together()
    later(bus)
    assert bus.peers[0].keys.in_use(SCOPE) == bus.peers[2].keys.in_use(SCOPE) == replaced
