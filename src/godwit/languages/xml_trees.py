"""Access to lxml's elements: their names and texts, as written in the document."""

from collections.abc import Iterator
from typing import Any

from lxml import etree

from godwit.languages.xml_values import normalised

__all__ = ["PRESERVE", "STRING_VALUE", "Tree", "local_name", "node_text", "written_attributes", "written_name"]

PRESERVE = "{http://www.w3.org/XML/1998/namespace}space"
STRING_VALUE = etree.XPath("string()")

Tree = Any  # an lxml element; its stubs say less than it does


def local_name(tag: str) -> str:
    """The name of an element or attribute without its namespace."""
    return tag.rpartition("}")[2]


def written_name(element: Tree) -> str:
    """The name of an element as the document writes it."""
    prefix = element.prefix
    return f"{prefix}:{local_name(element.tag)}" if prefix else local_name(element.tag)


def written_attributes(element: Tree) -> Iterator[tuple[str, str, str]]:
    """Each XML attribute of an element: its name as written, its name with the namespace, its text."""
    prefixes: dict[str, str] | None = None
    for key, text in element.items():
        if key[0] != "{":
            yield key, key, text
            continue
        if prefixes is None:
            # The default namespace is none of attributes: one with a namespace has a prefix.
            prefixes = {uri: prefix for prefix, uri in reversed(element.nsmap.items()) if prefix}
            prefixes["http://www.w3.org/XML/1998/namespace"] = "xml"
        uri, _, name = key[1:].partition("}")
        yield f"{prefixes.get(uri, '')}:{name}", key, text


def node_text(element: Tree, preserve: bool | None = None) -> str:
    """XQL's `text()` of an element: its texts and those below it, with spaces between them, normalised.

    `xml:space="preserve"` keeps white space, and puts nothing between texts.
    """
    if preserve is None:
        preserve = _preserves(element)
    if preserve:
        return str(STRING_VALUE(element))
    if len(element) == 0:
        return normalised(element.text or "")
    return normalised(" ".join(element.itertext()))


def _preserves(element: Tree) -> bool:
    while element is not None:
        space = element.get(PRESERVE)
        if space is not None:
            return bool(space == "preserve")
        element = element.getparent()
    return False
