"""The tree of members: a fair choice that every broker makes alike, in few steps."""

from collections import Counter
from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from godwit.broker import member_tree
from godwit.broker.member_tree import MemberTree, Place
from godwit.filters.events import event

EVENTS = [event({"x": 1}, publisher="pub", sequence=number) for number in range(2_000)]

names = st.text(st.sampled_from("a\0 1é"), max_size=3)
places = st.tuples(names, names, names)


def members(count: int) -> list[Place]:
    return [(f"b{number % 3}", f"c{number}", "s") for number in range(count)]


def tree_of(places: list[Place]) -> MemberTree:
    tree = MemberTree()
    for place in places:
        tree.add(place)
    return tree


@given(st.lists(places, unique=True, min_size=1), st.lists(places, unique=True), st.randoms())
def test_the_choice_depends_on_the_members_and_not_on_how_they_came(held, gone, random):
    passing = [place for place in gone if place not in held]
    tree = MemberTree()
    for place in random.sample(held + passing, len(held) + len(passing)):
        tree.add(place)
    for place in random.sample(passing, len(passing)):
        tree.remove(place)
    other = tree_of(held)
    assert len(tree) == len(other) == len(held)
    chosen = [tree.chosen(each) for each in EVENTS[:20]]
    assert chosen == [other.chosen(each) for each in EVENTS[:20]]
    assert {*chosen} <= {*held}


def test_a_tree_without_members_is_empty():
    tree = tree_of(members(5))
    for place in members(5):
        tree.remove(place)
    assert len(tree) == 0


def test_each_member_is_chosen_about_as_often_as_each_other():
    shares = Counter(map(tree_of(members(10)).chosen, EVENTS))
    assert len(shares) == 10
    assert all(150 < share < 250 for share in shares.values())


def test_a_member_that_comes_or_goes_changes_the_choice_for_few_events():
    held = members(301)
    tree = tree_of(held[:-1])
    before = [tree.chosen(each) for each in EVENTS]
    tree.add(held[-1])
    after = [tree.chosen(each) for each in EVENTS]
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    assert 0 < moved < 80  # log2(301) / 602 of them are 27
    tree.remove(held[-1])
    assert [tree.chosen(each) for each in EVENTS] == before


def test_a_choice_among_thousands_of_members_hashes_the_event_and_no_member(monkeypatch):
    tree, hashed = tree_of(members(3_000)), []

    def noted(data: bytes, digest_size: int = 64) -> object:
        hashed.append(data)
        return blake2b(data, digest_size=digest_size)

    monkeypatch.setattr(member_tree, "blake2b", noted)
    tree.chosen(EVENTS[0])
    assert 1 <= len(hashed) <= 2  # one for 16 levels


def test_members_whose_digests_share_many_bits_are_told_apart(monkeypatch):
    class Alike:
        def __init__(self, data: bytes, digest_size: int = 64) -> None:
            self._last = data[-1:]

        def digest(self) -> bytes:
            return bytes(15) + self._last

    monkeypatch.setattr(member_tree, "blake2b", Alike)
    places = [("b", "c", "1"), ("b", "c", "2"), ("b", "c", "3")]
    tree = tree_of(places)
    monkeypatch.setattr(member_tree, "blake2b", blake2b)
    assert {tree.chosen(each) for each in EVENTS} == {*places}
    monkeypatch.setattr(member_tree, "blake2b", Alike)
    tree.remove(places[0])
    monkeypatch.setattr(member_tree, "blake2b", blake2b)
    assert {tree.chosen(each) for each in EVENTS} == {*places[1:]}
