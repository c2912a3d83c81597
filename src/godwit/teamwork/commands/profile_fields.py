"""Elements of a profile from the text of a user: `skill=optics`, `pages=12`, `address:={"city": "Zurich"}`."""

import json
from collections.abc import Sequence
from typing import Any

from godwit.errors import ProfileError
from godwit.teamwork.profile_schema import STANDARD, Element, Schema
from godwit.teamwork.profiles import checked_fields

__all__ = ["fields_of"]

WORDS = {"true": True, "yes": True, "false": False, "no": False}


def fields_of(kind: str, words: Sequence[str], schema: Schema = STANDARD) -> dict[str, Any]:
    """The fields, checked. One that may be there several times is a list of all that were given; `name=` removes it."""
    fields: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        is_json = name.endswith(":")
        name = name.removesuffix(":")
        if not separator or not name:
            raise ProfileError(f"{word!r} is not a field: write name=value, or name:=JSON")
        element = schema.get(kind, {}).get(name, Element())
        value = _json(word, text) if is_json else _value(word, element, text)
        if element.repeatable and value is not None and not isinstance(value, list):
            fields[name] = [*(fields.get(name) or ()), value]
        else:
            fields[name] = value
    return checked_fields(kind, fields, schema)


def _value(word: str, element: Element, text: str) -> Any:
    if not text:
        return None
    try:
        match element.type:
            case "integer":
                return int(text)
            case "number":
                return float(text)
            case "boolean":
                return WORDS[text.lower()]
    except (ValueError, KeyError):
        raise ProfileError(f"{word!r}: this element holds a value of type {element.type}") from None
    return text


def _json(word: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProfileError(f"{word!r}: what stands after := must be JSON: {error}") from None
