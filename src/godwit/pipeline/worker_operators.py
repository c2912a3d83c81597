"""User-defined operators in Spark's workers: their modules, how workers import them, and errors if they cannot.

*Theory.* A worker is another process, perhaps on another machine. An operator is code, and code is not serialised: its
name, its module and the name of the function are sent, and the worker imports it. Installed modules must be installed
on all workers. Others are shipped by Spark as files: a module, or its package.

*Rules.*
1. Queries may call operators that the driver has registered and a worker can import. An operator that is defined in the
   main program, within a function or by a lambda is unknown to queries, and the error says why.
2. A worker imports when it parses a query. A failed import is an error when a query needs it, with the reason.
3. Subscriptions cannot cause imports: modules are named by the program that runs the job.
"""

import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import ZipFile

from godwit.errors import GodwitError, PipelineError
from godwit.languages import Query, parse_query
from godwit.languages.operators import Operator, registered_operators

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OperatorSource", "operator_sources", "parse_in_driver", "parse_in_worker", "ship_modules", "ship_operators"]

MAIN = "__main__"
HOW = "put it into a module, and import that or name it: --operators module:function"


class OperatorSource(NamedTuple):
    """The definition of an operator."""

    name: str  # its name in queries
    module: str
    function: str  # its qualified name in there


# ---------------------------------------------------------------- in the driver


def operator_sources() -> tuple[OperatorSource, ...]:
    """The registered operators that other processes can import."""
    known = registered_operators().values()
    return tuple(_source(each) for each in known if not _why_not(each)) if known else ()


def parse_in_driver(text: str, language: str, sources: Iterable[OperatorSource]) -> Query:
    """Parse a query, with the operators of these sources. (rule 1)"""
    known = registered_operators()
    try:
        return parse_query(text, language, {source.name: known[source.name] for source in sources})
    except GodwitError as error:
        for each in known.values():
            if each.name in text and (reason := _why_not(each)):
                raise PipelineError(f"{error}; workers cannot have the operator {each.name!r}: {reason}") from None
        raise


def ship_operators(spark: "SparkSession") -> None:
    """Make the modules of operators importable in workers."""
    ship_modules(spark, {source.module for source in operator_sources()})


def ship_modules(spark: "SparkSession", modules: Iterable[str]) -> None:
    """Send the files of these modules to workers, except installed ones."""
    for top in {module.partition(".")[0] for module in modules}:
        path = _shipped_file(top)
        if path is None or (key := (str(spark.sparkContext.applicationId), path)) in _SHIPPED:
            continue
        try:
            spark.sparkContext.addPyFile(path)
        except Exception as error:
            raise PipelineError(f"the module {top} cannot be sent to workers: {error}") from None
        _SHIPPED.add(key)


_SHIPPED: set[tuple[str, str]] = set()  # the modules sent to each Spark application


def _source(operator: Operator) -> OperatorSource:
    return OperatorSource(operator.name, operator.holds.__module__, operator.holds.__qualname__)


def _why_not(operator: Operator) -> str:
    """Why other processes cannot import an operator; "" if they can."""
    module, function = (getattr(operator.holds, name, "") for name in ("__module__", "__qualname__"))
    if not module or not function:
        return f"it is not a function of a module; {HOW}"
    if module == MAIN:
        return f"it is defined in the main program; {HOW}"
    try:
        found: Any = attrgetter(function)(sys.modules[module])
    except (AttributeError, KeyError):
        found = None
    if found is not operator.holds:
        return f"it is not {function} of the module {module}; {HOW}"
    return ""


def _shipped_file(top: str) -> str | None:
    """The file of a module, or its package in a zip file, under an importable name; None if it is installed."""
    file = getattr(sys.modules[top], "__file__", None)
    folders = list(getattr(sys.modules[top], "__path__", ()))
    place = Path(folders[0] if folders else file or "").resolve()
    installed = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    if top == "godwit" or not place.exists() or installed & {*place.parents}:
        return None
    return _zipped(place) if folders else str(place)


@cache
def _zipped(folder: Path) -> str:
    target = Path(tempfile.mkdtemp(prefix="godwit-operators-")) / f"{folder.name}.zip"
    with ZipFile(target, "w") as packed:
        for file in sorted(folder.rglob("*.py")):
            packed.write(file, file.relative_to(folder.parent))
    return str(target)


# ---------------------------------------------------------------- in a worker


def parse_in_worker(text: str, language: str, sources: tuple[OperatorSource, ...]) -> Query:
    """The same, where the operators must be imported. (rule 2)"""
    operators, missing = _imported(sources)
    try:
        return parse_query(text, language, operators)
    except GodwitError as error:
        needed = [reason for name, reason in missing.items() if name in text]
        raise PipelineError(
            f"a worker cannot read the {language} query {text!r}: {'; '.join([str(error), *needed])}"
        ) from None


@cache
def _imported(sources: tuple[OperatorSource, ...]) -> tuple[Mapping[str, Operator], Mapping[str, str]]:
    """Operators by name; and the import errors of others."""
    found: dict[str, Operator] = {}
    missing: dict[str, str] = {}
    for name, module, function in sources:
        try:
            holds = attrgetter(function)(import_module(module))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            missing[name] = f"this worker cannot import the operator {name!r} from {module}:{function} ({reason})"
            continue
        found[name] = Operator(name, holds)
    return found, missing
