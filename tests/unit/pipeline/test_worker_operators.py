"""Operators of users in workers: imported by name, or an error that says why they are not."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from zipfile import ZipFile

import pytest

from godwit.cli.query_options import load_operators
from godwit.errors import FilterError, PipelineError
from godwit.filters import event
from godwit.languages import Query, Subject, operator, operators
from godwit.pipeline import worker_operators
from godwit.pipeline.exact_matching import ExactTests, QueryText
from godwit.pipeline.subscriptions import wanted_of
from godwit.pipeline.worker_operators import OperatorSource, operator_sources, parse_in_worker, ship_operators

MODULE = """
from godwit.languages import operator

@operator("is_odd")
def odd(number):
    return number % 2 == 1
"""
ODD = OperatorSource("is_odd", "ops_of_workers", "odd")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(operators, "_REGISTERED", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(worker_operators, "_SHIPPED", set())
    worker_operators._imported.cache_clear()
    (tmp_path / "ops_of_workers.py").write_text(MODULE)
    yield tmp_path
    for name in ("ops_of_workers", "pack_of_workers", "pack_of_workers.ops"):
        sys.modules.pop(name, None)


def test_a_query_calls_an_operator_that_driver_and_worker_import() -> None:
    load_operators(["ops_of_workers:odd"])
    assert operator_sources() == (ODD,)
    wanted: Any = wanted_of("is_odd(n) AND n > m", "cesql")
    query = parse_in_worker(wanted.text, "cesql", operator_sources())
    for n, is_wanted in ((3, True), (4, False), (1, False)):
        assert query.wants(Subject(event({"n": n, "m": 2}))) == is_wanted


def test_an_operator_that_is_registered_later_is_known_then() -> None:
    with pytest.raises(FilterError, match="is_odd"):
        wanted_of("is_odd(n) AND n > m", "cesql")
    load_operators(["ops_of_workers"])
    assert isinstance(wanted_of("is_odd(n) AND n > m", "cesql"), Query)


def test_an_operator_that_no_worker_could_import_is_refused_with_the_reason() -> None:
    @operator("is_local")
    def is_local(number: int) -> bool:
        return number > 0

    with pytest.raises(
        PipelineError, match=r"operator 'is_local': it is not .*is_local of the module .*module:function"
    ):
        wanted_of("is_local(n) AND n > m", "cesql")
    operator("is_main")(_of_main)
    with pytest.raises(PipelineError, match="operator 'is_main': it is defined in the main program"):
        wanted_of("is_main(n) AND n > m", "cesql")
    assert operator_sources() == ()


def _of_main(number: int) -> bool:
    return number > 0


_of_main.__module__ = "__main__"


def test_a_worker_that_cannot_import_says_which_operator_from_where() -> None:
    tests = ExactTests([0], [QueryText("cesql", "is_odd(n)")], 1, (ODD._replace(module="gone_from_here"),))
    with pytest.raises(
        PipelineError, match=r"cannot import the operator 'is_odd' from gone_from_here:odd \(ModuleNotFoundError"
    ):
        tests.query(0)
    other = ExactTests([0], [QueryText("cesql", "n > m")], 1, (ODD._replace(module="gone_from_here"),))
    assert other.query(0).language == "cesql"


class Shipped:
    """A session of Spark that notes what it is to send."""

    applicationId = "a"  # noqa: N815 - as Spark calls it

    def __init__(self) -> None:
        self.sparkContext, self.files = self, list[str]()

    def addPyFile(self, path: str) -> None:  # noqa: N802 - as Spark calls it
        self.files.append(path)


def test_modules_and_packages_that_are_not_installed_are_sent_once(folder: Path) -> None:
    package = folder / "pack_of_workers"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "ops.py").write_text(MODULE.replace("is_odd", "is_odd_too"))
    load_operators(["ops_of_workers", "pack_of_workers.ops"])
    installed = ModuleType("pytest")
    assert installed.__name__ in sys.modules
    operator("is_warned")(pytest.warns)
    spark: Any = Shipped()
    for _ in range(2):
        ship_operators(spark)
    module, packed = sorted(spark.files, key=lambda name: Path(name).suffix)
    assert module == str(folder / "ops_of_workers.py")
    assert ZipFile(packed).namelist() == ["pack_of_workers/__init__.py", "pack_of_workers/ops.py"]
