"""Whether data is as a JSON schema says: the part of the standard that OpenAPI documents of ours use, and no more."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["faults"]

TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
KNOWN = {
    *("$ref", "type", "properties", "required", "additionalProperties", "items", "prefixItems", "anyOf", "enum"),
    *("minItems", "maxItems", "minimum", "maximum", "exclusiveMinimum", "title", "description", "default"),
}


def faults(data: Any, schema: Mapping[str, Any], document: Mapping[str, Any], where: str = "answer") -> Iterator[str]:
    """What is wrong with the data, and where. `document`: in which references are looked up."""
    assert schema.keys() <= KNOWN, f"unknown keywords: {schema.keys() - KNOWN}"
    if "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        yield from faults(data, found, document, where)
    if "anyOf" in schema and all(any(faults(data, each, document)) for each in schema["anyOf"]):
        yield f"{where} is {data!r}: nothing of anyOf"
    if "enum" in schema and data not in schema["enum"]:
        yield f"{where} is {data!r}: none of {schema['enum']}"
    if "type" in schema and not _is_of(data, schema["type"]):
        yield f"{where} is {data!r}: no {schema['type']}"
        return
    if isinstance(data, dict):
        yield from _object_faults(data, schema, document, where)
    if isinstance(data, list):
        fixed = schema.get("prefixItems", [])
        for number, each in enumerate(data):
            rule = fixed[number] if number < len(fixed) else schema.get("items", {})
            if rule is False:
                yield f"{where} has an item too many"
            elif rule is not True:
                yield from faults(each, rule, document, f"{where}[{number}]")


def _object_faults(data: Any, schema: Mapping[str, Any], document: Any, where: str) -> Iterator[str]:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties", not schema.get("properties"))
    yield from (f"{where} has no {name}" for name in schema.get("required", ()) if name not in data)
    for name, value in data.items():
        if name in properties:
            yield from faults(value, properties[name], document, f"{where}.{name}")
        elif others is False:
            yield f"{where}.{name} is not in the schema"
        elif others is not True:
            yield from faults(value, others, document, f"{where}.{name}")


def _is_of(data: Any, type: Any) -> bool:
    names = type if isinstance(type, list) else [type]
    return any(isinstance(data, TYPES[name]) and (name == "boolean" or not isinstance(data, bool)) for name in names)
