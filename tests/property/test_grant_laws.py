"""Grants are filters: what a user gets through them is what it asked for and was granted, neither more nor less."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from godwit.broker.messages import Advertise, Attach, Denied, Note, Publish, Request, Retain, Subscribe
from godwit.filters.effort import Effort
from godwit.filters.events import Event
from godwit.filters.filters import FALSE, TRUE, Filter, any_of
from godwit.filters.language import parse
from godwit.runtime.grants import EVERYTHING, Grants
from tests.property.strategies import events, filters, many, number_sets

ID = ("ann", "1")
GRANTS = st.lists(filters(4), max_size=3).map(lambda parts: any_of(*parts)) | st.lists(
    filters(3, sets=number_sets()), min_size=1, max_size=3
).map(lambda parts: any_of(*parts))
WANTED = filters(6) | filters(4, sets=number_sets())


def wished(grants: Grants, wish: object) -> object:
    request = grants.checked(Request(1, wish))  # type: ignore[arg-type]
    assert request.number == 1
    return request.wish


@many(3)
@given(GRANTS, WANTED, st.lists(events(), max_size=10))
def test_a_narrowed_subscription_lets_through_exactly_what_is_wanted_and_granted(
    grant: Filter, filter: Filter, seen: list[Event]
) -> None:
    wish = wished(Grants(FALSE, grant, "narrow"), Subscribe(ID, filter))
    for event in seen:
        passes = isinstance(wish, Subscribe) and wish.filter.matches(event)
        assert passes == (filter.matches(event) and grant.matches(event))


@many(3)
@given(GRANTS, WANTED, st.lists(events(), max_size=10))
def test_nothing_gets_through_that_no_grant_covers(grant: Filter, filter: Filter, seen: list[Event]) -> None:
    for kind in (Subscribe, Advertise):
        for excess in ("refuse", "narrow"):
            wish = wished(Grants(grant, grant, excess), kind(ID, filter))
            if not isinstance(wish, Denied):
                assert isinstance(wish, kind)
                assert not any(wish.filter.matches(event) and not grant.matches(event) for event in seen)
                assert excess == "narrow" or wish.filter is filter


@given(GRANTS, WANTED)
def test_what_is_covered_is_left_as_it_is(grant: Filter, filter: Filter) -> None:
    for excess in ("refuse", "narrow"):
        request = Request(1, Subscribe(ID, filter))
        if grant != FALSE and grant.covers(filter):  # who is granted nothing is refused even what matches nothing
            assert Grants(FALSE, grant, excess).checked(request) is request
        assert EVERYTHING.checked(request) is request


def one_by_one(event: Event) -> Iterator[Event]:
    """An event, and what it would be with one of the values of each attribute alone."""
    yield event
    choices = [value if isinstance(value, tuple) else (value,) for value in event.attributes.values()]
    for chosen in product(*choices):
        yield Event(dict(zip(event.attributes, chosen, strict=True)))


@example(parse("topic = 'a'"), Event({"topic": ("a", "b")}))
@given(GRANTS, events())
def test_an_event_may_be_published_if_a_grant_matches_it_with_each_of_its_values(grant: Filter, event: Event) -> None:
    wish = wished(Grants(grant, FALSE), Publish(event))
    assert isinstance(wish, Denied) == (not all(map(grant.matches, one_by_one(event))))


def test_who_may_publish_one_topic_reaches_no_other_by_naming_both() -> None:
    ann = Grants.of(["topic = 'a'"], ())
    both = Event({"topic": ("a", "b")})
    for wish in (Publish(both), Retain(both, "a")):
        assert isinstance(wished(ann, wish), Denied)
    roles = Grants.of(["sender.role = 'medic'"], (), asserted={"role": ("medic", "pilot")}, names=["role"])
    assert roles.may_publish(Event({"topic": ("a", "b")}))  # of what no grant speaks, anything may be said
    many = {name: tuple(range(100)) for name in "xyz"}
    assert not Grants.of(["x >= 0 AND y >= 0 AND z >= 0"], ()).may_publish(Event(many))


@given(filters(4, ("sender.role", "sender.floor", "x")), events(("sender.role", "sender.floor", "x")), st.booleans())
def test_what_the_server_says_of_a_sender_counts_and_what_the_sender_says_of_it_does_not(
    grant: Filter, event: Event, is_medic: bool
) -> None:
    asserted = {"role": "medic"} if is_medic else {}
    grants = Grants(grant, FALSE, stamps=Grants.of((), (), asserted=asserted, names=["role"]).stamps)
    stamped = {name: value for name, value in event.attributes.items() if name != "sender.role"}
    if is_medic:
        stamped["sender.role"] = "medic"
    said = {name: value for name, value in stamped.items() if name != "sender.role"}
    ways = [{**stamped, **way.attributes} for way in one_by_one(Event(said))]
    assert grants.may_publish(event) == all(map(grant.holds, ways))


@given(GRANTS, st.lists(WANTED, max_size=4), st.lists(events(), max_size=5), st.sampled_from(["refuse", "narrow"]))
def test_what_a_client_brings_along_is_checked_like_what_it_asks_for(
    grant: Filter, wanted: list[Filter], seen: list[Event], excess: str
) -> None:
    grants = Grants(grant, grant, excess)  # type: ignore[arg-type]
    brought = tuple(Subscribe(("ann", str(n)), filter) for n, filter in enumerate(wanted))
    attach = grants.checked(Attach("ann", wanted=brought, quench=True))
    asked = [wished(grants, wish) for wish in brought]
    assert list(attach.wanted) == [wish for wish in asked if not isinstance(wish, Denied)]
    assert attach.quench == (grant == TRUE)


@example("kind = 'fire'", "a/b", "c")
@given(st.sampled_from(["topic LIKE 'a/%'", "kind = 'fire'", "topic = 'a/b' AND kind = 'fire'"]), st.text(), st.text())
def test_nobody_replaces_a_kept_event_that_it_could_not_have_published(text: str, topic: str, key: str) -> None:
    grant = parse(text)
    event = Event({"topic": topic, "kind": "fire"})
    wish = wished(Grants(grant, FALSE), Retain(event, key))
    assert isinstance(wish, Retain) == (grant.matches(event) and grant.matches(Event({"topic": key, "kind": "fire"})))


def leaks(grants: Grants, grant: Filter, filter: Filter, event: Event) -> bool:
    """Whether an event gets through that is not granted."""
    wish = wished(grants, Subscribe(ID, filter))
    return isinstance(wish, Subscribe) and wish.filter.matches(event) and not grant.matches(event)


def test_a_grant_that_is_only_held_against_overlap_is_caught() -> None:
    class Careless(Grants):
        def narrowed(self, filter: Filter, grant: Filter, effort: Effort | None = None) -> Filter | None:
            return filter if grant.intersects(filter) else None

    grant, filter, event = parse("x > 1"), parse("x > 0"), Event({"x": 1})
    assert leaks(Careless(FALSE, grant), grant, filter, event)
    assert not any(leaks(Grants(FALSE, grant, excess), grant, filter, event) for excess in ("refuse", "narrow"))


def test_who_is_granted_nothing_may_do_nothing_and_is_told() -> None:
    nothing = Grants.of((), ())
    for wish in (Subscribe(ID, TRUE), Advertise(ID, TRUE), Publish(Event({"x": 1})), Retain(Event({"x": 1}), "k")):
        denied = wished(nothing, wish)
        assert isinstance(denied, Denied)
        assert "not allowed to" in denied.reason
    note = Note("k", b"v")
    assert wished(nothing, note) is note


def test_a_star_among_grants_is_everything() -> None:
    assert Grants.of(["x = 1", "*"], [" * "]).is_everything
    assert not Grants.of(["*"], ["x = 1"]).is_everything


def test_the_own_context_in_a_grant_is_what_the_server_asserts() -> None:
    grants = Grants.of((), ["region = my.region"], asserted={"region": "north"}, names=["region"])
    assert isinstance(wished(grants, Subscribe(ID, parse("region = 'north' AND x > 1"))), Subscribe)
    assert isinstance(wished(grants, Subscribe(ID, parse("region = 'south'"))), Denied)
    assert isinstance(wished(grants, Subscribe(ID, parse("region = my.region"))), Denied)  # who knows what that will be
    unknown = Grants.of((), ["region = my.region"], names=["region"])
    assert isinstance(wished(unknown, Subscribe(ID, parse("region = 'north'"))), Denied)


def test_a_filter_that_is_too_large_to_compare_is_refused() -> None:
    large = any_of(*(parse(f"x = {n} AND y = {n}") for n in range(600)))
    assert isinstance(wished(Grants(FALSE, parse("x > 0")), Subscribe(ID, large)), Denied)
    assert isinstance(wished(Grants(FALSE, TRUE), Subscribe(ID, large)), Subscribe)


def test_a_refusal_says_what_is_allowed() -> None:
    denied = wished(Grants.of((), ["kind = 'parking'"]), Subscribe(ID, parse("kind = 'fire'")))
    assert isinstance(denied, Denied)
    assert denied.reason == "you are not allowed to subscribe to that, only what matches: kind = 'parking'"


@pytest.mark.parametrize("excess", ["refuse", "narrow"])
def test_a_filter_that_is_too_large_to_be_judged_is_refused_with_that_reason(
    excess: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = Grants.of((), [" OR ".join(f"ALL a = {2 * i}" for i in range(900))], excess)
    small = Subscribe(("ann", "s"), parse("ALL a = 1"))
    assert "not allowed" in grants.checked_wish(small).reason
    monkeypatch.setattr("godwit.runtime.grants.EFFORT_MAX", 100)
    wish = Subscribe(("ann", "s"), parse(" OR ".join(f"ALL a = {2 * i + 1}" for i in range(900))))
    refused = grants.checked_wish(wish)
    assert isinstance(refused, Denied)
    assert "too large" in refused.reason
