"""Where the package tells classes of value sets apart, found by reading its source.

A place is a function, or a table at the top of a module or class, that names classes of value sets to decide something:
by `isinstance`, by `type(x) is`, by a `case` of `match`, or as keys of a table. Building a set, or naming a class in an
annotation, decides nothing.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tests.conventions.repository import Module

BASE = "ValueSet"
HOME = "filters/sets.py"


@dataclass(frozen=True)
class Classes:
    """The classes of value sets: `concrete` in order of their names, `parts` the concrete ones of each abstract one."""

    homes: dict[str, str]  # the module of each, by name
    parents: dict[str, str]
    parts: dict[str, frozenset[str]] = field(init=False)
    concrete: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        abstract = set(self.parents.values())
        concrete = frozenset(self.homes.keys() - abstract)
        parts = {name: frozenset({name}) for name in concrete}
        for name in abstract - {BASE}:
            parts[name] = frozenset(one for one in concrete if name in self._above(one))
        object.__setattr__(self, "concrete", concrete)
        object.__setattr__(self, "parts", parts)

    def _above(self, name: str) -> Iterator[str]:
        while name in self.parents:
            name = self.parents[name]
            yield name


def classes(modules: Iterable[Module]) -> Classes:
    """All classes of value sets that these modules define."""
    homes, parents = {BASE: HOME}, {}
    modules = list(modules)
    before = 0
    while before != len(homes):
        before = len(homes)
        for module in modules:
            known = _imported(module, homes)
            for node in module.nodes:
                if isinstance(node, ast.ClassDef):
                    bases = [known[base.id] for base in node.bases if isinstance(base, ast.Name) and base.id in known]
                    if bases:
                        homes[node.name], parents[node.name] = module.name, bases[0]
    return Classes(homes, parents)


def places(module: Module, known: Classes) -> dict[str, frozenset[str]]:
    """By the name of each place in a module, the concrete classes that it names."""
    return _Reader(module, known).read()


def _dotted(module_name: str) -> str:
    return "godwit." + module_name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _imported(module: Module, homes: dict[str, str]) -> dict[str, str]:
    """The classes of value sets by the names that a module has for them. A package may pass its modules' names on."""
    names = {name: name for name, home in homes.items() if home == module.name}
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                home = homes.get(alias.name)
                if home is not None and f"{_dotted(home)}.".startswith(f"{node.module}."):
                    names[alias.asname or alias.name] = alias.name
    return names


class _Reader(ast.NodeVisitor):
    """Reads one module."""

    def __init__(self, module: Module, known: Classes) -> None:
        self._module = module
        self._known = known
        self._names: dict[str, frozenset[str]] = {
            name: known.parts[meant]
            for name, meant in _imported(module, known.homes).items()
            if meant in known.parts  # the base is in none: to ask for it tells nothing apart
        }
        self._path: list[str] = []
        self._found: dict[str, frozenset[str]] = {}

    def read(self) -> dict[str, frozenset[str]]:
        self.visit(self._module.tree)
        return self._found

    def _add(self, place: str, named: frozenset[str]) -> None:
        if named:
            key = f"{_dotted(self._module.name)}.{place}"
            self._found[key] = self._found.get(key, frozenset()) | named

    def _meant(self, node: ast.AST) -> frozenset[str]:
        """The classes that an expression names, besides those that it makes instances of."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, frozenset())
        if isinstance(node, ast.Attribute):
            is_ours = isinstance(node.value, ast.Name) and node.value.id in ("sets", "regions", "references")
            return self._known.parts.get(node.attr, frozenset()) if is_ours else frozenset()
        inner = [*node.args, *node.keywords] if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
        return frozenset().union(*map(self._meant, inner))

    # ------------------------------------------------------------ where we are

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            self._path.append(node.name)
            self.generic_visit(node)
            self._path.pop()
        else:
            super().visit(node)

    def _here(self) -> str:
        return ".".join(self._path)

    # ------------------------------------------------------------ tables and names for several classes

    def visit_Assign(self, node: ast.Assign) -> None:
        self._assigned(node.targets[0], node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assigned(node.target, node.value)

    def _assigned(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            if isinstance(value, ast.Dict):
                self._add(".".join((*self._path, target.id)), self._keys(value))
            elif isinstance(value, ast.Call) and not self._path:
                self._add(target.id, self._meant(value))
            elif isinstance(value, ast.Tuple | ast.BinOp) and not self._path and self._meant(value):
                self._names[target.id] = self._meant(value)
        self.visit(value)

    def _keys(self, table: ast.Dict) -> frozenset[str]:
        return frozenset().union(*(self._meant(key) for key in table.keys if key is not None))

    # ------------------------------------------------------------ questions

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"):
            self._add(self._here(), self._meant(node.args[1]))
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(isinstance(side, ast.Call) and ast.unparse(side.func) == "type" for side in sides):
            for side in sides:
                self._add(self._here(), self._meant(side))
        self.generic_visit(node)

    def visit_MatchClass(self, node: ast.MatchClass) -> None:
        self._add(self._here(), self._meant(node.cls))
        self.generic_visit(node)
