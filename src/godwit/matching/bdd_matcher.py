"""SPEAR's matching: all subscriptions in one shared binary decision diagram.

*Theory.* Every distinct literal is a variable and every subscription a Boolean function of them. All functions live
in one diagram with many roots, where equal sub-functions are one node: what subscriptions have in common is stored,
and decided, once. An event gives each variable its truth (`literals.py`); then every node takes the value of one of
its two children, children first. Nodes are kept as flat arrays ordered by height, so that this is one NumPy step per
height and not one Python step per node. In a batch a value is a machine word, one bit per event.

The diagram itself is built by CUDD, through `dd.cudd`, or by the pure Python of `dd.autoref` where there is no
compiled `dd`.

*Variable order.* Variables are declared as they come and never reordered. `add_many` declares the rarest first: what
stands at the bottom is what functions can share, so the literals in most subscriptions belong there (a third fewer
nodes on W1).

*Rules.*
1. A node's number holds as long as its root is referenced, so removal only clears the subscription's slot. When more
   slots are empty than full, the references are given up all at once and the diagram is made again, without unused
   nodes and variables.
2. A function may be exponential in its literals. The work to build one is bounded from above before each step by the
   product of the two sizes; a subscription past `WORK_MAX` in all is set aside, and its filter is asked directly.
3. Ids come back in the order they were added.

*Paper.* [motion §3], which refers to Campailla, Chaki, Clarke, Jha and Veith, Efficient filtering in
publish-subscribe systems using binary decision diagrams, ICSE 2001.
"""

import operator
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from godwit.filters.events import Event
from godwit.filters.filters import And, Filter, Literal, Or, literals
from godwit.matching.literals import Literals
from godwit.matching.matcher import Columns, Matcher, Matches, SubscriptionId, events_of

__all__ = ["BddMatcher"]

LITERALS_MAX = 500  # of a subscription in the diagram
WORK_MAX = 250_000  # node pairs that building one function may have to look at
EMPTY_SLOTS_MIN = 1_024
MEMORY_BYTES = 2**28  # what CUDD sizes its tables for
WORD_BITS = 64
BATCH_WORDS_MAX = 8
BATCH_VALUES_MAX = 2**22

FALSE_NODE, TRUE_NODE = 0, 1

Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Numbers = npt.NDArray[np.int64]


class TooBig(Exception):
    """Building this function could take more than `WORK_MAX`."""


def compiled_manager() -> Any:
    """A manager of decision diagrams in C."""
    from dd.cudd import BDD

    return BDD(memory_estimate=MEMORY_BYTES, initial_cache_size=2**14)


def plain_manager() -> Any:
    """A manager of decision diagrams in Python."""
    from dd.autoref import BDD

    return BDD()


def any_manager() -> Any:
    """The compiled manager where there is one."""
    try:
        return compiled_manager()
    except ImportError:
        return plain_manager()


