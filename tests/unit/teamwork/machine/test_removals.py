"""Which removals a peer knew: a bounded vector of the devices that made them."""

from typing import Any

import pytest

from godwit.teamwork.machine import removals as module
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.governance import Governance, governance
from godwit.teamwork.machine.removals import KnownRemovals, known_removals, removals

SCOPE = "community/ann.1"


def scope_of(*changes: tuple[int, str, int, str, str]) -> Governance:
    """From clock, device, number, user and state of members."""
    return governance(
        SCOPE,
        [
            Change(SCOPE, device, number, clock, "ann", f"member/{user}", {"state": state})
            for clock, device, number, user, state in changes
        ],
    )


def test_a_removal_is_known_by_its_device_and_number_and_not_by_its_place_in_the_order() -> None:
    known = known_removals(scope_of((1, "a", 1, "bob", "joined"), (5, "a", 2, "bob", "left")))
    assert known == KnownRemovals({"a": 2})
    assert known.has((5, "a", 2))
    assert not known.has((3, "b", 1))
    assert not known.has((6, "a", 3))


def test_who_had_no_role_is_not_removed() -> None:
    assert not list(removals(scope_of((1, "a", 1, "bob", "asking"), (2, "a", 2, "bob", "left"))))


def test_the_removals_of_more_devices_than_a_vector_may_have_are_known_by_their_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "DEVICES_MAX", 2)
    changes = [(1, "a", 1, f"user{number}", "joined") for number in range(4)]
    left = [(10 * number, f"d{number}", 7, f"user{number}", "left") for number in range(4)]
    scope = scope_of(*changes, *left[::-1])
    known = known_removals(scope)
    assert known == KnownRemovals({"d3": 7, "d2": 7}, 10)
    assert all(known.has(removal) for removal in removals(scope))
    assert known.has((9, "e", 1))
    assert not known.has((11, "e", 1))


@pytest.mark.parametrize("fields", [{}, {"removals": 3}, {"removals": {"a": "x"}}, {"removals_to_clock": -1}])
def test_fields_that_are_no_vector_cover_no_removal(fields: dict[str, Any]) -> None:
    assert KnownRemovals.of(fields) == KnownRemovals()
