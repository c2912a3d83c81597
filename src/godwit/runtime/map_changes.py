"""Changes on the map since an earlier answer: moved, new and departed clients, hand-overs, events.

*Theory.* A map page asks ten times a second, and few clients have moved in between. So each answer carries a mark. A
page that sends the mark of its last answer gets only the changes since then. Nothing is kept per page: each client has
a row with the answer at which it last changed, and rows are sorted by that, so an answer ends at the first older row. A
lost answer costs nothing: the next one repeats its changes.

Between two questions the watch notes which connections had input. A question inspects the sessions of these only, and
all sessions once a second, because a session may begin, end or move without input from its client. A changed context is
found by identity: a session makes a new object for each new context. Events are looked for only in
the turns since the last question.

*Rules.*
1. Nothing is kept before the first question, nor after the first turn in which the lease has expired. A question with
   an older mark gets everything. (`observations.py`)
2. A position in a client's context takes precedence over positions in its events. (`positions.py`)
3. Bounds: `POSITIONS_MAX` sessions, the latest `EVENTS_LOOKED_AT` events of a question, `EVENTS_TOLD` of them drawn,
   `HAND_OVERS_MAX`. `is_cut` tells that there were more events. The last `GONE_MAX` departed clients are kept: a
   question with an older mark gets all positions.
4. Positions are columns: numbers of clients, longitudes, latitudes and so on. The name of a client is sent once.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import count, islice
from math import inf
from secrets import token_hex
from time import thread_time
from typing import Any, Protocol

import msgspec

from godwit.broker.effects import Heard
from godwit.errors import GodwitError
from godwit.filters.events import Attributes
from godwit.filters.references import LOCATION
from godwit.filters.values import Point
from godwit.runtime.activity_monitor import ActivityMonitor, Turn
from godwit.runtime.observations import Observation
from godwit.runtime.positions import COMPLETE_S, POSITIONS_MAX, EventPlaces, point_in

__all__ = ["EVENTS_LOOKED_AT", "EVENTS_TOLD", "GONE_MAX", "SCAN_S", "MapChanges", "mark_of"]

SCAN_S = 1.0
EVENTS_LOOKED_AT = 300
EVENTS_TOLD = 50
HAND_OVERS_MAX = 500
GONE_MAX = 1_000
HANDED_OVER = "replayed"
DIRECTION = "to "  # prefix of the broker's name in the detail of such a record


class MappedSession(Protocol):
    """What the map reads of a session."""

    client: str
    connection: str | None

    def whole_context(self) -> Attributes:
        """Another object whenever it has changed."""


class _Row:
    """One client."""

    __slots__ = (
        "at", "changed", "client", "connection", "context", "is_attached", "made", "number", "place", "point", "said",
        "session",
    )  # fmt: skip

    def __init__(self, client: str, number: int, made: int) -> None:
        self.client = client
        self.number = number
        self.made = self.changed = made  # the answer at which it appeared on the map
        self.session: MappedSession | None = None
        self.context: Attributes | None = None  # its state at the last check
        self.connection: str | None = None
        self.place: Point | None = None  # by its context
        self.said: tuple[float, Point] | None = None  # when and where, by its last event
        self.point: Point | None = None  # by either; None: it is not on the map
        self.at: float | None = None  # when it said so in an event; None: its context says so
        self.is_attached = False

    def settle(self) -> bool:
        """Compute what answers say about the client. Returns whether it has changed."""
        before = (self.point, self.at, self.is_attached)
        self.is_attached = self.connection is not None
        if self.place is not None or self.said is None:  # rule 2
            self.at, self.point = None, self.place
        else:
            self.at, self.point = self.said
        return before != (self.point, self.at, self.is_attached)


class MapChanges:
    """The changes on the map of one broker, while pages request them."""

    def __init__(
        self,
        sessions: Callable[[], Iterable[MappedSession]],
        activity: ActivityMonitor,
        places: Mapping[str, Point],
    ) -> None:
        self._sessions = sessions
        self._activity = activity
        self._places = places
        self._observation = Observation(activity, self._on_turn, self._forget)
        self._forget()

    def _forget(self) -> None:
        self._epoch = token_hex(4)
        self._answer = 0  # its number in this epoch
        self._numbers = count()
        self._clients: dict[str, _Row] = {}
        self._order: dict[int, _Row] = {}  # by number, that which changed last at the end
        self._connections: dict[str | None, _Row] = {}  # of clients that are attached
        self._with_session = 0
        self._touched = set[str]()  # connections over which something came
        self._scanned_at = -inf
        self._gone: deque[_Row] = deque()  # rows that are still told of as gone
        self._known_since = 0  # the answer after which all that have gone are remembered
        self._turns_seen = self._activity.turns_kept  # of the watch: events are looked for in those after them
        self._complete_at = -inf
        self._events: deque[tuple[int, float, float]] = deque(maxlen=EVENTS_TOLD)  # at which answer, and where
        self._cut_at = -1  # the last answer before which more events came than are looked at or told
        self._hand_overs: deque[tuple[int, dict[str, Any]]] = deque(maxlen=HAND_OVERS_MAX)
        self._handed_over = self._activity.counts.get(HANDED_OVER, 0)

    # ------------------------------------------------------------ answers

    def since(self, mark: str, now: float) -> dict[str, Any]:
        """The changes since the answer with this mark; everything, if the mark is unknown."""
        began = thread_time()
        if self._observation.renew(now):
            self._forget()
        self._answer += 1
        self._follow_sessions(now)
        self._follow_events(now)
        self._follow_hand_overs()
        seen = self._seen_by(mark)
        is_whole = seen < self._known_since
        since = -1 if is_whole else seen
        moved, gone = self._changed_since(since)
        new = [row for row, _ in moved if row.made > since]
        told: dict[str, Any] = {
            "mark": f"{self._epoch}.{self._answer}",
            "is_whole": is_whole,
            "names": {"numbers": [row.number for row in new], "names": [row.client for row in new]},
            "moved": {
                "numbers": [row.number for row, _ in moved],
                "lon": [point.lon for _, point in moved],
                "lat": [point.lat for _, point in moved],
                "attached": [row.is_attached for row, _ in moved],
                "at": [row.at for row, _ in moved],
            },
            "gone": gone,
            "hand_overs": [each for at, each in self._hand_overs if at > seen >= 0],
            "events": {
                "lon": [lon for at, lon, _ in self._events if at > seen >= 0],
                "lat": [lat for at, _, lat in self._events if at > seen >= 0],
                "is_cut": self._cut_at > seen >= 0,
            },
        }
        return {**told, "took_ms": 1_000 * (thread_time() - began)}

    def _changed_since(self, answer: int) -> tuple[list[tuple[_Row, Point]], list[int]]:
        """Clients that have moved after an answer, and where they are; and the numbers of those that have gone."""
        moved, gone = list[tuple[_Row, Point]](), list[int]()
        for number, row in reversed(self._order.items()):
            if row.changed <= answer:
                break
            if row.point is None:
                gone.append(number)
            else:
                moved.append((row, row.point))
        return moved, gone

    def _seen_by(self, mark: str) -> int:
        """The number of the answer with a mark; -1 if it is unknown here. (rule 1)"""
        epoch, _, number = mark.partition(".")
        is_known = epoch == self._epoch and number.isascii() and number.isdigit() and len(number) < 16
        return int(number) if is_known and int(number) < self._answer else -1

    # ------------------------------------------------------------ what has changed

    def _on_turn(self, inputs: Turn, now: float) -> None:
        """Remember the connections with input: their clients may have moved."""
        self._touched.update([input.connection for input, _ in inputs if type(input) is Heard])

    def _follow_sessions(self, now: float) -> None:
        """Inspect the sessions of clients with input, and from time to time all sessions."""
        if 0 <= now - self._scanned_at < SCAN_S:
            rows = map(self._connections.get, self._touched)
            touched = [row.session for row in rows if row is not None and row.session is not None]
            self._touched.clear()
            self._follow_all(touched)
            return
        self._scanned_at = now
        self._touched.clear()
        sessions = list(islice(self._sessions(), POSITIONS_MAX))
        self._follow_all(sessions)
        if len(sessions) < self._with_session:
            there = {session.client for session in sessions}
            for row in [row for row in self._clients.values() if row.session is not None]:
                if row.client not in there:
                    self._lose_session(row)

    def _follow_all(self, sessions: Iterable[MappedSession]) -> None:
        clients, order, answer = self._clients, self._order, self._answer
        for session in sessions:
            row, context = clients.get(session.client), session.whole_context()
            if row is not None and row.session is session and row.connection is session.connection:
                if row.context is context:
                    continue
                place = context.get(LOCATION)
                if type(place) is Point and row.point is row.place is not None:  # it has moved, and that is all
                    row.context, row.place, row.point, row.changed = context, place, place, answer
                    del order[row.number]
                    order[row.number] = row
                    continue
            self._follow(session)

    def _follow(self, session: MappedSession) -> None:
        row = self._row_of(session.client)
        self._with_session += row.session is None
        self._connections.pop(row.connection, None)
        row.session, row.connection = session, session.connection
        if row.connection is not None:
            self._connections[row.connection] = row
        context = session.whole_context()
        if row.context is not context:
            row.context, row.place = context, point_in(context, self._places)
        self._settle(row)

    def _lose_session(self, row: _Row) -> None:
        self._connections.pop(row.connection, None)
        row.session = row.context = row.connection = row.place = None
        self._with_session -= 1
        self._settle(row)

    def _follow_events(self, now: float) -> None:
        """Inspect the events since the last question; from time to time all, to forget publishers that have stopped."""
        if not 0 <= now - self._complete_at < COMPLETE_S:
            self._complete_at = now
            found = EventPlaces().of(self._activity, self._places, now)
            for row in [row for row in self._clients.values() if row.said is not None and row.client not in found]:
                row.said = None
                self._settle(row)
            for client, said in found.items():
                self._say(client, said)
        said_now = dict[str, tuple[float, Point]]()
        placed = 0
        for looked_at, (at, event) in enumerate(self._activity.latest_events(after=self._turns_seen)):
            if looked_at == EVENTS_LOOKED_AT:
                self._cut_at = self._answer
                break
            point = point_in(event.attributes, self._places)
            if point is None:
                continue
            placed += 1
            if placed <= EVENTS_TOLD:
                self._events.append((self._answer, point.lon, point.lat))
            said_now.setdefault(event.publisher, (at, point))
        if placed > EVENTS_TOLD:
            self._cut_at = self._answer
        for client, said in said_now.items():
            self._say(client, said)
        self._turns_seen = self._activity.turns_kept

    def _say(self, client: str, said: tuple[float, Point]) -> None:
        row = self._row_of(client)
        if row.said != said:
            row.said = said
            self._settle(row)

    def _follow_hand_overs(self) -> None:
        """Sessions that moved from here to another broker; records are searched only if there are new ones."""
        new = self._activity.counts.get(HANDED_OVER, 0) - self._handed_over
        if new <= 0:
            return
        self._handed_over += new
        moved = ((at, record) for at, record in self._activity.latest_records() if record.kind == HANDED_OVER)
        for at, record in reversed(list(islice(moved, min(new, HAND_OVERS_MAX)))):
            to, events = record.detail.removeprefix(DIRECTION), max(0, record.number)
            self._hand_overs.append((self._answer, {"at": at, "client": record.peer, "to": to, "events": events}))

    # ------------------------------------------------------------ rows

    def _row_of(self, client: str) -> _Row:
        row = self._clients.get(client)
        if row is None:
            row = self._clients[client] = _Row(client, next(self._numbers), self._answer)
        return row

    def _settle(self, row: _Row) -> None:
        """A row may have changed: if so, it goes to the end of the order."""
        was_shown = row.point is not None
        if row.settle():
            if not was_shown:
                row.made = self._answer  # its name is sent again: pages drop clients that left the map
            row.changed = self._answer
            self._order.pop(row.number, None)
            self._order[row.number] = row
        if row.session is None and row.said is None:
            self._clients.pop(row.client, None)  # a client that comes again gets a new number
            if row.number in self._order:
                self._gone.append(row)
        while len(self._gone) > GONE_MAX:
            forgotten = self._gone.popleft()
            del self._order[forgotten.number]
            self._known_since = max(self._known_since, forgotten.changed)


def mark_of(marks: str, broker: str) -> str:
    """The mark of one broker in the JSON object of marks by broker that a page sends to all; "" if it has none."""
    if not marks:
        return ""
    try:
        return msgspec.json.decode(marks, type=dict[str, str]).get(broker, "")
    except msgspec.MsgspecError as error:
        raise GodwitError(
            f'since must be a JSON object of marks by broker, such as {{"b1": "0a1b2c3d.7"}}: {error}'
        ) from None
