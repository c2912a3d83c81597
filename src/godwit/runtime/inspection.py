"""A look into a running broker: its sessions, routes and links, and why a client did or did not get an event.

*Theory.* All answers are read from the machine as it stands, and from what the watch has kept (`activity_monitor.py`):
nothing is written down beforehand for the sake of a question. So an explanation reaches as far back as the watch does;
before that it says so.

`explain` is this broker's part of the story. Whoever wants all of it asks each broker on the way: `from` and `sent_on`
name the neighbours that the event came from and may have gone to.

*Rules.*
1. Nothing here changes the machine.
2. Answers are plain data. Long ones are cut, and say how much more there is. Filters are texts.
3. No secrets: notes of a session are named, and not shown.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from time import thread_time, time
from typing import Any

from godwit.broker.effects import Heard
from godwit.broker.messages import Attach, Refused, Request
from godwit.broker.query_notes import QUERY, queries_of
from godwit.errors import GodwitError
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.language import parse, to_text
from godwit.filters.reasons import failing
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.attribute_summary import EVENTS_MAX, summary_of
from godwit.runtime.dashboard_settings import DashboardSettings
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.map_answers import LATELY_S_MAX, events_told, hand_overs_lately, places_told, regions_of
from godwit.runtime.node import Node
from godwit.runtime.positions import EventPlaces, Position, positions_of
from godwit.runtime.samples import Samples
from godwit.runtime.tcp import NativeConnection, NativeServer
from godwit.runtime.wire import JSON

__all__ = ["ENDS", "SUBJECTS", "Inspection", "event_id", "shown_rows"]

SHOWN = 1_000  # rows of a long answer, unless more are asked for
SHOWN_MAX = 100_000
TEXT_MAX = 2_000
FAILING_SHOWN = 20
DIGITS_MAX = 10  # of a number that is asked for
COUNT_MAX = 10**9
ATTRIBUTE_MAX = 200  # characters of a text in a list of events


def event_id(text: str) -> tuple[str, int]:
    """The id of an event, from PUBLISHER:SEQUENCE."""
    publisher, colon, sequence = text.rpartition(":")
    if not colon or not publisher or not sequence.isascii() or not sequence.isdigit():
        raise GodwitError(f"{text[:100]!r} names no event: it must be PUBLISHER:SEQUENCE, such as van-7:12")
    return publisher, int(sequence[:20])


def shown_rows(asked: Mapping[str, str], name: str = "limit", default: int = SHOWN, most: int = SHOWN_MAX) -> int:
    """How many rows are asked for."""
    said = asked.get(name, str(default))
    if not said.isascii() or not said.isdigit() or len(said) > DIGITS_MAX or int(said) > most:
        raise GodwitError(f"{name} is {said[:40]!r}: it must be a number up to {most}")
    return int(said)


def shown(filter: Filter) -> str:
    """A filter as text, cut when it is long."""
    text = to_text(filter)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


class Inspection:
    """Answers questions about one broker."""

    def __init__(
        self,
        node: Node,
        server: NativeServer,
        activity: ActivityMonitor,
        tests: EdgeTests,
        dashboard: DashboardSettings = DashboardSettings(),  # noqa: B008 (it is frozen)
    ) -> None:
        self._tests = tests
        self._dashboard = dashboard
        self._event_places = EventPlaces()
        self._node = node
        self._server = server
        self._activity = activity
        self._samples = Samples(node, activity, lambda: sum(server.memory.held().values()), time)

    @property
    def _machine(self) -> Any:
        return self._node.machine  # it may have been made again

    @property
    def has_samples(self) -> bool:
        """Whether somebody has looked at the metrics over time."""
        return len(self._samples) > 0

    def answer(self, subject: str, asked: Mapping[str, str]) -> Any:
        """The answer to a question by its name and parameters. `GodwitError`: there is none, and why."""
        answer = ANSWERS.get(subject)
        if answer is None:
            raise GodwitError(f"{subject[:40]!r} is nothing that can be asked: subjects are {', '.join(SUBJECTS)}")
        return answer(self, asked)

    # ------------------------------------------------------------ sessions

    def sessions(self, limit: int = SHOWN, first: int = 0, search: str = "") -> dict[str, Any]:
        """Sessions, in short: `limit` of them from the `first` on, of clients in whose name is what is searched for."""
        found = (session for session in self._machine.sessions if search in session.client)
        rows = [self._in_short(session) for session in islice(found, first, first + limit)]
        sessions = self._machine.sessions
        count = sum(search in session.client for session in sessions) if search else len(sessions)
        return {"sessions": rows, "count": count, "more": max(0, count - first - limit)}

    def session(self, client: str) -> dict[str, Any] | None:
        """All of a session but what is in its queue and notes; None: there is none."""
        session = self._machine.sessions.session(client)
        if session is None:
            return None
        queue = session.queue
        return {
            **self._in_short(session),
            "subscribed": [self._subscription(session, name) for name in session.subscriptions],
            "advertised": [{"name": name, "filter": shown(filter)} for name, filter in session.advertisements.items()],
            "context": _plain(session.whole_context()),
            "asserted": list(session.asserted),
            "queue": {
                "taken": queue.taken,
                "sent_up_to": queue.sent_up_to,
                "confirmed": queue.confirmed,
                "expired": queue.expired,
                "purged": dict(queue.purged),
                "suppressed": session.suppressed,
            },
            "refusals": [{"request": refused.number, "reason": refused.reason} for refused in session.refusals],
            "notes": list(islice(session.notes, SHOWN)),
        }

    # ------------------------------------------------------------ routes and links

    def routes(self, limit: int = SHOWN) -> dict[str, Any]:
        """The routing tables: who wants and advertises what, from where."""
        routing, config = self._machine.routing, self._machine.config
        rows = list(islice(_entries(routing), limit + 1))
        sizes = routing.sizes()
        return {
            "broker": self._machine.name,
            "family": config.family,
            "reduction": config.reduction if config.family == "tree" else config.strategy,
            "settled": routing.is_settled(),
            "sizes": sizes,
            "entries": [
                {"table": table, "from": source, "owner": id[0], "name": id[1], "filter": shown(filter)}
                for table, source, id, filter in rows[:limit]
            ],
            "is_cut": len(rows) > limit,
        }

    def links(self) -> list[dict[str, Any]]:
        """The links to neighbours."""
        return [self._link(peer, link) for peer, link in self._machine.links.items()]

    def _link(self, peer: str, link: Any) -> dict[str, Any]:
        port, address = self._node.ports.get(peer), self._server.neighbours.get(peer)
        return {
            "peer": peer,
            "up": link.open,
            "address": None if address is None else str(address),
            "dialled_by": None
            if not isinstance(port, NativeConnection)
            else self._machine.name
            if port.dialled
            else peer,
            "http": self._server.http_of.get(peer, ""),
            "outbox": len(link.outbox),
            "round_trip_s": link.round_trip_s,
            "fault": link.fault,
        }

    def network(self) -> dict[str, Any]:
        """This broker, and where its neighbours can be asked."""
        return {
            "broker": self._machine.name,
            "http": self._server.http,
            "native": [str(address) for address in self._server.listening],
            "family": self._machine.config.family,
            "neighbours": [{key: link[key] for key in ("peer", "up", "address", "http")} for link in self.links()],
            **self._dashboard.told(),
        }

    def events(self, limit: int = SHOWN, filter: str = "") -> list[dict[str, Any]]:
        """The last events that clients have published here, the latest first, as far as they are remembered."""
        wanted = parse(filter) if filter else None
        seen = ((at, event) for at, event in self._activity.latest_events() if wanted is None or wanted.matches(event))
        return [
            {"at": at, "event": f"{event.publisher}:{event.sequence}", "attributes": _cut(_plain(event.attributes))}
            for at, event in islice(seen, limit)
        ]

    def attributes(self, limit: int) -> dict[str, Any]:
        """The attributes of the last events that clients have published here."""
        return summary_of(islice((event for _, event in self._activity.latest_events()), limit))

    def positions(self) -> list[Position]:
        """Where clients are."""
        places = self._dashboard.places
        return positions_of(self._machine.sessions, self._event_places.of(self._activity, places, time()), places)

    def map(self, seconds: float) -> dict[str, Any]:
        """Where clients are, and what happened in the last seconds: hand-overs from here, and events with a place."""
        began, since = thread_time(), time() - seconds
        told: dict[str, Any] = {
            "positions": self.positions(),  # each in a row, which is written faster, and in fewer bytes
            "hand_overs": hand_overs_lately(self._activity.latest_records(), since),
            "events": events_told(self._activity.latest_events(since)),
        }
        return {**told, "took_ms": 1_000 * (thread_time() - began)}

    def places(self) -> dict[str, Any]:
        """Named places, as far as movement graphs say where they lie."""
        return places_told(self._dashboard.places)

    def regions(self) -> dict[str, Any]:
        """The regions that subscriptions of clients here name."""
        return regions_of(self._machine.sessions)

    def samples(self, since: float) -> dict[str, Any]:
        """How the broker fared since a time, in seconds since 1970."""
        return self._samples.since(since)

    def counts(self) -> dict[str, int]:
        """Records so far, by kind."""
        return dict(sorted(self._activity.counts.items()))

    # ------------------------------------------------------------ why

    def explain(self, id: tuple[str, int], client: str, subscription: str = "") -> dict[str, Any]:
        """What this broker knows of an event and a client: did it come, did it match, was it delivered?"""
        arrivals = list(islice(self._activity.arrivals(id), SHOWN))
        session = self._machine.sessions.session(client)
        event = arrivals[0][2] if arrivals else _queued_event(session, id)
        told: dict[str, Any] = {
            "broker": self._machine.name,
            "event": f"{id[0]}:{id[1]}",
            "client": client,
            "arrivals": [{"at": at, "from": self._name_of(source)} for at, source, _ in arrivals],
            "session": None if session is None else _in_short(session),
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
        }
        told["refused"] = self._why_refused(id)
        if event is not None:
            told["attributes"] = _plain(event.attributes)
            told["to"] = None if event.to is None else shown(event.to)
            told["sent_on"] = self._sent_on(event, {source for _, source, _ in arrivals})
        if session is not None:
            told["deliveries"] = self._deliveries(session, id)
            told["is_addressed"] = event is None or session.is_addressed(event)
            if event is not None and event.to is not None and not told["is_addressed"]:
                told["to_fails"] = _failing(event.to, session.whole_context())
            names = [name for name in session.subscriptions if subscription in ("", name)]
            told["subscriptions"] = [self._subscription(session, name, event) for name in names[:SHOWN]]
        told["verdict"] = self._verdict(told, event, client, subscription)
        return told

    def _verdict(self, told: dict[str, Any], event: Event | None, client: str, subscription: str) -> str:
        """The first thing that decides, in words."""
        if told["refused"]:
            return f"the event was refused when it was published: {told['refused']}"
        deliveries = told.get("deliveries") or []
        tested = [record for record in told["records"] if record["kind"] == "residue" and record["detail"]]
        if tested and (not deliveries or {each["subscription"] for each in tested} >= set(deliveries[-1]["for"])):
            return f"it {tested[-1]['detail']}"
        if deliveries:
            return str(deliveries[-1]["state"])
        ends = [record for record in told["records"] if record["client"] == client and record["kind"] in ENDS]
        if ends:
            detail = f": {ends[-1]['detail']}" if ends[-1]["detail"] else ""
            return f"{ENDS[ends[-1]['kind']]}{detail}"
        if told["session"] is None:
            return self._without_session(told, client)
        if event is None:
            return "the event has not come here, as far back as this broker remembers"
        if not told["is_addressed"]:
            return f"the event is not to this client: {' and '.join(told['to_fails'])} does not hold of its context"
        if not told["subscriptions"]:
            return f"the client has no subscription {subscription!r}" if subscription else "the client wants nothing"
        if not any(row["matches"] for row in told["subscriptions"]):
            fails = told["subscriptions"][0]["fails"] if len(told["subscriptions"]) == 1 else []
            because = f": {', '.join(fails)} does not hold" if fails else ""
            return f"no subscription of the client matches the event{because}"
        return "a subscription matches now, but the event came before it did, or longer ago than this broker remembers"

    def _without_session(self, told: dict[str, Any], client: str) -> str:
        moved = getattr(self._machine, "moved", {}).get(client)
        if client in getattr(self._machine, "arrivals", {}):
            return "the client is here, and its session is still on its way"
        where = "" if moved is None else f" (it went to {moved.to})"
        if not told["arrivals"]:
            return f"neither the event has come here, nor has the client a session here{where}"
        on = [row["peer"] for row in told.get("sent_on", [])]
        goes = f"the event went on to {', '.join(on)}" if on else "nobody further on wants the event"
        return f"the client has no session here{where}; {goes}"

    def _deliveries(self, session: Any, id: tuple[str, int]) -> list[dict[str, Any]]:
        """Where the event stands in a session: waiting, sent, confirmed."""
        for item in session.queue.waiting():
            if item.event.id == id:
                is_sent = item.number <= session.queue.sent_up_to and session.connection is not None
                away = "" if session.connection is not None else ", for the client is away"
                state = "it was sent, and is not confirmed yet" if is_sent else f"it waits in the client's queue{away}"
                return [{"number": item.number, "for": list(item.subscriptions), "state": state}]
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

    def _in_short(self, session: Any) -> dict[str, Any]:
        """A session in short, with how many of its subscriptions are suspended, if any is."""
        named = [key.removeprefix(QUERY) for key in session.notes if key.startswith(QUERY)]
        tested = [self._tests.of(session.client, name) for name in named]
        suspended = sum(query is not None and bool(query.suspended) for query in tested)
        return _in_short(session) | ({"suspended": suspended} if suspended else {})

    def _subscription(self, session: Any, name: str, event: Event | None = None) -> dict[str, Any]:
        """A subscription, with what the tests of its queries have decided here, if it has any."""
        row = _subscription(session, name, event)
        said = queries_of({QUERY + name: session.notes[QUERY + name]}) if QUERY + name in session.notes else {}
        tested = self._tests.of(session.client, name)
        if name in said:
            row["queries"] = [{"language": language, "text": text[:TEXT_MAX]} for language, text in said[name]]
            row |= {} if tested is None or tested.said != said[name] else tested.told()
        return row

    def _clients(self) -> Iterator[tuple[str, str]]:
        """Connections and their clients, of now and as far back as is kept."""
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

    def _sent_on(self, event: Event, sources: set[str]) -> list[dict[str, Any]]:
        """The neighbours, or brokers, that want the event by what they have told."""
        wanted: dict[str, list[str]] = {}
        for table, source, id, filter in _entries(self._machine.routing):
            if table == "subscriptions" and source and source not in sources and filter.matches(event):
                wanted.setdefault(source, []).append(f"{id[0]} {id[1]}: {shown(filter)}")
        return [
            {"peer": peer, "because_of": because[:FAILING_SHOWN], "more": max(0, len(because) - FAILING_SHOWN)}
            for peer, because in wanted.items()
        ]


ENDS = {
    "purged": "it left the client's queue by a rule of the subscription",
    "expired": "its time was over before the client came for it",
    "lost": "it was lost",
    "not_addressed": "it is not to this client",
    "out_of_context": "the client did not want it in its context of that moment",
    "suppressed": "it came a second time, and was delivered when it came first",
}
"""What else can become of an event for a client, by the kind of its record."""


def _explanation(inspection: Inspection, asked: Mapping[str, str]) -> Any:
    if not asked.get("event") or not asked.get("client"):
        raise GodwitError("explain needs event=PUBLISHER:SEQUENCE and client=NAME")
    return inspection.explain(event_id(asked["event"]), asked["client"], asked.get("subscription", ""))


ANSWERS: dict[str, Callable[[Inspection, Mapping[str, str]], Any]] = {
    "sessions": lambda self, asked: self.sessions(
        shown_rows(asked), shown_rows(asked, "first", 0, COUNT_MAX), asked.get("search", "")
    ),
    "session": lambda self, asked: self.session(asked.get("client", "")),
    "routes": lambda self, asked: self.routes(shown_rows(asked)),
    "links": lambda self, asked: self.links(),
    "network": lambda self, asked: self.network(),
    "events": lambda self, asked: self.events(shown_rows(asked), asked.get("filter", "")),
    "attributes": lambda self, asked: self.attributes(shown_rows(asked, default=EVENTS_MAX, most=EVENTS_MAX)),
    "positions": lambda self, asked: [position._asdict() for position in self.positions()],
    "map": lambda self, asked: self.map(shown_rows(asked, "seconds", 1, LATELY_S_MAX)),
    "places": lambda self, asked: self.places(),
    "regions": lambda self, asked: self.regions(),
    "samples": lambda self, asked: self.samples(shown_rows(asked, "since", 0, COUNT_MAX * 10)),
    "counts": lambda self, asked: self.counts(),
    "explain": _explanation,
}
"""By its name, the answer to a question with parameters, here and of a whole network."""
SUBJECTS = tuple(ANSWERS)


# ---------------------------------------------------------------- parts


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


def _subscription(session: Any, name: str, event: Event | None = None) -> dict[str, Any]:
    subscribe = session.subscriptions[name]
    row: dict[str, Any] = {"name": name, "filter": shown(subscribe.filter), "expires": subscribe.expires}
    if name in session.exact:
        row["now"] = shown(session.exact[name])  # in the client's context
    if subscribe.share:
        row["share"] = subscribe.share
    if event is not None:
        exact = session.exact.get(name, subscribe.filter)
        row["fails"] = _failing(exact, event.attributes)
        row["matches"] = not row["fails"]
    return row


def _failing(filter: Filter, attributes: Attributes) -> list[str]:
    return [shown(part) for part in islice(failing(filter, attributes), FAILING_SHOWN)]


def _entries(routing: Any) -> Iterable[tuple[str, str, tuple[str, str], Filter]]:
    """The entries of a routing family's tables: table, source ("": a client here), id and filter."""
    for table, name in (("subscriptions", "in_subs"), ("advertisements", "in_ads")):  # the tree family
        for source, entries in getattr(routing, name, {}).items():
            for id, filter in entries.items():
                yield table, source, id, filter
    local = getattr(routing, "local", {})  # the graph family
    for id, filter in local.items():
        yield "subscriptions", "", id, filter
    for source, entries in getattr(routing, "remote", {}).items():
        for id, filter in entries.items():
            if isinstance(filter, Filter):
                yield "subscriptions", source, id, filter


def _queued_event(session: Any, id: tuple[str, int]) -> Event | None:
    events = () if session is None else session.queue.events()
    return next((event for event in events if event.id == id), None)


def _cut(values: dict[str, Any]) -> dict[str, Any]:
    """Attributes for a list: long texts are cut."""
    return {
        name: f"{value[:ATTRIBUTE_MAX]}…" if isinstance(value, str) and len(value) > ATTRIBUTE_MAX else value
        for name, value in values.items()
    }


def _plain(attributes: Attributes) -> dict[str, Any]:
    return JSON.plain(attributes)
