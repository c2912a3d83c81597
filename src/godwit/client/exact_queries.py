"""The exact tests of a client's own queries: what has come over the network is decided here. [motion §5, Fig. 2]

"Whenever such a subscriber receives a notification from a dispatcher, it extracts the corresponding XQL query from the
local repository and performs the matching."

*Rules.*
1. A subscription has a query here before its routable filter is sent, so no delivery can come that nobody can decide.
2. An event that is for several subscriptions goes to those whose query wants it. If none does it is a negative residue.
3. When a subscription is replaced, the new query decides at once; if the broker refuses it, the one before does again.
4. A test that takes too many steps, or cannot be carried out, wants nothing; that is counted, with the last reason.
"""

from collections.abc import Mapping

from godwit.broker.messages import Subscribe
from godwit.errors import FilterError
from godwit.filters.events import Event
from godwit.languages.query import Query, Subject

__all__ = ["ExactQueries", "TestCounts"]

VERSIONS_MAX = 16  # of one subscription, that no broker has answered


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
        self._versions: dict[str, list[tuple[Subscribe, Query | None]]] = {}  # the last is what is wanted now
        self._counts: dict[str, TestCounts] = {}

    def __len__(self) -> int:
        return len(self._versions)

    def get(self, name: str) -> Query | None:
        """The query of a subscription, if it has one."""
        return self._versions[name][-1][1] if name in self._versions else None

    @property
    def counts(self) -> Mapping[str, TestCounts]:
        """By subscription, what was decided."""
        return self._counts

    def put(self, wish: Subscribe, query: Query | None) -> None:
        """A subscription is about to be asked for, by this query or by a filter that says all. (rule 1)"""
        name = wish.id[1]
        is_tested = query is not None and query.test is not None
        if not is_tested and name not in self._versions:
            return
        versions = self._versions.setdefault(name, [])
        versions.append((wish, query if is_tested else None))
        if len(versions) > VERSIONS_MAX:
            del versions[1]
        self._counts[name] = TestCounts()

    def accepted(self, wish: Subscribe) -> None:
        """The broker has taken it: what was wanted before is over."""
        name = wish.id[1]
        if name in self._versions:
            versions = self._versions[name]
            place = next((place for place, (each, _) in enumerate(versions) if each is wish), 0)
            del versions[:place]
            if [query for _, query in versions] == [None]:
                self.remove(name)

    def refused(self, wish: Subscribe) -> None:
        """The broker has not taken it: what was wanted before stands."""
        name = wish.id[1]
        if name in self._versions:
            self._versions[name] = [version for version in self._versions[name] if version[0] is not wish]
            if not self._versions[name]:
                self.remove(name)

    def remove(self, name: str) -> None:
        """A subscription is over."""
        self._versions.pop(name, None)
        self._counts.pop(name, None)

    def wanted(self, names: tuple[str, ...], event: Event) -> tuple[str, ...]:
        """Of the subscriptions that a delivery is for, those that want it. (rule 2)"""
        if not self._versions:
            return names
        subject = Subject(event)
        return tuple(name for name in names if self._wants(name, subject))

    def _wants(self, name: str, subject: Subject) -> bool:
        query = self.get(name)
        if query is None:
            return True
        counts = self._counts[name]
        try:
            if query.wants(subject):
                counts.wanted += 1
                return True
        except FilterError as error:  # rule 4
            counts.failed += 1
            counts.last_failure = str(error)
        counts.residues += 1
        return False
