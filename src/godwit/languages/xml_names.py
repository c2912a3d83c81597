"""Attributes that every XML event has besides those of its paths. No path of a document has a colon in front of its
first /."""

__all__ = ["NAMESPACES", "PREFIXES"]

PREFIXES = "xml:prefix"
"""The prefixes of the document's elements; missing when there are none."""
NAMESPACES = "xml:namespace"
"""The namespaces of its elements, '' for none."""
