"""Tables that every broker has: the later version wins, each is told once, and all is bounded."""

import pytest

from godwit.broker import gossip
from godwit.broker.gossip import GROUPS, RETAINED, WHEREABOUTS, Gossip, TableLimit, check_known
from godwit.broker.gossip_messages import Fact, GossipUpdate, GroupMember, RetainedEvent, SessionLocation
from godwit.errors import PeerFault
from godwit.filters.events import event
from tests.raw_messages import read
from tests.snapshots import restored


def table(name: str = "a", entries: int = 100, bytes: int = 100_000) -> Gossip:
    return Gossip(name, dict.fromkeys((WHEREABOUTS, RETAINED, GROUPS), TableLimit(entries, bytes)))


def at(home: str, attempt: int = 1) -> SessionLocation:
    return SessionLocation(home, f"{home}/1/1", attempt)


def test_the_later_version_wins_and_of_equal_stamps_the_higher_name():
    known = table()
    known.put(WHEREABOUTS, ("ann",), at("a"), 1.0)
    assert known.learn("b", Fact(WHEREABOUTS, ("ann",), 999_999, "b", at("b"))) == (False, None)
    assert known.learn("b", Fact(WHEREABOUTS, ("ann",), 1_000_000, "b", at("b"))) == (True, None)
    assert known.learn("b", Fact(WHEREABOUTS, ("ann",), 1_000_000, "b", at("b"))) == (False, None)
    assert known.value(WHEREABOUTS, "ann") == at("b")


def test_a_change_is_stamped_above_what_is_known_even_if_the_clock_is_behind():
    known = table()
    known.learn("b", Fact(WHEREABOUTS, ("ann",), 5_000_000, "b", at("b")))
    known.put(WHEREABOUTS, ("ann",), at("a"), 1.0)
    assert known.fact(WHEREABOUTS, "ann") == Fact(WHEREABOUTS, ("ann",), 5_000_001, "a", at("a"))


def test_a_neighbour_is_told_what_is_new_to_it_and_not_what_it_said():
    known = table()
    known.put(WHEREABOUTS, ("ann",), at("a"), 1.0)
    known.learn("b", Fact(WHEREABOUTS, ("bob",), 5, "b", at("b")))
    assert [fact.key for each in known.untold("b", 1) for fact in each.facts] == [("ann",)]
    assert [fact.key for each in known.untold("c", 1) for fact in each.facts] == [("ann",), ("bob",)]
    assert known.untold("b", 1) == known.untold("c", 1) == []
    known.put(WHEREABOUTS, ("ann",), None, 2.0)
    assert [fact.value for each in known.untold("b", 1) for fact in each.facts] == [None]


def test_a_neighbour_that_has_lost_its_memory_is_told_everything():
    known = table()
    known.learn("b", Fact(WHEREABOUTS, ("bob",), 5, "b", at("b")))
    known.put(WHEREABOUTS, ("ann",), at("a"), 1.0)
    known.untold("b", 1)
    assert [fact.key for each in known.untold("b", 2) for fact in each.facts] == [("bob",), ("ann",)]
    known.forget_told("b")
    assert len(known.untold("b", 2)) == 1


def test_what_is_told_comes_in_parts():
    known = table(entries=1_000)
    for number in range(150):
        known.put(WHEREABOUTS, (f"c{number}",), at("a"), 1.0)
    assert [len(each.facts) for each in known.untold("b", 1)] == [64, 64, 22]


def test_a_table_has_room_for_so_many_entries_and_bytes():
    known = table(entries=2)
    assert known.put(WHEREABOUTS, ("c1",), at("a"), 1.0) is None
    assert known.put(WHEREABOUTS, ("c2",), at("a"), 1.0) is None
    assert known.put(WHEREABOUTS, ("c3",), at("a"), 1.0) == "the table of whereabouts has room for 2"
    assert known.put(WHEREABOUTS, ("c2",), at("b"), 1.0) is None  # instead of another
    assert known.put(WHEREABOUTS, ("c1",), None, 1.0) is None
    assert known.put(WHEREABOUTS, ("c3",), at("a"), 1.0) is None
    small = table(bytes=1_000)
    large = RetainedEvent(event({"x": 1}, publisher="p", sequence=1, payload=bytes(800)))
    assert small.put(RETAINED, ("k",), large, 1.0) is None
    assert small.put(RETAINED, ("k",), large, 1.0) is None
    assert small.put(RETAINED, ("l",), large, 1.0) == "the table of retained has room for 1000 bytes"


def test_of_what_others_say_twice_as_much_is_taken():
    known = table(entries=2)
    facts = [Fact(WHEREABOUTS, (f"c{number}",), 5, "b", at("b")) for number in range(5)]
    assert [known.learn("b", fact)[0] for fact in facts] == [True] * 4 + [False]
    assert known.learn("b", facts[4])[1] == "the table of whereabouts has room for 2"


def test_of_what_was_removed_the_latest_is_remembered(monkeypatch):
    monkeypatch.setattr(gossip, "TOMBSTONES_MAX", 2)
    known = table()
    for number in range(4):
        known.put(WHEREABOUTS, (f"c{number}",), at("a"), 1.0)
        known.put(WHEREABOUTS, (f"c{number}",), None, 2.0)
    assert [fact.key for fact in known] == [("c2",), ("c3",)]
    assert known.sizes[WHEREABOUTS] == [0, 0]


def test_it_can_be_put_away():
    known = table()
    known.put(RETAINED, ("k",), RetainedEvent(event({"x": 1}, publisher="p", sequence=1)), 1.0)
    again = restored(known, table())
    assert list(again) == list(known)
    assert again.untold("b", 1) == known.untold("b", 1)


@pytest.mark.parametrize(
    "fact",
    [
        "ann is at b",
        Fact("weather", ("k",), 1, "b", None),
        Fact(WHEREABOUTS, ("ann", "bob"), 1, "b", None),
        Fact(WHEREABOUTS, (1,), 1, "b", None),  # type: ignore[arg-type]
        Fact(WHEREABOUTS, ("a" * 70_000,), 1, "b", None),
        Fact(WHEREABOUTS, ("ann",), -1, "b", None),
        Fact(WHEREABOUTS, ("ann",), 2**62 + 1, "b", None),
        Fact(WHEREABOUTS, ("ann",), 1, "", None),
        Fact(WHEREABOUTS, ("ann",), 1, "b", GroupMember(True)),
        Fact(WHEREABOUTS, ("ann",), 1, "b", SessionLocation("", "s", 1)),
        Fact(RETAINED, ("k",), 1, "b", RetainedEvent("event")),  # type: ignore[arg-type]
        Fact(GROUPS, ("g", "f", "b", "c", "s"), 1, "b", GroupMember(1)),  # type: ignore[arg-type]
    ],
)
def test_what_no_broker_says_is_a_fault(fact):
    with pytest.raises(PeerFault):
        check_known(read(GossipUpdate((fact,))))


def test_more_than_fits_into_one_message_is_a_fault():
    with pytest.raises(PeerFault):
        check_known(GossipUpdate(tuple(Fact(WHEREABOUTS, (str(n),), 1, "b", None) for n in range(65))))
