"""XPath 1.0 as one of the languages: the filter to route by, and the test, which lxml runs.

*Rules.*
1. An expression is compiled once, and a long one for each test: one of 300 comparisons would take 144 KB, and compiling
   it takes a tenth of the time of its test. It is asked of the document node: `alert/info` and `/alert/info` are the
   same.
2. What it gives is taken as a truth value, by XPath's `boolean()`.
3. lxml cannot be stopped within an expression. So the steps of a test are estimated before it, from the size of the
   document and what is known of the expression (`parsing.py`), and a test that would take more than it may is not
   begun. A search for a text of the document has no such estimate: it takes `OPEN_STEPS` at least, so that it is run
   where it can be ended from outside.
4. Regular expressions, which lxml offers, are off: their time is not bounded.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from godwit.errors import FilterError, FilterSyntaxError
from godwit.filters import FALSE, Event, Filter, one_of, only
from godwit.languages.bounds import Bounds
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.languages.query import LANGUAGES, AssumedBounds, Certainty, Query, Subject
from godwit.languages.xml_names import NAMESPACES
from godwit.languages.xpath.parsing import Understood, understood
from godwit.languages.xql.routable import (
    FilterTarget,
    assumed_bounds_of_document_query,
    bounds_of_document_query,
    certainty_of_document_query,
    routable_filter,
)

__all__ = ["XPATH", "XPathLanguage", "filter_bounds"]

XPATH = "xpath"
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what no document has
DOCUMENT = "xpath document"  # what is derived from an event
NODES_PER_STEP = 20  # that lxml looks at in a microsecond
CHARACTERS_PER_NODE = 50  # that it reads in that time
COMPARED_PER_NODE = 100  # characters that it compares in that time
OPEN_STEPS = 1_000
COMPILED_PER_STEP = 2  # parts of an expression that lxml compiles in a microsecond, at least
BYTES_PER_NODE = 8  # of a document, at least
KEPT_PARTS_MAX = 256  # of an expression that is kept compiled, and as it was understood: that takes 244 KB for 300
SMALL_BYTES_MAX, SMALL_DEPTH = 4_096, 16  # of documents whose size is not worth to find out


@dataclass(frozen=True, slots=True)
class XPathTest:
    """Whether an expression is true of the event's document."""

    expression: str
    prefixes: tuple[tuple[str, str], ...]
    degree: int
    parts: int
    strings: int
    searched: int
    is_open: bool
    operators: Mapping[str, Operator]
    text: str = ""
    _decides: list[Any] = field(default_factory=list, compare=False, repr=False)
    readings: list[Understood] = field(default_factory=list, compare=False, repr=False)

    def __call__(self, subject: Subject) -> bool:
        decides = self.ready()
        document = subject.derived(DOCUMENT, partial(_document, subject))
        if document is None:
            return False
        tree, size = document
        subject.spend(self.steps(size))  # rule 3
        try:
            return bool(decides(tree))
        except _xpath_error() as error:
            raise FilterError(f"the XPath expression cannot be evaluated: {error}") from error

    def ready(self) -> Any:
        """What lxml evaluates: whether the expression is true, so that no objects are made for nodes that it finds."""
        if self._decides:
            return self._decides[0]
        decides = self._compiled_as(f"boolean({self.expression})")
        if self.parts <= KEPT_PARTS_MAX:
            self._decides.append(decides)
        return decides

    def steps(self, size: "_Size") -> int:
        """About how long the test takes at most, in steps. (rule 3)"""
        looks = self.parts * size.nodes + self.strings * size.characters // CHARACTERS_PER_NODE
        looks += self.searched * size.characters // COMPARED_PER_NODE
        steps = int(1 + looks * size.nodes ** (self.degree - 1) // NODES_PER_STEP)
        if self.parts > KEPT_PARTS_MAX:
            steps += self.parts // COMPILED_PER_STEP
        return max(steps, OPEN_STEPS) if self.is_open else steps

    def compiled(self) -> Any:
        """The expression for lxml, which gives what it finds."""
        return self._compiled_as(self.expression)

    def _compiled_as(self, expression: str) -> Any:
        """An expression for lxml. (rules 1 and 4)"""
        from lxml import etree

        functions = {(None, name): _function(each) for name, each in self.operators.items()}
        return etree.XPath(
            expression,
            namespaces=dict(self.prefixes) or None,
            extensions=functions or None,
            regexp=False,
            smart_strings=False,
        )

    def certainty(self, routable: Filter) -> Certainty | None:
        """When the expression need not be evaluated."""
        read = self._read()
        return certainty_of_document_query(read.said, _target(read, self.operators), routable)

    def assumed_bounds(self) -> AssumedBounds | None:
        """Filters that often decide instead of evaluation."""
        read = self._read()
        return assumed_bounds_of_document_query(read.said, _target(read, self.operators))

    def _read(self) -> Understood:
        """The parsed text. That of a long one is not cached, and parsed again when it is needed, once or twice."""
        if self.readings:
            return self.readings[0]
        read = understood(self.text, self.operators)
        self.keep(read)
        return read

    def keep(self, read: Understood) -> None:
        """Remember what the text says, unless it takes much memory."""
        if read.parts <= KEPT_PARTS_MAX:
            self.readings.append(read)

    def __reduce__(self) -> tuple[Any, ...]:
        costs = (self.degree, self.parts, self.strings, self.searched, self.is_open)
        return XPathTest, (self.expression, self.prefixes, *costs, self.operators, self.text)


class XPathLanguage:
    """The language of docs/reference/xpath.md."""

    name = XPATH

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says."""
        from lxml import etree

        read = understood(text, operators)
        prefixes = tuple(sorted(read.prefixes.items()))
        costs = (read.degree, read.parts, read.strings, read.searched, read.is_open)
        test = XPathTest(read.expression, prefixes, *costs, operators, text.strip())
        test.keep(read)
        try:
            test.ready()
        except etree.XPathSyntaxError as error:  # lxml knows more than we do
            raise FilterSyntaxError(f"{error} in the XPath expression", 1, 1, text) from None
        except ValueError:  # a text in it has a character that no document has
            before = text[: found.start()] if (found := NO_XML.search(text)) is not None else ""
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            raise FilterSyntaxError("a character that XML does not have", line, column, text) from None
        return Query(XPATH, text.strip(), routable_filter(read.said, _target(read, operators)), test)


def _document(subject: Subject, event: Event) -> "tuple[Any, _Size] | None":
    """The document of an event, and its size; None when it has none."""
    from godwit.languages.xml_documents import document_of

    root = document_of(subject)
    return None if root is None else (root.getroottree(), _size(event, root))


@cache
def _xpath_error() -> type[Exception]:
    from lxml import etree  # which not everybody has

    error: type[Exception] = etree.XPathError
    return error


class _Size(NamedTuple):
    """How large a document is: its nodes, and the characters of the texts of all elements."""

    nodes: int
    characters: int


def _size(event: Event, root: Any) -> _Size:
    size = len(event.payload or b"")
    if size <= SMALL_BYTES_MAX:
        return _Size(size // BYTES_PER_NODE + 1, size * SMALL_DEPTH)
    depths = {root.getparent(): 0}
    deepest = 1
    for node in root.iter():
        depths[node] = depth = depths[node.getparent()] + 1
        deepest = max(deepest, depth)
    return _Size(len(depths), size * deepest)


def filter_bounds(text: str) -> Bounds:
    """The bounds of a query: the filter that it is routed by, and one that holds for nothing but what it wants."""
    read = understood(text)
    return bounds_of_document_query(read.said, _target(read, NO_OPERATORS))


def _target(read: Understood, operators: Mapping[str, Operator]) -> FilterTarget:
    """Filters for a query: where it names one namespace, they may rely on documents that have no other."""
    guard: Filter = FALSE
    namespace = ""
    if len(read.namespaces) == 1:
        [namespace] = read.namespaces
        guard = only(NAMESPACES, one_of([namespace]))
    return FilterTarget(guard, operators, rounds=True, namespace=namespace)


def _function(operator: Operator) -> Callable[..., bool]:
    """A user's operator as a function: it holds if it does for some node of its first argument."""

    def call(_: Any, first: Any, *others: Any) -> bool:
        rest = [_values(each)[0] if _values(each) else None for each in others]
        try:
            return any(bool(operator.holds(value, *rest)) for value in _values(first))
        except Exception as error:
            raise FilterError(f"the operator {operator.name!r} failed: {type(error).__name__}: {error}") from error

    return call


def _values(argument: Any) -> list[Any]:
    if not isinstance(argument, list):
        return [argument]
    return [each if isinstance(each, str) else "".join(each.itertext()) for each in argument]


LANGUAGES.register(XPATH, XPathLanguage())
