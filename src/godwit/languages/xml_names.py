"""What is known of XML without a parser: content types, and attributes that every XML event has besides its paths.

No path of a document has a colon in front of its first /, and none begins with one.
"""

__all__ = ["ANYWHERE", "NAMESPACES", "NUMERALS", "PREFIXES", "REPEATED", "is_xml"]

PREFIXES = "xml:prefix"
"""The prefixes of the document's elements; missing when there are none."""
NAMESPACES = "xml:namespace"
"""The namespaces of its elements, '' for none."""
ANYWHERE = "//"
"""In front of a name: the elements of that name, wherever they are in the document."""
NUMERALS = "xml:numerals"
"""The names of elements whose texts are numbers that are all held as texts, too, as `048` is; missing when there are
none."""
REPEATED = "xml:repeated"
"""The paths at which there is more than one element; missing when there are none."""


def is_xml(content_type: str | None) -> bool:
    """Whether a payload of this content type is an XML document."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind in ("application/xml", "text/xml") or kind.endswith("+xml")
