"""The OpenAPI document of the HTTP API, made from the table of its operations. It is served at `/openapi.json`."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from godwit import __version__
from godwit.teamwork.web_calls import ANYBODY, FILE, JSON, STREAM, Operation

__all__ = ["ErrorAnswer", "openapi_document"]

REF = "#/components/schemas/{name}"
PART = re.compile(r"\{(\w+)\}")
PARTS = {
    "kind": "The kind of the scope: `team`, `community` or `conversation`.",
    "scope": "The rest of the scope's identifier, as `ann.9f3c21`.",
    "community": "The identifier of the community without `community/`, as `ann.9f3c21`.",
    "user": "The name of a user.",
    "id": "Identifier of the object.",
}
ERRORS = {
    400: "The request is not well formed. `error` says what and where.",
    401: "No login, or it has ended.",
    403: "Refused, by a right of the user or a rule of the team. `error` says which.",
    404: "Not found, or not visible to the user.",
    413: "The body is too large.",
    429: "Too many streams are open, or too many attempts have failed.",
    500: "A fault of the peer, or of its disk.",
    503: "The peer cannot do this now: no broker is reached, or no peer with the content.",
    507: "There is no room for this on the disk of the peer.",
}


class ErrorAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not carried out."""

    error: str
    line: int = 0
    """In the text of a query, from 1."""
    column: int = 0


def openapi_document(operations: Iterable[Operation]) -> dict[str, Any]:
    """The document for these operations."""
    rows = list(operations)
    types = {row.takes for row in rows} | {row.gives for row in rows} | {row.query for row in rows} | {ErrorAnswer}
    named = [each for each in types if each not in (None, bytes)]
    schemas, components = msgspec.json.schema_components(named, ref_template=REF)
    of_type = dict(zip(named, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row, of_type, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Godwit teamwork",
            "version": __version__,
            "description": "A peer of a team: people, communities, documents, search, messages, meetings.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"cookie": []}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "godwit_team_ID",
                    "description": "Set by `POST /api/login`. To change something, send the header `x-godwit: 1`.",
                },
                "token": {"type": "http", "scheme": "bearer", "description": "Made by `POST /api/tokens`."},
            },
        },
    }


def _operation(row: Operation, of_type: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {"operationId": row.name, "tags": [row.subject], "summary": row.summary}
    parameters = [
        {"name": name, "in": "path", "required": True, "description": PARTS.get(name, ""), "schema": {"type": "string"}}
        for name in PART.findall(row.path)
    ]
    if row.query is not None:
        parameters += _parameters(components[row.query.__name__])
    if parameters:
        told["parameters"] = parameters
    if row.takes is not None:
        media, schema = (FILE, {}) if row.takes is bytes else (JSON, of_type[row.takes])
        told["requestBody"] = {"required": True, "content": {media: {"schema": schema}}}
    if row.right == ANYBODY:
        told["security"] = []
    told["responses"] = {str(row.status): _answer(row, of_type), **_errors(row, of_type)}
    return told


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The fields of a struct as parameters of a query."""
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "schema": each}
        for name, each in schema["properties"].items()
    ]


def _answer(row: Operation, of_type: dict[Any, Any]) -> dict[str, Any]:
    if row.media == JSON and row.gives is None:
        return {"description": "Done."}
    if row.media == JSON:
        return {"description": "The answer.", "content": {JSON: {"schema": of_type[row.gives]}}}
    description = "Server-sent events." if row.media == STREAM else "The file."
    content: dict[str, Any] = {row.media: {}}
    if row.gives is not None:
        content[JSON] = {"schema": of_type[row.gives]}
    return {"description": description, "content": content}


def _errors(row: Operation, of_type: dict[Any, Any]) -> dict[str, Any]:
    content = {JSON: {"schema": of_type[ErrorAnswer]}}
    return {str(status): {"description": text, "content": content} for status, text in ERRORS.items()}
