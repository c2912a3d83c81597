"""The tables and examples of the CQL2 standard: 93 predicates with their counts, 120 texts and 109 documents.

They are no part of this repository (`../shared/suites/cql2`); without them this is skipped. In five predicates of the
table `<` is still written `\\<`, as the standard's markup has it. Beside the 109 documents lies a script, which is no
example.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from godwit.filters import Event
from godwit.languages import Operator, Subject, parse_query
from godwit.languages.cql2 import Expression, parse_json, parse_text, to_json, to_text
from tests.conformance.cql2_features import features

PLACES = [parent / "shared" / "suites" / "cql2" for parent in Path(__file__).resolve().parents]
SUITE = next((place for place in PLACES if place.is_dir()), PLACES[3])
PREDICATES, TEXTS, DOCUMENTS = 93, 120, 109
FUNCTIONS = {name: Operator(name, lambda *values: True) for name in ("avg", "Buffer", "Foo", "Bar")}

pytestmark = pytest.mark.skipif(not SUITE.is_dir(), reason=f"the CQL2 suite is not there: {SUITE}")


@cache
def layer(name: str) -> list[Event]:
    return features(SUITE / "ne110m4cql2.gpkg", name)


def texts() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((SUITE / "text").glob("*.txt"))}


def documents() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in sorted((SUITE / "json").glob("*.json"))}


def test_every_predicate_matches_as_many_features_as_the_standard_says(record_property: Any) -> None:
    table = json.loads((SUITE / "predicates.json").read_text(encoding="utf-8"))
    assert len(table) == PREDICATES
    wrong = []
    for row in table:
        query = parse_query(row["filter"].replace("\\<", "<"), "cql2-text")
        count = sum(query.matches(event) for event in layer(row["source"]))
        if count != row["count"]:
            wrong.append(f"{row['filter']}: {count} in place of {row['count']}")
    record_property("conformance", f"CQL2: {len(table) - len(wrong)} of {len(table)} predicates have their count")
    assert wrong == []


def test_no_feature_that_matches_is_left_out_by_the_routable_filter() -> None:
    for row in json.loads((SUITE / "predicates.json").read_text(encoding="utf-8")):
        query = parse_query(row["filter"].replace("\\<", "<"), "cql2-text")
        for event in layer(row["source"]):
            assert query.routable.matches(event) or query.test is None or not query.test(Subject(event))


def test_every_text_is_printed_and_read_again_as_the_same(record_property: Any) -> None:
    examples = texts()
    assert len(examples) == TEXTS
    same = sum(parse_text(to_text(expression)) == expression for expression in map(parse_text, examples.values()))
    record_property("conformance", f"CQL2: {same} of {len(examples)} texts are printed and read again as the same")
    assert same == TEXTS


def test_every_document_is_read_and_written_as_it_was(record_property: Any) -> None:
    examples = documents()
    assert len(examples) == DOCUMENTS
    same = sum(to_json(parse_json(text)) == json.loads(text) for text in examples.values())
    record_property("conformance", f"CQL2: {same} of {len(examples)} documents are read and written as they were")
    assert same == DOCUMENTS


def test_every_text_is_written_as_a_document_and_read_again_as_the_same() -> None:
    for name, text in texts().items():
        expression = parse_text(text)
        assert parse_json(json.dumps(to_json(expression))) == expression, name


def test_a_text_and_a_document_of_one_name_say_the_same() -> None:
    read: dict[str, Expression] = {name: parse_text(text) for name, text in texts().items()}
    for name, text in documents().items():
        assert read[name] == parse_json(text), name
    for name, expression in read.items():  # example36-alt01 is another way to write example36
        assert read[name.partition("-alt")[0]] == expression, name


@pytest.mark.parametrize("language", ["cql2-text", "cql2-json"])
def test_every_example_is_a_query_whose_printed_form_is_the_same_query(language: str) -> None:
    for text in (texts() if language == "cql2-text" else documents()).values():
        query = parse_query(text, language, FUNCTIONS)
        assert parse_query(query.text, language, FUNCTIONS) == query
