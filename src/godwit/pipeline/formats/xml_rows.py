"""XML: each element of one name is a row, flattened as brokers flatten documents.

*Theory.* The file is streamed; only the open row is in memory (`xml_row_documents.py`). A row is an event as a
publisher would have sent it: the element is a document and becomes the payload, and the attributes are those that
brokers extract from such a document, paths that begin with the name of the row's element. The text of the attribute
with the publication time is kept as written, for `Shaper`.

*Rules.*
1. Nothing outside the file is fetched, and a file that declares entities is refused, which prevents expansion attacks
   and leaks. The named letters of HTML (`&uuml;`) are known, because bibliographies use them: whichever DTD a file
   names, the list of these letters is read instead. A row with another entity is bad: expat silently skips such an
   entity in an attribute, so the text of the tag is checked.
2. A row within a row belongs to the outer one.
3. A file that is not well formed is read up to the error: rows before it are valid, the position is in the quarantine.
4. A row with more than `VALUES_MAX` values, `DEPTH_MAX` levels or `TEXT_MAX` characters is bad, and uses no more memory
   or time than that. A tag or comment of more than `TAG_BYTES_MAX` bytes ends the file there.
"""

import codecs
import html.entities
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from godwit.errors import BadEvent
from godwit.filters.csv_cells import cell
from godwit.filters.events import VALUES_MAX
from godwit.languages.xml_flattening import DEPTH_MAX
from godwit.pipeline.formats.rows import TEXT_BYTES_MAX, BadRow, Options, Row, refused
from godwit.pipeline.formats.splits import BROKEN, BROKEN_OFF, LINE_BYTES_MAX, READ_BYTES, Split, opened
from godwit.pipeline.formats.xml_row_documents import Namespaces, RowDocument, texts_at

__all__ = ["elements", "rows"]

ELEMENTS_NAMED_MAX = 1_000
TEXT_MAX = LINE_BYTES_MAX  # characters of a row
TAG_BYTES_MAX = LINE_BYTES_MAX + READ_BYTES
TAG = re.compile(rb"""<(?:[^<>"']++|"[^"]*+"|'[^']*+')*+>""")
ENTITY = re.compile(rb"&([^#;&<][^;&<]*);")
KNOWN = {name[:-1].encode() for name in html.entities.html5 if name.endswith(";")}
WIDE = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"<\0": "utf-16-le", b"\0<": "utf-16-be"}  # by how it begins
LETTERS = "".join(
    f'<!ENTITY {name[:-1]} "{"".join(f"&#38;#{ord(letter)};" for letter in letters)}">'
    for name, letters in html.entities.html5.items()
    if name.endswith(";")
)


def rows(split: Split, options: Options) -> Iterator[Row | BadRow]:
    """The rows of a file."""
    builder = _Builder(options)
    with opened(split.path) as file:
        try:
            more = True
            while more:
                data = file.read(READ_BYTES)
                more = bool(data)
                builder.parse(data)
                yield from builder.found
                builder.found.clear()
        except (_Declares, _TooLong) as error:
            yield from builder.found
            yield builder.broken_off(str(error))
        except expat.ExpatError as error:
            yield from builder.found
            yield builder.broken_off(f"not well-formed: {expat.ErrorString(error.code)}")
        except (*BROKEN, ValueError, LookupError) as error:
            yield from builder.found
            yield builder.broken_off(str(error))


def elements(path: str) -> list[str]:
    """Names of elements that could be rows: repeated siblings with more than a text, the most frequent first; all names
    if there are none.
    """
    found: Counter[str] = Counter()
    again: set[str] = set()
    holding: set[str] = set()
    open_ones: list[tuple[str, set[str]]] = [("", set())]  # the name of each, and those of its children
    parser = expat.ParserCreate()

    def start(name: str, attributes: Any) -> None:
        name, (outer, siblings) = _bare(name), open_ones[-1]
        holding.update([outer, name] if attributes else [outer])
        if name in siblings:
            again.add(name)
        siblings.add(name)
        open_ones.append((name, set()))
        if name in found or len(found) < ELEMENTS_NAMED_MAX:
            found[name] += 1

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_ones.pop()
    try:
        with opened(path) as file:
            parser.Parse(file.read(READ_BYTES), False)
    except (expat.ExpatError, *BROKEN, ValueError):
        pass
    likely = [name for name, _ in found.most_common() if name in again and name in holding]
    return likely or list(found)


class _Declares(Exception):
    """The file declares entities."""


class _TooLong(Exception):
    """A tag or a comment is too long."""


