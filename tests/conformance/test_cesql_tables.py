"""275 expressions of CESQL from the conformance tables of its specification: the value of each, and its error.

The tables are no part of this repository (`../shared/suites/cesql`); without them this is skipped. Where a case has an
error and a result, both are asked for. YAML would read `TRUE` and `0` as values, so expressions are read as texts.
"""

from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml  # type: ignore[import-untyped]

from godwit.errors import FilterSyntaxError
from godwit.filters import Event, event
from godwit.languages import parse_query
from godwit.languages.cesql import evaluate_text, expression_text, parse_expression

FOLDER = Path("shared", "suites", "cesql", "tck")
TABLES = next(
    (parent / FOLDER for parent in Path(__file__).resolve().parents if (parent / FOLDER).is_dir()), Path("absent")
)
CASES = 275
ERRORS = {
    "missingAttribute": 18,
    "functionEvaluation": 6,
    "math": 5,
    "cast": 3,
    "parse": 2,
    "missingFunction": 1,
}
REQUIRED = {"specversion": "1.0", "id": "1", "source": "/source", "type": "some.type"}

pytestmark = pytest.mark.skipif(not TABLES.is_dir(), reason=f"the tables of CESQL are not here: {FOLDER}")


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Times stay texts, as CESQL has them."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, pattern) for tag, pattern in choices if tag != "tag:yaml.org,2002:timestamp"]
        for first, choices in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def cases() -> list[tuple[str, dict[str, Any]]]:
    found = []
    for path in sorted(TABLES.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        typed, plain = yaml.load(text, PlainLoader)["tests"], yaml.load(text, yaml.BaseLoader)["tests"]
        for case, as_text in zip(typed, plain, strict=True):
            found.append((f"{path.stem}: {case['name']}", {**case, "expression": as_text["expression"]}))
    return found


def event_of(case: dict[str, Any]) -> Event:
    return event(case.get("event") or {**REQUIRED, **case.get("eventOverrides", {})})


def test_all_cases_are_there() -> None:
    found = [case for _, case in cases()]
    assert len(found) == CASES
    assert sum("result" in case for case in found) == CASES - 1
    assert {kind: sum(case.get("error") == kind for case in found) for kind in ERRORS} == ERRORS
    assert sum("error" in case for case in found) == sum(ERRORS.values())


def fault_of(case: dict[str, Any]) -> str | None:
    """What is not as the table has it."""
    found = evaluate_text(case["expression"], event_of(case))
    kinds = {failure.kind for failure in found.failures}
    if kinds != ({case["error"]} if "error" in case else set()):
        return f"errors {found.failures}"
    wanted = case.get("result", False)
    return None if type(found.value) is type(wanted) and found.value == wanted else f"value {found.value!r}"


def test_each_expression_has_the_value_and_the_error_of_the_table(record_property: Any) -> None:
    found = cases()
    faults = [(name, case["expression"], fault) for name, case in found if (fault := fault_of(case))]
    record_property("conformance", f"CESQL: {len(found) - len(faults)} of {len(found)} cases hold")
    assert not faults
    assert len(found) == CASES


def test_each_expression_is_printed_as_a_text_that_means_the_same() -> None:
    for name, case in cases():
        if case.get("error") != "parse":
            expression = parse_expression(case["expression"])
            assert parse_expression(expression_text(expression)) == expression, name


def test_a_subscription_wants_an_event_exactly_when_its_expression_is_true_without_an_error() -> None:
    subscriptions = 0
    for name, case in cases():
        wanted = case.get("result") is True and "error" not in case
        try:
            query = parse_query(case["expression"], "cesql")
        except FilterSyntaxError:
            assert not wanted, name
            continue
        subscriptions += 1
        assert query.matches(event_of(case)) == wanted, name
    assert subscriptions > CASES // 2


def test_a_wrong_value_or_error_is_caught() -> None:
    assert fault_of({"expression": "1 + 1", "result": 3}) == "value 2"
    assert fault_of({"expression": "TRUE", "result": 1}) == "value True"
    assert "missingAttribute" in str(fault_of({"expression": "missing = 2", "result": False}))
    assert fault_of({"expression": "2 = 2", "result": True, "error": "math"}) == "errors ()"
