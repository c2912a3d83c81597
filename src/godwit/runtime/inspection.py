"""Inspection of a running broker: the questions of administrators, by subject.

*Theory.* All answers are read from the present state of the machine, and from the activity monitor
(`activity_monitor.py`). Nothing is stored for questions alone, except while a page repeats its questions
(`observations.py`).

*Rules.*
1. Nothing here changes the machine.
2. Answers are plain data. Long ones are cut, and tell how much was left out. Filters are texts.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from time import time
from typing import Any

from godwit.errors import GodwitError
from godwit.filters.events import Event
from godwit.filters.filters import TRUE
from godwit.filters.language import parse
from godwit.runtime.activity_monitor import ActivityMonitor
from godwit.runtime.attribute_summary import EVENTS_MAX, summary_of
from godwit.runtime.dashboard_settings import DashboardSettings
from godwit.runtime.edge_tests import EdgeTests
from godwit.runtime.entry_history import EntryHistory
from godwit.runtime.event_explanations import EventExplanations
from godwit.runtime.filter_workbench import FilterWorkbench
from godwit.runtime.http_events import events_in
from godwit.runtime.map_answers import places_told, regions_of
from godwit.runtime.map_changes import MapChanges, mark_of
from godwit.runtime.node import Node
from godwit.runtime.observations import LinkTraffic
from godwit.runtime.positions import EventPlaces, Position, positions_of
from godwit.runtime.question_parts import COUNT_MAX, SHOWN, cut_values, event_id, shown_rows
from godwit.runtime.routing_answers import told_routes
from godwit.runtime.samples import Drops, Samples
from godwit.runtime.session_answers import SessionAnswers
from godwit.runtime.tcp import NativeConnection, NativeServer

__all__ = ["SUBJECTS", "Inspection"]


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
        self._dashboard = dashboard
        self._event_places = EventPlaces()
        self._node = node
        self._changes = MapChanges(lambda: self._machine.sessions, activity, dashboard.places)
        self._server = server
        self._activity = activity
        self._samples = Samples(node, activity, lambda: sum(server.memory.held().values()), time)
        self.on_samples: Callable[[], None] = lambda: None  # called when samples of the metrics are requested
        self._drops = Drops(activity, time)
        self.sessions = SessionAnswers(node, tests)
        history = EntryHistory(node, activity.records_begin)
        self.explanations = EventExplanations(node, activity, tests, self.sessions, history)
        self.workbench = FilterWorkbench(node, activity, tests)
        self.traffic = LinkTraffic(activity)

    @property
    def _machine(self) -> Any:
        return self._node.machine  # the machine may have been replaced

    @property
    def has_samples(self) -> bool:
        """Whether the metrics over time were requested."""
        return len(self._samples) > 0

    def answer(self, subject: str, asked: Mapping[str, str]) -> Any:
        """The answer to a question by its name and parameters. `GodwitError` if there is none."""
        answer = ANSWERS.get(subject)
        if answer is None:
            raise GodwitError(f"{subject[:40]!r} is not a subject; allowed are {', '.join(SUBJECTS)}")
        return answer(self, asked)

    # ------------------------------------------------------------ routes and links

    async def routes(self, limit: int = SHOWN, source: str | None = None) -> dict[str, Any]:
        """The routing tables: subscriptions and advertisements, with their sources."""
        return await told_routes(self._machine, limit, source)

    def links(self, *, is_counted: bool = False) -> list[dict[str, Any]]:
        """The links to neighbours; counted: with the number of events received over each since counting began."""
        rows = [self._link(peer, link) for peer, link in self._machine.links.items()]
        if is_counted:
            now = time()
            received = self.traffic.received(now)
            rows = [{**row, "at": now, "received_events": received.get(row["peer"], 0)} for row in rows]
        return rows

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
        """This broker, and the HTTP addresses of its neighbours."""
        return {
            "broker": self._machine.name,
            "http": self._server.http,
            "native": [str(address) for address in self._server.listening],
            "family": self._machine.config.family,
            "neighbours": [{key: link[key] for key in ("peer", "up", "address", "http")} for link in self.links()],
            **self._dashboard.told(),
        }

    def events(self, limit: int = SHOWN, filter: str = "") -> list[dict[str, Any]]:
        """The last events that clients have published here, the latest first, as far as they are kept."""
        wanted = parse(filter) if filter else None
        seen = ((at, event) for at, event in self._activity.latest_events() if wanted is None or wanted.matches(event))
        return [
            {"at": at, "event": f"{event.publisher}:{event.sequence}", "attributes": cut_values(event.attributes)}
            for at, event in islice(seen, limit)
        ]

    def attributes(self, limit: int, filter: str = "") -> dict[str, Any]:
        """The attributes of the last events that clients have published here, and of these only those that match."""
        wanted = parse(filter) if filter else TRUE
        latest = [event for _, event in islice(self._activity.latest_events(), limit)]
        return {"looked_at": len(latest), **summary_of(event for event in latest if wanted.matches(event))}

    def positions(self) -> list[Position]:
        """Where clients are."""
        places = self._dashboard.places
        return positions_of(self._machine.sessions, self._event_places.of(self._activity, places, time()), places)

    def map(self, marks: str) -> dict[str, Any]:
        """The changes on the map since the answers with these marks: positions, hand-overs from here, events."""
        return self._changes.since(mark_of(marks, self._machine.name), time())

    def places(self) -> dict[str, Any]:
        """Named places with known positions."""
        return places_told(self._dashboard.places)

    def regions(self) -> dict[str, Any]:
        """The regions in subscriptions of clients here."""
        return regions_of(self._machine.sessions)

    def samples(self, since: float) -> dict[str, Any]:
        """Samples of the broker's metrics since a time, in seconds since 1970."""
        self.on_samples()
        return self._samples.since(since)

    def drops(self, since: float) -> dict[str, Any]:
        """Events that did not arrive since a time, by reason."""
        return self._drops.since(since)

    def counts(self) -> dict[str, int]:
        """Records so far, by kind."""
        return dict(sorted(self._activity.counts.items()))


