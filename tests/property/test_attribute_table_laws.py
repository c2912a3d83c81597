"""A table of attributes answers as the filter itself does, whatever it has held before.

*The laws.*
1. By key, `matching(filter)` is `filter.holds(attributes)`, while attributes come, change and go.
2. `steps(filter)` is what it is in a table that was made from the same attributes at once.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from godwit.filters.events import Attributes
from godwit.filters.filters import Filter
from godwit.filters.language import parse
from godwit.filters.values import Point
from godwit.matching import attribute_table, packed_values
from godwit.matching.attribute_table import AttributeTable
from tests.property.strategies import attributes, filters, literals, many, values

KEYS = tuple(f"k{number}" for number in range(9))
changes = st.lists(
    st.tuples(st.sampled_from(KEYS), st.one_of(attributes(), attributes(of=values()), st.just({}))), max_size=30
)


@pytest.fixture(autouse=True, scope="module")
def small_thresholds() -> Iterator[None]:
    """Few rows are enough for dense attributes, and few empty cells for closing gaps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attribute_table, "FEW_ROWS", 2)
        patch.setattr(attribute_table, "DENSE_MIN", 3)
        patch.setattr(attribute_table, "DENSE_SHARE", 2)
        patch.setattr(attribute_table, "SPARSE_SHARE", 4)
        patch.setattr(attribute_table, "GARBAGE_MIN", 2)
        yield


def faults(told: list[tuple[str, Attributes]], asked: list[Filter]) -> Iterator[tuple[str, Filter]]:
    """Keys and filters for which a table says something else than the filter, after every change."""
    table = AttributeTable()
    held: dict[str, Attributes] = {}
    for key, given_attributes in told:
        held[key] = given_attributes
        table.put(key, given_attributes)
        for filter in asked:
            meant = table.matching(filter)
            yield from ((each, filter) for each in KEYS if (each in meant) is not filter.holds(held.get(each, {})))
    at_once = AttributeTable()
    for key, given_attributes in held.items():
        at_once.put(key, given_attributes)
    assert len(at_once) == len(table) == sum(map(bool, held.values()))
    for filter in asked:
        assert table.steps(filter) == at_once.steps(filter)


@many(3)
@given(changes, st.lists(st.one_of(literals(), filters()), min_size=1, max_size=4))
def test_a_table_says_what_the_filter_says(told: list[tuple[str, Attributes]], asked: list[Filter]) -> None:
    assert list(faults(told, asked)) == []


PLANTED: dict[str, Any] = {
    "a value that was replaced stays": (packed_values.PackedValues, "drop", lambda self, at, value: None),
    "open ends are closed": (packed_values, "nextafter", lambda value, towards: value),
    "no change is written": (attribute_table, "_is_same", lambda one, other: True),
    "a circle is its box": (packed_values, "_near", lambda circle, lons, lats: lons == lons),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Point(1, 1)
    told: list[tuple[str, Attributes]] = [(key, {"a": 3, "p": here}) for key in KEYS[:4]]
    told += [("k1", {"a": 4}), ("k1", {"p": here})]
    asked = [parse(text) for text in ("within(p, circle(0, 0, 150000))", "a > 3", "a IS NULL OR a = 1")]
    assert list(faults(told, asked)) == []
    owner, attribute, fault = PLANTED[name]
    monkeypatch.setattr(owner, attribute, fault)
    assert list(faults(told, asked)) != []
