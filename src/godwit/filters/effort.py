"""Effort: how many steps a question about filters may take.

*Theory.* Filters come from strangers, and questions about them multiply: the worst pair of filters of a thousand
literals would take hours. So each question is asked with a number of steps. A step is the comparison of two literals,
one or two microseconds; a long list of values or a long pattern counts as several (`weight`). When the steps are used
up the answer is the safe one: `covers` says no, `intersects` yes, a merge is not made, a filter stays as it is.

*Rules.*
1. Steps are counted, not timed: the same question gives the same answer on every machine and in every replay.
2. A cached answer costs the steps of its first computation, so earlier questions do not change an answer. Equal filters
   with their parts in another order may take other steps, and are asked about again.
3. Code that spends steps tests `is_over` before each piece of work that can be large, so no question takes much more
   than its limit.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from godwit.filters.filters import have_same_order

__all__ = ["EFFORT_MAX", "REMEMBERED_EFFORT_MAX", "Answers", "Derived", "Effort"]

EFFORT_MAX = 100_000
"""The steps of one question, where nobody says another number: brokers give strangers less."""
REMEMBERED_EFFORT_MAX = 8_000
"""The steps of one question whose answer is remembered: it is one of many."""


class Effort:
    """A number of steps that is left."""

    __slots__ = ("_given", "left")

    def __init__(self, steps_max: int = EFFORT_MAX) -> None:
        self._given = steps_max
        self.left = steps_max

    def spend(self, steps: int) -> bool:
        """Spend steps. Returns whether they were left."""
        self.left -= steps
        return self.left >= 0

    @property
    def is_over(self) -> bool:
        """Whether all steps are used up: nothing can be told any more."""
        return self.left < 0

    @property
    def spent(self) -> int:
        """How many steps were taken."""
        return self._given - self.left


Answer = TypeVar("Answer")


class Answers(Generic[Answer]):
    """Answers to questions about two filters, remembered with their steps, up to a number of literals. (rule 2)

    Brokers ask about the same two objects again and again, so these are found by identity first: to hash and compare
    filters takes five times as long.
    """

    def __init__(
        self, ask: Callable[[Any, Any, Effort], Answer], weight_max: int, effort_max: int = REMEMBERED_EFFORT_MAX
    ) -> None:
        self._ask = ask
        self._weight_max = weight_max
        self._effort_max = effort_max
        self._weight = self._same_weight = 0
        self._known: dict[tuple[Any, Any], tuple[Any, Any, Answer, int]] = {}
        self._same: dict[int, dict[int, tuple[Any, Any, Answer, int]]] = {}  # by identity: of `g`, then of `f`

    def __len__(self) -> int:
        return len(self._known)

    def ask(self, f: Any, g: Any, effort: Effort) -> Answer:
        """The answer for this number of steps, cached or not. `effort` pays for it, and may be used up then."""
        same = self._same_as(g)
        known = same.get(id(f)) or self._found(f, g, same)
        effort.left -= known[3]
        return known[2]

    def any_but(self, besides: Hashable, named: Mapping[Any, Any], g: Any, effort: Effort) -> bool:
        """Whether the answer is yes for one of these filters but the one named `besides`; no if that takes too long.

        To skip that one takes a step.
        """
        same, left = self._same_as(g), effort.left
        for name, f in named.items():
            if name == besides:
                left -= 1
                is_found = False
            else:
                known = same.get(id(f)) or self._found(f, g, same)
                left -= known[3]
                is_found = bool(known[2])
            if left < 0 or is_found:
                break
        else:
            is_found = False
        effort.left = left
        return is_found and left >= 0

    def _same_as(self, g: Any) -> dict[int, tuple[Any, Any, Answer, int]]:
        """What is known about this object, by identity of the other one. Each answer keeps both objects."""
        same = self._same.get(id(g))
        if same is None:
            self._make_room(max(1, g.weight))
            same = self._same[id(g)] = {}
        return same

    def _make_room(self, weight: int) -> None:
        if self._same_weight + weight > self._weight_max:
            self._same.clear()
            self._same_weight = 0
        self._same_weight += weight

    def _found(self, f: Any, g: Any, same: dict[int, tuple[Any, Any, Answer, int]]) -> tuple[Any, Any, Answer, int]:
        """The answer and its cost, known of equal filters or asked for."""
        known = self._known.get((f, g))
        if known is not None and have_same_order(known[0], f) and have_same_order(known[1], g):
            found = known if known[0] is f and known[1] is g else (f, g, known[2], known[3])
        else:
            mine = Effort(self._effort_max)
            answer = self._ask(f, g, mine)
            found = f, g, answer, mine.spent + 1
            if known is None:
                self._remember(f, g, found)
        weight = _weight(f, g)
        if weight <= self._weight_max:
            self._make_room(weight)
            same[id(f)] = found
        return found

    def _remember(self, f: Any, g: Any, found: tuple[Any, Any, Answer, int]) -> None:
        weight = _weight(f, g)
        if self._weight + weight > self._weight_max:
            self._known.clear()
            self._weight = 0
        if weight <= self._weight_max:
            self._known[f, g] = found
            self._weight += weight


def _weight(f: Any, g: Any) -> int:
    """What an answer counts for: the literals of both filters, and something for filters without any."""
    weight: int = f.weight + g.weight
    return max(1, weight)


Subject = TypeVar("Subject")
Made = TypeVar("Made")


class Derived(Generic[Subject, Made]):
    """What was derived from single filters, remembered with its steps, the latest `count_max` of them. (rule 2)

    A filter of a thousand literals is compared with many others, and decomposed in the same way each time.
    """

    def __init__(self, derive: Callable[[Subject, Effort], Made], count_max: int) -> None:
        self._derive = derive
        self._count_max = count_max
        self._known: dict[int, tuple[Subject, Made, int]] = {}  # by identity: equal filters may differ in their order

    def __len__(self) -> int:
        return len(self._known)

    def of(self, subject: Subject, effort: Effort) -> Made:
        """What is derived from a filter; `effort` pays for it each time."""
        known = self._known.get(id(subject))
        if known is not None and known[2] <= effort.left:
            effort.left -= known[2]
            return known[1]
        before = effort.left
        made = self._derive(subject, effort)
        if not effort.is_over:  # else it is what so few steps allow
            while len(self._known) >= self._count_max:
                del self._known[next(iter(self._known))]
            self._known[id(subject)] = (subject, made, before - effort.left)
        return made
