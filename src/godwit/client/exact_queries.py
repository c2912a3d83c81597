"""The exact tests of a client's own queries: what has come over the network is decided here. [motion §5, Fig. 2]

"Whenever such a subscriber receives a notification from a dispatcher, it extracts the corresponding XQL query from the
local repository and performs the matching."

*Rules.*
1. A subscription has a query here before its routable filter is sent, so no delivery can come that nobody can decide.
2. An event that is for several subscriptions goes to those whose query wants it. If none does it is a negative residue.
3. A test that takes too many steps, or cannot be carried out, wants nothing; that is counted, with the last reason.
"""

from collections.abc import Mapping

from godwit.errors import FilterError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.languages.query import Query, Subject

__all__ = ["ExactQueries", "TestCounts"]


class TestCounts:
    """What the tests of one subscription have decided."""

    __slots__ = ("failed", "last_failure", "residues", "wanted")
    __test__ = False  # no test of ours

    def __init__(self) -> None:
        self.wanted = 0
        self.residues = 0  # passed the routable filter in vain
        self.failed = 0  # of these: no test could be made
        self.last_failure = ""


class ExactQueries:
    """The queries of subscriptions whose routable filter lets through more than is wanted."""

    def __init__(self) -> None:
        self._queries: dict[str, Query] = {}
        self._counts: dict[str, TestCounts] = {}

    def __len__(self) -> int:
        return len(self._queries)

    def get(self, name: str) -> Query | None:
        """The query of a subscription, if it has one."""
        return self._queries.get(name)

    @property
    def counts(self) -> Mapping[str, TestCounts]:
        """By subscription, what was decided."""
        return self._counts

    def routable(self, name: str, wanted: Filter | str | Query) -> Filter | str:
        """The filter that a subscription is routed by; a query is kept here before. (rule 1)"""
        self.remove(name)
        if not isinstance(wanted, Query):
            return wanted
        if wanted.test is not None:
            self._queries[name] = wanted
            self._counts[name] = TestCounts()
        return wanted.routable

    def remove(self, name: str) -> None:
        """A subscription is over, or its filter says all."""
        self._queries.pop(name, None)
        self._counts.pop(name, None)

    def wanted(self, names: tuple[str, ...], event: Event) -> tuple[str, ...]:
        """Of the subscriptions that a delivery is for, those that want it. (rule 2)"""
        if not self._queries:
            return names
        subject = Subject(event)
        return tuple(name for name in names if name not in self._queries or self._wants(name, subject))

    def _wants(self, name: str, subject: Subject) -> bool:
        counts = self._counts[name]
        try:
            if self._queries[name].wants(subject):
                counts.wanted += 1
                return True
        except FilterError as error:  # rule 3
            counts.failed += 1
            counts.last_failure = str(error)
        counts.residues += 1
        return False
