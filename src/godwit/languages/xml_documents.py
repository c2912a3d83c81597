"""XML documents as events: parsed safely, and flattened to attributes.

*Theory.* An element's attribute is the path to it from the root, `User/Address/Zip`; elements at analogous paths are
collected into one attribute of several values; XML attributes are `path/@name`. This is the intermediate event language
of [motion §5]. The document itself is the event's payload, and is what exact tests look at: the paper's
`<root>/Serialized`.

The attributes are what brokers route by, so they must never hide what an exact test could find:

- A text that reads as a number is held as the number, and where it is written otherwise as a text too
  (`xml_values.py`).
- The empty text '' says *look into the document*: an element is there that is empty, that holds elements (its text is
  that of all of them), or whose text is not held as it stands: with space that normalising takes away, or too long, or
  a number that is not read alike by all (`1e5`, `+5`, more than 15 digits). A comparison of texts must let '' through;
  one of numbers need not, as the numbers of such texts are held. An element is thus always present in the attributes.
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
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import inf, nextafter
from sys import intern
from typing import Any

from lxml import etree

from godwit.errors import BadEvent
from godwit.filters.events import ATTRIBUTES_MAX, NAME_LENGTH_MAX, VALUES_MAX, Attributes, Event
from godwit.filters.values import TEXT_LENGTH_MAX, Value
from godwit.languages.query import Subject
from godwit.languages.xml_names import NAMESPACES, PREFIXES, is_xml
from godwit.languages.xml_values import is_plain_number, normalised, number_of, values_of_text

__all__ = [
    "CONTENT_TYPE",
    "DEPTH_MAX",
    "DOCUMENT_BYTES_MAX",
    "Tree",
    "document_of",
    "flattened_document",
    "is_xml",
    "local_name",
    "node_text",
    "parsed_document",
    "written_name",
    "xml_event",
]

DOCUMENT_BYTES_MAX = 1_048_576
DEPTH_MAX = 64
CONTENT_TYPE = "application/xml"
LOOK = ""  # the value that says: look into the document
PRESERVE = "{http://www.w3.org/XML/1998/namespace}space"
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
REMEMBERED_LENGTH_MAX = 64  # of texts: most come again
READS_AS_NUMBER = re.compile(r"[-+.0-9eE \t\r\n]*").fullmatch
STRING_VALUE = etree.XPath("string()")

Tree = Any  # an lxml element; its stubs say less than it does


def xml_event(data: bytes, attributes: Mapping[str, Value | tuple[Value, ...]] | None = None, **details: Any) -> Event:
    """The event of a document: its flattened attributes, and the document as payload.

    `attributes` are further ones. Those of the document are not replaced by them: brokers rely on these.
    """
    found = flattened_document(parsed_document(data))
    merged = {**(attributes or {}), **found}
    return Event(merged, payload=data, **{"content_type": CONTENT_TYPE, **details})


def document_of(subject: Subject) -> Tree | None:
    """The root of the tested event's document, parsed once; None when the event is no XML document."""
    return subject.derived("xml document", _document_or_none)


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
    for key, text in element.attrib.items():
        if key[0] != "{":
            yield key, key, text
            continue
        if prefixes is None:
            prefixes = {uri: prefix or "" for prefix, uri in reversed(element.nsmap.items())}
            prefixes["http://www.w3.org/XML/1998/namespace"] = "xml"
        uri, _, name = key[1:].partition("}")
        yield f"{prefixes.get(uri, '')}:{name}", key, text


def node_text(element: Tree, preserve: bool | None = None) -> str:
    """XQL's `text()` of an element: its texts and those below it, with spaces between them, normalised. (rule 3)"""
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


def flattened_document(root: Tree) -> Attributes:
    """The attributes of a document. See the module's head."""
    flattening = _Flattening()
    flattening.element(root, local_name(root.tag), 1, False)
    return flattening.attributes()


def _values_held(raw: str, text: str) -> tuple[tuple[Value, ...], bool]:
    """The values as which a text is held, which XQL takes as `text`; and whether they tell all of it."""
    values = values_of_text(text)
    is_plain = raw == text != "" and (type(values[0]) is str or is_plain_number(text))
    return (values if is_plain or text == "" else (*values, LOOK)), is_plain


