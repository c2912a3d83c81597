"""Which tests reach the place of a change: notes are put where they do no harm, and tests are chosen by them."""

import ast
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mutants.mutations import Mutation, mutations
from tests.mutants.reaching import Reached, has_kernels, noted_tests, takes_notes, with_notes

MODULE = """\
BOUND = 64


def most(items, bound=BOUND):
    items.sort()
    return [each for each in items if each > 2 and not each == "ä"] + [bound - 1]


@compiled
def kernel(a):
    return a < 3
"""


def place(text: str, before: str) -> Mutation:
    (found,) = [each for each in mutations(text) if each.before == before]
    return found


def test_a_module_with_notes_does_the_same_and_tells_what_was_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    text = MODULE.partition("@compiled")[0]
    numbered = {number: each for number, each in enumerate(mutations(text)) if each.line > 1}
    reached: set[int] = set()
    monkeypatch.setitem(sys.modules, "mutant_probe", SimpleNamespace(at=reached.add))
    plain: dict[str, object] = {}
    noted: dict[str, object] = {}
    exec(text, plain)
    exec(with_notes(text, numbered), noted)
    assert noted["most"]([1, 3, 2, 5]) == plain["most"]([1, 3, 2, 5]) == [3, 5, 63]  # type: ignore[operator]
    assert reached == set(numbered)


def test_a_place_that_is_not_come_to_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f(a):\n    if a:\n        return a < 2\n    return a\n"
    reached: set[int] = set()
    monkeypatch.setitem(sys.modules, "mutant_probe", SimpleNamespace(at=reached.add))
    noted: dict[str, object] = {}
    exec(with_notes(text, {7: place(text, "a < 2")}), noted)
    noted["f"](0)  # type: ignore[operator]
    assert reached == set()
    noted["f"](1)  # type: ignore[operator]
    assert reached == {7}


def test_kernels_and_what_runs_at_import_take_no_notes() -> None:
    tree = ast.parse(MODULE)
    assert takes_notes(tree, place(MODULE, "bound - 1"))
    assert not takes_notes(tree, place(MODULE, "64"))
    assert not takes_notes(tree, place(MODULE, "a < 3"))
    assert has_kernels(MODULE)
    assert not has_kernels(MODULE.replace("@compiled", ""))


def test_a_fixture_concerns_all_noted_tests_its_file() -> None:
    known = ["tests/a.py::one", "tests/a.py::two", "tests/b.py::one"]
    assert noted_tests({"tests/a.py::one (call)"}, known) == {"tests/a.py::one"}
    assert noted_tests({"tests/a.py::one (setup)"}, known) == {"tests/a.py::one", "tests/a.py::two"}


def test_noted_tests_the_module_come_first_then_the_quickest_and_none_that_failed(tmp_path: Path) -> None:
    change = place(MODULE, "bound - 1")
    own, slow, quick, failed = (
        "tests/unit/r/test_m.py::a",
        "tests/b.py::slow",
        "tests/b.py::quick",
        "tests/b.py::failed",
    )
    reached = Reached({own: 9.0, slow: 5.0, quick: 1.0}, {("r/m.py", change): {own, slow, quick, failed}})
    reached.store(tmp_path / "reached")
    for known in (reached, Reached.stored(tmp_path / "reached")):
        assert known.chosen(("r/m.py", change)) == [own, quick, slow]
        assert known.chosen(("r/other.py", change)) is None
        assert known.in_files(["tests/b.py"]) == [quick, slow]
