"""Hypothesis profiles, the garbage collector, and what conformance tests have counted.

`default`, of `make test`, is quick; `long`, of `make slow`, draws more cases. Both draw the same ones on every run.
`thorough` draws thousands of fresh ones:
`pytest --hypothesis-profile=thorough tests/property`, or set HYPOTHESIS_PROFILE.
"""

import gc
import os
from typing import Any

from hypothesis import HealthCheck, settings

YOUNG_OBJECTS = 20_000  # between two searches for garbage: with 700, Python's own number, tests take 6 % longer

COMMON = settings(
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],  # a loaded machine is no fault of a law
)
settings.register_profile("default", COMMON, max_examples=25, derandomize=True, database=None)
settings.register_profile("long", COMMON, max_examples=300, derandomize=True, database=None)
settings.register_profile("thorough", COMMON, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure() -> None:
    """Look for no garbage while tests are collected: nearly all that is made then stays."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Put aside what stays until the end, such as thousands of tests: to search it for garbage takes half a second."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(YOUNG_OBJECTS)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests have counted with `record_property("conformance", ...)`, also those of other processes."""
    reports = [report for some in terminalreporter.stats.values() for report in some]
    found = [said for report in reports for said in getattr(report, "user_properties", ())]
    for text in dict.fromkeys(str(text) for name, text in found if name == "conformance"):
        terminalreporter.write_line(text)
