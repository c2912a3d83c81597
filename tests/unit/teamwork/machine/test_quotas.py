"""Quotas of users and communities, and what users without a role can leave behind at other peers."""

from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from godwit.teamwork.machine import quotas, scope_log
from godwit.teamwork.machine.changes import Change, hash_of, signed_bytes
from godwit.teamwork.machine.peer_effects import ChangeRecord
from godwit.teamwork.machine.quotas import ROLELESS_MAX, Quota, Usage, largest, problem_of_quota, quota_of
from godwit.teamwork.repository import Repository
from tests.seeds import few
from tests.simulation.team_bus import SCOPE, Bus
from tests.unit.teamwork.machine.team_of_peers import Keys, Replica

JOINED = {"state": "joined", "role": "editor"}
RECORDS = 10  # what a record becomes is found from all of its changes, each time one comes


def chain(device: str, user: str, count: int, record: str = "", fields: dict[str, Any] | None = None) -> list[Change]:
    """Changes that a device could have made, right or not: of one record, or of several artefacts."""
    made: list[Change] = []
    for number in range(1, count + 1):
        previous, said = hash_of(made[-1]) if made else b"", fields or {"title": str(number)}
        about = record or f"artefact/{number % RECORDS}"
        change = Change(SCOPE, device, number, 10 + number, user, about, said, previous=previous)
        made.append(msgspec.structs.replace(change, signature=Keys(device).sign(signed_bytes(change))))
    return made


def test_changes_of_a_user_without_a_role_are_bounded_counted_and_reported_now_and_then() -> None:
    bus = Bus(1, peers=1)
    for change in chain("d9", "eve", 300):
        bus.peers[0].take(change)
    assert bus.stores[0].vector(SCOPE)["d9"] == ROLELESS_MAX
    [(key, count)] = bus.peers[0].dropped.items()
    assert (key, count) == ((SCOPE, "d9"), 1)  # the next ones do not follow what is here


def test_what_is_dropped_again_and_again_is_reported_at_every_tenfold_count() -> None:
    bus = Bus(1, peers=1)
    changes = chain("d9", "eve", ROLELESS_MAX + 1)
    for change in changes:
        bus.peers[0].take(change)
    for _ in range(99):
        bus.peers[0].take(changes[-1])
    bus.tell(0, ChangeRecord(SCOPE, "artefact/2", {"title": "x"}))
    assert [each.what for each in bus.rejected] == [
        f"change 101 of d9 in {SCOPE} ({count} dropped)" for count in (1, 10, 100)
    ]
    assert bus.rejected[0].reason == "eve has no role, and 100 changes of d9 are kept already"


def test_asking_for_membership_is_bounded_too() -> None:
    bus = Bus(1, peers=1)
    for change in chain("d9", "eve", 300, "member/eve", {"state": "asking"}):
        bus.peers[0].take(change)
    assert bus.stores[0].vector(SCOPE)["d9"] == ROLELESS_MAX


def test_what_was_dropped_is_taken_when_the_user_has_a_role() -> None:
    bus = Bus(1, peers=1)
    changes = chain("d9", "eve", 300)
    for change in changes:
        bus.peers[0].take(change)
    bus.tell(0, ChangeRecord(SCOPE, "member/eve", JOINED))
    for change in changes:
        bus.peers[0].take(change)
    assert bus.stores[0].vector(SCOPE)["d9"] == 300


@pytest.mark.parametrize("seed", few(range(5), 2))
def test_peers_converge_whatever_came_before_the_role_was_known(seed: int) -> None:
    bus, random = Bus(seed, peers=3), Random(seed)
    changes = chain("d9", "eve", 150)
    for place in (1, 2):
        for change in changes[: random.randrange(150)]:
            bus.peers[place].take(change)
    bus.tell(0, ChangeRecord(SCOPE, "member/eve", JOINED))
    bus.join("eve", "d9")
    for change in changes:
        bus.stores[3].add(change)
    bus.come_together()
    first, *others = bus.vectors()
    assert first["d9"] == 150
    assert all(other == first for other in others)


def test_without_the_bound_everything_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_log, "ROLELESS_MAX", 10**9)
    with pytest.raises(AssertionError):
        test_changes_of_a_user_without_a_role_are_bounded_counted_and_reported_now_and_then()


# ------------------------------------------------------------ quotas


