"""The exact tests of a session: its filters on the client's own context, in the present context.

*Theory.* A change of context changes all of them, and most are not asked for before the next change. So nothing is
worked out when the context changes; a test is bound when somebody asks for it, and kept until the next change.
"""

from collections.abc import Iterator
from typing import Protocol, overload

from godwit.filters.events import Attributes
from godwit.filters.filters import Filter

__all__ = ["Binding", "ExactTests"]


class Binding(Protocol):
    """Knows what filters on a client's context mean."""

    def why_not(self, filter: Filter) -> str | None:
        """Why nobody here can say what a filter means, or None."""

    def exact(self, filter: Filter, context: Attributes) -> Filter:
        """The filter of a client in this context."""


NOTHING: Attributes = {}
NO_TESTS: dict[str, Filter] = {}  # shared by the many sessions without any, and never changed


class ExactTests:
    """By subscription, the exact test of a filter on the client's context."""

    __slots__ = ("_binding", "_bound", "_context", "open")

    def __init__(self) -> None:
        self._binding: Binding | None = None
        self._context: Attributes = NOTHING
        self.open: dict[str, Filter] = NO_TESTS  # by subscription; public, for it is read at every match
        self._bound: dict[str, Filter] = NO_TESTS

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, name: str) -> bool:
        return name in self.open

    def __iter__(self) -> Iterator[str]:
        return iter(self.open)

    def __getitem__(self, name: str) -> Filter:
        """The test of a subscription in the present context."""
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

    def put(self, name: str, filter: Filter, binding: Binding, context: Attributes) -> None:
        """A subscription has this open filter now."""
        if self.open is NO_TESTS:
            self.open, self._bound = {}, {}
        self.open[name] = filter
        self._bound.pop(name, None)
        self.rebind(binding, context)

    def remove(self, name: str) -> None:
        """A subscription has no such filter, or is over."""
        self.open.pop(name, None)
        self._bound.pop(name, None)

    def rebind(self, binding: Binding, context: Attributes) -> None:
        """The client is in this context from now on."""
        if self._context is not context or self._binding is not binding:
            self._binding, self._context = binding, context
            self._bound.clear()