def written_event(text: str, publisher: str) -> Event:
    """A hypothetical event, in the form of `POST /events`."""
    events = events_in(text.encode(), time())
    if len(events) != 1:
        raise GodwitError(f"{len(events)} events: write one, as a JSON object")
    return replace(events[0], publisher=publisher)


def _explanation(inspection: Inspection, asked: Mapping[str, str]) -> Any:
    if asked.get("client") and asked.get("written"):
        event = written_event(asked["written"], asked.get("publisher", ""))
        return inspection.explanations.explain_written(event, asked["client"], asked.get("subscription", ""))
    if not asked.get("event") or not asked.get("client"):
        raise GodwitError("explain needs client=NAME, and event=PUBLISHER:SEQUENCE or written=JSON")
    return inspection.explanations.explain(event_id(asked["event"]), asked["client"], asked.get("subscription", ""))


ANSWERS: dict[str, Callable[[Inspection, Mapping[str, str]], Any]] = {
    "sessions": lambda self, asked: self.sessions.all(
        shown_rows(asked), shown_rows(asked, "first", 0, COUNT_MAX), asked.get("search", "")
    ),
    "session": lambda self, asked: self.sessions.one(asked.get("client", "")),
    "routes": lambda self, asked: self.routes(shown_rows(asked), "" if asked.get("local") else asked.get("from")),
    "links": lambda self, asked: self.links(is_counted="rates" in asked),
    "network": lambda self, asked: self.network(),
    "events": lambda self, asked: self.events(shown_rows(asked), asked.get("filter", "")),
    "attributes": lambda self, asked: self.attributes(
        shown_rows(asked, default=EVENTS_MAX, most=EVENTS_MAX), asked.get("filter", "")
    ),
    "positions": lambda self, asked: [position._asdict() for position in self.positions()],
    "map": lambda self, asked: self.map(asked.get("since", "")),
    "places": lambda self, asked: self.places(),
    "regions": lambda self, asked: self.regions(),
    "samples": lambda self, asked: self.samples(shown_rows(asked, "since", 0, COUNT_MAX * 10)),
    "drops": lambda self, asked: self.drops(shown_rows(asked, "since", 0, COUNT_MAX * 10)),
    "counts": lambda self, asked: self.counts(),
    "matches": lambda self, asked: self.workbench.matches(asked),
    "search": lambda self, asked: self.workbench.search(asked),
    "latest": lambda self, asked: self.workbench.latest(asked),
    "comparisons": lambda self, asked: self.workbench.comparisons(asked),
    "explain": _explanation,
}
"""The handler of each question, by name, for one broker and for the network."""
SUBJECTS = tuple(ANSWERS)
