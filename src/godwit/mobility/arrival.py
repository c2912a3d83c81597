"""An arrival: a client that is attached here while its session is not here yet. Its data and its phases.

*Theory.* `TRANSITIONS` is the life of an arrival. An arrival begins by asking: of a client that brings nothing, first
what it wants, then for the session itself. The question for the session follows all that the client wants: this is
subscribed in slices, if it takes long (`arrival_entries.py`). What else differs between modes is asked of the mode's
policy (`ArrivalVariant`). The session comes in parts. In the graph family it may have to wait until all brokers have
flushed (`transfer_barrier.py`). Then the client is attached, with its session (`done`) or with a
new one (`lost`); or the client is elsewhere and nothing stays here (`superseded`).

*Rules.*
1. What it brings is bounded by the same limits as a session: a wish beyond them is left out. The client sends it again
   when it is attached, and gets the reason.
2. A filter that was replaced while the session was on its way is wanted besides the new one, since the session may hold
   either; where both together are too large, the new one alone.
3. Of what is replayed, as much is kept as a queue may hold. What is left out is recorded.
4. If a client was attached elsewhere while its session was searched here, and comes back, the search begins again: what
   is left of the time for the old search is not that of this one, and the session would be given up too early.
5. Every change of phase is in `TRANSITIONS`; any other is a fault of this program. What can be done with an arrival is
   asked of the same table (`may`): its client is attached with the session exactly where `FINISH` is allowed.
6. A broker may be superseded in any phase, while a session is still on its way to it: `superseded_by` is no phase.
   Nor is `knows_wishes`: a part of the session may come before anybody has said what the client wants. Nor are entries
   that are still to be placed (`unplaced`): the client may come again and bring more, and the session may hold others.
7. What must follow the last of these entries waits for it: a question (`asks_later`), attaching the client
   (`finishes_later`).
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import structs

from godwit.broker.effects import Close, Effect, Tell
from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, Attach, Bye, NodeId, SessionState, Subscribe
from godwit.broker.queues import event_size
from godwit.broker.session import Binding, Session
from godwit.broker.withdrawals import ADVERTISEMENT
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, any_of
from godwit.filters.references import is_open
from godwit.mobility.move_messages import AskInterests, Relocate, Replay

__all__ = [
    "TRANSITIONS",
    "Arrival",
    "ArrivalState",
    "ArrivalVariant",
    "FlushKey",
    "Phase",
    "SessionSearch",
    "Step",
]

BUFFER_MAX = 10_000
BUFFER_BYTES_MAX = 16 * 2**20

FlushKey = tuple[NodeId, int, NodeId]
"""Client, attempt, and the broker whose `Flush` it is."""


class Phase(StrEnum):
    """How far an arrival is."""

    ASKING_WISHES = "asking wishes"
    SUBSCRIBING = "subscribing"
    ASKING_SESSION = "asking session"
    RECEIVING = "receiving"
    FLUSHING = "flushing"
    DONE = "done"
    SUPERSEDED = "superseded"
    LOST = "lost"


class Step(StrEnum):
    """What moves an arrival from one phase to another."""

    WISHES = "what the client wants is known"
    SUBSCRIBED = "all of it is subscribed"
    PART = "a part of the session came"
    WHOLE = "the session is whole, and others must flush"
    FINISH = "go on with the session"
    GIVE_UP = "go on without the session"
    FORGET = "the client is elsewhere"


TRANSITIONS: dict[Phase, dict[Step, Phase]] = {
    Phase.ASKING_WISHES: {
        Step.WISHES: Phase.SUBSCRIBING,
        Step.PART: Phase.RECEIVING,
        Step.GIVE_UP: Phase.LOST,
        Step.FORGET: Phase.SUPERSEDED,
    },
    Phase.SUBSCRIBING: {
        Step.SUBSCRIBED: Phase.ASKING_SESSION,
        Step.PART: Phase.RECEIVING,
        Step.GIVE_UP: Phase.LOST,
        Step.FORGET: Phase.SUPERSEDED,
    },
    Phase.ASKING_SESSION: {
        Step.PART: Phase.RECEIVING,
        Step.GIVE_UP: Phase.LOST,
        Step.FORGET: Phase.SUPERSEDED,
    },
    Phase.RECEIVING: {
        Step.PART: Phase.RECEIVING,
        Step.WHOLE: Phase.FLUSHING,
        Step.FINISH: Phase.DONE,
        Step.FORGET: Phase.SUPERSEDED,
    },
    Phase.FLUSHING: {
        Step.PART: Phase.FLUSHING,
        Step.WHOLE: Phase.FLUSHING,
        Step.FINISH: Phase.DONE,
        Step.FORGET: Phase.SUPERSEDED,
    },
    Phase.DONE: {},
    Phase.SUPERSEDED: {},
    Phase.LOST: {},
}
"""By phase, what each step leads to. scripts/diagrams.py draws it for docs/architecture.md."""


class ArrivalState(msgspec.Struct, frozen=True, omit_defaults=True):
    """An arrival, written down."""

    attach: Attach
    phase: str
    connection: str | None = None
    asserted: Attributes | None = None
    subscriptions: tuple[Subscribe, ...] = ()
    advertisements: dict[str, Filter] = {}
    buffer: tuple[tuple[Event, tuple[str, ...]], ...] = ()
    parts: tuple[Replay, ...] = ()
    next: Relocate | None = None
    gives_up_at: float = 0.0
    asks: int = 0
    followed: int = -1
    trail: tuple[NodeId, ...] = ()
    superseded_by: NodeId | None = None
    flushes: FlushKey | None = None
    knows_wishes: bool = True
    losses_heard: int = 0
    unplaced: tuple[tuple[str, str], ...] = ()
    asks_later: bool = False
    finishes_later: bool = False


class Arrival:
    """A client that is here and whose session is not yet."""

    def __init__(
        self,
        attach: Attach,
        connection: str | None,
        asserted: Attributes | None = None,
        *,
        gives_up_at: float = 0.0,
        knows_wishes: bool = True,
    ) -> None:
        self.attach = attach
        self.connection = connection
        self.asserted = asserted  # what is vouched for of its context; None: it has not come itself
        self.subscriptions: dict[str, Subscribe] = {}
        self.advertisements: dict[str, Filter] = {}
        self.buffer: list[tuple[Event, tuple[str, ...]]] = []  # what has come for it meanwhile
        self.buffer_bytes = 0
        self.parts: list[Replay] = []
        self.events = 0  # in these
        self.bytes = 0
        self.next: Relocate | None = None  # who has asked for it since
        self.gives_up_at = gives_up_at
        self.asks = 0
        self.followed = -1  # for which attempt the session went to where it is asked for, as the last broker said
        self.trail = list(attach.tried)  # who else may have it, the likeliest last
        self.superseded_by: NodeId | None = None  # who has told us that the client is elsewhere
        self.flushes: FlushKey | None = None  # flushing: which `Flush` must be answered before its client comes in
        self.knows_wishes = knows_wishes
        self.losses_heard = 0  # the last loss that this broker had heard of when it began
        self.unplaced: dict[tuple[str, str], None] = {}  # kinds and names of entries, the next one first
        self.asks_later = self.finishes_later = False  # when all of these are placed
        self.phase = Phase.SUBSCRIBING if knows_wishes else Phase.ASKING_WISHES

    def snapshot(self) -> ArrivalState:
        """All of it."""
        return ArrivalState(
            attach=self.attach,
            phase=str(self.phase),
            connection=self.connection,
            asserted=None if self.asserted is None else dict(self.asserted),
            subscriptions=tuple(self.subscriptions.values()),
            advertisements=dict(self.advertisements),
            buffer=tuple(self.buffer),
            parts=tuple(self.parts),
            next=self.next,
            gives_up_at=self.gives_up_at,
            asks=self.asks,
            followed=self.followed,
            trail=tuple(self.trail),
            superseded_by=self.superseded_by,
            flushes=self.flushes,
            knows_wishes=self.knows_wishes,
            losses_heard=self.losses_heard,
            unplaced=tuple(self.unplaced),
            asks_later=self.asks_later,
            finishes_later=self.finishes_later,
        )

    @classmethod
    def restored(cls, state: ArrivalState) -> "Arrival":
        """The arrival that was written down."""
        arrival = cls(
            state.attach,
            state.connection,
            state.asserted,
            gives_up_at=state.gives_up_at,
            knows_wishes=state.knows_wishes,
        )
        arrival.phase = Phase(state.phase)
        arrival.subscriptions = {subscribe.id[1]: subscribe for subscribe in state.subscriptions}
        arrival.advertisements = dict(state.advertisements)
        arrival.buffer, arrival.parts, arrival.trail = list(state.buffer), list(state.parts), list(state.trail)
        arrival.buffer_bytes = sum(event_size(event) for event, _ in state.buffer)
        sizes = [event_size(item.event) for part in state.parts for item in part.items]
        arrival.events, arrival.bytes = len(sizes), sum(sizes)
        arrival.next, arrival.asks, arrival.losses_heard = state.next, state.asks, state.losses_heard
        arrival.superseded_by, arrival.flushes = state.superseded_by, state.flushes
        arrival.followed = state.followed
        arrival.unplaced = dict.fromkeys(state.unplaced)
        arrival.asks_later, arrival.finishes_later = state.asks_later, state.finishes_later
        return arrival

    def may(self, step: Step) -> bool:
        """Whether the phase allows this step. (rule 5)"""
        return step in TRANSITIONS[self.phase]

    @property
    def is_coming(self) -> bool:
        """Whether a part of the session is here, so that its client can be attached with it."""
        return self.may(Step.FINISH)

    def step(self, step: Step) -> None:
        """Go on to the next phase. (rule 5)"""
        after = TRANSITIONS[self.phase].get(step)
        assert after is not None, f"an arrival that is {self.phase}, and {step}"
        self.phase = after

    def question(self, broker: NodeId, incarnation: int, *, asks_wishes: bool) -> AskInterests | Relocate:
        """What this broker asks next: what the client wants, if its mode asks that and it is not known; or for its
        session.
        """
        attach = self.attach
        if asks_wishes and not self.knows_wishes:
            return AskInterests(attach.client, attach.home, broker, attach.attempt)
        self.asks += 1
        return Relocate(attach.client, attach.home, broker, attach.attempt, incarnation, self.followed)

    def look_around(self) -> None:
        """Others are asked for the session."""
        self.asks += 1

    def learn(self, wanted: tuple[Subscribe | Advertise, ...]) -> None:
        """What the client wants is known now."""
        self.attach = structs.replace(self.attach, wanted=wanted)
        self.knows_wishes = True

    def place(self, entries: Iterable[tuple[str, str]]) -> None:
        """These entries are to be placed, besides those that are not yet."""
        self.unplaced |= dict.fromkeys(entries)
        if self.knows_wishes and self.may(Step.WISHES):
            self.step(Step.WISHES)

    def filter_of(self, kind: str, name: str) -> Filter | None:
        """The filter of an entry."""
        if kind == ADVERTISEMENT:
            return self.advertisements.get(name)
        subscribe = self.subscriptions.get(name)
        return None if subscribe is None else subscribe.filter

    def on_placed(self) -> None:
        """All entries are."""
        if self.may(Step.SUBSCRIBED):
            self.step(Step.SUBSCRIBED)

    def session_state(self) -> SessionState:
        """The session that has come, without what waits in its queue. What was brought and is equal is one with it."""
        state = self.parts[0].state
        assert state is not None  # of the first part
        held = []
        for subscribe in state.subscriptions:
            brought = self.subscriptions.get(subscribe.id[1])
            if brought is not None and brought.filter is not subscribe.filter and brought.filter == subscribe.filter:
                subscribe = structs.replace(subscribe, filter=brought.filter)
            held.append(subscribe)
        return structs.replace(state, subscriptions=tuple(held))

    def hold(self, subscriptions: dict[str, Subscribe], advertisements: dict[str, Filter]) -> None:
        """The session is here and holds these, and nothing besides. Entries that differ are to be placed."""
        self.subscriptions, self.advertisements = subscriptions, advertisements

    def ask_later(self) -> None:
        """A question must follow entries that are not placed yet."""
        self.asks_later = True

    def finish_later(self) -> None:
        """The client can be attached when all entries are placed."""
        self.finishes_later = True

    def flush(self, flushes: FlushKey, gives_up_at: float) -> None:
        """The session is whole: its client comes in when this `Flush` is answered, or at that time."""
        self.step(Step.WHOLE)
        self.flushes, self.gives_up_at = flushes, gives_up_at

    def was_elsewhere(self, attach: Attach) -> bool:
        """Whether a returning client was attached elsewhere since, by its greeting."""
        return attach.since != self.attach.since and self.phase is not Phase.FLUSHING

    def come_again(self, attach: Attach, connection: str, asserted: Attributes) -> None:
        """The client has come over another connection."""
        self.attach, self.connection, self.asserted = attach, connection, asserted
        self.next, self.superseded_by, self.trail, self.followed = None, None, list(attach.tried), -1

    def on_closed(self, connection: str) -> None:
        """A connection is gone, perhaps the client's."""
        if self.connection == connection:
            self.connection = None

    def hang_up(self, reason: str) -> list[Effect]:
        """Close the client's connection, if there is one."""
        connection, self.connection = self.connection, None
        return [] if connection is None else [Tell(connection, Bye(reason)), Close(connection, reason)]

    def send_on(self, message: Relocate) -> None:
        """The session goes on to the broker that has asked for it, when it has come."""
        self.next = message

    def supersede(self, by: NodeId) -> None:
        """The client is elsewhere, as the broker `by` says."""
        self.superseded_by = by

    def is_over(self, name: str, now: float) -> bool:
        """Whether a subscription that the client brings has expired: what comes now is not for it."""
        subscribe = self.subscriptions.get(name)
        return subscribe is not None and subscribe.expires is not None and subscribe.expires <= now

    def keep(self, event: Event, names: tuple[str, ...]) -> bool:
        """Keep what has come for these subscriptions; False: there is no room."""
        size = event_size(event)
        if len(self.buffer) >= BUFFER_MAX or (self.buffer and self.buffer_bytes + size > BUFFER_BYTES_MAX):
            return False
        self.buffer.append((event, names))
        self.buffer_bytes += size
        return True

    def wait_until(self, gives_up_at: float) -> None:
        """Change the time at which the session is given up. (rule 4)"""
        self.gives_up_at = gives_up_at

    def look_at(self, home: NodeId, followed: int = -1) -> None:
        """The session may be at this broker, where it has gone for the attempt `followed`."""
        self.attach, self.followed = structs.replace(self.attach, home=home), followed

    def resume(self, attach: Attach, session: Session) -> Attach:
        """The session has come, and knows the client's context; the greeting with it."""
        self.attach = structs.replace(attach, context=session.context)
        return self.attach

    def want(self, wish: Subscribe | Advertise, limits: Limits, binding: Binding) -> None:
        """Its session may hold this, too. Rules 1, 2."""
        name, largest = wish.id[1], limits.filter_literals_max
        if wish.filter.size > largest or (is_open(wish.filter) and binding.why_not(wish.filter) is not None):
            return
        if isinstance(wish, Subscribe):
            before = self.subscriptions.get(name)
            if before is None and len(self.subscriptions) >= limits.subscriptions_max:
                return
            if before is not None and before.filter != wish.filter:
                wish = structs.replace(wish, filter=_either(before.filter, wish.filter, largest))
            self.subscriptions[name] = wish
        else:
            known = self.advertisements.get(name)
            if known is None and len(self.advertisements) >= limits.advertisements_max:
                return
            self.advertisements[name] = wish.filter if known is None else _either(known, wish.filter, largest)

    def take(self, part: Replay, limits: Limits) -> list[Event]:
        """Keep a part of the session. The events that there is no room for. Rule 3."""
        self.step(Step.PART)
        kept, left = [], list[Event]()
        for item in part.items:
            size = event_size(item.event)
            if self.events < limits.queue_events_max and self.bytes + size <= limits.queue_bytes_max:
                kept.append(item)
                self.events += 1
                self.bytes += size
            else:
                left.append(item.event)
        if kept or part.is_last or not self.parts:
            self.parts.append(structs.replace(part, items=tuple(kept)) if left else part)
        return left


class ArrivalVariant(Protocol):
    """What differs between modes for a client that has turned up here."""

    asks_wishes: bool
    """Whether the client brings nothing with it, so that its old broker is asked first what it wants."""

    says_when_let_in: bool
    """Whether `Attach.since` says when the client was last let in anywhere."""

    def resume(self, attach: Attach, session: Session) -> Attach:
        """The greeting for a session that has come."""

    def on_no_answer(self, arrival: Arrival, now: float) -> list[Effect]:
        """No part of the session has come in time."""

    def begin_without(self, arrival: Arrival, now: float) -> list[Effect]:
        """The session is lost."""


class SessionSearch(Protocol):
    """Looks for the session of a client that has turned up here, if nobody knows where it is."""

    def search(self, arrival: Arrival, now: float) -> list[Effect]:
        """Look for it, or look again."""

    def search_further(self, arrival: Arrival, now: float) -> list[Effect] | None:
        """It was not found: where else it is looked for, or None if nowhere."""


def _either(before: Filter, now: Filter, largest: int) -> Filter:
    both = any_of(before, now)
    return both if both.size <= largest else now
