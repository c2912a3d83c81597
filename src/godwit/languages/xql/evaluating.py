"""Evaluation of XQL queries over a document.

*Theory.* An expression is evaluated for one node, the reference node, which stands at some place of the collection that
it was taken from (`Place`). It gives a list of items, nodes or values, or a truth value. A list is true when it is not
empty.

*Rules.*
1. Collections are in the order of the document, without repeats.
2. `x/y[0]` is the first y of each x: a step is evaluated for each node on its left. `//` goes to every level, and there
   is evaluated for each parent: indexes are relative to the parent.
3. A comparison holds when some item on the left meets some on the right. It gives the items that do: so `author =
   'Bob'` is `author[. = 'Bob']`. With `$all$` it gives a truth value, true of no items.
4. A comparison casts by the literal: with a number both sides are numbers, with a date dates, else texts. An item that
   cannot be cast meets no comparison, not even `$ne$`.
5. Each node that is looked at is a step of the test; see `Subject.spend`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from godwit.errors import FilterError
from godwit.languages.operators import Operator
from godwit.languages.xml_trees import local_name
from godwit.languages.xml_values import canonical, number_of
from godwit.languages.xql import nodes
from godwit.languages.xql.nodes import AttributeNode, Document, Node, TextNode, node_string
from godwit.languages.xql.tree import (
    And,
    Applied,
    Attribute,
    Call,
    Compare,
    Current,
    Element,
    Expression,
    Filtered,
    Index,
    Intersect,
    Literal,
    Not,
    Or,
    Path,
    Step,
    Union,
)
from godwit.languages.xql.vocabulary import NAMED

__all__ = ["Evaluation", "Place", "as_text", "compares", "is_true"]

CHARACTERS_PER_STEP = 64

Item = Any  # a node, or a value: str, int, float, bool, datetime
Result = list[Item] | bool
POSITIONAL = ("index", "end", "count")  # methods that depend on the collection
PLAIN = (str, int, float, bool, datetime)


@dataclass(frozen=True, slots=True)
class Place:
    """A reference node, and its place in the collection it was taken from."""

    node: Node
    index: int = 0
    size: int = 1


def is_true(result: Result) -> bool:
    """Whether a result is one: a collection with an item, or the value true."""
    return result if isinstance(result, bool) else bool(result)


class Evaluation:
    """The evaluation of queries over one document."""

    def __init__(
        self, document: Document, operators: Mapping[str, Operator], spend: Callable[[int], None] = lambda steps: None
    ) -> None:
        self.document = document
        self.operators = operators
        self.spend = spend

    def result(self, said: Expression, place: Place) -> Result:
        """What an expression gives for a reference node."""
        self.spend(1)
        evaluate = EVALUATED.get(type(said))
        if evaluate is None:
            raise FilterError(f"{type(said).__name__} is not part of XQL")
        return evaluate(self, said, place)

    def _path(self, said: Path, place: Place) -> Result:
        return self._walked([self.document if said.absolute else place.node], said.steps, place, said.absolute)

    def _named(self, said: Element | Attribute, place: Place) -> Result:
        return self._children(said, place.node)

    def _picked(self, said: Filtered, place: Place) -> Result:
        items = _items(self.result(said.of, place))
        for pick in said.picks:
            items = _indexed(items, pick) if isinstance(pick, Index) else self._filtered(items, pick)
        return items

    def _all(self, said: And, place: Place) -> Result:
        return all(is_true(self.result(part, place)) for part in said.parts)

    def _any(self, said: Or, place: Place) -> Result:
        return any(is_true(self.result(part, place)) for part in said.parts)

    def _not(self, said: Not, place: Place) -> Result:
        return not is_true(self.result(said.inner, place))

    def _current(self, said: Current, place: Place) -> Result:
        return [place.node]

    def _literal(self, said: Literal, place: Place) -> Result:
        return [said.value]

    def _applied_to(self, said: Applied, place: Place) -> Result:
        return self._applied(_items(self.result(said.of, place)), said.call)

    def _union(self, said: Union, place: Place) -> Result:
        return self._ordered([item for part in said.parts for item in _items(self.result(part, place))])

    def _intersection(self, said: Intersect, place: Place) -> Result:
        first, *others = (_items(self.result(part, place)) for part in said.parts)
        kept = [set(map(_identity, other)) for other in others]
        return [item for item in first if all(_identity(item) in other for other in kept)]

    # ------------------------------------------------------------ collections

    def _walked(self, start: list[Node], steps: tuple[Step, ...], place: Place, absolute: bool) -> list[Item]:
        items: list[Item] = start
        for number, step in enumerate(steps):
            if number == 0 and not absolute and not step.descends:
                items = _items(self.result(step.term, place))
                continue
            found: list[Item] = []
            term: Expression = step.term
            call: Call | None = None
            if isinstance(term, Applied) and term.call.name not in POSITIONAL:  # asked of the nodes in their order
                call, term = term.call, term.of
            before = [item for item in items if not isinstance(item, PLAIN)]
            if step.descends:
                before = self._parents(term, before) or self._with_descendants(before)
            for index, node in enumerate(before):
                found.extend(_items(self.result(term, Place(node, index, len(before)))))
            items = self._ordered(found) if len(before) > 1 else found
            if call is not None:
                items = self._applied(items, call)
        return items

    def _parents(self, term: Expression, items: list[Node]) -> list[Node] | None:
        """Below the document, where elements of one name are asked for: the nodes that have some. Others give nothing.

        None where that is not known.
        """
        wanted = term.of if isinstance(term, Filtered) else term
        if not isinstance(wanted, Element) or wanted.name == "*" or items != [self.document]:
            return None
        found = self.document.parents_of(wanted.name)
        self.spend(1 + len(found))
        return found or [self.document]

    def _with_descendants(self, items: list[Node]) -> list[Node]:
        """The elements among these and below them, each once."""
        found: dict[Node, None] = {}
        for item in items:
            if isinstance(item, AttributeNode | TextNode) or item in found:  # then all below are found too
                continue
            found[item] = None
            below = (
                [item.root, *item.root.iterdescendants("*")]
                if isinstance(item, Document)
                else item.iterdescendants("*")
            )
            for node in below:
                self.spend(1)
                found[node] = None
        return list(found)

    def _ordered(self, items: list[Item]) -> list[Item]:
        """In the order of the document, without repeats. Values stay as they are. (rule 1)"""
        if len(items) < 2 or any(isinstance(item, PLAIN) for item in items):
            return items
        self.spend(len(items))
        return sorted(dict.fromkeys(items), key=self.document.place)

    def _children(self, wanted: Element | Attribute, node: Node) -> list[Node]:
        if isinstance(wanted, Attribute):
            found = nodes.attributes(node)
            self.spend(len(found))
            return [each for each in found if _is_named(each, wanted)]
        if isinstance(node, AttributeNode | TextNode):
            return []
        name, prefix = wanted.name, wanted.prefix
        if isinstance(node, Document):
            self.spend(1)
            named = [node.root] if name in ("*", local_name(node.root.tag)) else []
        else:
            self.spend(len(node))
            named = list(node.iterchildren("*" if name == "*" else f"{{*}}{name}"))  # in any namespace, or none
        return named if prefix == "*" else [each for each in named if (each.prefix or "") == prefix]

    def _filtered(self, items: list[Item], condition: Expression) -> list[Item]:
        return [
            item for index, item in enumerate(items) if is_true(self.result(condition, Place(item, index, len(items))))
        ]

    # ------------------------------------------------------------ methods, collections, functions

    def _applied(self, items: list[Item], call: Call) -> list[Item]:
        if call.name == "count":
            return [len(items)]
        found: list[Item] = []
        for index, item in enumerate(items):
            value = self._called(call, Place(item, index, len(items)))
            found.extend(value if isinstance(value, list) else [value])
        return found

    def _called(self, call: Call, place: Place) -> Result:
        node, name = place.node, call.name
        if name in self.operators:
            return self._operator_called(call, place)
        match name:
            case "index":
                return [place.index]
            case "end":
                return place.index == place.size - 1
            case "true" | "false":
                return name == "true"
            case "count":
                return [len(_items(self.result(call.arguments[0], place))) if call.arguments else place.size]
            case "date" | "number":
                cast = _as_date if name == "date" else _as_number
                return _present([cast(self.value(item)) for item in _items(self.result(call.arguments[0], place))])
        if isinstance(node, PLAIN):
            return [as_text(node)] if name in ("text", "value", "rawText") else []
        match name:
            case "text" | "value":
                return [self.value(node)]
            case "rawText":
                return [nodes.raw_string(node)]
            case "nodeType":
                return [nodes.node_type(node)]
            case "nodeTypeString":
                return [nodes.TYPES[nodes.node_type(node)]]
            case "nodeName":
                return _present([nodes.node_name(node)])
            case "baseName":
                return _present([nodes.base_name(node)])
            case "prefix":
                return _present([nodes.prefix_of(node)])
            case "namespace":
                return _present([nodes.namespace_of(node)])
            case "ancestor":
                return self._ancestor(node, call.arguments[0])
        return self._collection(call, place)

    def _collection(self, call: Call, place: Place) -> list[Node]:
        node, name = place.node, call.name
        if name == "textNode":
            return list(nodes.texts(node))
        if name == "attribute":
            found = nodes.attributes(node)
        else:
            types = {"comment": (8,), "pi": (7,), "element": (1,), "node": (1, 7, 8)}[name]
            found = [each for each in nodes.children(node) if nodes.node_type(each) in types]
            if name == "node":
                found = self._ordered([*found, *nodes.texts(node)])
        self.spend(len(found))
        if call.arguments:
            wanted = {as_text(self.value(item)) for item in _items(self.result(call.arguments[0], place))}
            found = [each for each in found if nodes.node_name(each) in wanted]
        return found

    def _ancestor(self, node: Node, wanted: Expression) -> list[Node]:
        """The nearest ancestor that the query finds, from whichever node above that one."""
        above: list[Node] = []
        while (up := nodes.parent(self.document, above[-1] if above else node)) is not None:
            above.append(up)
        for place, ancestor in enumerate(above):
            for start in above[place + 1 :]:
                if any(item is ancestor for item in _items(self.result(wanted, Place(start)))):
                    return [ancestor]
        return []

    def _operator_called(self, call: Call, place: Place) -> bool:
        first, *others = ([self.value(item) for item in _items(self.result(each, place))] for each in call.arguments)
        rest = [values[0] if values else None for values in others]
        return any(self._holds(call.name, value, *rest) for value in first)

    def _holds(self, name: str, *values: Any) -> bool:
        self.spend(1)
        try:
            return bool(self.operators[name].holds(*values))
        except Exception as error:
            raise FilterError(f"the operator {name!r} failed: {type(error).__name__}: {error}") from error

    # ------------------------------------------------------------ comparisons

    def value(self, item: Item) -> Any:
        """The value of an item: of a node, its text."""
        if isinstance(item, PLAIN):
            return item
        text = node_string(item)
        self.spend(1 + len(text) // CHARACTERS_PER_STEP)
        return text

    def _compared(self, said: Compare, place: Place) -> Result:
        left = _items(self.result(said.left, place))
        if not left:
            return said.every
        right = [self.value(item) for item in _items(self.result(said.right, place))]
        self.spend(len(left) * len(right))
        met = (item for item in left if self._meets(said.operator, self.value(item), right))
        if said.every:
            return len(list(met)) == len(left)
        return list(met)

    def _meets(self, operator: str, value: Any, others: list[Any]) -> bool:
        if operator not in NAMED:
            return any(self._holds(operator, value, other) for other in others)
        return any(compares(operator, value, other) for other in others)


EVALUATED: dict[type[Any], Callable[[Evaluation, Any, Place], Result]] = {
    Path: Evaluation._path,
    Element: Evaluation._named,
    Attribute: Evaluation._named,
    Filtered: Evaluation._picked,
    Compare: Evaluation._compared,
    And: Evaluation._all,
    Or: Evaluation._any,
    Not: Evaluation._not,
    Current: Evaluation._current,
    Literal: Evaluation._literal,
    Call: Evaluation._called,
    Applied: Evaluation._applied_to,
    Union: Evaluation._union,
    Intersect: Evaluation._intersection,
}


def compares(operator: str, left: Any, right: Any) -> bool:
    """Whether two values compare so, cast to one type. (rule 4)"""
    if operator in TEXT_TESTS:
        return TEXT_TESTS[operator](as_text(left), as_text(right))
    if isinstance(left, datetime) or isinstance(right, datetime):
        left, right = _as_date(left), _as_date(right)
    elif _is_number(right) or _is_number(left):
        left, right = _as_number(left), _as_number(right)
    else:
        left, right = as_text(left), as_text(right)
        if operator[0] == "i":
            left, right = left.casefold(), right.casefold()
    if left is None or right is None:
        return False
    return TESTS[operator.removeprefix("i")](left, right)


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda left, right: left == right,
    "ne": lambda left, right: left != right,
    "lt": lambda left, right: left < right,
    "le": lambda left, right: left <= right,
    "gt": lambda left, right: left > right,
    "ge": lambda left, right: left >= right,
}
TEXT_TESTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "startsw": lambda text, part: text.startswith(part),
    "endsw": lambda text, part: text.endswith(part),
}


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _as_number(value: Any) -> int | float | None:
    if isinstance(value, str):
        return number_of(value)
    return value if _is_number(value) else None


def as_text(value: Any) -> str:
    """A value as a text; a number in its one writing."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.isoformat()
    return canonical(value) or repr(value)


