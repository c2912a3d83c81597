"""docs/reference/tables.md has every table with every column and its type, and every form of an attribute."""

import re
from collections.abc import Iterator, Mapping

from godwit.pipeline.columns import KINDS
from godwit.pipeline.schemas import TABLES
from tests.conventions.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "tables.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| ([\w<>]+) \|", re.MULTILINE)


def faults(page: str, tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^### |\Z)", page, re.MULTILINE | re.DOTALL))
    yield from (f"there is no table {name}" for name in sections if name not in tables)
    for name, columns in tables.items():
        if name not in sections:
            yield f"{name} has no section"
        elif (shown := ROW.findall(sections[name])) != list(columns.items()):
            yield f"{name}: the page has {shown}"


def test_every_column_of_every_table_is_documented() -> None:
    assert list(faults(PAGE, TABLES)) == []


def test_every_form_is_documented() -> None:
    assert [kind for kind in KINDS if f"\n| `{kind}` |" not in PAGE] == []


def test_what_is_missing_or_made_up_is_caught() -> None:
    assert list(faults("", {"a": {"x": "string"}})) == ["a has no section"]
    assert list(faults("### a\n| `x` | bigint |\n", {"a": {"x": "string"}})) == ["a: the page has [('x', 'bigint')]"]
    assert list(faults("### a\n| `x` | string |\n### b\n", {"a": {"x": "string"}})) == ["there is no table b"]
