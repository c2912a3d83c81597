"""Runs chosen tests in their order, or notes what tests did and how long they took: a plugin of pytest.

A file of the variable `CHOSEN` has the ids of the tests to run, one in a line; without it all are run. To the file of
the variable `TIMES` a line of JSON is written for each test: its id, whether it passed, and its seconds.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

CHOSEN = "GODWIT_MUTANTS_CHOSEN"
TIMES = "GODWIT_MUTANTS_TIMES"

_seconds: defaultdict[str, float] = defaultdict(float)
_failed: set[str] = set()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if CHOSEN in os.environ:
        chosen = Path(os.environ[CHOSEN]).read_text(encoding="utf-8").splitlines()
        rank = {test: at for at, test in enumerate(chosen)}
        items[:] = sorted((item for item in items if item.nodeid in rank), key=lambda item: rank[item.nodeid])


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration
    if report.failed:
        _failed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if TIMES in os.environ and not hasattr(session.config, "workerinput"):
        lines = [
            json.dumps({"test": test, "passed": test not in _failed, "seconds": round(took, 3)})
            for test, took in _seconds.items()
        ]
        Path(os.environ[TIMES]).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
