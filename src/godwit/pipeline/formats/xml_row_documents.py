"""A row of XML as a separate document, flattened as a broker flattens it.

*Theory.* `xml_rows.py` streams a file of any length. Each row is written here as a document, with the namespaces that
are declared around it, so that it has the same meaning alone. That document is the event's payload, and is parsed and
flattened by `languages/xml_documents.py` as by a broker: so a query in XQL or XPath gives the same result on an archive
as at a broker.

*Rules.*
1. `xml_event(payload)` has the attributes of the row.
2. An undeclared prefix is removed: a document must not have one.
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
    """The namespace declarations of the open elements."""

    def __init__(self) -> None:
        self._depth = 0
        self._scopes: list[tuple[int, Scope]] = [(0, {})]

    @property
    def here(self) -> Scope:
        """All present declarations."""
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
    """The document of the open row."""

    def __init__(self) -> None:
        self._written: list[str] = []

    def start(self, name: str, attributes: dict[str, str], scope: Scope) -> None:
        """An element begins."""
        if not self._written:
            attributes = {**scope, **attributes}
        own = "".join([f" {_known(key, scope)}={quoteattr(text)}" for key, text in attributes.items()])
        self._written.append(f"<{_known(name, scope)}{own}>")

    def data(self, text: str) -> None:
        """A text in the open element."""
        self._written.append(escape(text, {"\r": "&#13;"}))

    def end(self, name: str, scope: Scope) -> None:
        """An element ends."""
        self._written.append(f"</{_known(name, scope)}>")

    def close(self) -> tuple[Any, Attributes, EventHeader]:
        """The row's element, its attributes, and its document as payload. `BadEvent` if it is invalid."""
        payload = "".join(self._written).encode()
        root = parsed_document(payload)
        return root, flattened_document(root), {"content_type": CONTENT_TYPE, "payload": payload}


def texts_at(root: Any, path: str) -> list[str]:
    """The texts of an attribute, as written in the document."""
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
    """A name without an undeclared prefix. (rule 2)"""
    prefix, colon, local = name.partition(":")
    return name if not colon or prefix in ("xml", "xmlns") or scope.get(f"xmlns:{prefix}") else local
