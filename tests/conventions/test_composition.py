"""Machines and the simulator are composed, not inherited: the rooms in `COMPOSED` keep to it."""

import ast
from collections.abc import Iterable, Iterator

from tests.conventions.repository import Module, modules

COMPOSED = ("simulator",)
ABSTRACT = {"Protocol", "Generic", "Struct", "Enum", "StrEnum", "IntEnum", "NamedTuple", "TypedDict", "Exception"}


def concrete_classes(modules: Iterable[Module]) -> set[str]:
    """The names of all classes of the package that are neither protocols nor exceptions."""
    found = set()
    for module in modules:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef) and "Protocol" not in map(_name, node.bases) and module.room != "errors":
                found.add(node.name)
    return found


def _name(node: ast.expr) -> str:
    """The last part of the name of a base class."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def faults(module: Module, ours: set[str]) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ClassDef):
            for base in map(_name, node.bases):
                if base in ours and base not in ABSTRACT:
                    yield f"{module.name}:{node.lineno}: {node.name} inherits from {base}"
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")):
                yield f"{module.name}:{node.lineno}: uses {node.attr}, which is another object's own"
        elif isinstance(node, ast.Name) and node.id in ("NotImplementedError", "super"):
            yield f"{module.name}:{node.lineno}: uses {node.id}"


def test_no_class_inherits_from_a_concrete_one_and_nobody_uses_what_is_private_to_another() -> None:
    every = modules()
    ours = concrete_classes(every)
    found = [fault for module in every if module.room in COMPOSED for fault in faults(module, ours)]
    assert found == []


def test_planted_faults_are_caught() -> None:
    text = """
class Base: ...
class Shape(Protocol): ...
class Heir(Base):
    def f(self, other):
        super().f(other)
        self._own = other._theirs
        raise NotImplementedError
class Square(Shape): ...
"""
    planted = Module("simulator/planted.py", text)
    assert sorted(faults(planted, concrete_classes([planted]))) == [
        "simulator/planted.py:4: Heir inherits from Base",
        "simulator/planted.py:6: uses super",
        "simulator/planted.py:7: uses _theirs, which is another object's own",
        "simulator/planted.py:8: uses NotImplementedError",
    ]