class BddMatcher(Matcher):
    """All subscriptions as one decision diagram with many roots. See the module's head."""

    def __init__(self, manager: Callable[[], Any] = any_manager) -> None:
        super().__init__()
        self._manager = manager
        self._diagram = Diagram(manager)
        self._slots: dict[SubscriptionId, int] = {}
        self._ids: list[SubscriptionId] = []  # by slot, as the three below
        self._filters: list[Filter | None] = []  # None where the slot is empty
        self._roots = array("q")  # node numbers
        self._aside: dict[int, Filter] = {}  # slots of the subscriptions that are not in the diagram

    def __len__(self) -> int:
        return len(self._slots)

    def _known(self, id: SubscriptionId) -> bool:
        return id in self._slots

    def _insert(self, id: SubscriptionId, filter: Filter) -> None:
        slot = len(self._ids)
        try:
            root = self._diagram.root(filter)
        except TooBig:
            root = FALSE_NODE
            self._aside[slot] = filter
        self._slots[id] = slot
        self._ids.append(id)
        self._filters.append(filter)
        self._roots.append(root)

    def _insert_many(self, subscriptions: list[tuple[SubscriptionId, Filter]]) -> None:
        self._diagram.declare_rarest_first(filter for _, filter in subscriptions)
        super()._insert_many(subscriptions)

    def _delete(self, id: SubscriptionId) -> None:
        slot = self._slots.pop(id)
        self._aside.pop(slot, None)
        self._filters[slot] = None
        self._roots[slot] = FALSE_NODE
        if len(self._ids) > 2 * len(self._slots) + EMPTY_SLOTS_MIN:
            self._rebuild()

    def _rebuild(self) -> None:
        """Give up what removed subscriptions have left behind: slots, nodes, variables."""
        kept = [(id, filter) for id, filter in zip(self._ids, self._filters, strict=True) if filter is not None]
        self._diagram = Diagram(self._manager)
        self._slots, self._ids, self._filters, self._roots, self._aside = {}, [], [], array("q"), {}
        self._insert_many(kept)

    def _match(self, event: Event) -> list[SubscriptionId]:
        values = self._diagram.values(event)
        slots: list[int] = np.flatnonzero(values[np.frombuffer(self._roots, np.int64)]).tolist() if self._ids else []
        if self._aside:
            slots = sorted(slots + [slot for slot, filter in self._aside.items() if filter.holds(event.attributes)])
        return [self._ids[slot] for slot in slots]

    def _match_batch(self, columns: Columns, length: int) -> Matches:
        events = events_of(columns, length)
        size = self._diagram.batch_size(len(self._ids))
        counts = np.zeros(length, np.int64)
        found = [np.zeros(0, np.int64)]
        for start in range(0, length, size):
            numbers, slots = self._match_some(list(islice(events, size)))
            counts[start : start + size] = np.bincount(numbers, minlength=min(size, length - start))
            found.append(slots)
        slots = np.concatenate(found)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        ids = np.fromiter((self._ids[slot] for slot in slots.tolist()), dtype=object, count=len(slots))
        return Matches(offsets, ids)

    def _match_some(self, events: list[Event]) -> tuple[Numbers, Numbers]:
        """Pairs of an event's number and a slot it matches, in that order."""
        words = self._diagram.words(events)
        bits = np.unpackbits(words[np.frombuffer(self._roots, np.int64)].view(np.uint8), axis=1, bitorder="little")
        matched = bits.T[: len(events)]
        for slot, filter in self._aside.items():
            matched[:, slot] = [filter.holds(event.attributes) for event in events]
        numbers, slots = np.nonzero(matched)
        return numbers, slots


