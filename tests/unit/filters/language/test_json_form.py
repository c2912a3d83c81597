"""The JSON form: what it looks like, and errors that name the path of what is wrong."""

import json
from typing import Any

import pytest

from godwit.errors import FilterError, FilterSyntaxError, FilterTooBig
from godwit.filters.language import from_json, json_form, loads, parse, read, to_json

FORMS: list[tuple[str, Any]] = [
    ("TRUE", {"all": []}),
    ("FALSE", {"any": []}),
    (
        "a = 1 AND (b = 2 OR c IS NULL)",
        {
            "all": [
                {"some": "a", "in": {"one_of": [1]}},
                {"any": [{"some": "b", "in": {"one_of": [2]}}, {"missing": "c"}]},
            ]
        },
    ),
    ("ALL x = 5", {"only": "x", "in": {"one_of": [5]}}),
    ("x IS NOT NULL", {"some": "x", "in": {"not": {"one_of": []}}}),
    ("x IN ()", {"some": "x", "in": {"one_of": []}}),
    ("x NOT IN (1, 'a')", {"only": "x", "in": {"not": {"one_of": [1, "a"]}}}),
    ("x = TIMESTAMP '2026-11-15T06:00:00Z'", {"some": "x", "in": {"one_of": [{"$time": "2026-11-15T06:00:00Z"}]}}),
    ("x = point(8.5, 47.4)", {"some": "x", "in": {"one_of": [{"lon": 8.5, "lat": 47.4}]}}),
    ("1 < x <= 5", {"some": "x", "in": {"range": {">": 1, "<=": 5}}}),
    ("x >= 'a'", {"some": "x", "in": {"range": {">=": "a"}}}),
    ("x IS NUMBER", {"some": "x", "in": {"kind": "number"}}),
    ("x LIKE 'a%'", {"some": "x", "in": {"prefix": "a"}}),
    ("x LIKE '%a'", {"some": "x", "in": {"suffix": "a"}}),
    ("x LIKE '%a%'", {"some": "x", "in": {"substring": "a"}}),
    ("x LIKE 'a_'", {"some": "x", "in": {"like": "a_"}}),
    ("x WITHIN circle(8.54, 47.37, 500)", {"some": "x", "in": {"circle": [8.54, 47.37, 500]}}),
    ("x WITHIN box(5, 45, 10, 48)", {"some": "x", "in": {"box": [5, 45, 10, 48]}}),
    ("x WITHIN polygon(8 47, 9 47, 8 48)", {"some": "x", "in": {"polygon": [[8, 47], [9, 47], [8, 48]]}}),
    ("x WITHIN places('market')", {"some": "x", "in": {"places": ["market"]}}),
    ("x >= my.threshold", {"some": "x", "in": {"range": {">=": {"$my": "threshold"}}}}),
    ("x IN (1, my.a)", {"some": "x", "in": {"one_of": [1, {"$my": "a"}]}}),
    ("x LIKE my.p", {"some": "x", "in": {"like": {"$my": "p"}}}),
    ("x WITHIN myloc(2)", {"some": "x", "in": {"vicinity": [{"$my": "location"}, 2]}}),
    ("x WITHIN circle(myloc, 500)", {"some": "x", "in": {"circle": [{"$my": "location"}, 500]}}),
    ("x WITHIN circle(8.54, 47.37, my.r)", {"some": "x", "in": {"circle": [8.54, 47.37, {"$my": "r"}]}}),
]


@pytest.mark.parametrize(("text", "data"), FORMS)
def test_text_and_json_form_say_the_same(text: str, data: Any) -> None:
    filter = parse(text)
    assert to_json(filter) == data
    assert from_json(data) == filter
    assert read(json.dumps(data)) == read(f"  {json.dumps(data, indent=2)}") == read(data) == read(text) == filter


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"some": "x", "in": {"range": {">=": 5, "<=": 5}}}, "x = 5"),
        ({"some": "x", "in": {"prefix": ""}}, "x IS TEXT"),
        ({"only": "x", "in": {"one_of": []}}, "x IN ()"),
        ({"all": [{"all": [{"missing": "x"}]}]}, "x IS NULL"),
        ({"some": "x", "in": {"circle": [{"lon": 8.54, "lat": 47.37}, 500]}}, "x WITHIN circle(8.54, 47.37, 500)"),
        ({"some": "x", "in": {"one_of": [2, 1, 2]}}, "x IN (1, 2)"),
    ],
)
def test_data_need_not_be_canonical(data: Any, text: str) -> None:
    assert from_json(data) == parse(text)


