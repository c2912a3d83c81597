"""The elements that profiles may have: a table, which an organisation extends by a file.

An extension is a TOML file. Each table is an element of a kind of profile; a group has its parts below it:

    [user.badge]
    type = "integer"

    [user.training]
    type = "group"
    repeatable = true
    parts.course = { type = "text" }
    parts.passed = { type = "date" }

*Rules.*
1. An extension adds elements and parts of groups. It cannot change what an element of the standard is: peers without
   the extension must read what others write.
2. A peer with another schema keeps and passes on what it does not know, does not check it, and neither shows it in
   profiles nor finds anything by it. Values that are not of the type that the schema here says are left out of
   profiles, too. So a schema may be introduced peer by peer, and two that differ harm nobody.
3. Everything that is wrong with a file is an error that names the file, the element and what is allowed.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from godwit.errors import ProfileError

__all__ = ["GROUP", "KINDS", "STANDARD", "TYPES", "Element", "Schema", "added_elements", "extended", "fingerprint"]

KINDS = ("user", "community", "artefact")
GROUP = "group"
TYPES = ("text", "integer", "number", "boolean", "date", "time", GROUP)
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
ELEMENTS_MAX = 200
KEYS = {"type", "repeatable", "parts"}


class Element(NamedTuple):
    """What one element holds. Parts are those of a group."""

    type: str = "text"
    repeatable: bool = False
    parts: Mapping[str, "Element"] = MappingProxyType({})


Schema = Mapping[str, Mapping[str, Element]]
"""By kind of profile and name of the element."""

TEXT, TEXTS, INTEGER, TIME = Element(), Element(repeatable=True), Element("integer"), Element("time")
ADDRESS = Element(
    GROUP, repeatable=True, parts={"street": TEXT, "zip": TEXT, "city": TEXT, "region": TEXT, "country": TEXT}
)
STANDARD: Schema = {
    "user": {
        "name": TEXT,
        "role": TEXTS,
        "skill": TEXTS,
        "language": TEXTS,
        "device": TEXTS,
        "place": TEXTS,
        "address": ADDRESS,
        "mail": TEXTS,
        "phone": TEXTS,
        "organisation": TEXT,
        "about": TEXT,
    },
    "community": {
        "name": TEXT,
        "topic": TEXTS,
        "language": TEXTS,
        "place": TEXTS,
        "join": TEXT,
        "archived": Element("boolean"),
        "about": TEXT,
    },
    "artefact": {
        "name": TEXT,
        "type": TEXT,
        "size": INTEGER,
        "created": TIME,
        "changed": TIME,
        "title": TEXT,
        "author": TEXTS,
        "subject": TEXTS,
        "keyword": TEXTS,
        "language": TEXTS,
        "version": INTEGER,
        "content": TEXT,
        "root": TEXT,
        "place": TEXTS,
        "description": TEXT,
    },
}
"""The elements that every peer knows. [motion §2]"""


def extended(schema: Schema, path: Path) -> Schema:
    """A schema with the elements of an extension file. (rules 1 and 3)"""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path} is not a TOML file: {error}") from None
    result = {kind: dict(elements) for kind, elements in schema.items()}
    for kind, elements in data.items():
        if kind not in KINDS or not isinstance(elements, dict):
            raise ProfileError(f"{path}: there are no profiles of {kind!r}: allowed are {', '.join(KINDS)}")
        for name, said in elements.items():
            where = f"{path}: {kind}.{name}"
            result[kind][name] = _joined(where, result[kind].get(name), _element(where, name, said))
        if len(result[kind]) > ELEMENTS_MAX:
            raise ProfileError(f"{path}: {len(result[kind])} elements of {kind}: at most {ELEMENTS_MAX} are allowed")
    return result


def added_elements(schema: Schema, kind: str) -> dict[str, Element]:
    """The elements that an extension has added to profiles of a kind, but for groups."""
    known = STANDARD[kind]
    return {name: each for name, each in schema[kind].items() if name not in known and each.type != GROUP}


def fingerprint(schema: Schema) -> str:
    """A text that is another one for every other schema; empty for the standard."""
    if schema == STANDARD:
        return ""
    said = {kind: {name: _as_data(element) for name, element in schema[kind].items()} for kind in KINDS}
    return sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:16]


def _as_data(element: Element) -> list[Any]:
    return [element.type, element.repeatable, {name: _as_data(part) for name, part in element.parts.items()}]


def _element(where: str, name: str, said: Any, is_part: bool = False) -> Element:
    """An element, as a file says it."""
    types = TYPES[:-1] if is_part else TYPES
    if not NAME.fullmatch(name):
        raise ProfileError(f"{where}: a name has small letters, digits and _, and begins with a letter")
    if not isinstance(said, dict):
        raise ProfileError(f"{where}: an element is a table with `type`, not {said!r}")
    if unknown := sorted(said.keys() - KEYS):
        raise ProfileError(f"{where}: {unknown[0]!r} is not known: allowed are {', '.join(sorted(KEYS))}")
    kind, repeatable, parts = said.get("type", "text"), said.get("repeatable", False), said.get("parts", {})
    if kind not in types:
        raise ProfileError(f"{where}: the type {kind!r} is not known: allowed are {', '.join(types)}")
    if type(repeatable) is not bool:
        raise ProfileError(f"{where}: repeatable is true or false, not {repeatable!r}")
    if not isinstance(parts, dict) or bool(parts) != (kind == GROUP):
        raise ProfileError(f"{where}: a group, and nothing else, has parts")
    return Element(
        kind, repeatable, {each: _element(f"{where}.parts.{each}", each, part, True) for each, part in parts.items()}
    )


def _joined(where: str, known: Element | None, added: Element) -> Element:
    """An element with the parts that an extension adds to it. (rule 1)"""
    if known is None or known == added:
        return added
    if GROUP == known.type == added.type and known.repeatable == added.repeatable:
        changed = [name for name, part in added.parts.items() if known.parts.get(name, part) != part]
        if not changed:
            return known._replace(parts={**known.parts, **added.parts})
        where = f"{where}.parts.{changed[0]}"
    raise ProfileError(f"{where} already exists, and is something else: choose another name")
