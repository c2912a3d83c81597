"""Machines are composed: no heirs of our own classes, no hands in another object's private names.

*Heirs.* In the rooms of machines no class inherits from a concrete class of the package, also not under another name,
and none is made by a call. A class is not concrete when it is a protocol, an exception, or has neither fields nor
methods. *Private names.* `x._name` is used by the class that defines `_name` alone: on `self`, on another instance
(as a hint, a test or a call of the class says), or in a table of its methods beside it. A name in a text, as for
`getattr`, counts. `test_no_pickle.py` looks for pickles.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping

import pytest

from tests.conventions.repository import Module, modules

MACHINES = {"broker", "mobility", "adhoc", "baselines", "client", "simulator", "codec"}
BY_TEXT = {"getattr", "setattr", "hasattr", "delattr", "attrgetter", "methodcaller"}
PUBLIC = {"_replace", "_asdict", "_make", "_fields", "_exit"}  # of named tuples, and os._exit

REACHING = {
    "matching/index_file.py": "writes and reads an index whole; to be a snapshot that the index makes itself",
    "pipeline/spark_session.py": "Spark has no public way to see whether its JVM still runs",
}
"""Modules that use private names of others, and why. To be emptied."""

# ---------------------------------------------------------------- heirs


class Classes:
    """The classes of some modules, found by the name that a module knows them by."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.modules = {_dotted(module.name): module for module in modules}
        self.of = {name: _classes(module) for name, module in self.modules.items()}
        self.imported = {name: _imported(module) for name, module in self.modules.items()}
        self.other_names = {name: _other_names(module) for name, module in self.modules.items()}

    def found(self, module: str, base: ast.expr) -> tuple[str, ast.ClassDef] | None:
        """Module and definition of a base, if it is one of ours."""
        name = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        if name in self.other_names[module]:
            return self.found(module, self.other_names[module][name])
        if name in self.of[module]:
            return module, self.of[module][name]
        first, _, rest = name.partition(".")
        where = self.imported[module].get(first)
        if where is None:
            return None
        place, _, last = (f"{where}.{rest}" if rest else where).rpartition(".")
        if last in self.of.get(place, ()):
            return place, self.of[place][last]
        again = self.imported[place].get(last) if place in self.modules else None
        return None if again is None else self.found(place, ast.Name(last))  # a room that passes it on

    def is_concrete(self, module: str, node: ast.ClassDef) -> bool:
        names = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        if any(name == "Protocol" or name.endswith(("Exception", "Error")) for name in names):
            return False
        inherited = [found for base in node.bases if (found := self.found(module, base)) is not None]
        if any(_is_exception(self, *each) for each in inherited):
            return False
        says_something = any(not isinstance(each, ast.Pass) and not _is_text(each) for each in node.body)
        return says_something or any(self.is_concrete(*each) for each in inherited)


def _is_exception(classes: Classes, module: str, node: ast.ClassDef) -> bool:
    if any(ast.unparse(base).endswith(("Exception", "Error")) for base in node.bases):
        return True
    return any(_is_exception(classes, *found) for base in node.bases if (found := classes.found(module, base)))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _dotted(name: str) -> str:
    return "godwit." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _classes(module: Module) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in module.nodes if isinstance(node, ast.ClassDef)}


def _other_names(module: Module) -> dict[str, ast.expr]:
    """Names that are given to a name or an attribute, as in `Base = Broker`."""
    return {
        target.id: node.value
        for node in module.nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute)
        for target in node.targets
        if isinstance(target, ast.Name) and ast.unparse(node.value) != target.id
    }


def _imported(module: Module) -> Mapping[str, str]:
    """By the name that a module uses, what it has imported."""
    found: dict[str, str] = {}
    for node in module.nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
    return found


def heirs(modules: Iterable[Module]) -> Iterator[str]:
    modules = list(modules)
    classes = Classes(modules)
    for module in modules:
        if module.room in MACHINES:
            for node in classes.of[_dotted(module.name)].values():
                for base in node.bases:
                    if isinstance(base, ast.Call):
                        yield f"{module.name}:{node.lineno}: {node.name} inherits from what {ast.unparse(base)} makes"
                    found = classes.found(_dotted(module.name), base)
                    if found is not None and classes.is_concrete(*found):
                        yield f"{module.name}:{node.lineno}: {node.name} inherits from {ast.unparse(base)}: hold one"


def made_classes(module: Module) -> Iterator[str]:
    """Classes that are made with bases by a call: `type(name, bases, body)`, `types.new_class(name, bases)`."""
    for node in module.nodes:
        if module.room in MACHINES and isinstance(node, ast.Call):
            made = ast.unparse(node.func).rpartition(".")[2]
            if (made == "type" and len(node.args) > 1) or made == "new_class":
                yield f"{module.name}:{node.lineno}: a class made by a call: write it down"


