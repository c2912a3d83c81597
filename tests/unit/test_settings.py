"""Settings from a file: where a key stands, and what is told about a value that is wrong."""

from typing import Annotated, Literal

import msgspec
import pytest

from godwit.errors import ScenarioError
from godwit.settings import Path, checked, faults, key_text, line_of


class Inner(msgspec.Struct, frozen=True):
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5


class Outer(msgspec.Struct, frozen=True):
    name: str
    kind: Literal["tree", "graph"] = "tree"
    inner: Inner = Inner()


def where(path: Path) -> str:
    return f"file: {key_text(path)}"


def test_data_that_is_all_right_becomes_a_struct() -> None:
    assert checked(Outer, {"name": "x", "inner": {"share": 1}}, where) == Outer("x", inner=Inner(1.0))


def test_every_fault_is_told_with_its_key_and_what_is_allowed() -> None:
    data = {"kind": "tre", "inner": {"share": 2}, "nam": "x"}
    assert list(faults(Outer, data, where)) == [
        "file: nam is not known (did you mean name?); allowed are name, kind, inner",
        "file: name is missing: it must be a text",
        "file: kind is 'tre': allowed is 'tree', 'graph' (did you mean tree?)",
        "file: inner.share is 2: allowed is a number from 0 to 1",
    ]
    with pytest.raises(ScenarioError, match="file: nam is not known"):
        checked(Outer, data, where)


def test_the_line_of_a_key_is_found_in_dotted_inline_and_repeated_tables() -> None:
    text = 'a.b = 1\n[c]\nd = 1 # x = y\n[[c.e]]\nf = 1\n[[c.e]]\nf = 2\n[c."g"]\n# d = 3\nh = { i = 1 }\n'
    assert line_of(text, ("a", "b")) == 1
    assert line_of(text, ("c", "d")) == 3
    assert line_of(text, ("c", "e", 0, "f")) == 5
    assert line_of(text, ("c", "e", 1, "f")) == 7
    assert line_of(text, ("c", "e", 1, "missing")) == 6
    assert line_of(text, ("c", "g", "h", "i")) == 10
    assert line_of(text, ("z",)) is None
