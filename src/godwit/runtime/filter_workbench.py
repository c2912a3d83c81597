"""The filter workbench: a filter compared with the last events and the subscriptions of this broker.

*Theory.* Both questions take long, so they are computed in slices (`slices.py`), the latest event first. An incomplete
answer says how far it got.

*Rules.*
1. Data for these questions is kept only while they are asked (`observations.py`).
2. A test of a query has the step limit of clients (`EdgeLimits`). Another process tests large documents.
3. A filter on the subscriber's own context is evaluated with the context that is given with it.
4. Of the results, `SHOWN` are returned; the others are counted.
5. A search for a text looks at all events that the activity monitor has, until it has found enough.
6. A page that cannot show every event requests `latest`: at most `LATEST_MAX` events of the last seconds are examined,
   and `LATEST_SHOWN` returned. Of earlier ones only the inputs are counted. The activity monitor has them anyway, so
   nothing is kept for this.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from time import time
from typing import Any

import msgspec

from godwit.broker.query_notes import QUERY, queries_of
from godwit.errors import GodwitError
from godwit.filters.contexts import checked_context
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.references import bind, references_of
from godwit.languages.query import NATIVE, Query, Subject
from godwit.languages.xml_names import is_xml
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.filter_questions import parsed, relation_of
from godwit.runtime.node import Node
from godwit.runtime.observations import RecentEvents
from godwit.runtime.question_parts import cut_values, plain, shown, shown_rows
from godwit.runtime.slices import Slices

__all__ = ["LATEST_MAX", "LATEST_SHOWN", "FilterWorkbench", "has_text"]

PARTY = "filter workbench"  # whose tests wait for each other in the other process
SHOWN = 50
SUBSCRIPTIONS_MAX = 20_000
SEARCHED_MAX = 1_000
LATEST_MAX = 500
LATEST_SHOWN = 20
LATEST_S_MAX = 10


class FilterWorkbench:
    """Answers questions about a filter at one broker."""

    def __init__(self, node: Node, activity: ActivityMonitor, tests: EdgeTests) -> None:
        self.recent = RecentEvents(activity)
        self._activity = activity
        self._node = node
        self._tests = tests

    # ------------------------------------------------------------ events

    async def matches(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """Which of the last events a filter would have matched."""
        found = await self._matched(list(self.recent.latest(time())), asked, SHOWN)
        return {"since": self.recent.since, **found}

    async def latest(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """The latest events that a filter matches, and about how many it matches in a second. (rule 6)"""
        seconds = max(1, shown_rows(asked, "seconds", 1, LATEST_S_MAX))
        events, count = self._activity.latest_sample(time() - seconds, LATEST_MAX)
        found = await self._matched(events, asked, LATEST_SHOWN)
        share = found["matched"] / (found["looked_at"] or 1)
        return {"events": found["events"], "per_s": share * count / seconds}

    async def search(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """The last events with a text in them that a filter matches, at most `limit`. (rule 5)"""
        limit, text = shown_rows(asked, default=SHOWN, most=SEARCHED_MAX), asked.get("text", "").lower()
        return await self._matched(list(self._activity.latest_events()), asked, limit, text, stops=True)

    async def _matched(
        self,
        events: Sequence[tuple[float, Event]],
        asked: Mapping[str, str],
        shown_max: int,
        said: str = "",
        *,
        stops: bool = False,
    ) -> dict[str, Any]:
        """The events among these that a filter matches and that have a text in them.

        `stops`: it ends when as many match as are shown.
        """
        language, text = asked.get("language") or NATIVE, asked.get("filter") or "TRUE"
        query = await parsed(self._tests, text, language)
        context = context_in(asked)
        own = sorted({*map(str, query.references), *map(str, references_of(query.routable))})
        if own and context is None:
            raise GodwitError(f"the filter asks for the subscriber's own context ({', '.join(own)}): give one, as JSON")
        routable = query.routable if context is None else bind(query.routable, context)
        slices, rows = Slices(), list[dict[str, Any]]()
        looked_at = matched = residues = failed = 0
        for at, event in events:
            if (stops and matched >= shown_max) or not await slices.more():
                break
            looked_at += 1
            if not routable.matches(event) or (said and not has_text(event, said)):
                continue
            is_wanted = await self._is_wanted(query, (language, text), event, context)
            if is_wanted:
                matched += 1
                if len(rows) < shown_max:
                    id = f"{event.publisher}:{event.sequence}"
                    rows.append({"at": at, "event": id, "attributes": cut_values(event.attributes)})
            elif is_wanted is None:
                failed += 1
            else:
                residues += 1
        return {
            "kept": len(events),
            "looked_at": looked_at,
            "matched": matched,
            "residues": residues,
            "failed": failed,
            "events": rows,
        }

    async def _is_wanted(
        self, query: Query, said: tuple[str, str], event: Event, context: Attributes | None
    ) -> bool | None:
        """Whether the exact test matches an event; None if it failed. (rule 2)"""
        if query.test is None:
            return True
        size, limits = len(event.payload or b""), self._tests.limits
        if is_xml(event.content_type) and size > SMALL_BYTES:
            if size > limits.test_document_bytes_max:
                return None
            [outcome] = await self._tests.helper.test(PARTY, event, [(said,)], context, limits.test_steps_max)
            return None if outcome.failure else outcome.is_wanted
        try:
            return query.wants(Subject(event, limits.test_steps_max, context=context))
        except (GodwitError, RecursionError):
            return None

    # ------------------------------------------------------------ subscriptions

    async def comparisons(self, asked: Mapping[str, str]) -> dict[str, Any]:
        """How a filter relates to each subscription of clients here."""
        query = await parsed(self._tests, asked.get("filter") or "TRUE", asked.get("language") or NATIVE)
        slices, counts = Slices(), Counter[str]()
        rows: dict[str, list[dict[str, Any]]] = {}
        known: dict[tuple[Filter, bool], str] = {}  # many clients have the same filter
        is_cut = False
        for number, (client, name, filter, has_test) in enumerate(self._subscriptions()):
            if number >= SUBSCRIPTIONS_MAX or not await slices.more():
                is_cut = True
                break
            relation = known.get((filter, has_test))
            if relation is None:
                other = Query(NATIVE, "", filter, _cannot_tell if has_test else None)
                relation = known[filter, has_test] = relation_of(query, other)
            counts[relation] += 1
            rows_so_far = rows.setdefault(relation, [])
            if len(rows_so_far) < SHOWN and relation != "disjoint":
                rows_so_far.append({"client": client, "name": name, "filter": shown(filter), "has_test": has_test})
        return {"counts": dict(counts), "rows": rows, "is_cut": is_cut}

    def _subscriptions(self) -> Iterator[tuple[str, str, Filter, bool]]:
        """Client, name, filter and whether there is an exact test, as they are at the time of the question."""
        machine: Any = self._node.machine
        for session in list(machine.sessions):
            tested = queries_of(session.notes) if any(key.startswith(QUERY) for key in session.notes) else {}
            for name, subscribe in list(session.subscriptions.items()):
                yield session.client, name, subscribe.filter, name in tested


def has_text(event: Event, text: str) -> bool:
    """Whether a text, in lower case, is in the id of an event or in one of its attributes, as NAME=VALUE."""
    if text in f"{event.publisher}:{event.sequence}".lower():
        return True
    pairs = plain(event.attributes).items()
    return any(
        text in f"{name}={value if isinstance(value, str) else msgspec.json.encode(value).decode()}".lower()
        for name, value in pairs
    )


def context_in(asked: Mapping[str, str]) -> Attributes | None:
    """The context that is given with a question, if any."""
    said = asked.get("context")
    if not said:
        return None
    try:
        return checked_context(msgspec.json.decode(said, type=dict[str, Any]))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GodwitError(f'a context must be a JSON object, such as {{"floor": 2}}: {error}') from None


def _cannot_tell(subject: Subject) -> bool:
    raise AssertionError("the test of a client is not run here")
