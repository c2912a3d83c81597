"""Presence is signed, holds for a while, and is shown to whom the user wants; clocks that are wrong are noticed."""

from collections import Counter

import msgspec
import pytest

from godwit.teamwork.machine import presence as presence_module
from godwit.teamwork.machine.bus import Gone, Here, HereFor, Present, Wanted, decoded, signed_bytes_of
from godwit.teamwork.machine.governance import JOINED, Governance, Role
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    EventCame,
    Leaving,
    PresenceChanged,
    SetAvailability,
    StartSearch,
)
from godwit.teamwork.machine.presence import ASKS_MAX, HOLDS_S, SWEEP_S, MemoryPresence, Presence
from godwit.teamwork.machine.search import Asking
from godwit.teamwork.machine.wall_clocks import WallClocks
from tests.simulation.team_bus import TEAM, Bus
from tests.unit.teamwork.machine.team_of_peers import Keys


def seen(bus: Bus, place: int) -> dict[str, str]:
    """By device that is here for a peer, how available its user is."""
    return {device: here.availability for device, here in bus.peers[place].presence.devices().items()}


def together(peers: int = 3) -> Bus:
    bus = Bus(1, peers=peers)
    member = bus.peers[0].log(TEAM).make("d0", "ann", "member/bob", {"state": JOINED, "role": "editor"}, 0.0)
    for place, peer in enumerate(bus.peers):
        peer.take(member)
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


# ------------------------------------------------------------ a peer that has just come


def latecomer(bus: Bus, user: str = "bob") -> int:
    """A device that attaches after the others, and what it hears in ten seconds."""
    place = len(bus.peers)
    bus.join(user, f"d{place}")
    bus.attach(place)
    bus.deliver()
    bus.pass_time(10.0)
    return place


def test_a_peer_that_comes_later_sees_at_once_who_is_here() -> None:
    bus = together()
    bus.join("bob", "d3")
    bus.attach(3)
    bus.deliver()
    assert seen(bus, 3) == dict.fromkeys(("d0", "d1", "d2", "d3"), "available")


def test_a_team_whose_peers_do_not_answer_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Presence, "_answer", lambda self, asker, *, is_for_all: None)
    with pytest.raises(AssertionError):
        test_a_peer_that_comes_later_sees_at_once_who_is_here()


def test_a_peer_that_is_started_again_knows_who_is_here() -> None:
    bus = together()
    answers = bus.published["present"]
    bus.end(1)
    assert bus.queues[1] == []
    bus.start_again(1)
    assert "d0" in seen(bus, 1)
    told(bus, 1, "d0")
    bus.deliver()
    assert told(bus, 1, "d0") == []  # this is no news
    assert bus.published["present"] == answers  # and nobody was asked
    bus.end(1)
    bus.tell(0, Leaving())
    bus.end(0)
    bus.now += HOLDS_S
    bus.start_again(1)
    assert {each.device: each.availability for place, each in bus.presence if place == 1} == {
        "d0": "",
        "d2": "",
        "d1": "available",
    }
    bus.deliver()
    assert seen(bus, 1) == {"d1": "available"}


def test_a_peer_that_forgets_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryPresence, "put", lambda self, device, heard: None)
    with pytest.raises(AssertionError):
        test_a_peer_that_is_started_again_knows_who_is_here()


def test_two_of_many_peers_answer_a_newcomer() -> None:
    bus = together(120)
    before = bus.published["present"]
    place = latecomer(bus)
    assert bus.published["present"] - before == 2
    assert len(seen(bus, place)) == 121
    assert bus.published["here"] == 121


def test_an_answer_about_many_devices_comes_in_pieces_and_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presence_module, "PRESENT_MAX", 3)
    monkeypatch.setattr(presence_module, "HANDED_ON_MAX", 9)
    bus = together(20)
    before = bus.published["present"]
    place = latecomer(bus)
    assert bus.published["present"] - before == 6
    assert 10 <= len(seen(bus, place)) <= 19


