"""The OpenAPI document: it names every operation once, with all that a client must know."""

import re

from godwit.teamwork.web_api import OPERATIONS
from godwit.teamwork.web_calls import ANYBODY
from godwit.teamwork.web_openapi import PARTS, openapi_document

DOCUMENT = openapi_document(OPERATIONS)


def test_every_operation_is_in_the_document_under_a_name_of_its_own() -> None:
    told = {(method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods}
    assert told == {(row.method, row.path) for row in OPERATIONS}
    names = [row.name for row in OPERATIONS]
    assert len(set(names)) == len(names)


def test_every_operation_says_what_it_takes_and_gives() -> None:
    for row in OPERATIONS:
        told = DOCUMENT["paths"][row.path][row.method.lower()]
        assert told["summary"].endswith(".")
        parts = [each["name"] for each in told.get("parameters", ()) if each["in"] == "path"]
        assert parts == re.findall(r"\{(\w+)\}", row.path)
        assert all(part in PARTS for part in parts), "a part of a path is explained"
        assert ("requestBody" in told) == (row.takes is not None)
        assert str(row.status) in told["responses"]
        assert (row.status == 204) == ("content" not in told["responses"][str(row.status)])
        assert (told.get("security") == []) == (row.right == ANYBODY)


def test_every_reference_leads_somewhere() -> None:
    found = set(re.findall(r"'\$ref': '#/components/schemas/([^']+)'", str(DOCUMENT)))
    assert found
    assert found <= DOCUMENT["components"]["schemas"].keys()
