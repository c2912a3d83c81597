"""Attributes that every XML event has besides those of its paths. No path of a document has a colon in front of its
first /, and none begins with one."""

__all__ = ["ANYWHERE", "NAMESPACES", "PREFIXES", "REPEATED"]

PREFIXES = "xml:prefix"
"""The prefixes of the document's elements; missing when there are none."""
NAMESPACES = "xml:namespace"
"""The namespaces of its elements, '' for none."""
ANYWHERE = "//"
"""In front of a name: the elements of that name, wherever they are in the document."""
REPEATED = "xml:repeated"
"""The paths at which there is more than one element; missing when there are none."""
