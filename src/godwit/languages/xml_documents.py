"""XML documents as events: parsed safely, and flattened to attributes.

*Theory.* An element's attribute is the path to it from the root, `User/Address/Zip`; elements at analogous paths are
collected into one attribute of several values; XML attributes are `path/@name`. This is the intermediate event language
of [motion §5]. The document itself is the event's payload, and is what exact tests look at: the paper's
`<root>/Serialized`.

The attributes are what brokers route by, so they must never hide what an exact test could find:

- A text that reads as a number is held as the number, and where it is written otherwise as a text too
  (`xml_values.py`).
- Two values say *look into the document*. '' says that the text of an element is not held as it stands: it is empty,
  or has space that normalising takes away, or is a number that is not read alike by all (`1e5`, `+5`, more than 15
  digits). ' ' says that it is not held at all: it is too long, or the element holds elements, and its text is that of
  all of them. A comparison of texts must let both through, one that looks for a word in a text only ' '. One of numbers
  need not, as the numbers of such texts are held. So an element is always present in the attributes.
- A number that is held alone may have any word of digits in its text. `xml:numerals` names the elements of which no
  number is.
- Elements are named without their namespaces. Which there are is told of the whole document: `xml:prefix` holds the
  prefixes of its elements (missing when there are none), `xml:namespace` their namespaces, '' for none. XML attributes
  keep their prefix.

*Rules.*
1. Nothing is fetched, entities are neither declared nor expanded, and a reference to an entity other than XML's five is
   an error. Size, depth, attributes and values are bounded.
2. A document that is refused is a `BadEvent` with line and column.
3. `xml:space="preserve"` keeps white space, as in XQL's `text()`.
"""

import re
from collections.abc import Mapping
from typing import Any

from lxml import etree

from godwit.errors import BadEvent
from godwit.filters.events import ATTRIBUTES_MAX, VALUES_MAX, Attributes, Event
from godwit.filters.values import Value
from godwit.languages.query import Subject
from godwit.languages.xml_flattening import Structure, flattened
from godwit.languages.xml_names import is_xml
from godwit.languages.xml_trees import Tree

__all__ = [
    "CONTENT_TYPE",
    "DOCUMENT_BYTES_MAX",
    "document_of",
    "flattened_document",
    "is_xml",
    "parsed_document",
    "structure_of",
    "xml_event",
    "xml_subject",
]

DOCUMENT_BYTES_MAX = 1_048_576
CONTENT_TYPE = "application/xml"
DOCUMENT, STRUCTURE = "xml document", "xml structure"  # what is derived from an event
WHERE = re.compile(r",? *line \d+, column \d+.*$", re.DOTALL)
PARSER = etree.XMLParser(
    resolve_entities=False,
    load_dtd=False,
    dtd_validation=False,
    attribute_defaults=False,
    no_network=True,
    huge_tree=False,
)
ELEMENTS_MAX = VALUES_MAX
SMALL_BYTES_MAX = 4 * ATTRIBUTES_MAX  # in so many bytes there are not too many attributes or elements
MANY_ATTRIBUTES: Any = etree.XPath(f"//*[@*[{ATTRIBUTES_MAX}]]")  # lxml takes the square of their number to list them
MANY_ELEMENTS: Any = etree.XPath(f"count(//*) > {ELEMENTS_MAX}")


def xml_event(data: bytes, attributes: Mapping[str, Value | tuple[Value, ...]] | None = None, **details: Any) -> Event:
    """The event of a document: its flattened attributes, and the document as payload.

    `attributes` are further ones. Those of the document are not replaced by them: brokers rely on these.
    """
    return xml_subject(data, attributes, **details).event


def xml_subject(
    data: bytes, attributes: Mapping[str, Value | tuple[Value, ...]] | None = None, **details: Any
) -> Subject:
    """The same, ready to be tested: the document is not parsed and flattened a second time."""
    root = parsed_document(data)
    found, structure = flattened(root)
    merged = {**attributes, **found} if attributes else found
    subject = Subject(Event(merged, payload=data, **{"content_type": CONTENT_TYPE, **details}))
    if is_xml(subject.event.content_type):
        subject.derived(DOCUMENT, lambda _: root)
        subject.derived(STRUCTURE, lambda _: structure)
    return subject


def document_of(subject: Subject) -> Tree | None:
    """The root of the tested event's document, parsed once; None when the event is not valid XML document."""
    return subject.derived(DOCUMENT, _document_or_none)


def structure_of(subject: Subject) -> Structure | None:
    """The structure of the tested event's document; None when the event is not valid XML document."""

    def structure(_: Event) -> Structure | None:
        root = document_of(subject)
        return None if root is None else flattened(root)[1]

    return subject.derived(STRUCTURE, structure)


def _document_or_none(event: Event) -> Tree | None:
    if event.payload is None or not is_xml(event.content_type):
        return None
    try:
        return parsed_document(event.payload)
    except BadEvent:
        return None


def parsed_document(data: bytes) -> Tree:
    """The root element of a document. (rules 1 and 2)"""
    if len(data) > DOCUMENT_BYTES_MAX:
        raise BadEvent(f"an XML document of {len(data):,} bytes: at most {DOCUMENT_BYTES_MAX:,} are allowed")
    if b"<!DOCTYPE" in data or b"\0" in data:
        declared = data.replace(b"\0", b"").find(b"<!ENTITY")  # UTF-16 has a zero in each letter
        if declared >= 0:
            raise _declares_entities(data.replace(b"\0", b""), declared)
    try:
        root = etree.fromstring(data, PARSER)
    except etree.XMLSyntaxError as error:
        line, column = error.position
        raise BadEvent(
            f"line {line}, column {column}: not well-formed XML: {WHERE.sub('', error.msg or '').strip()}"
        ) from None
    except ValueError as error:
        raise BadEvent(f"line 1, column 1: not an XML document: {error}") from None
    if b"<!DOCTYPE" in data or not _is_readable(data):
        dtd: Any = root.getroottree().docinfo.internalDTD
        if dtd is not None and next(dtd.iterentities(), None) is not None:
            raise _declares_entities(data, 0)
        for entity in root.iter(etree.Entity):
            raise BadEvent(
                f"line {entity.sourceline}, column 1: the entity {entity.text} is not known: XML's own five are"
            )
    if len(data) > SMALL_BYTES_MAX:
        for element in MANY_ATTRIBUTES(root):
            raise BadEvent(f"line {element.sourceline}, column 1: an element of {ATTRIBUTES_MAX} attributes or more")
        if MANY_ELEMENTS(root):
            raise BadEvent(f"line 1, column 1: a document of more than {ELEMENTS_MAX:,} elements")
    return root


def _is_readable(data: bytes) -> bool:
    """Whether signs of XML are the same in these bytes as in ASCII: in other encodings a DOCTYPE is not seen."""
    head = data[:100].lower()
    return (
        head.startswith((b"<", b"\xef\xbb\xbf<"))
        and b"\0" not in head
        and (b"encoding" not in head or b"utf-8" in head)
    )


def _declares_entities(data: bytes, at: int) -> BadEvent:
    line = data.count(b"\n", 0, at) + 1
    column = at - data.rfind(b"\n", 0, at)
    return BadEvent(
        f"line {line}, column {column}: the document declares entities, which are not read: write the text itself"
    )


def flattened_document(root: Tree) -> Attributes:
    """The attributes of a document. See the module's head."""
    return flattened(root)[0]
