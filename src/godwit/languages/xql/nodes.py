"""Nodes of a document in XQL, and the results of its methods for them.

*Theory.* Elements, comments and processing instructions are lxml's own. What lxml has no object for is named here: the
document above the root, attributes, and the texts between tags.

*Rules.*
1. Two nodes are the same when they are equal. A `Document` keeps its elements alive, as lxml makes new objects for
   those that nobody holds.
2. Order is the document's: an element, its attributes, its text, its children, the text behind it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lxml import etree

from godwit.languages.query import Subject
from godwit.languages.xml_documents import document_of
from godwit.languages.xml_trees import Tree, local_name, node_text, written_attributes, written_name
from godwit.languages.xml_values import normalised

__all__ = ["AttributeNode", "Document", "Node", "TextNode", "document_node_of", "node_string"]


class Document:
    """The document: the node above the root element, and the order of all nodes."""

    __slots__ = ("_order", "_parents", "root")

    def __init__(self, root: Tree) -> None:
        self.root = root
        self._order: dict[Any, int] | None = None
        self._parents: dict[str, dict[Any, None]] | None = None

    def parents_of(self, name: str) -> list["Node"]:
        """The document and the elements that have a child of this name, without namespace: found once for all names."""
        if self._parents is None:
            self._parents = {}
            for node in self.order():
                if type(node.tag) is str:
                    above = node.getparent()
                    self._parents.setdefault(local_name(node.tag), {})[self if above is None else above] = None
        return list(self._parents.get(name, ()))

    def order(self) -> dict[Any, int]:
        """The number of each element, comment and processing instruction. (rule 1)"""
        if self._order is None:
            self._order = {node: number for number, node in enumerate(self.top_level_and_below())}
        return self._order

    def top_level(self) -> list[Any]:
        """The root with the comments and processing instructions around it."""
        return [*reversed(list(self.root.itersiblings(preceding=True))), self.root, *self.root.itersiblings()]

    def top_level_and_below(self) -> Iterator[Any]:
        for node in self.top_level():
            yield from node.iter()

    def place(self, node: "Node") -> tuple[int, int, int]:
        """What nodes are sorted by. (rule 2)"""
        order = self.order()
        match node:
            case Document():
                return (-1, 0, 0)
            case AttributeNode(owner=owner, number=number):
                return (order[owner], 1, number)
            case TextNode(beside=beside, is_tail=False):
                return (order[beside], 2, 0)
            case TextNode(beside=beside):
                last = beside
                while len(last):
                    last = last[-1]
                return (order[last], 3, -order[beside])
            case _:
                return (order[node], 0, 0)


@dataclass(frozen=True, slots=True)
class AttributeNode:
    """An XML attribute of an element."""

    owner: Any
    key: str  # the name with its namespace
    written: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class TextNode:
    """A text: the one right after the start of `beside`, or right behind its end."""

    beside: Any
    is_tail: bool
    text: str


def document_node_of(subject: Subject) -> Document | None:
    """The document of a tested event, made once; None when it has none."""
    root = document_of(subject)
    return None if root is None else subject.derived("xql document", lambda _: Document(root))


Node = Any  # Document | AttributeNode | TextNode | an lxml element, comment or processing instruction


def children(node: Node) -> list[Any]:
    """Elements, comments and processing instructions below a node."""
    if isinstance(node, Document):
        return node.top_level()
    return [] if isinstance(node, AttributeNode | TextNode) else list(node)


def parent(document: Document, node: Node) -> Node | None:
    """The node above."""
    match node:
        case Document():
            return None
        case AttributeNode(owner=owner):
            return owner
        case TextNode(beside=beside, is_tail=False):
            return beside
        case TextNode(beside=beside):
            return beside.getparent()
    above = node.getparent()
    return document if above is None else above


def is_element(node: Node) -> bool:
    """Whether a node is an element."""
    return isinstance(getattr(node, "tag", None), str)


def attributes(node: Node) -> list[AttributeNode]:
    """The attributes of a node, in their order."""
    if not is_element(node):
        return []
    return [
        AttributeNode(node, key, written, number, text)
        for number, (written, key, text) in enumerate(written_attributes(node))
    ]


def texts(node: Node) -> list[TextNode]:
    """The texts directly in an element."""
    if not is_element(node):
        return []
    found = [TextNode(node, False, node.text)] if node.text else []
    return found + [TextNode(child, True, child.tail) for child in node if child.tail]


def node_string(node: Node) -> str:
    """XQL's `text()` of a node."""
    match node:
        case Document(root=root):
            return node_text(root)
        case AttributeNode(text=text) | TextNode(text=text):
            return normalised(text)
    return node_text(node) if is_element(node) else normalised(node.text or "")


def raw_string(node: Node) -> str:
    """The text of a node as it stands."""
    match node:
        case Document(root=root):
            return "".join(root.itertext())
        case AttributeNode(text=text) | TextNode(text=text):
            return text
    return "".join(node.itertext()) if is_element(node) else node.text or ""


TYPES = {1: "element", 2: "attribute", 3: "text", 7: "processing_instruction", 8: "comment", 9: "document"}


def node_type(node: Node) -> int:
    """The number of a node's type, as DOM has it."""
    match node:
        case Document():
            return 9
        case AttributeNode():
            return 2
        case TextNode():
            return 3
    if is_element(node):
        return 1
    return 8 if node.tag is etree.Comment else 7


def node_name(node: Node) -> str | None:
    """The name as written, of nodes that have one."""
    if isinstance(node, AttributeNode):
        return node.written
    if is_element(node):
        return written_name(node)
    return str(node.target) if node_type(node) == 7 else None


def base_name(node: Node) -> str | None:
    """The name without prefix."""
    if isinstance(node, AttributeNode):
        return local_name(node.key)
    return local_name(node.tag) if is_element(node) else None


def prefix_of(node: Node) -> str | None:
    """The prefix as written, None without one."""
    name = node.written if isinstance(node, AttributeNode) else written_name(node) if is_element(node) else ""
    return name.partition(":")[0] if ":" in name else None


def namespace_of(node: Node) -> str | None:
    """The namespace of an element or attribute."""
    key = node.key if isinstance(node, AttributeNode) else node.tag if is_element(node) else ""
    return key[1:].partition("}")[0] if key[:1] == "{" else None
