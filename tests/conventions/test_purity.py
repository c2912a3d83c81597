"""Pure rooms have no clock, no randomness, no input or output, no logging and no heavy library.

So the same state and the same input give the same effects, in the simulator as on a real network.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch

import pytest

from tests.conventions.repository import Module, modules

PURE_ROOMS = {"seen", "filters", "broker", "mobility", "client", "adhoc", "baselines", "mqtt", "languages"}
PURE_FOLDERS = ("teamwork/machine/*",)  # of rooms that hold drivers, too
DRIVERS = ("mqtt/gateway*",)  # modules of these rooms that carry effects out

IMPURE = {
    *("time", "sched", "calendar", "locale"),
    *("random", "secrets", "uuid"),
    *("os", "io", "pathlib", "shutil", "tempfile", "glob", "fileinput", "mmap", "sqlite3", "dbm", "shelve"),
    *("socket", "socketserver", "select", "selectors", "ssl", "http", "urllib", "ftplib", "smtplib", "email"),
    *("asyncio", "threading", "multiprocessing", "concurrent", "queue", "subprocess", "signal", "contextvars"),
    *("logging", "warnings", "getpass", "platform", "ctypes"),
}

LIGHT_LIBRARIES = {"msgspec"}
LIBRARIES_OF = {
    "filters/regions.py": {"shapely"},
    "filters/geometries.py": {"shapely"},
    "languages/*": {"lxml", "numpy", "re2", "shapely"},
}

IMPURE_CALLS = {"open", "print", "input", "exec", "eval", "breakpoint", "__import__"}
CLOCK_CALLS = {"now", "utcnow", "today"}
CLOCKS = {"datetime", "date"}
STREAMS = {"stdin", "stdout", "stderr", "argv"}


def faults(modules: Iterable[Module]) -> Iterator[str]:
    for module in modules:
        is_pure = module.room in PURE_ROOMS or any(fnmatch(module.name, pattern) for pattern in PURE_FOLDERS)
        if is_pure and not any(fnmatch(module.name, pattern) for pattern in DRIVERS):
            for line, what in [*_impure_imports(module), *_impure_uses(module)]:
                yield f"{module.name}:{line}: {what}"


def _impure_imports(module: Module) -> Iterator[tuple[int, str]]:
    libraries = {"godwit", *LIGHT_LIBRARIES}
    for pattern, names in LIBRARIES_OF.items():
        if fnmatch(module.name, pattern):
            libraries |= names
    for line, name in module.imports:
        package = name.partition(".")[0]
        if package in IMPURE or (package not in sys.stdlib_module_names and package not in libraries):
            yield line, f"a pure room must not import {package}"


def _impure_uses(module: Module) -> Iterator[tuple[int, str]]:
    clocks = CLOCKS | {
        alias.asname
        for node in module.nodes
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if alias.name in CLOCKS and alias.asname
    }
    for node in module.nodes:
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                yield node.lineno, f"a pure room must not call {name}()"
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                if name in CLOCK_CALLS and owner in clocks:
                    yield node.lineno, f"a pure room must not read the clock: {owner}.{name}"
                elif name in STREAMS and owner == "sys":
                    yield node.lineno, f"a pure room must not use sys.{name}"


def test_pure_rooms_are_pure() -> None:
    assert list(faults(modules())) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from os import path",
        "import asyncio.events",
        "def f():\n    import random",
        "import numpy as np",
        "import shapely",
        "open('x')",
        "print('x')",
        "from datetime import datetime\ndatetime.now()",
        "import datetime\ndatetime.datetime.utcnow()",
        "from datetime import date as day\nday.today()",
        "from datetime import datetime\nfactory = datetime.now",
        "import sys\nsys.stderr.write('x')",
    ],
)
def test_an_impure_line_is_caught(text: str) -> None:
    assert len(list(faults([Module("filters/planted.py", text)]))) == 1
    assert len(list(faults([Module("mqtt/packets.py", text)]))) == 1


@pytest.mark.parametrize(
    "module",
    [
        Module("filters/regions.py", "import shapely.geometry"),
        Module("languages/xpath/parsing.py", "from lxml import etree"),
        Module("broker/messages.py", "import msgspec\nfrom datetime import datetime\nd = datetime.fromisoformat('x')"),
        Module("broker/sessions.py", "def f(now):\n    return self.clock.now(now)"),
        Module("mqtt/gateway.py", "import asyncio"),
        Module("runtime/journal.py", "import sqlite3, time\nprint(time.time())"),
    ],
)
def test_what_is_allowed_is_let_through(module: Module) -> None:
    assert list(faults([module])) == []
