"""Why a client did or did not receive an event, or would receive a hypothetical one: the part of one broker.

*Theory.* All is read from the present state of the machine, and from the activity monitor (`activity_monitor.py`).
Nothing is stored for explanations alone. So an explanation reaches as far back as the monitor; beyond that it says so.
For a whole explanation each broker on the path is asked (`explanations.py`): `from` and `sent_on` name the neighbours
that the event came from and was sent to.

Recorded facts about an event are certain: it arrived, it was refused, it was sent to a client or a neighbour, it left a
queue. The entries that it matched follow from the recorded changes of the tables (`entry_history.py`). Everything else
is computed from the present tables, contexts and rights, which may have been different when the event arrived. Every
verdict says on which of both it is based (`basis`), or that it is unknown: the event is not recorded here, and may have
come before the records begin. For an event that was never published (`explain_written`) everything is computed.

*Rules.*
1. Nothing here changes the machine, or the counts of tests.
2. Recorded facts take precedence over computed ones.
3. A verdict names the literal that failed, if there is one.
4. What is not recorded is not denied: without an arrival on record, one broker alone never says that the event did not
   come.
5. At most `TESTED_MAX` exact tests are run for one question, each with the step limit of clients, and none whose query
   would have to be parsed by a thread first.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from math import inf
from time import time
from typing import Any, NamedTuple

from godwit.broker.authorisation import Authorisation
from godwit.broker.client_rights import may_publish
from godwit.broker.effects import Heard
from godwit.broker.groups import Groups
from godwit.broker.messages import Attach, QueueRules, Refused, Request
from godwit.errors import GodwitError
from godwit.filters.events import Event
from godwit.filters.filters import TRUE, Filter
from godwit.languages.query import Subject
from godwit.mobility.relocation import Relocation
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.document_helper import SMALL_BYTES
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.entry_history import EntryHistory, Matched
from godwit.runtime.explanation_words import (
    ENDS,
    FAILING_SHOWN,
    RULES,
    asked_of,
    end_words,
    has_ended,
    may_only,
    unrecorded,
    why_not,
    without_session,
)
from godwit.runtime.node import Node
from godwit.runtime.question_parts import SHOWN, cut_values, plain, shown
from godwit.runtime.session_answers import SessionAnswers, session_queries

__all__ = ["RECORD", "TABLES", "UNKNOWN", "EventExplanations", "Verdict"]

CLIENT_RECORDS_SHOWN = 10
REFUSALS_SHOWN = 5
TESTED_MAX = 20
RECORD, TABLES, UNKNOWN = "record", "tables", "unknown"
"""The basis of a verdict: recorded facts; the present tables, contexts and rights; none, as nothing is recorded."""

OF_CLIENTS = ("revoked", "suspended", "session_ended", "relocating", "relocated", "replayed")
"""Records that concern a client whatever the event."""


class Verdict(NamedTuple):
    """Why, in words, and what that rests on."""

    words: str
    basis: str


class EventExplanations:
    """Explains what happened to events at one broker."""

    def __init__(
        self, node: Node, activity: ActivityMonitor, tests: EdgeTests, sessions: SessionAnswers, history: EntryHistory
    ) -> None:
        self._history = history
        self._node = node
        self._activity = activity
        self._tests = tests
        self._sessions = sessions

    @property
    def _machine(self) -> Any:
        return self._node.machine  # the machine may have been replaced

    def explain(self, id: tuple[str, int], client: str, subscription: str = "") -> dict[str, Any]:
        """The findings of this broker about an event and a client: did it arrive, did it match, was it delivered?"""
        arrivals = list(islice(self._activity.arrivals(id), SHOWN))
        session = self._machine.sessions.session(client)
        event = arrivals[0][2] if arrivals else _queued_event(session, id)
        told: dict[str, Any] = {
            "broker": self._machine.name,
            "event": f"{id[0]}:{id[1]}",
            "client": client,
            "is_written": False,
            "records_begin": self._activity.records_begin,
            "arrivals": [{"at": at, "from": self._name_of(source)} for at, source, _ in arrivals],
            "records": [
                {
                    "at": at,
                    "kind": record.kind,
                    "client": record.peer,
                    "subscription": record.subscription,
                    "detail": record.detail,
                }
                for at, record in islice(self._activity.records_of(id), SHOWN)
                if record.peer in (client, id[0]) or record.kind == "lost"
            ],
            "refused": self._why_refused(id),
        }
        told["deliveries"] = self._sent_before(client, id) if session is None else self._deliveries(session, id)
        came_at = arrivals[0][0] if arrivals else None
        self._tell(told, event, id[0], session, subscription, {source for _, source, _ in arrivals}, came_at)
        told["is_recorded"] = came_at is not None and self._activity.has_decisions_of(came_at)
        told["is_as_then"] = came_at is not None and not self._history.has_changed(client, came_at)
        if arrivals:
            told["sent_on"] = self._with_record(told["sent_on"], id, is_whole=told["is_recorded"])
        told["is_withheld"] = _is_withheld(told)
        if told["deliveries"] and _residues(told):
            told["deliveries"][-1]["state"] = "it failed the exact test, and was not sent"
        told["verdict"], told["basis"] = self._verdict(told, event, session, subscription)
        return told

    def explain_written(self, event: Event, client: str, subscription: str = "") -> dict[str, Any]:
        """What this broker would do with a hypothetical event, for a client."""
        session = self._machine.sessions.session(client)
        told: dict[str, Any] = {
            "broker": self._machine.name,
            "event": "",
            "client": client,
            "is_written": True,
            "arrivals": [],
            "records": [],
            "refused": "",
        }
        publisher = self._machine.sessions.session(event.publisher)
        self._tell(told, event, event.publisher, session, subscription, set())
        if publisher is not None:
            told["refused"] = self._why_not_published(event, publisher)
        told["would_get"] = session is not None and not why_not(told, subscription)
        told["verdict"], told["basis"] = self._written_verdict(told, event, session, subscription), TABLES
        return told

    def _tell(
        self,
        told: dict[str, Any],
        event: Event | None,
        publisher: str,
        session: Any,
        subscription: str,
        sources: set[str],
        came_at: float | None = None,
    ) -> None:
        """Add the findings from the tables of that time, and from the present contexts and rights."""
        client = told["client"]
        told["session"] = None if session is None else self._sessions.in_short(session)
        told["moved_to"] = self._moved_to(client) if session is None else ""
        told["is_awaited"] = session is None and client in getattr(self._relocation, "arrivals", {})
        told["client_records"] = self._records_about(client)
        told["publisher"] = self._told_publisher(publisher, event)
        if event is not None:
            told["attributes"] = cut_values(event.attributes)
            told["to"] = None if event.to is None else shown(event.to)
            matched = self._history.matches(event, inf if came_at is None else came_at)
            told["matched"] = [
                {"name": each.id[1], "filter": shown(each.filter), "basis": _basis(each, came_at)}
                for each in matched
                if not each.source and each.id[0] == client and subscription in ("", each.id[1])
            ]
            told["sent_on"] = self._sent_on(matched, sources, came_at)
        if session is None:
            return
        told["context"] = plain(session.whole_context())
        told["is_addressed"] = event is None or session.is_addressed(event)
        if event is not None and event.to is not None and not told["is_addressed"]:
            told["to_fails"] = asked_of(event.to, session.whole_context())["fails"]
        told["right"] = self._right(client, "subscribe", event)
        told["refusals"] = [refused.reason for refused in session.refusals[-REFUSALS_SHOWN:]]
        names = [name for name in session.subscriptions if subscription in ("", name)]
        tests_left = TESTED_MAX
        rows = told["subscriptions"] = []
        for name in names[:SHOWN]:
            row = self._subscription(session, name, event, may_test=tests_left > 0)
            tests_left -= "exact" in row
            rows.append(row)

    # ------------------------------------------------------------ verdicts

    def _verdict(self, told: dict[str, Any], event: Event | None, session: Any, subscription: str) -> Verdict:
        """The first finding that decides. (rule 2)"""
        if told["refused"]:
            return Verdict(f"the event was refused when it was published: {told['refused']}", RECORD)
        if tested := _residues(told):
            return Verdict(f"it {tested[-1]['detail']}", RECORD)
        if deliveries := told["deliveries"]:
            return Verdict(str(deliveries[-1]["state"]), RECORD)
        ends = [record for record in told["records"] if record["client"] == told["client"] and record["kind"] in ENDS]
        if ends:
            return Verdict(self._end(told, ends[-1], event), RECORD)
        if told["session"] is None:
            told["passes_on"] = True
            is_certain = told["is_recorded"] and not told["is_awaited"]
            basis = RECORD if is_certain else TABLES if told["arrivals"] else UNKNOWN
            return Verdict(without_session(told), basis)
        if event is None:
            return Verdict(unrecorded(told), UNKNOWN)  # rule 4
        if why := why_not(told, subscription):
            return Verdict(why, RECORD if told["is_as_then"] and _is_of_entries(told) else TABLES)
        if not told["is_recorded"]:
            return Verdict("a subscription matches now; what was decided is not recorded any more", UNKNOWN)
        if told["matched"] and (shared := self._shared(session, event, told["matched"])) is not None:
            return shared
        if told["matched"]:
            names = ", ".join(repr(row["name"]) for row in told["matched"])
            rules = self._told_rules(session, None)
            may = f"; it may have left the client's queue by a rule: {rules}" if rules else ""
            return Verdict(f"{names} matched the event, but no delivery is recorded{may}", UNKNOWN)
        return Verdict("a subscription matches now, but none did when the event came", RECORD)

    def _written_verdict(self, told: dict[str, Any], event: Event, session: Any, subscription: str) -> str:
        """The first finding that would decide."""
        if told["refused"]:
            return f"the event would be refused when it is published: {told['refused']}"
        if session is None:
            return without_session(told)
        if why := why_not(told, subscription):
            return why
        names = ", ".join(row["name"] for row in told["subscriptions"] if row["matches"])
        if session.connection is not None:
            return f"it would be delivered for {names}"
        told_rules = self._told_rules(session, None)
        rules = f" ({told_rules})" if told_rules else ""
        lifetime = "" if event.expires_at is None else ", until it expires"
        return f"it would wait in the client's queue for {names}, for the client is away{lifetime}{rules}"

    def _end(self, told: dict[str, Any], record: dict[str, Any], event: Event | None) -> str:
        """The recorded end of the event, with the reason if it is known."""
        kind, detail = record["kind"], record["detail"]
        session = self._machine.sessions.session(told["client"])
        rules = "" if session is None or kind != "purged" else self._told_rules(session, detail)
        expires_at = None if event is None else event.expires_at
        words = end_words(kind, detail, rules, self._machine.config.limits, expires_at)
        rows = [row for row in told.get("subscriptions") or [] if row["name"] == record["subscription"]]
        if kind == "out_of_context" and rows and rows[0].get("fails"):
            means = f"{rows[0]['filter']} is {rows[0]['now']}, and " if "now" in rows[0] else ""
            return f"{words}; in its present context, {means}the event has {rows[0]['has']}"
        return words

    def _shared(self, session: Any, event: Event, matched: Iterable[Mapping[str, Any]]) -> Verdict | None:
        """That another member of the group of each matching subscription got the event; None: it did not."""
        if not self._has(Groups):
            return None
        others = []
        for row in matched:
            subscribe = session.subscriptions.get(row["name"])
            winner = None if subscribe is None else self._component(Groups).winner(event, subscribe)
            if winner is None or winner == (self._machine.name, *subscribe.id):
                return None
            others.append((subscribe, winner))
        subscribe, (broker, client, _) = others[0]
        is_recorded = bool(self._sent_before(client, event.id)) if broker == self._machine.name else False
        words = f"{subscribe.id[1]!r} shares its events in the group {subscribe.share!r}, where one member gets each"
        return Verdict(f"{words}: this one went to {client} at {broker}", RECORD if is_recorded else TABLES)

    @staticmethod
    def _told_rules(session: Any, rule: str | None) -> str:
        """The queue rules of a session, or those that a record names."""
        said = []
        for name, subscribe in session.subscriptions.items():
            rules: QueueRules | None = subscribe.queue
            fields = () if rules is None else RULES.values() if rule is None else [RULES[rule]] if rule in RULES else ()
            said += [
                f"'{name}' has {field} = {value}" for field in fields if (value := getattr(rules, field)) is not None
            ]
        return "; ".join(said[:FAILING_SHOWN])

    # ------------------------------------------------------------ rights and contexts of now

    def _right(self, client: str, verb: str, event: Event | None) -> dict[str, Any] | None:
        """The right of a client to subscribe or publish, and the parts of it that an event fails; None if everything
        is allowed."""
        rights = self._component(Authorisation).rights_of(client) if self._has(Authorisation) else None
        grant: Filter = TRUE if rights is None else getattr(rights, verb)
        if rights is None or grant == TRUE:
            return None
        asked = {"fails": [], "has": ""} if event is None else asked_of(grant, event.attributes)
        if verb == "publish" and event is not None and not asked["fails"] and not may_publish(grant, event.attributes):
            asked["fails"] = [shown(grant)]  # with one of several values alone
        return {"user": rights.user, "grant": shown(grant), "fails": asked["fails"], "has": asked["has"]}

    def _told_publisher(self, name: str, event: Event | None) -> dict[str, Any] | None:
        """The publisher of an event, as known here; None if it has no session here."""
        session = self._machine.sessions.session(name) if name else None
        if session is None:
            return None
        reasons = [refused.reason for refused in session.refusals[-REFUSALS_SHOWN:]]
        return {"client": name, "right": self._right(name, "publish", event), "refusals": reasons}

    def _why_not_published(self, event: Event, publisher: Any) -> str:
        """Why a client could not publish an event; "" if it could."""
        right = self._right(publisher.client, "publish", event)
        if right is not None and right["fails"]:
            return may_only(right, "publish")
        demanded = self._machine.config.advertisements
        if demanded == "off" or (demanded == "optional" and not publisher.has_advertised):
            return ""
        is_advertised = any(filter.matches(event) for filter in publisher.advertisements.values())
        return "" if is_advertised else f"it matches no advertisement of {publisher.client}"

    def _subscription(self, session: Any, name: str, event: Event | None, *, may_test: bool) -> dict[str, Any]:
        """A subscription, and the parts of it that an event fails."""
        row = self._sessions.subscription(session, name)
        if event is None:
            return row
        row |= asked_of(session.exact.get(name, session.subscriptions[name].filter), event.attributes)
        row["matches"] = not row["fails"] and not row.get("suspended")
        said = session_queries(session, name)
        if row["matches"] and said and may_test:
            row["exact"] = self._tested(said, event, session)
            if row["exact"]["passed"] is False:
                row["matches"] = False
                row["fails"], row["has"] = [f"{language}: {text}"[:200] for language, text in said], ""
        return row

    def _tested(self, said: Iterable[tuple[str, str]], event: Event, session: Any) -> dict[str, Any]:
        """Whether an event passes the exact test of a subscription, in the client's present context. (rule 5)"""
        if len(event.payload or b"") > SMALL_BYTES or not all(
            self._tests.is_quick(text, language) for language, text in said
        ):
            return {"passed": None, "detail": "its test takes too long here"}
        subject = Subject(event, self._tests.limits.test_steps_max, context=session.whole_context())
        try:
            passed = all(self._tests.parse(text, language).wants(subject) for language, text in said)
        except (GodwitError, RecursionError) as error:
            return {"passed": False, "detail": f"it could not be tested: {error}"}
        return {"passed": passed, "detail": "it passed the exact test" if passed else "it failed the exact test"}

    def _moved_to(self, client: str) -> str:
        """The broker to which the session of a client has moved; "" if unknown."""
        moved = getattr(self._relocation, "moved", {}).get(client)
        return "" if moved is None else str(moved.to)

    @property
    def _relocation(self) -> Any:
        return self._component(Relocation) if self._has(Relocation) else None

    def _has(self, kind: type) -> bool:
        return any(isinstance(each, kind) for each in getattr(self._machine, "components", {}).values())

    def _component(self, kind: type) -> Any:
        return self._machine.component(kind)

    # ------------------------------------------------------------ what is on record

    def _records_about(self, client: str) -> list[dict[str, Any]]:
        """The last records that concern a client whatever the event, the latest first."""
        found = [
            {"at": at, "kind": record.kind, "subscription": record.subscription, "detail": record.detail}
            for at, record in self._activity.records
            if record.peer == client and record.kind in OF_CLIENTS
        ]
        return found[: -CLIENT_RECORDS_SHOWN - 1 : -1]

    def _deliveries(self, session: Any, id: tuple[str, int]) -> list[dict[str, Any]]:
        """The state of the event in a session: waiting, sent, confirmed."""
        for item in session.queue.waiting():
            if item.event.id == id:
                names, expires_at = list(item.subscriptions), item.event.expires_at
                if session.connection is None and expires_at is not None and expires_at <= time():
                    return [{"number": item.number, "for": names, "state": has_ended(expires_at), "is_over": True}]
                is_sent = item.number <= session.queue.sent_up_to and session.connection is not None
                away = "" if session.connection is not None else ", for the client is away"
                state = "it was sent, and is not confirmed yet" if is_sent else f"it waits in the client's queue{away}"
                waiting = {"waits": True} if not is_sent else {}
                return [{"number": item.number, "for": names, "state": state, **waiting}]
        connections = {connection for connection, client in self._clients() if client == session.client}
        return [
            {
                "at": at,
                "number": sent.number,
                "for": list(sent.subscriptions),
                "state": "it was delivered and confirmed",
            }
            for at, connection, sent in islice(self._activity.sent(id), SHOWN)
            if connection in connections
        ]

    def _sent_before(self, client: str, id: tuple[str, int]) -> list[dict[str, Any]]:
        """Recorded deliveries to a client that has no session here any more."""
        connections = {connection for connection, name in self._clients() if name == client}
        moved_to = self._moved_to(client)
        what = f"has moved to {moved_to}" if moved_to else "here has ended"
        state = f"it was sent to the client, whose session {what} since"
        return [
            {"at": at, "number": sent.number, "for": list(sent.subscriptions), "state": state}
            for at, connection, sent in islice(self._activity.sent(id), SHOWN)
            if connection in connections
        ]

    def _with_record(self, rows: list[dict[str, Any]], id: tuple[str, int], *, is_whole: bool) -> list[dict[str, Any]]:
        """The neighbours to which the event was sent. Records decide; the present tables only explain. (rule 2)

        If the records are incomplete, neighbours that would get the event by the present tables are named, too.
        """
        reasons = {row["peer"]: row for row in rows}
        unknown = {"because_of": ["an entry that is not in the tables any more"], "more": 0, "because_basis": TABLES}
        sent: dict[str, dict[str, Any]] = {}
        for at, peer, targets in self._activity.forwarded(id):
            known = [reasons[target] for target in targets if target in reasons]
            because = known[0] if known else unknown
            if len(known) > 1:  # it goes to several brokers that way
                texts = [text for row in known for text in row["because_of"]]
                more = sum(row["more"] for row in known) + max(0, len(texts) - FAILING_SHOWN)
                because = {**because, "because_of": texts[:FAILING_SHOWN], "more": more}
            sent.setdefault(peer, {**because, "peer": peer, "basis": RECORD, "at": at})
        others = [] if is_whole else [row for row in rows if row["peer"] not in sent]
        return [*sent.values(), *others]

    def _clients(self) -> Iterator[tuple[str, str]]:
        """Connections and their clients, present and recorded ones."""
        for input in self._activity.kept():
            if type(input) is Heard and type(input.message) is Attach:
                yield input.connection, input.message.client
        for session in self._machine.sessions:
            if session.connection is not None:
                yield session.connection, session.client

    def _name_of(self, source: str) -> str:
        """The neighbour, or the client on a connection."""
        if source in self._machine.links:
            return source
        return next((client for connection, client in self._clients() if connection == source), source)

    def _why_refused(self, id: tuple[str, int]) -> str:
        """Why the machine refused to publish the event, if it did so here."""
        asked = {
            (input.connection, input.message.number)
            for input in self._activity.kept()
            if type(input) is Heard
            and type(input.message) is Request
            and getattr(getattr(input.message.wish, "event", None), "id", None) == id
        }
        if not asked:
            return ""
        told = ((connection, message) for connection, message in self._activity.told(Refused))
        return next((message.reason for connection, message in told if (connection, message.number) in asked), "")

    def _sent_on(self, matched: Iterable[Matched], sources: set[str], came_at: float | None) -> list[dict[str, Any]]:
        """The neighbours, or brokers, whose routing entries match the event."""
        if getattr(self._machine.routing, "floods", False):
            others = [peer for peer in self._machine.links if peer not in sources]
            because = {"because_of": ["every event is sent to every broker"], "more": 0, "because_basis": RECORD}
            return [{"peer": peer, **because} for peer in others]
        wanted: dict[str, list[Matched]] = {}
        for each in matched:
            if each.source and each.source not in sources:
                wanted.setdefault(each.source, []).append(each)
        return [
            {
                "peer": peer,
                "because_of": [f"{each.id[0]} {each.id[1]}: {shown(each.filter)}" for each in entries[:FAILING_SHOWN]],
                "more": max(0, len(entries) - FAILING_SHOWN),
                "because_basis": RECORD if all(_basis(each, came_at) == RECORD for each in entries) else TABLES,
            }
            for peer, entries in wanted.items()
        ]


