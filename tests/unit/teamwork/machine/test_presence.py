"""Presence is signed, holds for a while, and is shown to whom the user wants; clocks that are wrong are noticed."""

import msgspec
import pytest

from godwit.teamwork.machine import presence as presence_module
from godwit.teamwork.machine.bus import Gone, Here, HereFor, signed_bytes_of
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    EventCame,
    Leaving,
    PresenceChanged,
    SetAvailability,
)
from godwit.teamwork.machine.presence import HOLDS_S, SWEEP_S
from godwit.teamwork.machine.wall_clocks import WallClocks
from tests.simulation.team_bus import TEAM, Bus
from tests.unit.teamwork.machine.team_of_peers import Keys


def seen(bus: Bus, place: int) -> dict[str, str]:
    """By device that is here for a peer, how available its user is."""
    return {device: here.availability for device, here in bus.peers[place].presence.devices().items()}


def together(peers: int = 3) -> Bus:
    bus = Bus(1, peers=peers)
    for place in range(peers):
        bus.attach(place)
    bus.deliver()
    return bus


def signed(here: Here) -> bytes:
    signature = Keys(here.device).sign(signed_bytes_of(here))
    return msgspec.msgpack.encode(msgspec.structs.replace(here, signature=signature))


def test_peers_see_who_is_here_and_who_has_gone() -> None:
    bus = together()
    assert seen(bus, 1) == {"d0": "available", "d1": "available", "d2": "available"}
    bus.tell(0, SetAvailability("busy", "in a review"))
    bus.deliver()
    assert bus.peers[1].presence.devices()["d0"].status == "in a review"
    bus.tell(0, Leaving())
    bus.deliver()
    assert "d0" not in seen(bus, 1)


def test_presence_in_the_name_of_another_is_not_believed() -> None:
    bus = together()
    forged = msgspec.msgpack.encode(Here("d0", "ann", "do not disturb", bus.now + HOLDS_S, signature=b"x" * 32))
    bus.tell(1, EventCame(forged))
    assert seen(bus, 1)["d0"] == "available"
    assert bus.rejected[-1].reason == "no signature of d0"
    bus.tell(1, EventCame(msgspec.msgpack.encode(Gone("d0", "ann", bus.now + 1, signature=b"x" * 32))))
    assert seen(bus, 1)["d0"] == "available"


def test_what_was_said_before_is_not_believed_again() -> None:
    bus = together()
    old = next(payload for payload in bus.travelled if b"available" in payload and b"d0" in payload)
    bus.pass_time(10)
    bus.tell(0, SetAvailability("busy"))
    bus.deliver()
    bus.tell(1, EventCame(old))
    assert seen(bus, 1)["d0"] == "busy"


def test_presence_ends_by_itself_and_holds_no_longer_than_it_may() -> None:
    bus = together(2)
    bus.tell(1, EventCame(signed(Here("d9", "cid", "available", bus.now + 10**9))))
    bus.detach(0)
    bus.now += HOLDS_S + 1
    bus.peers[1].now = bus.now
    assert "d9" not in seen(bus, 1)
    assert "d0" not in seen(bus, 1)


def test_presence_may_be_shown_to_some_alone() -> None:
    bus = together(4)  # ann has d0 and d2, bob d1 and d3
    bus.tell(0, SetAvailability("available", shown_to=("ann",)))
    bus.deliver()
    assert "d0" in seen(bus, 2)
    assert "d0" not in seen(bus, 1) | seen(bus, 3)
    stolen = HereFor("d1", "bob", bus.peers[2].presence.devices()["d0"])
    bus.tell(1, EventCame(msgspec.msgpack.encode(stolen)))
    assert "d0" not in seen(bus, 1)


def test_who_hides_is_gone() -> None:
    bus = together()
    bus.tell(0, SetAvailability("hidden"))
    bus.deliver()
    assert "d0" not in seen(bus, 1)
    bus.pass_time(HOLDS_S)
    assert "d0" not in seen(bus, 1)


@pytest.mark.parametrize("wanted", [SetAvailability("busy", "x" * 201), SetAvailability("busy", "", ("x",) * 101)])
def test_what_cannot_be_set_is_refused(wanted: SetAvailability) -> None:
    bus = together(1)
    bus.tell(0, wanted)
    assert bus.rejected[-1].reason == "a status has at most 200 characters, and is shown to at most 100 users"


def test_a_device_that_spoke_before_it_was_known_is_here_when_its_record_has_arrived() -> None:
    bus = together(2)
    here = signed(Here("d9", "cid", "available", bus.now + 100)).replace(b"d9", b"d8")  # a signature of d9 in d8's name
    bus.tell(1, EventCame(here))
    bus.tell(1, ChangeRecord(TEAM, "device/d8", {"user": "cid"}))
    assert "d8" not in seen(bus, 1)
    bus = together(2)
    with pytest.MonkeyPatch.context() as unknown:
        unknown.setattr(Keys, "check", lambda self, device, user, data, signature: f"device {device} is not known")
        bus.tell(0, EventCame(signed(Here("d9", "cid", "available", bus.now + 100))))
    assert "d9" not in seen(bus, 0)
    bus.tell(0, ChangeRecord(TEAM, "device/d9", {"user": "cid"}))
    assert "d9" in seen(bus, 0)


# ------------------------------------------------------------ what listeners are told