class _Builder:
    """The handlers of expat, and the resulting rows."""

    def __init__(self, options: Options) -> None:
        self.row, self.time = options.row, options.time
        self.is_time_text = options.time == options.text
        self.found: list[Row | BadRow] = []
        self.number = 0
        self.decoder: codecs.IncrementalDecoder | None = None
        self.has_begun = False
        self._listen(expat.ParserCreate())
        self.has_dtd = False
        self.read = bytearray()  # bytes of the file, since the last callback of expat
        self.read_from = 0  # the offset of its first byte
        self.declares_letters = False
        self.namespaces = Namespaces()
        self.document: RowDocument | None = None  # None: outside a row
        self.depth = 0  # open elements of the row that are in its document
        self.values = 0
        self.deeper = 0  # open elements below the deepest level that is read
        self.length = 0  # of the row's texts
        self.line = 0
        self.begins = 0  # the byte at which the row does
        self.head = b""  # of the row, as it stands in the file
        self.fault = ""

    def _listen(self, parser: Any) -> None:
        self.parser = parser
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.StartDoctypeDeclHandler = self.doctype
        parser.ExternalEntityRefHandler = self.external
        parser.EntityDeclHandler = self.entity
        parser.SkippedEntityHandler = self.skipped

    def parse(self, data: bytes) -> None:
        """Parse more data; b"" is the end of the file."""
        is_last = not data
        if not self.has_begun:
            self.has_begun = True
            if encoding := WIDE.get(data[:2]):  # so that tags can be checked
                self.decoder = codecs.getincrementaldecoder(encoding)()
                self._listen(expat.ParserCreate("utf-8"))
        if self.decoder is not None:
            data = self.decoder.decode(data, is_last).encode()
        self.read += data
        self.told = self.read_from
        self.parser.Parse(data, is_last)
        if self.document is not None:
            self._keep_head(self.read_from + len(self.read))
        del self.read[: self.told - self.read_from]
        self.read_from = self.told
        if len(self.read) > TAG_BYTES_MAX:
            raise _TooLong(f"a tag or comment of {len(self.read):,} bytes or more: allowed are {TAG_BYTES_MAX:,}")

    def doctype(self, *_: Any) -> None:
        self.has_dtd = True

    def broken_off(self, reason: str) -> BadRow:
        return refused(
            self.parser.CurrentLineNumber, BROKEN_OFF, f"the file cannot be read from here on ({reason})", ""
        )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.told = self.parser.CurrentByteIndex
        self.namespaces.start(attributes)
        if self.document is None:
            if _bare(name) != self.row:
                return
            self.document, self.values, self.length, self.fault = RowDocument(), 0, 0, ""
            self.line, self.begins, self.head = self.parser.CurrentLineNumber, self.told, b""
        if attributes and self.has_dtd:
            self._look_for_entities()
        self.values += 1 + len(attributes)
        self.length += sum(map(len, attributes.values()))
        self.fault = self.fault or self._too_large()
        if self.fault:
            self.deeper += 1  # a bad row does not grow (rule 4)
        else:
            self.document.start(name, attributes, self.namespaces.here)
            self.depth += 1

    def _too_large(self) -> str:
        if self.values > VALUES_MAX:
            return f"the element has more than {VALUES_MAX} values"
        if self.length > TEXT_MAX:
            return _too_much()
        return f"the element is nested deeper than {DEPTH_MAX} levels" if self.depth == DEPTH_MAX else ""

    def _look_for_entities(self) -> None:
        """Whether the tag that begins here has an unknown entity. (rule 1)"""
        tag = TAG.match(self.read, self.told - self.read_from)
        for name in ENTITY.findall(tag[0]) if tag else ():
            if name not in KNOWN:
                self.fault = f"the entity &{name.decode(errors='replace')}; is not known"

    def text(self, data: str) -> None:
        self.told = max(self.told, self.parser.CurrentByteIndex)
        if self.document is None or self.deeper:
            return
        self.length += len(data)
        if self.length > TEXT_MAX:
            self.fault = _too_much()
        if not self.fault:
            self.document.data(data)

    def end(self, name: str) -> None:
        self.told = self.parser.CurrentByteIndex
        document, scope = self.document, self.namespaces.here
        self.namespaces.end()
        if document is None:
            return
        if self.deeper:
            self.deeper -= 1
        else:
            document.end(name, scope)
            self.depth -= 1
        if self.depth or self.deeper:
            return
        self.document = None
        self.number += 1
        here = self.told - self.read_from
        is_tag = self.read.startswith(b"</", here)  # otherwise the row was a single tag, and ends here
        self._keep_head(self.read_from + (self.read.find(b">", here) + 1 if is_tag else here))
        if self.fault:
            self.found.append(refused(self.line, "bad event", self.fault, self.head))
            return
        try:
            root, attributes, own = document.close()
        except BadEvent as error:
            self.found.append(refused(self.line, "bad event", error, self.head))
            return
        size = len(own["payload"])
        self.found.append(Row(self.line, self.number, attributes, own, size, self.head, self._time(root)))

    def _time(self, root: Any) -> Any:
        """The text of the row's time; None if there is none, or several."""
        texts = texts_at(root, self.time) if self.time else []
        return None if len(texts) != 1 else texts[0] if self.is_time_text else cell(texts[0])

    def _keep_head(self, until: int) -> None:
        """Keep the beginning of the row, up to a byte, before the buffer drops it."""
        done = self.begins + len(self.head)
        last = min(until, self.begins + TEXT_BYTES_MAX)
        self.head += bytes(self.read[done - self.read_from : last - self.read_from]) if last > done else b""

    def external(self, context: str, *_: Any) -> int:
        """A reference to another file: nothing is fetched. It can only be a DTD, because other entities are refused."""
        self.declares_letters = True
        self.parser.ExternalEntityParserCreate(context).Parse(LETTERS, True)
        self.declares_letters = False
        return 1

    def entity(self, name: str, *_: Any) -> None:
        if not self.declares_letters:
            raise _Declares(f"the file declares the entity {name!r}, and entities are not read")

    def skipped(self, name: str, is_parameter: int) -> None:
        if not is_parameter:
            self.fault = f"the entity &{name}; is not known"


def _too_much() -> str:
    return f"the element has more than {TEXT_MAX:,} characters"


def _bare(name: str) -> str:
    return name.rpartition(":")[2]