@pytest.mark.parametrize(
    ("setting", "figures", "records", "said"),
    [
        ("user_quota", {"changes": 2}, "artefact", "bob in community/ann.1 has used 2 of 2 changes"),
        ("user_quota", {"messages": 2}, "message", "bob in community/ann.1 has used 2 of 2 messages"),
        ("user_quota", {"bytes": 500}, "artefact", "of 500 bytes"),
        ("quota", {"changes": 5}, "artefact", "community/ann.1 has used 5 of 5 changes"),
    ],
)
def test_who_is_over_a_quota_is_told_the_figures_and_what_to_do(
    setting: str, figures: dict[str, int], records: str, said: str
) -> None:
    bus = Bus(1, peers=2)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {setting: figures}))
    bus.come_together()
    for number in range(4):
        fields = {"author": "bob", "text": "x" * 100} if records == "message" else {"title": "x" * 100}
        bus.tell(1, ChangeRecord(SCOPE, f"{records}/{number}", fields))
    reasons = [each.reason for each in bus.rejected]
    assert reasons
    assert said in reasons[0]
    assert f"an owner can raise {setting}" in reasons[0]
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {setting: {"changes": 100, "bytes": 10**6, "messages": 100}}))
    bus.deliver()
    count = len(bus.rejected)
    bus.tell(1, ChangeRecord(SCOPE, "artefact/later", {"title": "y"}))
    assert len(bus.rejected) == count


def test_peers_take_no_more_from_a_device_than_the_largest_quota_and_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"user_quota": Quota(20, 10**6, 10), "quota": Quota(10**6, 10**9, 10**6)}
    monkeypatch.setattr(quotas, "DEFAULTS", small)
    monkeypatch.setattr(scope_log, "RESERVED", 5)
    bus = Bus(1, peers=3)
    bus.tell(0, ChangeRecord(SCOPE, "member/bob", JOINED))
    bus.come_together()
    changes = chain("d9", "bob", 60)
    for place in (0, 2):
        for change in changes:
            bus.peers[place].take(change)
    assert [store.vector(SCOPE)["d9"] for store in (bus.stores[0], bus.stores[2])] == [25, 25]
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"user_quota": {"changes": 50}}))
    bus.tell(0, ChangeRecord(SCOPE, "scope/self", {"user_quota": {"changes": 10}}))  # what was allowed stays
    bus.come_together()
    for place in (0, 1):
        for change in changes:
            bus.peers[place].take(change)
    bus.come_together()
    assert {store.vector(SCOPE)["d9"] for store in bus.stores} == {55}


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (5, "has some of changes, bytes, messages, not 5"),
        ({"files": 5}, "has some of changes, bytes, messages"),
        ({"changes": 0}, "changes of quota must be a whole number from 1"),
        ({"changes": True}, "changes of quota must be a whole number"),
        ({"bytes": 10}, ""),
    ],
)
def test_what_is_no_quota_is_named_and_counts_as_the_default(told: object, said: str) -> None:
    problem = problem_of_quota("quota", told)
    assert said in problem
    assert bool(said) == bool(problem)
    assert (quota_of("quota", {"quota": told}) == quotas.DEFAULTS["quota"]) == bool(said)


def test_the_largest_quota_is_taken_figure_by_figure() -> None:
    default = quotas.DEFAULTS["user_quota"]
    ever = [{"changes": default.changes + 5}, {"bytes": 1}, "nonsense", {"messages": default.messages + 7}]
    assert largest("user_quota", ever) == Quota(default.changes + 5, default.bytes, default.messages + 7)


def test_usage_is_counted_alike_in_memory_and_on_the_disk(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    memory, disk = Replica(SCOPE, "ann", "d1"), Replica(SCOPE, "ann", "d1", repository)
    for replica in (memory, disk):
        replica.change("artefact/1", title="x" * 1000)
        replica.change("message/1", author="ann", text="hello")
    for user, device in ((None, None), ("ann", None), (None, "d1"), ("bob", None)):
        expected = memory.store.usage(SCOPE, user=user, device=device)
        assert disk.store.usage(SCOPE, user=user, device=device) == expected
    assert disk.store.usage(SCOPE, user="bob") == Usage()
    assert disk.store.usage(SCOPE).messages == 1
    assert disk.store.changes_by(SCOPE, "d1") == memory.store.changes_by(SCOPE, "d1")
    repository.close()