def told(bus: Bus, place: int, device: str) -> list[str]:
    """How available a device was, as listeners of a peer were told; forgets it."""
    found = [each.availability for at, each in bus.presence if (at, each.device) == (place, device)]
    bus.presence.clear()
    return found


def test_listeners_are_told_of_each_change_once() -> None:
    bus = together()
    assert told(bus, 1, "d0") == ["available"]
    bus.pass_time(HOLDS_S)  # said again meanwhile
    assert told(bus, 1, "d0") == []
    bus.tell(0, SetAvailability("busy", "in a review"))
    bus.deliver()
    assert (1, PresenceChanged(TEAM, "ann", "d0", "busy", "in a review")) in bus.presence
    assert told(bus, 1, "d0") == ["busy"]
    bus.tell(0, Leaving())
    bus.deliver()
    assert (1, PresenceChanged(TEAM, "ann", "d0", "")) in bus.presence
    assert told(bus, 1, "d0") == [""]


def test_listeners_hear_of_a_peer_that_went_without_saying_so() -> None:
    bus = together(2)
    told(bus, 1, "d0")
    bus.detach(0)
    bus.pass_time(HOLDS_S + 2 * SWEEP_S)
    assert told(bus, 1, "d0") == [""]
    assert "d1" in seen(bus, 1)
    bus.attach(0)
    bus.deliver()
    assert told(bus, 1, "d0") == ["available"]


def test_listeners_cannot_tell_who_hides_from_who_is_away() -> None:
    bus = together(4)  # ann has d0 and d2, bob d1 and d3
    told(bus, 1, "d0")
    bus.tell(0, SetAvailability("busy", shown_to=("ann",)))
    bus.deliver()
    assert told(bus, 1, "d0") == [""]
    bus.tell(0, SetAvailability("available", shown_to=("ann",)))
    bus.deliver()
    assert not [each for place, each in bus.presence if place in (1, 3) and each.device == "d0"]
    assert told(bus, 2, "d0") == ["available"]
    bus.tell(0, SetAvailability("hidden"))
    bus.pass_time(HOLDS_S)
    assert told(bus, 2, "d0") == [""]


@pytest.mark.parametrize(
    "here",
    [
        Here("d9", "cid", "hidden", 1e12),
        Here("d9", "cid", "", 1e12),
        Here("d9", "cid", "x" * 1000, 1e12),
        Here("d9", "cid", "busy", 1e12, "x" * 201),
        Here("d9", "cid", "busy", float("nan")),
        Here("d9", "cid", "busy", -1.0),
    ],
)
def test_presence_that_no_peer_would_send_is_not_believed(here: Here) -> None:
    bus = together(1)
    told(bus, 0, "d9")
    bus.tell(0, EventCame(signed(here)))
    bus.pass_time(2 * HOLDS_S)
    assert "d9" not in seen(bus, 0)
    assert told(bus, 0, "d9") == []


def test_presence_without_a_check_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Keys, "check", lambda self, device, user, data, signature: "")
    with pytest.raises(AssertionError):
        test_presence_in_the_name_of_another_is_not_believed()


# ------------------------------------------------------------ clocks


def test_a_device_whose_clock_is_behind_is_told_so_once() -> None:
    bus = Bus(1, peers=3)
    for place in (1, 2):
        bus.attach(place)
    bus.deliver()
    bus.now -= 7200.0
    bus.attach(0)
    bus.deliver()
    [rejected] = [each for each in bus.rejected if each.what == "clock"]
    assert "at least 120 minutes behind those of 1 of 1 other devices: set it" in rejected.reason


@pytest.mark.parametrize(
    ("ahead_s", "said"),
    [
        ((7200.0, 7200.0, 0.0), "at least 120 minutes behind those of 2 of 3"),
        ((-7200.0, -7200.0, 0.0), "at least 90 minutes ahead of those of 2 of 3"),
        ((7200.0, 0.0, 0.0), ""),
        ((200.0, 200.0, 200.0), ""),
        ((-1500.0, -1000.0, -1700.0), ""),  # under way for a while
        ((7200.0, -7200.0, 0.0), ""),
    ],
)
def test_our_clock_is_wrong_if_most_others_say_so(ahead_s: tuple[float, ...], said: str) -> None:
    clocks = WallClocks(HOLDS_S)
    for number, seconds in enumerate(ahead_s):
        clocks.hear(f"d{number}", 1e9 + seconds, 1e9)
    assert said in clocks.problem()
    assert bool(said) == bool(clocks.problem())


def test_a_clock_that_was_set_right_is_reported_when_it_is_wrong_again() -> None:
    clocks = WallClocks(HOLDS_S)
    assert clocks.hear("d1", 1e9 + 9000, 1e9)
    assert not clocks.hear("d1", 1e9 + 9000, 1e9)
    assert not clocks.hear("d1", 1e9, 1e9)
    assert clocks.hear("d1", 1e9 + 9000, 1e9)


def test_devices_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence_module, "DEVICES_MAX", 3)
    bus = together(1)
    for number in range(10):
        bus.tell(0, EventCame(signed(Here(f"x{number}", "cid", "available", bus.now + 100))))
    assert list(bus.peers[0].presence.devices()) == ["x7", "x8", "x9"]
    assert told(bus, 0, "x3") == ["available", ""]
    bus.tell(0, Attached())
