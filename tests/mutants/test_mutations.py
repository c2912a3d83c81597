"""Changes are found where they should be, replace just their piece of the text, and leave valid Python."""

import ast
from pathlib import Path

import pytest

import godwit
from tests.mutants.mutations import mutated, mutations

ROOT = Path(godwit.__file__).parent


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("def f(a, b):\n    return a < b\n", "def f(a, b):\n    return (a <= b)\n"),
        ("def f(a, b):\n    return a and b\n", "def f(a, b):\n    return (a or b)\n"),
        ("def f(a):\n    return not a\n", "def f(a):\n    return (a)\n"),
        ("def f(a):\n    a.b()\n", "def f(a):\n    pass\n"),
        ("def f(a, b):\n    return a + b\n", "def f(a, b):\n    return (a - b)\n"),
        ("BOUND_MAX = 64\n", "BOUND_MAX = 64000\n"),
        ("def f():\n    return True\n", "def f():\n    return False\n"),
        ("def f(ä, b):\n    return ä == b  # here\n", "def f(ä, b):\n    return (ä != b)  # here\n"),
    ],
)
def test_each_kind_of_change(text: str, after: str) -> None:
    (found,) = mutations(text)
    assert mutated(text, found) == after


@pytest.mark.parametrize(
    "text",
    [
        '"""Text < text."""\n',
        "__all__ = ['a']\n",
        "def f(a):\n    assert a < 1\n",
        "def f(a):\n    raise ValueError(a + 1)\n",
        "def __repr__(self):\n    return self.a + self.b\n",
        "x: list[int] | None\n",
    ],
)
def test_what_is_left_alone(text: str) -> None:
    assert mutations(text) == []


@pytest.mark.parametrize("name", ["broker/covering_index.py", "mobility/attaching.py"])
def test_every_change_is_valid_python_and_differs(name: str) -> None:
    text = (ROOT / name).read_text()
    tree = ast.dump(ast.parse(text))
    for each in mutations(text):
        assert ast.dump(ast.parse(mutated(text, each))) != tree, each
