"""Literals that filters have in common are made once, and what is known of them is bounded."""

import pytest

from godwit.errors import FilterError
from godwit.filters import all_of, interval, one_of, some
from godwit.filters.language import from_json, to_json
from godwit.filters.shared_literals import SHARED_MAX, TEXT_MAX, SharedLiterals


def test_equal_literals_on_one_text_are_one_object() -> None:
    literals = SharedLiterals()
    first = literals.some("kind", "bus")
    assert literals.some("kind", "bus") is first
    assert first == some("kind", one_of(["bus"]))
    assert literals.some("kind", "van") != first
    assert literals.some("type", "bus") != first


def test_what_is_known_is_bounded() -> None:
    literals = SharedLiterals()
    first = literals.some("kind", "0")
    for number in range(1, SHARED_MAX + 1):
        literals.some("kind", str(number))
    assert len(literals) == 1  # all others were forgotten for the last one
    assert literals.some("kind", "0") == first
    assert len(literals) == 2
    literals.some("kind", "x" * (TEXT_MAX + 1))
    assert len(literals) == 2


def test_filters_from_a_wire_share_literals_on_one_text() -> None:
    data = [to_json(all_of(some("kind", one_of(["bus"])), some("price", interval(low, 50.0)))) for low in (1.0, 2.0)]
    one, other = map(from_json, data)
    assert one.parts[0] is other.parts[0]  # type: ignore[union-attr]
    assert one.parts[1] != other.parts[1]  # type: ignore[union-attr]


def test_equal_numbers_of_two_types_are_not_shared() -> None:
    whole, real = (from_json({"some": "x", "in": {"one_of": [one]}}) for one in (1, 1.0))
    assert whole == real
    assert str(to_json(whole)) != str(to_json(real))


def test_a_text_that_is_none_is_refused_with_its_path() -> None:
    with pytest.raises(FilterError, match=r"\$\.in\.one_of\[0\]"):
        from_json({"some": "x", "in": {"one_of": ["\ud800"]}})