@lru_cache(maxsize=8_192)
def _held(raw: str) -> tuple[tuple[Value, ...], bool]:
    return _values_held(raw, normalised(raw))


class _Flattening:
    """The values found so far, by path."""

    def __init__(self) -> None:
        self.found: dict[str, dict[Value, None]] = {}
        self.count = 0
        self.names: set[tuple[str, str | None]] = set()  # tags with their prefixes
        self.paths: dict[tuple[str, str], str] = {}  # of a child, by its parent's path and its tag

    def attributes(self) -> Attributes:
        """The attributes of the document."""
        found = self.found
        namespaces = {tag[1:].partition("}")[0] if tag[0] == "{" else "" for tag, _ in self.names}
        found[NAMESPACES] = dict.fromkeys(sorted(namespaces))
        prefixes = sorted({prefix for _, prefix in self.names if prefix})
        if prefixes:
            found[PREFIXES] = dict.fromkeys(prefixes)
        return {
            intern(name): next(iter(values)) if len(values) == 1 else tuple(values) for name, values in found.items()
        }

    def element(self, element: Tree, path: str, depth: int, preserve: bool) -> None:
        """Collect an element, and what is below it."""
        if depth > DEPTH_MAX:
            raise BadEvent(f"line {element.sourceline}, column 1: elements nested deeper than {DEPTH_MAX} levels")
        self.names.add((element.tag, element.prefix))
        if element.attrib:
            for name, _, text in written_attributes(element):
                if name == "xml:space":
                    preserve = text == "preserve"
                self.text(f"{path}/@{name}", text, False, element)
        if len(element) == 0:
            self.text(path, element.text or "", preserve, element)
            return
        self.add(path, LOOK, element)
        self.complex_numbers(path, element)
        paths = self.paths
        for child in element:
            tag = child.tag
            if type(tag) is str:
                below = paths.get((path, tag))
                if below is None:
                    below = paths[path, tag] = f"{path}/{local_name(tag)}"
                self.element(child, below, depth + 1, preserve)

    def complex_numbers(self, path: str, element: Tree) -> None:
        """The numbers of an element that holds elements: XPath joins its texts, XQL puts spaces between them."""
        together = str(STRING_VALUE(element))
        if not READS_AS_NUMBER(together):  # the usual case, at once
            return
        for text in (together, normalised(" ".join(element.itertext()))):
            self.numbers(path, text, element)

    def text(self, path: str, raw: str, preserve: bool, element: Tree) -> None:
        """Hold a text."""
        if len(raw) <= REMEMBERED_LENGTH_MAX and not preserve:
            values, is_plain = _held(raw)
        elif len(raw) > TEXT_LENGTH_MAX:
            values, is_plain = (LOOK,), False
        else:
            values, is_plain = _values_held(raw, raw if preserve else normalised(raw))
        for value in values:
            self.add(path, value, element)
        if not is_plain:
            self.numbers(path, raw, element)

    def numbers(self, path: str, text: str, element: Tree) -> None:
        """The number that a text reads as, and those next to it where readers may round differently."""
        number = number_of(text)
        if number is None:
            return
        self.add(path, number, element)
        if not is_plain_number(normalised(text)):
            low = high = float(number)
            for _ in range(2):
                low, high = nextafter(low, -inf), nextafter(high, inf)
                for near in (low, high):
                    if abs(near) != inf:
                        self.add(path, near, element)

    def add(self, path: str, value: Value, element: Tree) -> None:
        values = self.found.get(path)
        if values is None:
            if len(path) > NAME_LENGTH_MAX:
                raise BadEvent(
                    f"line {element.sourceline}, column 1: a path of {len(path)} characters ({path[:60]}…): "
                    f"at most {NAME_LENGTH_MAX} are allowed"
                )
            if len(self.found) >= ATTRIBUTES_MAX - 2:
                raise BadEvent(f"line {element.sourceline}, column 1: more than {ATTRIBUTES_MAX - 2} different paths")
            values = self.found[path] = {}
        self.count += 1
        if self.count > VALUES_MAX:
            raise BadEvent(f"line {element.sourceline}, column 1: more than {VALUES_MAX} values in the document")
        values[value] = None
