"""Random documents and XQL queries that often find something in them, for claim M1.

*Theory.* Documents are of one small vocabulary, so that the same names, texts and numbers come again: elements within
elements of the same name, elements that are empty, numbers in several writings, a `#` in a text. Queries ask about the
same names and values, with everything that makes translations hard: filters on elements that come again, `$any$` and
`$all$`, negations around them, `//` and `*`, indexes, operators that the tables of the paper do not have.
"""

from random import Random
from xml.sax.saxutils import escape

from godwit.languages.xql.tree import (
    And,
    Attribute,
    Compare,
    Current,
    Element,
    Expression,
    Filtered,
    Index,
    Literal,
    Not,
    Or,
    Path,
    Step,
)

__all__ = ["random_document", "random_query"]

NAMES = ("a", "b", "c")
TEXTS = ("", "x", "x y", " x  y ", "X", "1", "1.0", "01", "2", " 2 ", "2.50", "-1", "1e1", "10", "#", "1#")
NUMBERS = (0, 1, 2, 2.5, 10, -1)
OPERATORS = ("eq", "eq", "ne", "lt", "le", "gt", "ge", "contains", "startsw", "endsw", "ieq", "ilt")
DEPTH_MAX = 3


def random_document(draw: Random) -> bytes:
    """A document of a few elements."""
    return _element(draw, "a", 1).encode()


def _element(draw: Random, name: str, depth: int) -> str:
    attributes = "".join(
        f' {key}="{escape(draw.choice(TEXTS))}"'
        for key in ("p", "q")
        if draw.random() < 0.2  # no text has a quote
    )
    content = escape(draw.choice(TEXTS)) if draw.random() < (0.2 if depth == 1 else 0.6) else ""
    if not content and depth <= DEPTH_MAX:
        content = "".join(_element(draw, draw.choice(NAMES), depth + 1) for _ in range(draw.randint(0, 3)))
    return f"<{name}{attributes}>{content}</{name}>"


def random_query(draw: Random) -> Expression:
    """A query that is asked of a document."""
    return _condition(draw, 3, is_top=True)


def _condition(draw: Random, left: int, is_top: bool = False) -> Expression:
    kind = draw.random() if left else 0.0
    if kind < 0.25:
        return _path(draw, left, is_top)
    if kind < 0.6:
        every, operator = draw.random() < 0.3, draw.choice(OPERATORS)
        value = Literal(draw.choice(TEXTS) if draw.random() < 0.5 else draw.choice(NUMBERS))
        return Compare(operator, _path(draw, left - 1, is_top), value, every)
    if kind < 0.8:
        return Not(_condition(draw, left - 1, is_top))
    parts = tuple(_condition(draw, left - 1, is_top) for _ in range(2))
    return And(parts) if kind < 0.9 else Or(parts)


def _path(draw: Random, left: int, is_top: bool) -> Expression:
    """A path; at the top it begins with the root, else with an element below the current one."""
    steps: list[Step] = [Step(_step(draw, Element("a"), left))] if is_top else []
    for _ in range(draw.randint(0 if is_top else 1, 2)):
        name = Element("*", "*") if draw.random() < 0.08 else Element(draw.choice(NAMES))
        steps.append(Step(_step(draw, name, left), descends=draw.random() < 0.08))
    if draw.random() < 0.15:
        steps.append(Step(Attribute(draw.choice("pq"))))
    elif draw.random() < 0.05 and not is_top:
        return Current()
    if len(steps) == 1 and not is_top and not steps[0].descends:
        return steps[0].term
    return Path(is_top, tuple(steps))


def _step(draw: Random, element: Element, left: int) -> Expression:
    chance = draw.random()
    if left and chance < 0.3:
        return Filtered(element, (_condition(draw, left - 1),))
    return Filtered(element, (Index(((0, 0),)),)) if chance > 0.96 else element
