"""The exact tests of a session: its filters on the client's own context, in the present context.

*Theory.* A change of context changes all of them, and most are not asked for before the next change. So nothing is
worked out when the context changes. An event is tested by the open filters themselves (`filters/open_tests.py`): what a
literal refers to is looked up when the event has its attribute. A bound copy of a filter is only made to be shown.

*Rules.*
1. The filters of one session make `OPEN_SETS_MAX` sets at most in one context. A request that would exceed that is
   refused; a context that comes with its client cannot be, and then these filters match nothing.
2. What is kept follows from the filters and the context, so it is in no snapshot.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Protocol, overload

from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.open_tests import OpenTests, Shape, count_sets, shapes_of
from godwit.filters.references import OpenSet
from godwit.filters.sets import ValueSet

__all__ = ["NO_EXACT_TESTS", "OPEN_SETS_MAX", "Binding", "ExactTests"]

OPEN_SETS_MAX = 4_000  # 20 ms, when all are needed for one event


class Binding(Protocol):
    """Knows what filters on a client's context mean."""

    def why_not(self, filter: Filter) -> str | None:
        """Why nobody here can say what a filter means, or None."""

    def exact(self, filter: Filter, context: Attributes) -> Filter:
        """The filter of a client in this context."""

    def made(self, waiting: OpenSet, context: Attributes) -> list[ValueSet]:
        """The sets that a literal of such a filter stands for in this context: any of them."""


NOTHING: Attributes = {}
NO_TESTS: dict[str, Filter] = {}  # shared by the many sessions without any, and never changed
NO_SHAPES: Counter[Shape] = Counter()  # likewise


class ExactTests:
    """By subscription, the exact test of a filter on the client's context."""

    __slots__ = ("_binding", "_bound", "_context", "_shapes", "_tests", "open")

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._context: Attributes = NOTHING
        self.open: dict[str, Filter] = NO_TESTS  # by subscription; public, for it is read at every match
        self._bound: dict[str, Filter] = NO_TESTS
        self._shapes = NO_SHAPES  # of all these filters
        self._tests: OpenTests | None = None  # in the present context; None: nobody has asked, or they match nothing

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, name: str) -> bool:
        return name in self.open

    def __iter__(self) -> Iterator[str]:
        return iter(self.open)

    def __getitem__(self, name: str) -> Filter:
        """The test of a subscription in the present context, to be shown."""
        found = self._bound.get(name)
        if found is None:
            assert self._binding is not None, "who has put it has said what it means"
            found = self._bound[name] = self._binding.exact(self.open[name], self._context)
        return found

    @overload
    def get(self, name: str) -> Filter | None: ...

    @overload
    def get(self, name: str, otherwise: Filter) -> Filter: ...

    def get(self, name: str, otherwise: Filter | None = None) -> Filter | None:
        """The test of a subscription, or `otherwise` when its filter says nothing of the client's context."""
        return self[name] if name in self.open else otherwise

    def matches(self, name: str, event: Event) -> bool:
        """Whether an event meets the test of a subscription in the present context."""
        tests = self._tests
        if tests is None:
            assert self._binding is not None, "who has put it has said what it means"
            if self._size(self._context) > OPEN_SETS_MAX:  # rule 1
                return False
            tests = self._tests = OpenTests(self._binding.made, self._context)
        return tests.holds(self.open[name], event.attributes)

    def why_not_context(self, context: Attributes) -> str | None:
        """Why the client cannot be in this context with these filters; None: it can. (rule 1)"""
        size = self._size(context)
        return None if size <= OPEN_SETS_MAX else _too_many(size)

    def why_not_filter(self, name: str, filter: Filter, context: Attributes) -> str | None:
        """Why a subscription cannot have this open filter; None: it can. (rule 1)"""
        shapes, before = self._shapes + shapes_of(filter), self.open.get(name)
        if before is not None:
            shapes -= shapes_of(before)
        size = max(count_sets(shapes.items(), context), shapes.total())
        return None if size <= OPEN_SETS_MAX else _too_many(size)

    def _size(self, context: Attributes) -> int:
        return count_sets(self._shapes.items(), context)

    def put(self, name: str, filter: Filter, binding: Binding, context: Attributes) -> None:
        """A subscription has this open filter now."""
        if self.open is NO_TESTS:
            self.open, self._bound, self._shapes = {}, {}, Counter()
        self.remove(name)
        self.open[name] = filter
        self._shapes.update(shapes_of(filter))
        self._tests = None
        self.rebind(binding, context)

    def remove(self, name: str) -> None:
        """A subscription has no such filter, or is over."""
        filter = self.open.pop(name, None)
        if filter is not None:
            self._bound.pop(name, None)
            self._shapes -= shapes_of(filter)
            self._tests = None

    def rebind(self, binding: Binding, context: Attributes) -> None:
        """The client is in this context from now on."""
        if self._context is not context or self._binding is not binding:
            self._binding, self._context = binding, context
            self._bound.clear()
            self._tests = None


NO_EXACT_TESTS = ExactTests()
"""Shared by the many sessions that never had any, and never changed."""


def _too_many(size: int) -> str:
    return (
        f"literals of your subscriptions on your own state (my.x, myloc) would stand for {size} sets of values: "
        f"at most {OPEN_SETS_MAX} are allowed in one session"
    )
