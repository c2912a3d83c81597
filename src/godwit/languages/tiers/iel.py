"""IEL, the intermediate event language: a set of values for each path. [motion §5, Listing 3]"""

import base64
import hashlib
from collections.abc import Mapping

from lxml import etree

from godwit.filters.values import order_key
from godwit.languages.xml_trees import Tree, node_text, written_attributes, written_name
from godwit.languages.xml_values import canonical, normalised, number_of, values_of_text

__all__ = ["SERIALIZED", "UNHELD", "Iel", "Part", "iel_of", "iel_text", "is_shown", "part_text"]

SERIALIZED = "Serialized"
SERIALIZED_LENGTH = 14
UNHELD = "/text()"  # behind the path of elements that hold elements

Part = str | int | float
Iel = Mapping[str, tuple[Part, ...]]
"""An IEL element: the values at each path, sorted. An element that holds elements has no value: its text is not held,
and that it has one is told by a path behind its own (`UNHELD`), which is not printed."""


def iel_of(root: Tree, serialized: str | None = None) -> Iel:
    """The IEL element of a document. `serialized` is the name under which it is kept; if not given, its digest."""
    found: dict[str, set[Part]] = {}
    _collect(root, written_name(root), found)
    if serialized is None:
        digest = hashlib.sha256(etree.tostring(root, method="c14n")).digest()
        serialized = base64.b32encode(digest).decode().lower()[:SERIALIZED_LENGTH]
    found.setdefault(f"{written_name(root)}/{SERIALIZED}", set()).add(serialized)
    return {path: tuple(sorted(values, key=order_key)) for path, values in found.items()}


def _collect(element: Tree, path: str, found: dict[str, set[Part]]) -> None:
    values = found.setdefault(path, set())
    if len(element) == 0:
        values.update(values_of_text(node_text(element)))  # type: ignore[arg-type]
    else:
        found.setdefault(f"{path}{UNHELD}", set())
        number = number_of(node_text(element))
        if number is not None:
            values.add(number)
    for name, _, text in written_attributes(element):
        found.setdefault(f"{path}/@{name}", set()).update(values_of_text(normalised(text)))  # type: ignore[arg-type]
    for child in element:
        if isinstance(child.tag, str):
            _collect(child, f"{path}/{written_name(child)}", found)


def part_text(part: Part) -> str:
    """A value as it stands in a set of SEL: a number in its one writing."""
    return part if isinstance(part, str) else canonical(part) or repr(part)


def is_shown(path: str, values: tuple[Part, ...], paths: Mapping[str, object]) -> bool:
    """Whether the listings print a path: not one that only says that there is something below it."""
    if path.endswith(UNHELD):
        return False
    return "/" not in path or values not in ((), ("",)) or f"{path}{UNHELD}" not in paths


def iel_text(iel: Iel) -> str:
    """The element as Listing 3 prints it."""
    lines = [f"{path} |->{{{_set_text(values)}}}" for path, values in iel.items() if is_shown(path, values, iel)]
    return "{" + ",\n".join(lines) + "}"


def _set_text(values: tuple[Part, ...]) -> str:
    if values == ("",):
        return ""
    return ",".join(f"'{value}'" if isinstance(value, str) else part_text(value) for value in values)