def test_no_machine_is_made_by_a_call() -> None:
    assert [fault for module in modules() for fault in made_classes(module)] == []


@pytest.mark.parametrize("text", ["type('Heir', (Broker,), {})", "import types\ntypes.new_class('Heir', (Broker,))"])
def test_a_class_made_by_a_call_is_caught(text: str) -> None:
    assert len(list(made_classes(Module("broker/planted.py", text)))) == 1


def test_no_machine_inherits_from_a_concrete_class_of_ours() -> None:
    assert list(heirs(modules())) == []


BASE = Module(
    "filters/base.py",
    """
class Concrete:
    def f(self): ...
class Seam(Protocol):
    def f(self): ...
class Fault(Exception):
    code = 1
class Graver(Fault):
    code = 2
class Mark(msgspec.Struct):
    "Nothing but a mark."
class Marked(Mark):
    field: int
""",
)


@pytest.mark.parametrize(
    "text",
    [
        "from godwit.filters.base import Concrete\nclass Heir(Concrete): pass",
        "from godwit.filters.base import Concrete as Other\nclass Heir(Other): pass",
        "from godwit.filters import base\nclass Heir(base.Concrete): pass",
        "from godwit.filters.base import Concrete\nclass Heir(Generic[T], Concrete[T]): pass",
        "from godwit.filters.base import Marked\nclass Heir(Marked): pass",
        "class Here:\n    x = 1\nclass Heir(Here): pass",
        "class Here:\n    x = 1\nclass Between(Here): pass\nclass Heir(list): pass",
        "def f():\n    class Here:\n        x = 1\n    class Heir(Here): pass",
        "from godwit.filters.base import Concrete\nAlias = Concrete\nclass Heir(Alias): pass",
        "from godwit.filters import base\nAlias = base.Concrete\nclass Heir(Alias): pass",
        "def made(): ...\nclass Heir(made()): pass",
    ],
)
def test_an_heir_is_caught(text: str) -> None:
    assert len(list(heirs([BASE, Module("broker/planted.py", text)]))) == 1
    assert list(heirs([BASE, Module("runtime/planted.py", text)])) == []


@pytest.mark.parametrize(
    "text",
    [
        "from godwit.filters.base import Seam\nclass Wider(Seam, Protocol): pass",
        "from godwit.filters.base import Fault, Graver\nclass Grave(Fault): pass\nclass Gravest(Graver): pass",
        "from godwit.filters.base import Mark\nclass Input(Mark, frozen=True):\n    key: str",
        "class Masks(dict[str, int]):\n    def __init__(self): super().__init__()",
        "class Kind(Enum):\n    A = 1\nclass Pair(NamedTuple):\n    a: int\nclass State(msgspec.Struct):\n    a: int",
        "from collections import deque\nclass Queue(deque): pass",
    ],
)
def test_what_may_be_inherited_is_let_through(text: str) -> None:
    assert list(heirs([BASE, Module("mobility/planted.py", text)])) == []


# ---------------------------------------------------------------- private names


def reaches(module: Module) -> Iterator[str]:
    own = _private_names(module.tree.body)  # of classes, for the tables of their methods beside them
    left: list[tuple[ast.AST, tuple[ast.ClassDef, ...]]] = [(module.tree, ())]  # with the classes around
    while left:
        node, around = left.pop()
        if isinstance(node, ast.ClassDef):
            around = (*around, node)
        elif isinstance(node, ast.Attribute) and _is_private(node.attr) and node.attr not in PUBLIC:
            owner = ast.unparse(node.value)
            is_own = owner in ("self", "cls", "super()") or node.attr in own.get(owner, ())
            if not is_own and not any(node.attr in _names_of(each) and owner in _instances(each) for each in around):
                yield f"{module.name}:{node.lineno}: {owner}.{node.attr} is another's: ask it, or make the name public"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in BY_TEXT:
            for each in node.args:
                names = each.value.split(".") if isinstance(each, ast.Constant) and isinstance(each.value, str) else []
                if any(_is_private(name) for name in names) and ast.unparse(node.args[0]) not in ("self", "cls"):
                    yield f"{module.name}:{node.lineno}: {ast.unparse(node)} names what is private: make it public"
        left += [(child, around) for child in ast.iter_child_nodes(node)]


