"""A query in any language: a filter for routing, and an exact test.

*Theory.* Brokers understand filters and nothing else. A language gives for each query a filter that lets through at
least what is wanted, the *routable* part; and the *exact* test of an event that has passed, which is run once, at the
edge of the network. What passes the first and fails the second is a negative residue. [motion §4, §6]

*Rules.*
1. An event that a query wants passes its routable filter: `exact implies routable`, in every language.
2. A query whose routable filter is exact has no test.
3. A test has a bounded number of steps (`Subject.effort`). One that uses them up raises `QueryTooCostly`; the caller
   decides what happens to the subscription.
4. A query is data and the code of its language. Nothing that a client sends is run as code.
5. A test that needs the subscriber's own context lists the attributes in `Query.references`. The caller provides the
   present context (`Subject.context`), or refuses the query.
6. Certainty never errs: an event that passes the routable filter and is certain passes the test.
7. A query that no event can match has FALSE as its routable filter, as far as its language can tell.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from godwit.errors import QueryTooCostly
from godwit.filters import Attributes, Event, Filter, Reference, is_never
from godwit.filters.effort import Effort
from godwit.languages.bounds import Bounds
from godwit.languages.operators import NO_OPERATORS, Operator
from godwit.registry import Registry

__all__ = [
    "LANGUAGES",
    "NATIVE",
    "TEST_STEPS_MAX",
    "AssumedBounds",
    "Certainty",
    "Language",
    "Query",
    "Subject",
    "parse_query",
]

TEST_STEPS_MAX = 100_000
"""Steps of one exact test. A step is about a microsecond."""

NATIVE = "filter"
"""The name of our own language."""

Made = TypeVar("Made")


class Subject:
    """An event that is tested, with what tests have derived from it: it is parsed once, however many queries look."""

    __slots__ = ("_derived", "context", "effort", "event", "steps_max")

    def __init__(self, event: Event, steps_max: int = TEST_STEPS_MAX, *, context: Attributes | None = None) -> None:
        self.event = event
        self.context = context  # the subscriber's own; None where it is not known (rule 5)
        self.effort = Effort(steps_max)
        self.steps_max = steps_max  # of each test that begins
        self._derived: dict[str, Any] = {}

    def derived(self, what: str, make: Callable[[Event], Made]) -> Made:
        """What `make` makes of the event, made once."""
        if what not in self._derived:
            self._derived[what] = make(self.event)
        made: Made = self._derived[what]
        return made

    def has_derived(self, what: str) -> bool:
        """Whether this was made already."""
        return what in self._derived

    def begin(self) -> None:
        """Another test begins, with all its steps."""
        self.effort = Effort(self.steps_max)

    def spend(self, steps: int) -> None:
        """Spend steps of the test. (rule 3)"""
        if not self.effort.spend(steps):
            raise QueryTooCostly(f"a test of more than {self.steps_max} steps")


Test = Callable[[Subject], bool]


@dataclass(frozen=True, slots=True)
class Certainty:
    """What is wanted without a test: an event that matches `filter` and meets the assumptions. (rule 6)

    `filter` is None where it is the routable one. Assumptions are for the language to understand: those of XML are
    about the structure of the document.
    """

    filter: Filter | None
    assumptions: frozenset[Any] = frozenset()


@dataclass(frozen=True, slots=True)
class AssumedBounds:
    """Bounds of a query, of events that meet assumptions: the test holds if `lower` does, and only if `upper` does."""

    bounds: Bounds
    assumptions: frozenset[Any]


@dataclass(frozen=True, slots=True)
class Query:
    """What is wanted, as some language says it. `text` is its printed form, which parses to an equal query."""

    language: str
    text: str
    routable: Filter
    test: Test | None = None  # None: the routable filter is exact
    references: tuple[Reference, ...] = ()  # what the test asks of the subscriber's own context (rule 5)

    @property
    def is_impossible(self) -> bool:
        """Whether it is known that no event can be wanted."""
        return is_never(self.routable)

    def certainty(self) -> Certainty | None:
        """What is wanted without a test, computed at each call; None when nothing is.

        Tests may have a method `certainty(routable)` that tells it.
        """
        if self.test is None:
            return Certainty(None)
        tell = getattr(self.test, "certainty", None)
        told: Certainty | None = None if tell is None else tell(self.routable)
        return told

    def assumed_bounds(self) -> AssumedBounds | None:
        """Filters that often decide instead of the test, computed at each call; None where there are none.

        Tests may have a method `assumed_bounds()` that tells them.
        """
        tell = getattr(self.test, "assumed_bounds", None)
        told: AssumedBounds | None = None if tell is None else tell()
        return told

    def wants(self, subject: Subject) -> bool:
        """Whether an event that has passed the routable filter is wanted."""
        if self.test is None:
            return True
        subject.begin()
        return self.test(subject)

    def matches(self, event: Event) -> bool:
        """Whether an event is wanted."""
        return self.routable.matches(event) and self.wants(Subject(event))


class Language(Protocol):
    """A language of subscriptions."""

    name: str

    def parse(self, text: str, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
        """The query that a text says. `FilterSyntaxError`, with line and column, when it says none."""


LANGUAGES: Registry[Language] = Registry("language", "godwit.languages")


def parse_query(text: str, language: str = NATIVE, operators: Mapping[str, Operator] = NO_OPERATORS) -> Query:
    """The query that a text says in that language."""
    return LANGUAGES.part(language).parse(text, operators)
