"""XML: each element of one name is a row, flattened as events are.

*Theory.* The file streams past; what is in memory is the row that is open. Within a row a value's attribute is the path
to it, `MonitoredVehicleJourney/VehicleLocation/Longitude`; XML attributes are `path/@name`, those of the row's own
element `@name`; the row's own text has the name of its element. Elements that come again are several values. Names are
without their namespaces, values are read as cells of CSV are.

*Rules.*
1. Nothing outside of the file is fetched, and a file that declares entities is refused: so none can blow up or leak.
   Letters that HTML has names for (`&uuml;`) are known, as bibliographies use them: whichever DTD a file names, what is
   read in its place is the list of these letters.
2. A row within a row belongs to the outer one.
3. A file that is not well-formed is broken off there: rows before are good, the place is in the quarantine.
4. A row that grows past `VALUES_MAX` values, `NESTING_MAX` levels or `TEXT_MAX` characters is bad, and does not take
   more memory, or time, than that.
"""

import html.entities
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.parsers import expat

from godwit.errors import BadEvent
from godwit.filters.cells import cell
from godwit.filters.events import NESTING_MAX, VALUES_MAX, flattened
from godwit.pipeline.formats.rows import Bad, Options, Row, refused
from godwit.pipeline.formats.splits import BROKEN, LINE_BYTES_MAX, READ_BYTES, Split, opened

__all__ = ["elements", "rows"]

ELEMENTS_NAMED_MAX = 1_000
TEXT_MAX = LINE_BYTES_MAX  # characters of a row
LETTERS = "".join(
    f'<!ENTITY {name[:-1]} "{"".join(f"&#38;#{ord(letter)};" for letter in letters)}">'
    for name, letters in html.entities.html5.items()
    if name.endswith(";")
)


def rows(split: Split, options: Options) -> Iterator[Row | Bad]:
    """The rows of a file."""
    builder = _Builder(options.row, options.text)
    with opened(split.path) as file:
        try:
            more = True
            while more:
                data = file.read(READ_BYTES)
                more = bool(data)
                builder.parser.Parse(data, not data)
                yield from builder.found
                builder.found.clear()
        except _Declares as error:
            yield from builder.found
            yield builder.broken_off(str(error))
        except expat.ExpatError as error:
            yield from builder.found
            yield builder.broken_off(f"not well-formed: {expat.ErrorString(error.code)}")
        except (*BROKEN, ValueError, LookupError) as error:
            yield from builder.found
            yield builder.broken_off(str(error))


def elements(path: str) -> list[str]:
    """The names of elements in a file, the commonest first: what could be asked for as a row."""
    found: Counter[str] = Counter()
    parser = expat.ParserCreate()

    def start(name: str, _: Any) -> None:
        if len(found) < ELEMENTS_NAMED_MAX:
            found[_bare(name)] += 1

    parser.StartElementHandler = start
    try:
        with opened(path) as file:
            parser.Parse(file.read(READ_BYTES), False)
    except (expat.ExpatError, *BROKEN, ValueError):
        pass
    return [name for name, _ in found.most_common()]


class _Declares(Exception):
    """The file declares entities."""


class _Builder:
    """What expat calls, and the rows that come of it."""

    def __init__(self, row: str, as_it_is: str) -> None:
        self.row = row
        self.as_it_is = as_it_is  # the attribute whose values are texts
        self.found: list[Row | Bad] = []
        self.number = 0
        self.parser = parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_ALWAYS)
        parser.ExternalEntityRefHandler = self.external
        parser.EntityDeclHandler = self.entity
        parser.SkippedEntityHandler = self.skipped
        self.declares_letters = False
        self.path: list[str] = []  # within the row; its own element is not in it
        self.texts: list[list[str]] = []  # of each open element of the row
        self.data: dict[str, list[Any]] | None = None  # None: outside of a row
        self.values = 0
        self.deeper = 0  # open elements below the deepest level that is read
        self.length = 0  # of the row's texts
        self.line = 0
        self.fault = ""

    def broken_off(self, reason: str) -> Bad:
        return refused(
            self.parser.CurrentLineNumber, "broken off", f"the file cannot be read from here on ({reason})", ""
        )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        name = _bare(name)
        if self.data is None:
            if name != self.row:
                return
            self.data, self.values, self.length, self.fault = {}, 0, 0, ""
            self.line = self.parser.CurrentLineNumber
        elif self.deeper or len(self.path) == NESTING_MAX:
            self.deeper += 1
            self.fault = f"the element is nested deeper than {NESTING_MAX} levels"
            return
        else:
            self.path.append(name)
        self.texts.append([])
        for key, text in attributes.items():
            self.add("/".join([*self.path, f"@{_bare(key)}"]), text)

    def text(self, data: str) -> None:
        if not self.texts or self.deeper:
            return
        self.length += len(data)
        if self.length > TEXT_MAX:
            self.fault = f"the element has more than {TEXT_MAX:,} characters"
            return
        self.texts[-1].append(data)

    def end(self, name: str) -> None:
        if self.data is None:
            return
        if self.deeper:
            self.deeper -= 1
            return
        text = "".join(self.texts.pop()).strip()
        self.add("/".join(self.path) or self.row, text)
        if self.path:
            self.path.pop()
            return
        data, self.data = self.data, None
        self.number += 1
        if self.fault:
            self.found.append(refused(self.line, "bad event", self.fault, str(data)))
            return
        try:
            self.found.append(Row(self.line, self.number, flattened(data)))
        except BadEvent as error:
            self.found.append(refused(self.line, "bad event", error, str(data)))

    def add(self, name: str, text: str) -> None:
        value = cell(text) if name != self.as_it_is else text or None
        if value is None or self.data is None:
            return
        self.values += 1
        if self.values > VALUES_MAX:
            self.fault = f"the element has more than {VALUES_MAX} values"
            return
        self.data.setdefault(name, []).append(value)

    def external(self, context: str, *_: Any) -> int:
        """Where another file is named: nothing is fetched. It can be a DTD only, as other entities are refused."""
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


def _bare(name: str) -> str:
    return name.rpartition(":")[2]
