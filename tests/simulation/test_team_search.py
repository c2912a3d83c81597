"""Searches over peers: all that reachable peers may show, once; by rights that the peer itself checks."""

from random import Random

import pytest

from godwit.teamwork.machine import search as search_module
from godwit.teamwork.machine.bus import Wanted
from godwit.teamwork.machine.peer_effects import ChangeRecord, EndSearch, Follow, StartSearch
from godwit.teamwork.machine.search import Asking
from tests.seeds import few
from tests.simulation.team_bus import SCOPE, Bus

PRIVATE = "community/bob.2"


def team(seed: int) -> Bus:
    """Six peers of ann and bob; artefacts in a community of both, and in one of bob's."""
    bus, random = Bus(seed, peers=6), Random(seed)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", {"state": "joined", "role": "editor"}))
    for place in range(1, 6, 2):
        bus.tell(place, Follow(PRIVATE))
    bus.come_together()
    for number in range(20):
        place = random.randrange(6)
        scope = PRIVATE if place % 2 and random.random() < 0.5 else SCOPE
        fields = {"title": f"report {number}"} | ({"shown_to": ["ann"]} if random.random() < 0.3 else {})
        bus.tell(place, ChangeRecord(scope, f"artefact/{number}", fields))
    bus.deliver()
    return bus


def ask(bus: Bus, place: int, until: float = 1e9, name: str = "s1") -> None:
    bus.tell(place, StartSearch(Asking(name, Wanted(("artefact",), words="report"), until)))


def found(bus: Bus) -> list[tuple[str, str]]:
    return [(each.scope, each.record) for progress in bus.progress for each in progress.found]


def owed(bus: Bus, user: str) -> set[tuple[str, str]]:
    """What a user may see of all that there is."""
    names = set()
    for store in bus.stores:
        for record in store.records(SCOPE, "artefact"):
            names.add((SCOPE, record.name))
        for record in store.records(PRIVATE, "artefact"):
            if user == "bob" or user in record.fields.get("shown_to", ()):
                names.add((PRIVATE, record.name))
    return names


@pytest.mark.parametrize("seed", few(range(10), 4))
@pytest.mark.parametrize("place", [0, 1])
def test_a_search_finds_all_that_the_user_may_see_once(seed: int, place: int) -> None:
    bus = team(seed)
    ask(bus, place)
    bus.deliver()
    names = found(bus)
    assert len(names) == len(set(names))
    assert set(names) == owed(bus, bus.peers[place].user)
    assert set(bus.peers[place].search.answered("s1")) == {f"d{other}" for other in range(6) if other != place}


def test_peers_that_are_away_answer_when_they_come_back_and_are_known_until_then() -> None:
    bus = team(1)
    for place in (1, 3, 5):
        bus.detach(place)
    ask(bus, 0)
    bus.deliver()
    assert set(bus.peers[0].search.answered("s1")) == {"d2", "d4"}
    before = set(found(bus))
    for place in (1, 3, 5):
        bus.attach(place)
    bus.deliver()
    assert set(bus.peers[0].search.answered("s1")) == {"d1", "d2", "d3", "d4", "d5"}
    assert set(found(bus)) == owed(bus, "ann") > before


def test_nobody_answers_a_search_that_is_over() -> None:
    bus = team(1)
    bus.now = 100.0
    ask(bus, 0, until=50.0)
    bus.deliver()
    assert bus.published["answers"] == 0


def test_a_search_that_was_ended_reports_nothing_more() -> None:
    bus = team(1)
    ask(bus, 0)
    bus.tell(0, EndSearch("s1"))
    count = len(bus.progress)
    bus.deliver()
    assert len(bus.progress) == count


def test_a_question_in_the_name_of_another_is_refused() -> None:
    bus = team(1)
    ask(bus, 0)
    payload = next(queue for queue in bus.queues if queue)[0]
    forged = payload.replace(b"report", b"raport")
    bus.queues[1].clear()
    bus.queues[1].append(forged)
    bus.deliver()
    assert bus.peers[0].search.answered("s1")["d1"] == "no signature of d0"


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (Wanted((), words="x"), "a search needs at least one kind of record"),
        (Wanted(("user",)), "a search needs a query or words"),
        (Wanted(("user",), words="x", limit=0), "limit must be 1 to 1,000, not 0"),
        (Wanted(("user",), query="?"), "a query does not begin with ?"),
        (Wanted(("user",), words="x" * 20_001), "a query has at most 20,000 characters"),
    ],
)
def test_a_search_that_cannot_be_is_refused_at_once(wanted: Wanted, reason: str) -> None:
    bus = team(1)
    asked = bus.published["question"]
    bus.tell(0, StartSearch(Asking("s1", wanted, 1e9)))
    assert [each.reason for each in bus.rejected] == [reason]
    assert bus.published["question"] == asked


def test_searches_that_are_open_are_bounded() -> None:
    bus = team(1)
    for number in range(search_module.OPEN_MAX + 1):
        ask(bus, 0, name=str(number))
    assert [each.reason for each in bus.rejected] == ["100 searches are open: end one of them first"]


def test_a_peer_that_shows_everything_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = team(3)
    monkeypatch.setattr(type(bus.peers[0]), "readable_scopes", lambda self, user: [SCOPE, PRIVATE])
    ask(bus, 0)
    bus.deliver()
    assert set(found(bus)) > owed(bus, "ann")


def test_a_question_is_addressed_to_the_peers_concerned() -> None:
    bus = team(1)
    bus.join("cid", "d6")  # a peer of the team that is in no community
    bus.attach(6)
    for scopes, asked in (((SCOPE,), "12345"), ((PRIVATE,), "123456"), (None, "123456")):
        for queue in bus.queues:
            queue.clear()
        bus.tell(0, StartSearch(Asking(f"s{scopes}", Wanted(("artefact",), words="report"), 1e9, scopes)))
        assert [place for place, queue in enumerate(bus.queues) if queue] == [int(place) for place in asked]
