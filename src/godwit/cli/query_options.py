"""Options of commands with queries: the language of the text, and user-defined operators.

Operators are code. They are loaded only from the modules given by `--operators` on the command line.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

from godwit.cli.signatures import Option
from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.languages import Query

__all__ = ["NATIVE", "LanguageName", "OperatorModules", "equated_attributes", "load_operators", "read_query"]

NATIVE = "filter"  # as in `languages/query.py`, which takes longer to load

LanguageName = Annotated[
    str,
    Option(
        "--language", metavar="NAME", help="Language of the query: filter, xql, xpath, cesql, cql2-text, cql2-json, …"
    ),
]
OperatorModules = Annotated[
    list[str] | None,
    Option(
        "--operators",
        metavar="MODULE",
        help="Python module or file.py that defines operators for queries, or one function: module:name. Repeatable.",
    ),
]


def load_operators(modules: list[str] | None) -> None:
    """Import the modules that the user named, which registers their operators."""
    for name in modules or []:
        try:
            _load(name)
        except Exception as error:
            raise GodwitError(f"cannot load operators from {name}: {type(error).__name__}: {error}") from error


def _load(said: str) -> None:
    name, _, function = said.partition(":")
    module = _module_in_file(name) if name.endswith(".py") else _module(name)
    if not function:
        return
    from godwit.languages.operators import operator, registered_operators

    holds = getattr(module, function, None)
    if not callable(holds):
        raise AttributeError(f"{name} has no function {function!r}")
    if all(known.holds is not holds for known in registered_operators().values()):
        operator(function)(holds)


def _module(name: str) -> ModuleType:
    from importlib import import_module

    sys.path.append("")  # modules in this folder; installed ones take precedence
    try:
        return import_module(name)
    finally:
        sys.path.remove("")


def _module_in_file(path: str) -> ModuleType:
    """Import a file as a module under the file's name, by which Spark workers can import it, too."""
    from importlib.util import module_from_spec, spec_from_file_location

    name = Path(path).stem
    known = sys.modules.get(name)
    if known is not None:
        if Path(known.__file__ or "").resolve() != Path(path).resolve():
            raise ImportError(f"there is another module called {name!r}: rename the file")
        return known
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = sys.modules[name] = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def read_query(text: str, language: str) -> "Query":
    """Parse a query, with the operators that were loaded."""
    from godwit.languages import parse_query, registered_operators

    return parse_query(text, language, registered_operators())


def equated_attributes(query: "Query") -> tuple[str, str] | None:
    """Two attributes that a query compares by `=`: often the second was meant to be a text without its quotes."""
    from godwit.languages.native.exact_test import ExactTest
    from godwit.languages.native.expressions import Attribute, Compared, predicates_of

    if not isinstance(query.test, ExactTest):
        return None
    for condition in query.test.conditions:
        for predicate in predicates_of(condition):
            match predicate:
                case Compared(first=Attribute(name=first), steps=(("=", Attribute(name=second)),)):
                    return first, second
    return None