def _instances(node: ast.ClassDef) -> set[str]:
    """What stands for another instance of a class within it: by its hint, a test of its type, or how it was made."""
    found: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.arg(arg=name, annotation=ast.expr() as hint) if _names(hint, node.name):
                found.add(name)
            case ast.AnnAssign(target=target, annotation=hint) if _names(hint, node.name):
                found.add(ast.unparse(target))
            case ast.Assign(targets=[target], value=ast.Call(func=made)) if ast.unparse(made) in ("cls", node.name):
                found.add(ast.unparse(target))
            case ast.Call(func=ast.Name("isinstance"), args=[tested, kind]) if _names(kind, node.name):
                found.add(ast.unparse(tested))
            case ast.Compare(left=one, comparators=[two]):
                sides = ast.unparse(one), ast.unparse(two)
                for known, typed in (sides, sides[::-1]):
                    if known in ("type(self)", node.name) and typed.startswith("type("):
                        found.add(typed.removeprefix("type(").removesuffix(")"))
    return found


def _names(hint: ast.expr, name: str) -> bool:
    """Whether a hint names a class, or that around it."""
    text = hint.value if isinstance(hint, ast.Constant) and isinstance(hint.value, str) else ast.unparse(hint)
    return not {name, "Self"}.isdisjoint(text.replace("'", " ").replace("[", " ").replace("]", " ").split())


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _private_names(body: Iterable[ast.stmt]) -> dict[str, set[str]]:
    return {node.name: _names_of(node) for node in body if isinstance(node, ast.ClassDef)}


def _names_of(node: ast.ClassDef) -> set[str]:
    """The private names that a class defines: fields, methods, and what it sets on itself."""
    found: set[str] = set()
    for each in ast.walk(node):
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
            case ast.Constant(value=str(name)):  # slots, and object.__setattr__
                found.add(name)
    return {name for name in found if _is_private(name)}


def test_no_module_uses_a_private_name_of_another_object() -> None:
    found = {module.name: list(reaches(module)) for module in modules()}
    assert [fault for name, faults in found.items() if name not in REACHING for fault in faults] == []
    assert [name for name in REACHING if not found[name]] == [], "these reach no longer: take them off the list"


@pytest.mark.parametrize(
    "text",
    [
        "def f(broker):\n    return broker._links",
        "class A:\n    def f(self):\n        return self.broker._links",
        "class A:\n    def f(self):\n        self.broker._links.clear()",
        "from godwit.broker import families\nfamilies._FAMILIES.clear()",
        "class A:\n    _x = 1\nclass B:\n    def f(self, a):\n        return a._x",
        "class A:\n    def f(self, other):\n        self._x._y = 1",
        "from godwit.broker.broker import Broker\nTABLE = {1: Broker._on_message}",
        "class A:\n    _x = 1\n    def f(self, broker):\n        return broker._x",
        "def f(broker):\n    return getattr(broker, '_links')",
        "from operator import attrgetter\nlinks = attrgetter('broker._links')",
    ],
)
def test_a_hand_in_a_private_name_is_caught(text: str) -> None:
    assert len(list(reaches(Module("broker/planted.py", text)))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "class A:\n    def f(self, other: 'A'):\n        self._x = 1\n        return self._x == other._x",
        "class A:\n    _x = 1\n    def f(self, other):\n        return isinstance(other, A) and other._x",
        "class A:\n    __slots__ = ('_x',)\n    @classmethod\n    def f(cls):\n        new = cls()\n        new._x = 1",
        "class A:\n    def f(self, name):\n        self._x = 1\n        return getattr(self, '_x'), getattr(name, 'x')",
        "class A:\n    def _on_x(self): pass\nTABLE = {1: A._on_x}",
        "def f(pair):\n    return pair._replace(a=1), pair._asdict()",
        "import os\nos._exit(1)",
        "def f(x):\n    return x.__class__.__name__",
        "def _f(): pass\n_f()",
    ],
)
def test_a_class_may_use_its_own_private_names(text: str) -> None:
    assert list(reaches(Module("broker/planted.py", text))) == []


# ---------------------------------------------------------------- methods for heirs


def methods_for_heirs(module: Module) -> Iterator[str]:
    for node in module.nodes:
        if isinstance(node, ast.Name) and node.id == "NotImplementedError":
            yield f"{module.name}:{node.lineno}: NotImplementedError is for heirs: write a protocol"


def test_no_class_has_methods_that_wait_for_an_heir() -> None:
    assert [fault for module in modules() for fault in methods_for_heirs(module)] == []


def test_a_method_that_waits_for_an_heir_is_caught() -> None:
    text = "def f(self):\n    raise NotImplementedError\ndef g(self):\n    raise NotImplementedError()"
    assert len(list(methods_for_heirs(Module("adhoc/planted.py", text)))) == 2