ERRORS: list[tuple[Any, str]] = [
    (None, "$: None is not a filter: it must be an object with one of all, any, some, only, missing"),
    ([], "$: a list of 0 is not a filter"),
    ({}, "$: an object with no keys is not a filter"),
    ({"none": []}, "$: an object with 'none' is not a filter"),
    ({"all": [], "any": []}, "$: an object with 'all', 'any' is not a filter"),
    ({"all": {}}, "$.all: an object with no keys is not a list"),
    ({"all": [{"missing": "x"}, {"some": "x"}]}, "$.all[1]: 'some' needs 'in'"),
    ({"all": [{"any": [5]}]}, "$.all[0].any[0]: 5 is not a filter"),
    ({"some": "x", "in": {"one_of": []}, "if": 5}, "$.if: nothing of this name belongs beside 'some'"),
    ({"missing": "x", "in": {"one_of": []}}, "$.in: nothing of this name"),
    ({"missing": 5}, "$.missing: 5 is not a text"),
    ({"missing": ""}, "$.missing: an attribute's name has 1 to 256 characters"),
    ({"missing": "\ud800"}, "$.missing: a text that is not valid Unicode"),
    ({"some": "x", "in": 5}, "$.in: 5 is not a set of values: it must be an object with one of one_of, range"),
    ({"some": "x", "in": {"one_of": [], "kind": "number"}}, "$.in: an object with 'one_of', 'kind' is not a set"),
    ({"some": "x", "in": {"one_of": [], "odd": 5}}, "$.in: a set of values has one key"),
    ({"some": "x", "in": {"one_of": [1, None]}}, "$.in.one_of[1]: None is not a value"),
    ({"some": "x", "in": {"one_of": [float("nan")]}}, "$.in.one_of[0]: nan is not a finite number"),
    ({"some": "x", "in": {"one_of": [2**64]}}, "$.in.one_of[0]: an int beyond 64 bits"),
    ({"some": "x", "in": {"one_of": [{"$time": "noon"}]}}, "$.in.one_of[0]: 'noon' is not a time"),
    ({"some": "x", "in": {"one_of": [{"$time": "2026-11-15T06:00:00"}]}}, "has no time zone"),
    ({"some": "x", "in": {"one_of": [{"lon": 181, "lat": 0}]}}, "$.in.one_of[0]: lon of a point is 181"),
    ({"some": "x", "in": {"range": {}}}, "$.in.range: an object with no keys is not a range"),
    ({"some": "x", "in": {"range": {"=": 5}}}, "$.in.range: an object with '=' is not a range"),
    ({"some": "x", "in": {"range": {"<": 5, "<=": 5}}}, "$.in.range: a range has each end once"),
    ({"some": "x", "in": {"range": {"<": True}}}, "$.in.range: True has no order"),
    ({"some": "x", "in": {"range": {">": 1, "<": "a"}}}, "$.in.range: an interval from 1 to 'a' mixes"),
    ({"some": "x", "in": {"range": {">": None}}}, "$.in.range['>']: None is not a value"),
    ({"some": "x", "in": {"kind": "bool"}}, "$.in.kind: 'bool' is not an ordered kind: allowed are number, time, text"),
    ({"some": "x", "in": {"like": "a\\"}}, "$.in.like: the LIKE pattern"),
    ({"some": "x", "in": {"prefix": 5}}, "$.in.prefix: 5 is not a text"),
    ({"some": "x", "in": {"circle": [1]}}, "$.in.circle: a circle is"),
    ({"some": "x", "in": {"circle": ["a", "b", "c"]}}, "$.in.circle: lon of a point is 'a'"),
    ({"some": "x", "in": {"circle": [1, 2, "c"]}}, "$.in.circle: the radius of a circle is 'c'"),
    ({"some": "x", "in": {"box": [1, 2, 3]}}, "$.in.box: a box is [west, south, east, north]"),
    ({"some": "x", "in": {"box": [1, 2, 3, True]}}, "$.in.box: lat of a point is True"),
    ({"some": "x", "in": {"polygon": [[1, 2], 3]}}, "$.in.polygon[1]: 3 is not a corner"),
    ({"some": "x", "in": {"polygon": [[1, 2], ["a", 3]]}}, "$.in.polygon[1]: lon of a point is 'a'"),
    ({"some": "x", "in": {"polygon": [[1, 2], [2, 3]]}}, "$.in.polygon: a polygon with 2 corners"),
    ({"some": "x", "in": {"places": ["a", 5]}}, "$.in.places[1]: 5 is not a text"),
    ({"some": "x", "in": {"vicinity": [5, 5]}}, "$.in.vicinity: a vicinity is"),
    ({"some": "x", "in": {"vicinity": [{"$my": "location"}, -1]}}, "$.in.vicinity: -1 steps"),
    ({"some": "x", "in": {"not": {"not": {"one_of": []}}}}, "$.in.not: a 'not' within a 'not'"),
]


@pytest.mark.parametrize(("data", "message"), ERRORS)
def test_an_error_begins_with_the_path(data: Any, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        from_json(data)
    assert message in str(caught.value)
    assert str(caught.value).startswith("$")
    assert len(str(caught.value)) < 300


def test_a_document_that_is_no_json_is_shown_with_a_caret() -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        read('{"all": [}')
    assert str(caught.value) == 'line 1, column 10: not valid JSON: Expecting value\n  {"all": [}\n           ^'


def nested(depth: int) -> Any:
    data: Any = {"missing": "x"}
    for level in range(depth):
        data = {("all", "any")[level % 2]: [data, {"missing": f"x{level}"}]}
    return data


@pytest.mark.parametrize("data", [nested(150), nested(250), nested(10_000)], ids=["150", "250", "10000"])
def test_data_nested_too_deep_is_refused(data: Any) -> None:
    with pytest.raises(FilterTooBig):
        from_json(data)


def test_documents_nested_too_deep_and_numbers_too_long_are_refused() -> None:
    with pytest.raises(FilterTooBig):
        loads('{"all": [' * 100_000)
    with pytest.raises(FilterError, match="digits"):
        loads(f'{{"some": "x", "in": {{"one_of": [{"9" * 5_000}]}}}}')


def test_far_too_many_parts_are_refused_before_any_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []
    monkeypatch.setattr(json_form, "_filter", lambda *data: looked_at.append(data))
    part = {"any": [{"missing": "x"}] * 10_000}
    with pytest.raises(FilterTooBig, match="more than 40000 parts"):
        from_json({"all": [part] * 100})
    assert not looked_at
