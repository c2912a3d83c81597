"""Peers that have the same changes have the same records, in whatever order and however often the changes came."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.teamwork.machine import records as records_module
from godwit.teamwork.machine.changes import Change
from tests.unit.teamwork.machine.team_of_peers import Replica

SCOPE = "community/ann.1"
USERS = ("ann", "bob", "cid")
ROLES = ("reader", "editor", "owner")
STATES = ("joined", "left", "invited", "asking")

contents = st.tuples(
    st.sampled_from(["artefact/1", "artefact/2", "meeting/1"]),
    st.dictionaries(
        st.sampled_from(["title", "content", "locked_by"]), st.sampled_from(["ann", "bob", "x", None]), min_size=1
    ),
)
members = st.tuples(
    st.sampled_from([f"member/{user}" for user in USERS]),
    st.fixed_dictionaries({"state": st.sampled_from(STATES)}, optional={"role": st.sampled_from(ROLES)}),
)
settings_of_scope = st.tuples(
    st.just("scope/self"), st.fixed_dictionaries({"join": st.sampled_from(["open", "approval"])})
)
ends = st.tuples(
    st.sampled_from(["device/0", "device/1", "device/2", "device/3"]),
    st.fixed_dictionaries({"last": st.integers(0, 3)}),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.integers(0, 3), contents | members | settings_of_scope | ends),
        st.tuples(st.just("learn"), st.integers(0, 3), st.tuples(st.integers(0, 3), st.integers(1, 3))),
    ),
    max_size=30,
)


def after(steps: list[Any]) -> list[Replica]:
    """Four devices, two of them ann's, after these steps; then all learn from all."""
    replicas = [Replica(SCOPE, USERS[place % 3], str(place)) for place in range(4)]
    for what, place, detail in steps:
        if what == "change":
            record, fields = detail
            replicas[place].change(record, **fields)
        else:
            other, count = detail
            replicas[place].learn_from(replicas[other], count)
    return replicas


def meet(replicas: list[Replica]) -> None:
    for _ in range(2):
        for one in replicas:
            for other in replicas:
                one.learn_from(other)


@given(steps)
def test_peers_that_have_met_have_the_same_records(steps: list[Any]) -> None:
    replicas = after(steps)
    meet(replicas)
    first, *others = [replica.records() for replica in replicas]
    for other in others:
        assert other == first


@given(steps)
def test_records_that_followed_change_by_change_are_those_folded_at_once(steps: list[Any]) -> None:
    replicas = after(steps)
    meet(replicas)
    for replica in replicas:
        for name, record in replica.records().items():
            assert replica.log.fold(name) == record


@given(steps, st.randoms(use_true_random=False))
def test_the_order_in_which_devices_are_heard_of_plays_no_part(steps: list[Any], random: Any) -> None:
    replicas = after(steps)
    meet(replicas)
    changes = replicas[0].store.changes_after(SCOPE, {}, 10**6)
    late = Replica(SCOPE, "eve", "9")
    waiting = list(changes)
    while waiting:
        ready = [change for change in waiting if late.log.is_next(change)]
        change = random.choice(ready)
        waiting.remove(change)
        late.take(change)
    assert late.records() == replicas[0].records()


@given(steps)
def test_a_change_that_lost_a_field_is_in_the_history_and_named_unless_somebody_saw_both(steps: list[Any]) -> None:
    replicas = after(steps)
    meet(replicas)
    store = replicas[0].store
    for name, record in replicas[0].records().items():
        refused = {each.change for each in record.refused}
        changes = {each.id: each for each in store.changes_of(SCOPE, name) if each.id not in refused}
        everything = {each.id: each for each in store.changes_of(SCOPE, name)}
        for field, decided in record.decided_by.items():
            latest = changes[decided]
            for other in changes.values():
                differs = field in other.fields and other.fields[field] != latest.fields[field]
                is_seen = other.id in ancestors(latest, everything)
                is_overruled = any(
                    field in third.fields and other.id in ancestors(third, everything) for third in changes.values()
                )
                named = any(each.field == field and each.lost == other.id for each in record.conflicts)
                assert named == (differs and not is_seen and not is_overruled)


def ancestors(change: Change, changes: dict[Any, Change]) -> set[Any]:
    known: set[Any] = set()
    waiting = list(change.parents)
    while waiting:
        id = waiting.pop()
        if id not in known and id in changes:
            known.add(id)
            waiting += changes[id].parents
    return known


def test_a_fold_that_follows_the_order_of_arrival_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = records_module.folded

    def by_arrival(name: str, changes: Any, *rest: Any) -> Any:
        renumbered = list(changes)
        monkeypatch.setattr(Change, "order", property(lambda change: (0, "", 0)))
        try:
            return honest(name, renumbered, *rest)
        finally:
            monkeypatch.undo()

    ann, bob = Replica(SCOPE, "ann", "0"), Replica(SCOPE, "ann", "1")
    ann.change("artefact/1", title="here")
    bob.change("artefact/1", title="there")
    meet([ann, bob])
    assert ann.records() == bob.records()
    changes = [ann.store.changes_of(SCOPE, "artefact/1"), bob.store.changes_of(SCOPE, "artefact/1")]
    assert by_arrival("artefact/1", changes[0]) != by_arrival("artefact/1", changes[1])
