"""What the commands that take queries share: the language of a text, and operators from modules that the user names.

Operators are code, and are loaded from what stands behind `--operators` on the command line and from nowhere else.
"""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from godwit.errors import GodwitError

if TYPE_CHECKING:
    from godwit.languages import Query

__all__ = ["NATIVE", "LanguageName", "OperatorModules", "load_operators", "read_query"]

NATIVE = "filter"  # as in `languages/query.py`, which takes longer to load

LanguageName = Annotated[
    str,
    typer.Option(
        "--language", metavar="NAME", help="Language of the query: filter, xql, xpath, cesql, cql2-text, cql2-json, …"
    ),
]
OperatorModules = Annotated[
    list[str] | None,
    typer.Option(
        "--operators",
        metavar="MODULE",
        help="Python module or file.py that defines operators for queries; it is run. Repeatable.",
    ),
]


def load_operators(modules: list[str] | None) -> None:
    """Run the modules that the user has named, so that the operators in them are registered."""
    for name in modules or []:
        try:
            _load(name)
        except Exception as error:
            raise GodwitError(f"cannot load operators from {name}: {type(error).__name__}: {error}") from error


def _load(name: str) -> None:
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    if name.endswith(".py"):
        spec = spec_from_file_location(f"operators in {name}", name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(module_from_spec(spec))
        return
    sys.path.append("")  # modules in this folder; those that are installed come first
    try:
        import_module(name)
    finally:
        sys.path.remove("")


def read_query(text: str, language: str) -> "Query":
    """The query that a text says, with the operators that were loaded."""
    from godwit.languages import parse_query, registered_operators

    return parse_query(text, language, registered_operators())
