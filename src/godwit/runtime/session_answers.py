"""Sessions for administrators: a list, and one in detail.

*Rules.*
1. No secrets: only the names of a session's notes are shown.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from godwit.broker.messages import Receipt
from godwit.broker.query_notes import QUERY, Queries, queries_of
from godwit.mobility.arrival import Arrival
from godwit.mobility.relocation import Relocation
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.node import Node
from godwit.runtime.question_parts import SHOWN, TEXT_MAX, plain, shown

__all__ = ["SessionAnswers", "session_queries"]


def session_queries(session: Any, name: str) -> Queries:
    """The queries of a subscription that a gateway tests."""
    key = QUERY + name
    return queries_of({key: session.notes[key]}).get(name, ()) if key in session.notes else ()


class SessionAnswers:
    """Answers about the sessions of one broker."""

    def __init__(self, node: Node, tests: EdgeTests) -> None:
        self._node = node
        self._tests = tests

    @property
    def _sessions(self) -> Any:
        machine: Any = self._node.machine  # the machine may have been replaced
        return machine.sessions

    @property
    def _arrivals(self) -> Mapping[str, Arrival]:
        """Attached clients whose sessions have not arrived yet."""
        components = getattr(self._node.machine, "components", {}).values()
        return next((each.arrivals for each in components if isinstance(each, Relocation)), {})

    def all(self, limit: int = SHOWN, first: int = 0, search: str = "") -> dict[str, Any]:
        """A list of sessions: `limit` of them from the `first` on, of clients whose name contains the search text.

        With `moving`, if there are any: clients that have attached before their sessions arrived.
        """
        found = (session for session in self._sessions if search in session.client)
        rows = [self.in_short(session) for session in islice(found, first, first + limit)]
        sessions = self._sessions
        count = sum(search in session.client for session in sessions) if search else len(sessions)
        told = {"sessions": rows, "count": count, "more": max(0, count - first - limit)}
        moving = [arrival for client, arrival in self._arrivals.items() if search in client]
        if moving:
            told |= {"moving": [_moving(each) for each in moving[:limit]], "moving_count": len(moving)}
        return told

    def one(self, client: str) -> dict[str, Any] | None:
        """A session without the content of its queue and notes; None if there is none."""
        session = self._sessions.session(client)
        if session is None:
            return None
        queue = session.queue
        return {
            **self.in_short(session),
            "subscribed": [self.subscription(session, name) for name in session.subscriptions],
            "advertised": [{"name": name, "filter": shown(filter)} for name, filter in session.advertisements.items()],
            "context": plain(session.whole_context()),
            "asserted": list(session.asserted),
            "queue": {
                "taken": queue.taken,
                "sent_up_to": queue.sent_up_to,
                "confirmed": queue.confirmed,
                "expired": queue.expired,
                "purged": dict(queue.purged),
                "suppressed": session.suppressed,
            },
            "receipt": _receipt(*session.receipts),
            "refusals": [{"request": refused.number, "reason": refused.reason} for refused in session.refusals],
            "notes": list(islice(session.notes, SHOWN)),
        }

    def in_short(self, session: Any) -> dict[str, Any]:
        """A session as a row, with the number of suspended subscriptions, if there are any."""
        named = [key.removeprefix(QUERY) for key in session.notes if key.startswith(QUERY)]
        tested = [self._tests.of(session.client, name) for name in named]
        suspended = sum(query is not None and bool(query.suspended) for query in tested)
        return _in_short(session) | ({"suspended": suspended} if suspended else {})

    def subscription(self, session: Any, name: str) -> dict[str, Any]:
        """A subscription, with the outcomes of its queries' tests here, if it has any."""
        subscribe = session.subscriptions[name]
        row: dict[str, Any] = {"name": name, "filter": shown(subscribe.filter), "expires": subscribe.expires}
        if name in session.exact:
            row["now"] = shown(session.exact[name])  # in the client's context
        if subscribe.share:
            row["share"] = subscribe.share
        if said := session_queries(session, name):
            row["queries"] = [{"language": language, "text": text[:TEXT_MAX]} for language, text in said]
            tested = self._tests.of(session.client, name)
            row |= {} if tested is None or tested.said != said else tested.told()
        return row


def _in_short(session: Any) -> dict[str, Any]:
    return {
        "client": session.client,
        "session": session.name,
        "attached": session.connection is not None,
        "mode": session.mode,
        "subscriptions": len(session.subscriptions),
        "advertisements": len(session.advertisements),
        "queued": len(session.queue),
        "ends_at": session.ends_at,
        "session_expiry_s": session.linger_s,
    }


def _moving(arrival: Arrival) -> dict[str, Any]:
    return {
        "client": arrival.attach.client,
        "session": arrival.attach.session,
        "from": arrival.attach.home,
        "connected": arrival.connection is not None,
        "phase": str(arrival.phase),
        "buffered": len(arrival.buffer),
        "gives_up_at": arrival.gives_up_at,
    }


def _receipt(told: Receipt, settled: Receipt) -> dict[str, Any] | None:
    """The last receipt, with sums since the session began; None if none was sent."""
    if told.number == 0:
        return None
    return {
        "number": told.number,
        "is_confirmed": settled.number == told.number,
        "suppressed": told.suppressed,
        "purged": dict(told.purged),
        "expired": told.expired,
        "lost": len(told.lost) + told.lost_more,
        "lost_since": told.lost_since,
    }
