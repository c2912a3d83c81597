"""No two modules, and no two public classes, of one room have the same name: whoever reads one knows which it is.

Each package of `languages` is a room of its own here: they have the same parts, one for each language.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

from tests.conventions.repository import Module, modules

PARALLEL = {"languages"}


def scope(module: Module) -> str:
    """The room of a module, or its package in a room of parallel ones."""
    parts = PurePosixPath(module.name).parts
    return "/".join(parts[:-1]) if module.room in PARALLEL else module.room


def doubles(modules: Iterable[Module]) -> list[str]:
    """Names that stand for two things in one room."""
    places = defaultdict[tuple[str, str], list[str]](list)
    for module in modules:
        stem = PurePosixPath(module.name).stem
        if stem != "__init__":
            places[scope(module), stem].append(module.name)
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[scope(module), node.name].append(f"{module.name}:{node.lineno}")
    return [f"{name}: {', '.join(found)}" for (_, name), found in places.items() if len(found) > 1]


def test_no_name_stands_for_two_things_in_a_room() -> None:
    assert doubles(modules()) == []


@pytest.mark.parametrize(
    "names",
    [("broker/a.py", "broker/b.py"), ("runtime/bridges/a.py", "runtime/b.py"), ("languages/xql/a.py",) * 2],
)
def test_a_class_of_the_same_name_is_caught(names: tuple[str, str]) -> None:
    found = doubles(Module(name, "class Queue: ...") for name in names)
    assert any(line.startswith("Queue: ") for line in found)


def test_a_module_of_the_same_name_is_caught_and_those_of_other_rooms_and_languages_are_not() -> None:
    assert len(doubles([Module("cli/a/rows.py", ""), Module("cli/b/rows.py", "")])) == 1
    assert doubles([Module("cli/rows.py", ""), Module("broker/rows.py", "class Row: ...")]) == []
    assert doubles([Module("languages/xql/rows.py", ""), Module("languages/cql2/rows.py", "")]) == []
