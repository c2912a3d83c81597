"""The exact tests of a client's own queries: events from the network are tested here. [motion §5, Fig. 2]

"Whenever such a subscriber receives a notification from a dispatcher, it extracts the corresponding XQL query from the
local repository and performs the matching."

*Theory.* A query stands beside the `Subscribe` that asks for its routable filter. Which of a subscription's queries
decides follows from what the client wants at present: a wish that is refused, revoked or over takes its query along.

*Rules.*
1. A subscription has a query here before its routable filter is sent, so no delivery can come that nobody can decide.
2. An event that is for several subscriptions goes to those whose query wants it. For each of the others it is a
   negative residue: counted, and recorded. [motion §6]
3. A test that takes too many steps, or cannot be carried out, wants nothing; that is counted, with the last reason.
4. A subscription is counted on when another query takes its place, until it ends.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from godwit.broker.effects import Trace
from godwit.broker.messages import Subscribe
from godwit.client.request_outbox import CONTEXT, Topic
from godwit.filters.events import Event
from godwit.languages.query import Query, Subject
from godwit.trace import Record

__all__ = ["ExactQueries", "ResidueCount"]

SPARE = 16  # queries that nobody asks for any more, before they are looked for


class ResidueCount:
    """How often exact tests have turned events away, for one subscription or for all."""

    __slots__ = ("failed", "last_failure", "residues")

    def __init__(self) -> None:
        self.residues = 0  # events that passed the routable filter, but not the exact test
        self.failed = 0  # of these: the test could not be carried out
        self.last_failure = ""

    def add(self, failure: str) -> None:
        """An event was turned away; `failure`: because of this there was no test."""
        self.residues += 1
        if failure:
            self.failed += 1
            self.last_failure = failure


class ExactQueries:
    """The queries of subscriptions whose routable filter lets through more than is wanted."""

    def __init__(self) -> None:
        self.total = ResidueCount()
        self._queries: dict[int, tuple[Subscribe, Query]] = {}  # by the identity of the wish
        self._counts: dict[str, ResidueCount] = {}  # by the name of a subscription

    def __len__(self) -> int:
        return len(self._queries)

    def put(self, wish: Subscribe, query: Query, in_force: Iterable[Any]) -> None:
        """A wish is about to be sent, with this query; `in_force`: the wishes that may still count. (rule 1)"""
        if query.test is None:
            return
        if len(self._queries) >= SPARE and len(self._queries) & (len(self._queries) - 1) == 0:  # a power of two
            counting = set(map(id, in_force))
            self._queries = {key: kept for key, kept in self._queries.items() if key in counting}
            names = {kept.id[1] for kept, _ in self._queries.values()}
            self._counts = {name: count for name, count in self._counts.items() if name in names}
        self._queries[id(wish)] = wish, query
        self._counts.setdefault(wish.id[1], ResidueCount())

    def count_of(self, name: str) -> ResidueCount | None:
        """What was turned away for a subscription; None when nothing ever had to be tested for it."""
        return self._counts.get(name)

    def forget(self, name: str) -> None:
        """A subscription has ended: if there is another of that name, its counts begin again. (rule 4)"""
        self._counts.pop(name, None)

    def decide(
        self, names: tuple[str, ...], event: Event, wishes: Mapping[Topic, Any]
    ) -> tuple[tuple[str, ...], list[Trace]]:
        """Of the subscriptions that a delivery is for, those that want it now; and a record for each other. (rule 2)"""
        if not self._queries:
            return names, []
        said = wishes.get(CONTEXT)
        subject = Subject(event, context={} if said is None else said.values)
        wanted: list[str] = []
        turned_away: list[Trace] = []
        for name in names:
            _, query = self._queries.get(id(wishes.get(("subscription", name))), (None, None))
            failure = ""
            try:
                if query is None or query.wants(subject):
                    wanted.append(name)
                    continue
            except Exception as error:  # rule 3; a language from outside may raise anything
                failure = str(error) or type(error).__name__
            self.total.add(failure)
            self._counts.setdefault(name, ResidueCount()).add(failure)
            turned_away.append(Trace(Record("residue", "", "", event.publisher, event.sequence, name, detail=failure)))
        return tuple(wanted), turned_away
