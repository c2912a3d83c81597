"""A row of XML as a document of its own: the tree of its element, flattened as a broker flattens it.

*Theory.* `xml_rows.py` reads a file of any length and sees the rows pass by. Of each it has a tree made here, with the
namespaces that were declared around it; so the row can be written as a document that says by itself what it says within
its file. That document is the event's payload, and its attributes are those of `languages/xml_documents.py`: an archive
holds what a broker would have been given, and a query in XQL or XPath finds the same in both.

*Rules.*
1. `flattened_document(parsed_document(payload))` gives the attributes of the row.
2. A prefix that is declared nowhere is left out, as names are without their namespaces in attributes anyway.
3. Comments and processing instructions are left out.
"""

from typing import Any

from lxml import etree

from godwit.errors import BadEvent
from godwit.filters.events import Attributes
from godwit.languages.xml_documents import (
    CONTENT_TYPE,
    DOCUMENT_BYTES_MAX,
    flattened_document,
    local_name,
    written_attributes,
)
from godwit.pipeline.formats.rows import EventHeader

__all__ = ["Namespaces", "RowTree", "texts_at"]

XML = "http://www.w3.org/XML/1998/namespace"
Scope = dict[str | None, str]  # namespaces by prefix; None: of names without one


class Namespaces:
    """Which prefixes mean what at a place of a file: those of each open element that declares some."""

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
            declared = {
                name[6:] or None: uri for name, uri in attributes.items() if name == "xmlns" or name[:6] == "xmlns:"
            }
            self._scopes.append((self._depth, {**self.here, **declared}))

    def end(self) -> None:
        """An element ends."""
        if self._scopes[-1][0] == self._depth:
            self._scopes.pop()
        self._depth -= 1


class RowTree:
    """The tree of the row that is open."""

    def __init__(self) -> None:
        self._builder: Any = etree.TreeBuilder()

    def start(self, name: str, attributes: dict[str, str], scope: Scope) -> None:
        """An element begins. `BadEvent` for a name that no document may have."""
        declared = {prefix: uri for prefix, uri in scope.items() if uri and prefix != "xml"}
        own = {
            _tag(key, scope, is_attribute=True): text
            for key, text in attributes.items()
            if key != "xmlns" and not key.startswith("xmlns:")
        }
        try:
            self._builder.start(_tag(name, scope), own, declared)
        except ValueError as error:
            raise BadEvent(f"<{name}> is no element: {error}") from None

    def data(self, text: str) -> None:
        """A text within the element that is open."""
        self._builder.data(text)

    def end(self, name: str, scope: Scope) -> None:
        """An element ends."""
        self._builder.end(_tag(name, scope))

    def close(self) -> tuple[Any, Attributes, EventHeader]:
        """The row's element, its attributes, and the document that is its payload."""
        root = self._builder.close()
        payload: bytes = etree.tostring(root, encoding="utf-8")
        if len(payload) > DOCUMENT_BYTES_MAX:
            raise BadEvent(f"the element has {len(payload):,} bytes: at most {DOCUMENT_BYTES_MAX:,} are allowed")
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


def _tag(name: str, scope: Scope, is_attribute: bool = False) -> str:
    """A name as lxml writes it, with its namespace."""
    prefix, colon, local = name.rpartition(":")
    if prefix == "xml":
        return f"{{{XML}}}{local}"
    uri = scope.get(prefix) if colon else None if is_attribute else scope.get(None)
    return f"{{{uri}}}{local}" if uri else local
