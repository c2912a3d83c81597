"""Nothing that is stored or sent is a pickle: reading a file must run no code from it, and a format names its fields.

Spark alone ships functions to its workers by pickling them; that is its own affair, within one run. The papers' runs
are spread over processes of one command, which pass settings and results in the same way, and no machine.
"""

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.conventions.repository import Module, modules

PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
PROCESSES = {"multiprocessing", "concurrent.futures.ProcessPoolExecutor"}  # what is passed to them is pickled
ALLOWED_ROOMS = {"pipeline"}
ROOMS_WITH_PROCESSES = {"reproduce"}
RUNNING = {"eval", "exec", "compile"}
STATE_METHODS = {"__getstate__", "__setstate__"}


def faults(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        if module.room in ALLOWED_ROOMS:
            continue
        for line, name in module.imports:
            if name.partition(".")[0] in PICKLES:
                yield (
                    f"{module.name}:{line}: {name} stores live objects and runs code when it loads them: give the part "
                    "snapshot() and restore(), and write its state with godwit.codec"
                )
            if name.startswith(tuple(PROCESSES)) and module.room not in ROOMS_WITH_PROCESSES:
                yield f"{module.name}:{line}: {name} pickles what it passes to a process: pass bytes"
        yield from calls(module)
        for number, text in enumerate(module.text.splitlines(), 1):
            if any(f"def {method}" in text for method in STATE_METHODS):
                yield f"{module.name}:{number}: only pickles ask for this method: use snapshot() and restore()"


def calls(module: Module) -> Iterator[str]:
    """Calls that load a pickle without an import of its module, or run a text."""
    for node in module.nodes:
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
        is_import = called.endswith(("import_module", "__import__"))
        if is_import and isinstance(first, str) and first.partition(".")[0] in PICKLES:
            yield f"{module.name}:{node.lineno}: {first} is imported by its name: write a state with godwit.codec"
        if called.endswith(("read_pickle", "to_pickle")) or any(word.arg == "allow_pickle" for word in node.keywords):
            yield f"{module.name}:{node.lineno}: {called} reads or writes a pickle: write a state with godwit.codec"
        if called in RUNNING:
            yield f"{module.name}:{node.lineno}: {called}() runs a text as code"


def test_nothing_is_pickled() -> None:
    assert list(faults(modules())) == []


@pytest.mark.parametrize(
    "text", ["import pickle", "from pickle import loads", "def f():\n    import marshal", "def __getstate__(self): ..."]
)
def test_a_pickle_is_caught(text: str) -> None:
    [fault] = faults([Module("broker/planted.py", text)])
    assert "snapshot()" in fault


@pytest.mark.parametrize(
    "text",
    [
        "from importlib import import_module\nimport_module('pickle').loads(b'')",
        "__import__('marshal')",
        "import numpy\nnumpy.load('file', allow_pickle=True)",
        "import pandas\npandas.read_pickle('file')",
        "from multiprocessing import Pipe",
        "from concurrent.futures import ProcessPoolExecutor",
        "def f(text):\n    return eval(text)",
    ],
)
def test_a_hidden_pickle_is_caught(text: str) -> None:
    assert len(list(faults([Module("runtime/planted.py", text)]))) == 1


def test_spark_may_pickle() -> None:
    assert list(faults([Module("pipeline/planted.py", "import pickle")])) == []
