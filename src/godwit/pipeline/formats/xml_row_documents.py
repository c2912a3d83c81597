"""A row of XML as a document of its own, flattened as a broker flattens it.

*Theory.* `xml_rows.py` reads a file of any length and sees the rows pass by. Each is written here as a document, with
the namespaces that are declared around it, so that it says by itself what it says within its file. That document is the
event's payload, and is parsed and flattened by `languages/xml_documents.py` as a broker would: an archive holds what a
broker would have been given, and a query in XQL or XPath finds the same in both.

*Rules.*
1. `xml_event(payload)` has the attributes of the row.
2. A prefix that is declared nowhere is left out: no document may have such a one.
3. Comments and processing instructions are left out.
"""

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from godwit.filters.events import Attributes
from godwit.languages.xml_documents import CONTENT_TYPE, flattened_document, parsed_document
from godwit.languages.xml_trees import local_name, written_attributes
from godwit.pipeline.formats.rows import EventHeader

__all__ = ["Namespaces", "RowDocument", "texts_at"]

Scope = dict[str, str]  # declarations by their names: `xmlns`, `xmlns:n`


class Namespaces:
    """Which namespaces are declared at a place of a file: by each open element that declares some."""

    def __init__(self) -> None:
        self._depth = 0
        self._scopes: list[tuple[int, Scope]] = [(0, {})]

    @property
    def here(self) -> Scope:
        """All that are declared here."""
        return self._scopes[-1][1]

    def start(self, attributes: dict[str, str]) -> None:
        """An element begins."""
        self._depth += 1
        if any(name.startswith("xmlns") for name in attributes):
            declared = {name: uri for name, uri in attributes.items() if _is_declaration(name)}
            self._scopes.append((self._depth, {**self.here, **declared}))

    def end(self) -> None:
        """An element ends."""
        if self._scopes[-1][0] == self._depth:
            self._scopes.pop()
        self._depth -= 1


class RowDocument:
    """The document of the row that is open."""

    def __init__(self) -> None:
        self._written: list[str] = []

    def start(self, name: str, attributes: dict[str, str], scope: Scope) -> None:
        """An element begins."""
        if not self._written:
            attributes = {**scope, **attributes}
        own = "".join([f" {_known(key, scope)}={quoteattr(text)}" for key, text in attributes.items()])
        self._written.append(f"<{_known(name, scope)}{own}>")

    def data(self, text: str) -> None:
        """A text within the element that is open."""
        self._written.append(escape(text, {"\r": "&#13;"}))

    def end(self, name: str, scope: Scope) -> None:
        """An element ends."""
        self._written.append(f"</{_known(name, scope)}>")

    def close(self) -> tuple[Any, Attributes, EventHeader]:
        """The row's element, its attributes, and the document that is its payload. `BadEvent` where it is none."""
        payload = "".join(self._written).encode()
        root = parsed_document(payload)
        return root, flattened_document(root), {"content_type": CONTENT_TYPE, "payload": payload}


def texts_at(root: Any, path: str) -> list[str]:
    """The texts of an attribute as the document writes them."""
    first, *steps = path.split("/")
    found = [root] if local_name(root.tag) == first else []
    for step in steps:
        if step.startswith("@"):
            return [text for each in found for name, _, text in written_attributes(each) if name == step[1:]]
        found = [child for each in found for child in each if local_name(child.tag) == step]
    return ["".join(each.itertext()).strip() for each in found]


def _is_declaration(name: str) -> bool:
    return name == "xmlns" or name.startswith("xmlns:")


def _known(name: str, scope: Scope) -> str:
    """A name without a prefix that is not declared. (rule 2)"""
    prefix, colon, local = name.partition(":")
    return name if not colon or prefix in ("xml", "xmlns") or scope.get(f"xmlns:{prefix}") else local
