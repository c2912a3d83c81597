"""Long test files are given out first, and whole."""

from itertools import groupby

from tests.conventions.repository import ROOT
from tests.longest_first import in_order, stored, unit

TESTS = [
    "tests/conventions/test_docs.py::test_a",
    "tests/network/test_serve.py::test_a",
    "tests/network/test_serve.py::test_b[tests/x.py::y]",
    "tests/network/test_demo.py::test_a",
    "tests/unit/test_short.py::test_a",
    "tests/unit/test_long.py::test_a",
    "tests/unit/test_long.py::test_b",
    "tests/conventions/test_text.py::test_a",
]
SECONDS = {"tests/network/test_demo.py": 3.0, "tests/unit/test_long.py": 9.0, "tests/conventions/test_text.py": 4.0}


def test_files_that_wait_come_first_and_long_ones_before_short_ones() -> None:
    given = [TESTS[at] for at in in_order(TESTS, SECONDS)]
    assert sorted(given) == sorted(TESTS)
    assert [name for name, _ in groupby(given, unit)] == [
        "tests/network/test_demo.py",
        "tests/network/test_serve.py",
        "tests/unit/test_long.py",
        "tests/conventions/",
        "tests/unit/test_short.py",
    ]


def test_the_order_of_tests_in_a_file_is_kept() -> None:
    given = [TESTS[at] for at in in_order(TESTS, SECONDS)]
    for name in map(unit, TESTS):
        assert [test for test in given if unit(test) == name] == [test for test in TESTS if unit(test) == name]


def test_files_whose_seconds_are_stored_are_there() -> None:
    gone = [file for file in stored() if not (ROOT / file).is_file()]
    assert gone == [], "run `make test STORE=1`"