def _basis(entry: Matched, came_at: float | None) -> str:
    """Whether an entry is known to be as it was when the event came."""
    return RECORD if came_at is not None and entry.is_of_then else TABLES


def _is_of_entries(told: Mapping[str, Any]) -> bool:
    """Whether it is the filters that an event fails, and neither a right nor a context."""
    rows = told.get("subscriptions") or []
    is_open = any("now" in row or "exact" in row for row in rows)
    right = told.get("right")
    return bool(rows) and not is_open and told.get("is_addressed", True) and not (right and right["fails"])


def _residues(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records of exact tests that the event failed, if it was sent for no other subscription."""
    deliveries = told["deliveries"]
    tested = [record for record in told["records"] if record["kind"] == "residue" and record["detail"]]
    is_all = not deliveries or {each["subscription"] for each in tested} >= set(deliveries[-1]["for"])
    return tested if is_all else []


def _is_withheld(told: Mapping[str, Any]) -> bool:
    """Whether the event has a number in the session, and the client does not get it."""
    rows = told["deliveries"]
    return bool(rows) and (bool(_residues(told)) or "is_over" in rows[-1])


def _queued_event(session: Any, id: tuple[str, int]) -> Event | None:
    events = () if session is None else session.queue.events()
    return next((event for event in events if event.id == id), None)