def test_a_newcomer_asks_again_when_those_who_should_answer_have_died() -> None:
    bus = together(8)
    for place in range(7):
        bus.end(place)
    before = bus.published["here"]
    place = latecomer(bus)
    assert "d7" in seen(bus, place)
    assert 1 < bus.published["here"] - before <= ASKS_MAX


def test_what_is_said_to_some_is_not_handed_on() -> None:
    bus = together(4)  # ann has d0 and d2, bob d1 and d3
    bus.tell(0, SetAvailability("busy", shown_to=("ann",)))
    for place in (1, 3):
        bus.tell(place, SetAvailability("hidden"))
    bus.deliver()
    assert set(seen(bus, 2)) == {"d0", "d2"}
    place = latecomer(bus, "bob")
    assert set(seen(bus, place)) == {"d2", "d4"}
    place = latecomer(bus, "ann")
    assert set(seen(bus, place)) == {"d0", "d2", "d4", "d5"}


def test_a_peer_that_hands_on_everything_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    believe = Presence._believe
    monkeypatch.setattr(
        Presence, "_believe", lambda self, message, *, is_for_all: believe(self, message, is_for_all=True)
    )
    with pytest.raises(AssertionError):
        test_what_is_said_to_some_is_not_handed_on()


def test_a_peer_that_hides_or_is_shown_to_others_does_not_answer() -> None:
    bus = together(2)
    bus.tell(0, SetAvailability("hidden"))
    bus.tell(1, SetAvailability("available", shown_to=("bob",)))
    bus.deliver()
    before = Counter(bus.published)
    latecomer(bus, "ann")
    assert not (bus.published - before).keys() & {"present", "here_for", "gone"}


def test_a_newcomer_shows_itself_and_asks_only_whom_it_wants() -> None:
    bus = together(4)  # ann has d0 and d2, bob d1 and d3
    bus.join("bob", "d4")
    bus.tell(4, SetAvailability("available", shown_to=("ann",)))
    bus.attach(4)
    bus.deliver()
    assert set(seen(bus, 4)) == {"d0", "d1", "d2", "d3", "d4"}
    assert bus.published["here_for"] == 1
    assert not {"d4"} & (set(seen(bus, 1)) | set(seen(bus, 3)))
    assert "d4" in seen(bus, 0)
    bus.tell(4, Leaving())
    goodbyes = [payload for payload in bus.travelled if isinstance(decoded(payload), Gone)]
    assert len(goodbyes) == 1
    assert not any(goodbyes[0] in bus.queues[place] for place in (1, 3))


def test_a_newcomer_who_hides_asks_nobody() -> None:
    bus = together(2)
    before = bus.published["present"]
    bus.join("bob", "d2")
    bus.tell(2, SetAvailability("hidden"))
    bus.attach(2)
    bus.deliver()
    bus.pass_time(10.0)
    assert bus.published["present"] == before
    assert seen(bus, 2) == {}


def test_what_was_said_before_a_device_went_is_not_believed_again() -> None:
    bus = together(2)
    old = bus.peers[1].presence.devices()["d0"]
    bus.pass_time(10)
    bus.tell(0, Leaving())
    bus.deliver()
    handed_on = Present("d0", "d1", (old,))
    for message in (old, handed_on):
        bus.tell(1, EventCame(msgspec.msgpack.encode(message)))
        assert "d0" not in seen(bus, 1)


def test_nobody_outside_of_the_team_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = together(2)
    before = bus.published["present"]
    here = Here("x0", "eve", "available", bus.now + HOLDS_S, asks=1)
    monkeypatch.setattr(Governance, "role", lambda self, user: Role.NONE if user == "eve" else Role.EDITOR)
    bus.tell(0, EventCame(signed(here)))
    bus.tell(1, EventCame(signed(here)))
    assert bus.published["present"] == before
    monkeypatch.setattr(Governance, "role", lambda self, user: Role.EDITOR)
    bus.tell(1, EventCame(signed(msgspec.structs.replace(here, device="x1"))))
    bus.tell(1, EventCame(signed(msgspec.structs.replace(here, device="x1"))))  # repeated: no news, and no question
    assert bus.published["present"] == before + 1


