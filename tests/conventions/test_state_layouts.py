"""A state whose fields have changed has another version: a stored snapshot is never read by the wrong names."""

from typing import ClassVar

import msgspec
import pytest

from tests.conventions.state_layouts import layout_of, present, stored, why_not


class Inner(msgspec.Struct):
    count: int


class Old(msgspec.Struct):
    version: ClassVar[int] = 1
    names: tuple[str, ...]
    inner: dict[str, Inner]


class New(msgspec.Struct):
    version: ClassVar[int] = 1
    names: tuple[str, ...]
    inner: dict[str, Inner]
    more: int = 0


@pytest.mark.parametrize("name", sorted(present().keys() | stored().keys()))
def test_a_state_with_other_fields_has_another_version(name: str) -> None:
    now = present().get(name)
    assert now is not None, (
        f"{name} is in the table and is no state any more: run python -m tests.conventions.state_layouts"
    )
    assert why_not(name, now, stored().get(name)) is None


def test_a_field_more_is_noticed_with_the_same_version_and_not_with_another() -> None:
    before = {"version": 1, "layout": {"State": layout_of(Old)["Old"], "Inner": layout_of(Old)["Inner"]}}
    now = {"version": 1, "layout": {"State": layout_of(New)["New"], "Inner": layout_of(New)["Inner"]}}
    assert why_not("State", before, before) is None
    assert "raise it" in str(why_not("State", now, before))
    assert "the table 1" in str(why_not("State", {**now, "version": 2}, before))
    assert "only rise" in str(why_not("State", before, {**now, "version": 2}))
    assert "not in the table" in str(why_not("State", now, None))


def test_a_field_of_a_struct_within_a_state_counts() -> None:
    assert layout_of(Old)["Inner"] == {"count": "int"}
    changed = {"version": 1, "layout": {**layout_of(Old), "Inner": {"count": "float"}}}
    assert "Inner" in str(why_not("Old", {"version": 1, "layout": layout_of(Old)}, changed))