class Diagram:
    """One decision diagram with many roots, as the library keeps it and as flat arrays to walk over.

    `low`, `high` and `literal` say of each node where to go when its literal is false, where when it is true, and which
    literal that is; nodes 0 and 1 are false and true. Complemented edges are written out as nodes of their own.
    """

    def __init__(self, new_manager: Callable[[], Any]) -> None:
        self._manager = manager = new_manager()
        manager.configure(reordering=False)
        self._literals = Literals()
        self._variables: list[Any] = []
        self._functions: dict[int, Any] = {}  # the roots: what they reach stays where it is while they are here
        self._numbers: dict[int, int] = {int(manager.false): FALSE_NODE, int(manager.true): TRUE_NODE}
        self._literal, self._low, self._high = array("q", [0, 0]), array("q", [0, 1]), array("q", [0, 1])
        self._height = array("q", [0, 0])
        self._layers = Layers(self)

    def __del__(self) -> None:
        """Functions go before their manager, which is younger than `self` and so comes later when Python collects."""
        self._functions.clear()
        self._variables.clear()

    def __len__(self) -> int:
        return len(self._literal)

    def declare_rarest_first(self, filters: Iterable[Filter]) -> None:
        """Make variables for all literals of `filters`, the most frequent at the bottom."""
        small = (filter for filter in filters if filter.size <= LITERALS_MAX)
        frequency = Counter(literal for filter in small for literal in literals(filter))
        for literal, _ in reversed(frequency.most_common()):
            self._variable(literal)

    def root(self, filter: Filter) -> int:
        """The node that stands for `filter`, made if need be; `TooBig` when that could take too long."""
        if filter.size > LITERALS_MAX:
            raise TooBig
        try:
            function, _ = self._function(filter, 0)
        except TooBig:
            if hasattr(self._manager, "collect_garbage"):  # CUDD collects by itself
                self._manager.collect_garbage()
            raise
        number = self._number(function)
        self._functions[number] = function
        return number

    def _variable(self, literal: Literal) -> Any:
        number = self._literals.number(literal)
        if number == len(self._variables):
            self._manager.declare(f"v{number}")  # at the bottom: the level of a variable is its literal's number
            self._variables.append(self._manager.var(f"v{number}"))
        return self._variables[number]

    def _function(self, filter: Filter, work: int) -> tuple[Any, int]:
        """`filter` as a function, and `work` with what it took at most."""
        match filter:
            case And(parts=parts):
                result, combine = self._manager.true, operator.and_
            case Or(parts=parts):
                result, combine = self._manager.false, operator.or_
            case _:
                return self._variable(filter), work
        functions = []
        for part in parts:
            function, work = self._function(part, work)
            functions.append(function)
        functions.sort(key=lambda function: -function.level)  # from the bottom up, each step is short
        for function in functions:
            work += result.dag_size * function.dag_size
            if work > WORK_MAX:
                raise TooBig
            result = combine(result, function)
        return result, work

    def _number(self, function: Any) -> int:
        """The number of a function's node. What it reaches is numbered before it."""
        pending = [function]
        while pending:
            node = pending[-1]
            if int(node) in self._numbers:
                pending.pop()
                continue
            low, high = (~node.low, ~node.high) if node.negated else (node.low, node.high)
            missing = [child for child in (low, high) if int(child) not in self._numbers]
            if missing:
                pending += missing
                continue
            pending.pop()
            self._append(node.level, self._numbers[int(low)], self._numbers[int(high)])
            self._numbers[int(node)] = len(self) - 1
        return self._numbers[int(function)]

    def _append(self, literal: int, low: int, high: int) -> None:
        self._literal.append(literal)
        self._low.append(low)
        self._high.append(high)
        self._height.append(1 + max(self._height[low], self._height[high]))

    def arrays(self) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Literal, low, high and height of each node, as they are now."""
        literal, low, high, height = (
            np.array(each, np.int64) for each in (self._literal, self._low, self._high, self._height)
        )
        return literal, low, high, height

    # ------------------------------------------------------------ walking

    def values(self, event: Event) -> Bools:
        """The value of every node for one event."""
        return self._up_to_date().values(self._literals.truths(event.attributes))

    def words(self, events: list[Event]) -> Words:
        """The value of every node for at most `batch_size` events, an event per bit."""
        count = -(-len(events) // WORD_BITS)
        truths = np.zeros((count * WORD_BITS, len(self._literals)), np.bool_)
        for row, event in enumerate(events):
            truths[row] = self._literals.truths(event.attributes)
        packed = np.packbits(truths, axis=0, bitorder="little")
        return self._up_to_date().words(np.ascontiguousarray(packed.T).view(np.uint64))

    def batch_size(self, subscriptions: int) -> int:
        """How many events `words` takes at once, so that all values fit into a bounded space."""
        return WORD_BITS * max(1, min(BATCH_WORDS_MAX, BATCH_VALUES_MAX // (len(self) + subscriptions)))

    def _up_to_date(self) -> "Layers":
        if len(self._layers) != len(self):
            self._layers = Layers(self)
        return self._layers


class Layers:
    """The nodes of a diagram sorted by height: every layer needs only the layers below it."""

    def __init__(self, diagram: Diagram) -> None:
        literal, low, high, height = diagram.arrays()
        order = np.argsort(height, kind="stable")
        self._place = np.empty_like(order)  # where a node has gone
        self._place[order] = np.arange(len(order))
        self._literal = literal[order]
        self._low = self._place[low[order]]
        self._high = self._place[high[order]]
        ends = np.cumsum(np.bincount(height)).tolist()
        self._spans = list(pairwise(ends))  # the first layer is false and true

    def __len__(self) -> int:
        return len(self._place)

    def values(self, truths: Bools) -> Bools:
        """The value of every node, by its number in the diagram."""
        values = np.zeros(len(self), np.bool_)
        values[TRUE_NODE] = True
        if self._spans:
            child = np.where(truths[self._literal], self._high, self._low)
            for start, end in self._spans:
                values[start:end] = values[child[start:end]]
        return values[self._place]

    def words(self, truths: Words) -> Words:
        """The same for many events: a row of words per node."""
        words = np.zeros((len(self), truths.shape[1]), np.uint64)
        words[TRUE_NODE] = ~np.uint64(0)
        for start, end in self._spans:
            truth = truths[self._literal[start:end]]
            low, high = words[self._low[start:end]], words[self._high[start:end]]
            words[start:end] = low ^ (truth & (low ^ high))
        return words[self._place]