def test_a_device_is_away_when_it_said_so_or_has_said_nothing_for_long() -> None:
    bus = together(3)
    presence = bus.peers[1].presence
    assert not presence.is_away("d0")
    assert not presence.is_away("unheard")
    bus.tell(0, Leaving())
    bus.end(2)
    bus.deliver()
    assert presence.is_away("d0")
    assert not presence.is_away("d2")
    bus.pass_time(HOLDS_S)
    assert presence.is_away("d2")
    assert presence.is_away("unheard")


def test_what_was_heard_in_an_earlier_run_and_has_expired_says_nothing_until_this_peer_has_listened_long_enough() -> (
    None
):
    bus = together(5)
    for place in (0, 2, 3):
        bus.end(place)
    bus.pass_time(HOLDS_S / 2)
    bus.tell(4, Leaving())
    bus.deliver()
    bus.end(4)
    bus.end(1)
    bus.pass_time(1)
    bus.start_again(1)
    assert bus.peers[1].presence.is_away("d4")  # it said so a moment ago
    bus.end(1)
    bus.pass_time(2 * HOLDS_S)
    bus.queues[1].clear()
    bus.attach(0)  # it came while this peer did not run
    bus.queues[1].clear()
    bus.start_again(1)
    presence = bus.peers[1].presence
    assert not any(presence.is_away(device) for device in ("d0", "d2", "d4", "unheard"))
    bus.pass_time(HOLDS_S)
    bus.deliver()
    assert not presence.is_away("d0")
    assert all(presence.is_away(device) for device in ("d2", "d4", "unheard"))


@pytest.mark.parametrize("ahead_s", [-1200.0, 0.0, 1200.0, 1e6])
def test_what_a_device_said_before_it_went_is_not_believed_whatever_its_clock(ahead_s: float) -> None:
    bus = together(2)
    bus.end(0)  # what it says is made here
    bus.pass_time(1300)
    here = signed(Here("d0", "ann", "available", bus.now + ahead_s + HOLDS_S))
    bus.tell(1, EventCame(here))
    bus.pass_time(60)
    gone = Gone("d0", "ann", bus.now + ahead_s)
    signature = Keys("d0").sign(signed_bytes_of(gone))
    bus.tell(1, EventCame(msgspec.msgpack.encode(msgspec.structs.replace(gone, signature=signature))))
    bus.tell(1, EventCame(here))
    assert "d0" not in seen(bus, 1)


def test_a_device_whose_clock_was_ahead_is_believed_again_once_what_it_said_has_expired() -> None:
    bus = together(2)
    bus.end(0)
    ahead = signed(Here("d0", "ann", "available", bus.now + 1e6))
    bus.tell(1, EventCame(ahead))
    bus.pass_time(HOLDS_S / 2)
    bus.tell(1, EventCame(ahead))  # repeated: holds no longer than before
    bus.tell(1, EventCame(signed(Here("d0", "ann", "busy", bus.now + HOLDS_S))))
    assert seen(bus, 1)["d0"] == "available"
    bus.pass_time(HOLDS_S / 2)
    assert "d0" not in seen(bus, 1)
    bus.tell(1, EventCame(signed(Here("d0", "ann", "busy", bus.now + HOLDS_S))))
    assert seen(bus, 1)["d0"] == "busy"


def test_a_device_that_has_answered_a_search_is_not_away_until_it_says_so() -> None:
    bus = together(2)
    bus.tell(0, SetAvailability("hidden"))
    bus.deliver()
    presence = bus.peers[1].presence
    assert presence.is_away("d0")
    bus.tell(1, StartSearch(Asking("s", Wanted(("artefact",), words="x"), until=bus.now + 60)))
    bus.deliver()
    assert not presence.is_away("d0")
    assert "d0" not in seen(bus, 1)
    bus.pass_time(HOLDS_S)
    assert presence.is_away("d0")


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