def _as_date(value: Any) -> datetime | None:
    if isinstance(value, datetime) or not isinstance(value, str):
        return value if isinstance(value, datetime) else None
    try:
        found = datetime.fromisoformat(value.strip())
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    except ValueError:
        return None


# ---------------------------------------------------------------- small things


def _items(result: Result) -> list[Item]:
    return ([True] if result else []) if isinstance(result, bool) else result


def _present(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _identity(item: Item) -> Any:
    return (type(item) is bool, item)


def _is_named(node: AttributeNode, wanted: Attribute) -> bool:
    if wanted.name not in ("*", nodes.base_name(node)):
        return False
    if wanted.prefix == "*":
        return True
    prefix = nodes.prefix_of(node) or ""
    if prefix == wanted.prefix:
        return True
    # all attributes from a namespace are also those without prefix on its elements
    return bool(wanted.prefix and not prefix and wanted.name == "*" and nodes.prefix_of(node.owner) == wanted.prefix)


def _indexed(items: list[Item], index: Index) -> list[Item]:
    size = len(items)
    kept: set[int] = set()
    for first, last in index.ranges:
        low, high = (each + size if each < 0 else each for each in (first, last))
        kept.update(range(max(low, 0), min(high, size - 1) + 1))
    return [items[place] for place in sorted(kept)]
