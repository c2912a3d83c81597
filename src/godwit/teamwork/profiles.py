"""Profiles in XML: of users, communities and artefacts; made from the fields of a record, and back. [motion §2]

*Theory.* A profile is a document whose root is its kind: `<user id="ann"><name>Ann</name><skill>motors</skill></user>`.
Each element is a field of the record; a repeatable one is a list, a group is a table of its parts. Which elements there
are, and what they hold, is told by a schema (`profile_schema.py`). A record has further fields, of the machine's own;
they are no part of the profile.

*Rules.*
1. `fields_of(document_of(kind, id, fields)) == fields`, for fields that `checked_fields` lets through.
2. Elements that the schema does not know are refused, with the list of those that it knows; so are values of another
   type, and characters that XML does not have.
3. A document has `DOCUMENT_BYTES_MAX` bytes at most.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, NamedTuple

from lxml import etree

from godwit.errors import BadEvent, ProfileError
from godwit.languages.xml_documents import DOCUMENT_BYTES_MAX, parsed_document
from godwit.languages.xml_trees import Tree
from godwit.teamwork.profile_schema import GROUP, STANDARD, Element, Schema

__all__ = ["Profile", "checked_fields", "document_of", "profile_of"]

NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
INTEGER_MAX = 2**53
VALUES_MAX = 1_000


class Profile(NamedTuple):
    """What a document says."""

    kind: str
    id: str
    fields: dict[str, Any]


# ---------------------------------------------------------------- fields


def checked_fields(kind: str, fields: Mapping[str, Any], schema: Schema = STANDARD) -> dict[str, Any]:
    """Fields that a user has given, each checked; None, which removes a field, is let through. (rule 2)"""
    elements = _elements(kind, schema)
    checked = {}
    for name, value in fields.items():
        element = elements.get(name)
        if element is None:
            raise _unknown(f"{kind}/{name}", elements)
        checked[name] = None if value is None else _checked(f"{kind}/{name}", element, value)
    return checked


def _checked(where: str, element: Element, value: Any) -> Any:
    if not element.repeatable:
        return _checked_one(where, element, value)
    if not isinstance(value, list | tuple):
        raise ProfileError(f"{where} may be there several times: give a list, not {_shown(value)}")
    if len(value) > VALUES_MAX:
        raise ProfileError(f"{where} is there {len(value):,} times: at most {VALUES_MAX:,} are allowed")
    return [_checked_one(where, element, each) for each in value]


def _checked_one(where: str, element: Element, value: Any) -> Any:
    if element.type != GROUP:
        _written(where, element, value)
        return value
    if not isinstance(value, Mapping):
        raise ProfileError(f"{where} is a group: give a table of its parts, not {_shown(value)}")
    for name in value:
        if name not in element.parts:
            raise _unknown(f"{where}/{name}", element.parts)
    return {name: _checked(f"{where}/{name}", element.parts[name], part) for name, part in value.items()}


def _elements(kind: str, schema: Schema) -> Mapping[str, Element]:
    if kind not in schema:
        raise ProfileError(f"there are no profiles of {kind!r}: allowed are {', '.join(schema)}")
    return schema[kind]


def _unknown(where: str, known: Mapping[str, Element]) -> ProfileError:
    return ProfileError(f"there is no element {where}: allowed are {', '.join(sorted(known))}")


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}…"


# ---------------------------------------------------------------- documents


def document_of(kind: str, id: str, fields: Mapping[str, Any], schema: Schema = STANDARD) -> bytes:
    """The document of a record. Fields that are not elements of the schema are left out."""
    elements = _elements(kind, schema)
    root = etree.Element(kind)
    root.set("id", _text(f"{kind}/@id", id))
    for name, element in elements.items():
        if fields.get(name) is not None:
            _add(root, f"{kind}/{name}", element, fields[name])
    data = etree.tostring(root, encoding="utf-8")
    if len(data) > DOCUMENT_BYTES_MAX:
        largest = max(root, key=lambda child: len(etree.tostring(child, encoding="utf-8")))
        raise ProfileError(
            f"the profile of {kind} {id!r} has {len(data):,} bytes: at most {DOCUMENT_BYTES_MAX:,} are allowed; "
            f"shorten {largest.tag}"
        )
    return data


def _add(parent: Tree, where: str, element: Element, value: Any) -> None:
    """Write a field as one element or several."""
    checked = _checked(where, element, value)
    for each in checked if element.repeatable else [checked]:
        child = etree.SubElement(parent, where.rpartition("/")[2])
        if element.type == GROUP:
            for name, part in element.parts.items():
                if name in each:
                    _add(child, f"{where}/{name}", part, each[name])
        else:
            child.text = _written(where, element, each)


def profile_of(data: bytes, schema: Schema = STANDARD) -> Profile:
    """What a document says. (rules 2 and 3)"""
    try:
        root = parsed_document(data)
    except BadEvent as error:
        raise ProfileError(f"a profile that cannot be read: {error}") from None
    kind = str(root.tag)
    return Profile(kind, root.get("id") or "", _fields(root, kind, _elements(kind, schema)))


def _fields(parent: Tree, where: str, elements: Mapping[str, Element]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for child in parent:
        if not isinstance(child.tag, str):
            continue  # a comment
        element = elements.get(child.tag)
        if element is None:
            raise _unknown(f"{where}/{child.tag}", elements)
        place = f"{where}/{child.tag}"
        value = _fields(child, place, element.parts) if element.type == GROUP else _read(place, element, child)
        if element.repeatable:
            fields.setdefault(child.tag, []).append(value)
        elif child.tag in fields:
            raise ProfileError(f"{place} is there twice: once is allowed")
        else:
            fields[child.tag] = value
    return fields


# ---------------------------------------------------------------- values


def _written(where: str, element: Element, value: Any) -> str:
    """A value as a text, if it is of the element's type."""
    match element.type, value:
        case "text", str():
            return _text(where, value)
        case "boolean", bool():
            return str(value).lower()
        case ("integer" | "number", bool()):
            pass
        case "integer", int() if abs(value) <= INTEGER_MAX:
            return str(value)
        case "number", (int() | float()) if isfinite(value):
            return repr(value)
        case (("date" | "time"), str()):
            if _is_date(value) if element.type == "date" else _is_time(value):
                return value
    raise ProfileError(f"{where} must be {ALLOWED[element.type]}, not {_shown(value)}")


ALLOWED = {
    "text": "a text",
    "integer": "a whole number of 16 digits at most",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as '2026-11-16'",
    "time": "a time with its zone, such as '2026-11-16T20:30:00Z'",
}


def _read(where: str, element: Element, child: Tree) -> Any:
    """The value of an element."""
    if len(child):
        raise ProfileError(f"{where} holds elements: {ALLOWED[element.type]} is allowed")
    text = child.text or ""
    if element.type in ("text", "date", "time"):
        _written(where, element, text)
        return text
    if element.type == "boolean" and text in ("true", "false"):
        return text == "true"
    try:
        value = int(text) if element.type == "integer" or text.lstrip("-").isdigit() else float(text)
    except ValueError:
        value = None
    _written(where, element, text if value is None else value)
    return value


def _text(where: str, text: str) -> str:
    if found := NOT_XML.search(text):
        raise ProfileError(f"{where} has a character that XML does not have: {found[0]!r} at place {found.start() + 1}")
    return text


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _is_time(text: str) -> bool:
    try:
        time = datetime.fromisoformat(text)
        return time.tzinfo is not None and time.astimezone(UTC).year > 0 and "T" in text
    except (ValueError, OverflowError):
        return False
