"""The exact tests of a client's own queries: what has come over the network is decided here. [motion §5, Fig. 2]

"Whenever such a subscriber receives a notification from a dispatcher, it extracts the corresponding XQL query from the
local repository and performs the matching."

*Theory.* A query stands beside the `Subscribe` that asks for its routable filter. Which of a subscription's queries
decides follows from what the client wants at present: a wish that is refused, revoked or over takes its query along.

*Rules.*
1. A subscription has a query here before its routable filter is sent, so no delivery can come that nobody can decide.
2. An event that is for several subscriptions goes to those whose query wants it. If none does it is a negative residue.
3. A test that takes too many steps, or cannot be carried out, wants nothing; that is counted, with the last reason.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from godwit.broker.messages import Subscribe
from godwit.client.request_outbox import Topic
from godwit.errors import FilterError
from godwit.filters.events import Event
from godwit.languages.query import Query, Subject

__all__ = ["ExactQueries", "TestedQuery"]

SPARE = 16  # queries that nobody asks for any more, before they are looked for


class TestedQuery:
    """A query with the wish that it is for, and what its tests have decided."""

    __slots__ = ("failed", "last_failure", "query", "residues", "wanted", "wish")
    __test__ = False  # no test of ours

    def __init__(self, wish: Subscribe, query: Query) -> None:
        self.wish = wish
        self.query = query
        self.wanted = 0
        self.residues = 0  # events that passed the routable filter in vain
        self.failed = 0  # of these: no test could be made
        self.last_failure = ""

    def wants(self, subject: Subject) -> bool:
        """Whether an event is wanted. (rule 3)"""
        try:
            if self.query.wants(subject):
                self.wanted += 1
                return True
        except FilterError as error:
            self.failed += 1
            self.last_failure = str(error)
        self.residues += 1
        return False


class ExactQueries:
    """The queries of subscriptions whose routable filter lets through more than is wanted."""

    def __init__(self) -> None:
        self._queries: dict[int, TestedQuery] = {}  # by the identity of the wish

    def __len__(self) -> int:
        return len(self._queries)

    def put(self, wish: Subscribe, query: Query, in_force: Iterable[Any]) -> None:
        """A wish is about to be sent, with this query; `in_force`: the wishes that may still count. (rule 1)"""
        if query.test is None:
            return
        if len(self._queries) >= SPARE and len(self._queries) & (len(self._queries) - 1) == 0:  # a power of two
            counting = set(map(id, in_force))
            self._queries = {key: kept for key, kept in self._queries.items() if key in counting}
        self._queries[id(wish)] = TestedQuery(wish, query)

    def of(self, wish: Any) -> TestedQuery | None:
        """The query that stands beside a wish, if there is one."""
        return self._queries.get(id(wish))

    def wanted(self, names: tuple[str, ...], event: Event, wishes: Mapping[Topic, Any]) -> tuple[str, ...]:
        """Of the subscriptions that a delivery is for, those that want it, by what is wanted at present. (rule 2)"""
        if not self._queries:
            return names
        subject = Subject(event)
        queries = ((name, self.of(wishes.get(("subscription", name)))) for name in names)
        return tuple(name for name, query in queries if query is None or query.wants(subject))
