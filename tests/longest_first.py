"""Gives long test files to processes first, and prints in the end which files took longest: a plugin of pytest.

*Theory.* Each process of `make test` runs whole files, and asks for another when it has done one. A long file that is
given out last keeps one process busy while the others have nothing left to do. So files are given out by how long they
took before, the longest first (`file_seconds.json`, which holds those of two seconds and more). Files that wait for
other processes come before all others: Spark's tests run beside them at that time, and use what they leave.

What the conventions look at is parsed once for all of their files, so these go to one process; so do all tests of
pages, which share one Chromium.

Tests are compiled by pytest, which takes 17 s of processor time for all of them in each process. What it has compiled
is kept, also where PYTHONDONTWRITEBYTECODE is set; see `at_once.py`. While tests run, that variable counts again.

`make test STORE=1` stores how long files took: do so when the report at the end shows that they have changed.
"""

import json
import os
import resource
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

STORED = Path(__file__).with_name("file_seconds.json")
STORED_FROM_S = 2.0
WAITING = ("tests/browser/", "tests/chaos/", "tests/network/")
TOGETHER = ("tests/browser/", "tests/conventions/")
SHOWN = 10
PROCESSOR = "processor_s"  # the property of a report
BEGUN = pytest.StashKey[float]()
DONT_WRITE_BYTECODE = pytest.StashKey[bool]()


def unit(nodeid: str) -> str:
    """What goes to one process as a whole: the file of a test, or its folder."""
    file = nodeid.split("::", 1)[0]
    return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def in_order(nodeids: list[str], seconds: dict[str, float]) -> list[int]:
    """The order in which tests are given out, as places in `nodeids`. Tests of one file stay together."""
    by_unit: defaultdict[str, float] = defaultdict(float)
    for file, took in seconds.items():
        by_unit[unit(file)] += took

    def rank(at: int) -> tuple[bool, float]:
        return not nodeids[at].startswith(WAITING), -by_unit[unit(nodeids[at])]

    return sorted(range(len(nodeids)), key=rank)


def stored() -> dict[str, float]:
    """How many seconds a file took when that was last stored."""
    found: dict[str, float] = json.loads(STORED.read_text(encoding="utf-8"))
    return found


def processor_s() -> float:
    """Processor time of this process and of all that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--store-seconds", action="store_true", help=f"store in {STORED.name} how long each file took")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[DONT_WRITE_BYTECODE] = sys.dont_write_bytecode
    sys.dont_write_bytecode = False


def pytest_collection_finish(session: pytest.Session) -> None:
    sys.dont_write_bytecode = session.config.stash[DONT_WRITE_BYTECODE]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = [items[at] for at in in_order([item.nodeid for item in items], stored())]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

    class Units(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit(nodeid)

    return Units(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[BEGUN] = processor_s()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Any:
    try:
        return (yield)
    finally:
        item.user_properties.append((PROCESSOR, processor_s() - item.stash[BEGUN]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:  # which knows of its own files alone
        return
    seconds: defaultdict[str, float] = defaultdict(float)
    used: defaultdict[str, float] = defaultdict(float)
    for report in (report for some in terminalreporter.stats.values() for report in some):
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.split("::", 1)[0]
            seconds[file] += report.duration
            if report.when == "teardown":
                used[file] += sum(float(str(value)) for name, value in report.user_properties if name == PROCESSOR)
    before = stored()
    terminalreporter.section(f"{SHOWN} slowest files")
    terminalreporter.write_line("seconds  processor  stored")
    for file in sorted(seconds, key=lambda file: -seconds[file])[:SHOWN]:
        terminalreporter.write_line(f"{seconds[file]:7.1f}  {used[file]:9.1f}  {before.get(file, 0):6.1f}  {file}")
    terminalreporter.write_line(f"{sum(seconds.values()):7.1f}  {sum(used.values()):9.1f}          all files")
    if config.getoption("store_seconds"):
        found = {file: round(took, 1) for file, took in sorted(seconds.items()) if took >= STORED_FROM_S}
        STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
