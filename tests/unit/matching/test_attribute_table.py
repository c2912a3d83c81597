"""A table of attributes: dense columns and others, what it forgets, and how much memory it takes."""

import tracemalloc
from typing import Any

from godwit.filters import parse
from godwit.filters.events import flattened
from godwit.filters.values import Point
from godwit.matching.attribute_table import AttributeTable


def table_of(rows: dict[str, dict[str, Any]]) -> AttributeTable:
    table = AttributeTable()
    for key, attributes in rows.items():
        table.put(key, flattened(attributes))
    return table


def keys(table: AttributeTable, rows: Any, text: str) -> list[str]:
    meant = table.matching(parse(text))
    return [key for key in rows if key in meant]


def test_a_key_without_attributes_is_asked_as_one_of_nothing() -> None:
    table = table_of({"ann": {"floor": 1}, "bob": {}})
    assert keys(table, ["ann", "bob", "cleo"], "floor = 1") == ["ann"]
    assert keys(table, ["ann", "bob", "cleo"], "floor IS NULL") == ["bob", "cleo"]
    assert len(table) == 1


def test_several_values_are_each_looked_at() -> None:
    table = table_of({"ann": {"role": ["guard", "nurse"]}, "bob": {"role": "guard"}, "cleo": {}})
    assert keys(table, ["ann", "bob", "cleo"], "role = 'nurse'") == ["ann"]
    assert keys(table, ["ann", "bob", "cleo"], "NOT (role = 'nurse')") == ["bob"]
    table.put("ann", {"role": ("guard", "cook", "smith")})
    assert keys(table, ["ann", "bob", "cleo"], "NOT (role = 'nurse')") == ["ann", "bob"]


def test_rows_come_and_go_in_dense_columns_and_in_others() -> None:
    rows: dict[str, dict[str, Any]] = {f"c{n}": {"n": n, **({"rare": n} if n % 100 == 0 else {})} for n in range(1_000)}
    table = table_of(rows)
    assert keys(table, rows, "n < 3 OR rare >= 800") == ["c0", "c1", "c2", "c800", "c900"]
    for n in range(0, 1_000, 2):
        table.put(f"c{n}", {})
    assert keys(table, rows, "n < 3 OR rare >= 800") == ["c1"]
    for n in range(990):
        table.put(f"c{n}", {"other": n})
    assert keys(table, rows, "n > 0") == ["c991", "c993", "c995", "c997", "c999"]
    assert keys(table, rows, "n IS NOT NULL OR other = 5") == ["c5", "c991", "c993", "c995", "c997", "c999"]


def test_steps_do_not_depend_on_the_past() -> None:
    rows: dict[str, dict[str, Any]] = {f"c{n}": {"n": n, "name": f"name {n}"} for n in range(300)}
    table = table_of({key: {"n": [1, 2, 3], "name": "x" * 500} for key in rows})
    filter = parse("n > 3 AND name LIKE 'x%'")
    assert table.steps(filter) != table_of(rows).steps(filter)
    for key, attributes in rows.items():
        table.put(key, flattened(attributes))
    assert table.steps(filter) == table_of(rows).steps(filter)
    assert table.steps(parse("nobody = 3")) == 0


def test_a_context_of_four_attributes_takes_little_memory() -> None:
    rows: dict[str, dict[str, Any]]
    rows = {f"user/{n}": {"floor": n, "role": f"r{n % 50}", "at": Point(8, n / 1e4), "on": n % 2} for n in range(4_000)}
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        table = AttributeTable()
        for key, attributes in rows.items():
            table.put(key, attributes)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(table) == 4_000
    assert taken < 180 * len(table)


def test_attributes_that_few_rows_have_take_memory_for_these_only() -> None:
    tracemalloc.start()
    try:
        table = AttributeTable()
        for n in range(2_000):
            table.put(f"c{n}", {f"x{n}": 1, "n": n})
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 600 * 2_000
