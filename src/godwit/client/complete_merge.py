"""The fourth filter: what several replicas deliver, merged so that it is ordered, consistent and complete.

*Theory.* Each replica's stream comes in the order of its session and lacks nothing that the session has. But one
replica may have missed an event that another has, and bring the next one first: its own chain looks whole. An event is
therefore displayed when every replica has *passed* it: when the replica has delivered it or a later one of the same
publisher, or has answered that it has nothing more up to there. What a replica has below that number has then come,
and events are displayed by their numbers.

A replica that has missed an event passes it only with the publisher's next one. So after `ask_after_s` the client asks
those that have not passed it (`FetchEvents`). The answer brings what the replica has and has not sent yet, ahead of all
else that waits in its queue, and comes behind what it has sent: then the replica has passed. A replica that is out of
reach, or does not answer, is waited for until `give_up_s` are over, and again from when it is back.

Each delivery names its predecessor. One that never came was in the replica's session and is not any more. Another
replica may bring it, before or after; if none has when a later event is displayed, that is a gap, on record by number.

    held ── all awaited replicas have passed it ──> displayed
      └── ask_after_s ──> asked ── Covered ──> passed
                            └── give_up_s ──> the replica is not awaited any more

*Rules.*
1. Ordered and consistent, always: of each publisher strictly increasing numbers are displayed, each an event that some
   replica delivered. (As long as the publisher is remembered: rule 6.)
2. Complete, as long as no bound is passed: every event that some replica has in its session is displayed. The bounds:
   a. an event reaches a replica, if at all, less than `ask_after_s` after it has come to the client from another;
   b. a replica that has what no other has is out of reach, or silent, for less than `give_up_s`, and keeps its session;
   c. what a replica holds does not outgrow the queue of its session, nor what is held here `held_max`;
   d. the events of a publisher reach each replica in their order, as links and trees let them.
3. Past a bound, ordered and consistent still hold. Completeness is given up, and that is on record: `unawaited` when a
   replica is not waited for any longer, `overtaken` when an event came too late, `gap` when one never came.
4. An event waits at most `ask_after_s + give_up_s` for each time that a replica comes back.
5. Not promised by any replica, and so not missed: what is lost between its source and all replicas, and what died with
   the disk of the only replica that had it.
6. All that grows is bounded: what is held, questions (one for each replica and publisher), numbers that are missing,
   and publishers: the one that was silent longest is forgotten, and an event of it that comes again is displayed again.

*Paper.* [mobile §5]: the three properties; the filter is ours. It removes the trade-off of Table 1's last row, and pays
in waiting: an event waits for the slowest replica.
"""

from bisect import insort

import msgspec

from godwit.broker.effects import Effect, Notify, StartTimer, StopTimer, Tell, TimerKey, Trace
from godwit.broker.message_checks import check_event, shown
from godwit.broker.messages import Delivery, FetchedEvents, FetchEvents, NodeId
from godwit.broker.predecessor_chain import ITEMS_MAX
from godwit.errors import PeerFault
from godwit.filters.events import Event
from godwit.seen import Seen
from godwit.trace import Record

__all__ = ["CompleteMerge", "MergeBounds"]

MISSING_MAX = 1_000  # of a publisher, kept until they come or are passed over


class MergeBounds(msgspec.Struct, frozen=True):
    """How long is waited, and how much is kept."""

    ask_after_s: float = 0.5  # more than the ways from a source to two replicas differ by
    give_up_s: float = 10.0  # for a replica that is out of reach or does not answer
    held_max: int = 10_000  # events
    publishers_max: int = 10_000
    seen_window: int = 256  # numbers remembered of a publisher, to tell what came twice from what came too late

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}: it must be above 0")
        if self.publishers_max < 2:
            raise ValueError("publishers_max is 1: it must be 2 or more")


class _Held(msgspec.Struct):
    """An event that waits to be displayed."""

    event: Event
    subscriptions: tuple[str, ...]
    since: float


class _Source:
    """What is known of one publisher."""

    __slots__ = ("asks_at", "displayed", "held", "missing", "numbers", "passed")

    def __init__(self) -> None:
        self.displayed = 0  # the number of the last event that was
        self.held: dict[int, _Held] = {}
        self.numbers: list[int] = []  # of these, in order
        self.passed: dict[NodeId, int] = {}  # by replica: it brings nothing more up to this number
        self.missing: dict[int, NodeId] = {}  # numbers that a replica has named, and that nobody has brought
        self.asks_at: float | None = None  # when the timer of its next question is due


class CompleteMerge:
    """Holds what replicas deliver until all have passed it. See the module's head."""

    def __init__(self, replicas: tuple[NodeId, ...], bounds: MergeBounds) -> None:
        self.bounds = bounds
        self.awaited = dict.fromkeys(replicas, False)  # from when its session is first known
        self.connected = dict.fromkeys(replicas, False)
        self.asked: dict[NodeId, dict[str, tuple[FetchEvents, float]]] = {replica: {} for replica in replicas}
        self.held = 0
        self.overtaken = 0
        self.gaps = 0
        self._sources: dict[str, _Source] = {}  # the latest to be heard of last
        self._waiting: dict[str, None] = {}  # publishers of whom something is held
        self._has_forgotten = False
        self._inherited: set[NodeId] = set()  # replicas whose session began with another process of this name
        self._seen = Seen(bounds.seen_window, bounds.publishers_max)

    # ------------------------------------------------------------ replicas come and go

    def on_attached(self, replica: NodeId, now: float, *, resumed: bool, inherited: bool = False) -> list[Effect]:
        """A replica is there: wait for it. What a new session has is all still to come.

        `inherited`: another process of this name has displayed what is before its first delivery.
        """
        if inherited:
            self._inherited.add(replica)
        elif not resumed:
            self._inherited.discard(replica)
        if not resumed:
            for source in self._sources.values():
                source.passed.pop(replica, None)
        self.connected[replica] = self.awaited[replica] = True
        effects: list[Effect] = [StopTimer(("gone", replica))]
        for publisher in self._waiting:
            self._sources[publisher].asks_at = None  # what it should have been asked about is asked now
            effects += self._ask(publisher, now)
        return effects

    def on_gone(self, replica: NodeId, now: float) -> list[Effect]:
        """A replica is out of reach. It may have what no other has: wait for it, up to a limit."""
        self.connected[replica] = False
        self.asked[replica].clear()
        effects: list[Effect] = [StopTimer(("answer", replica))]
        if self.awaited[replica]:
            effects.append(StartTimer(("gone", replica), now + self.bounds.give_up_s))
        return effects

    def on_timer_due(self, key: TimerKey, now: float) -> list[Effect]:
        """It is time to ask, or to go on without an answer."""
        what, name = key
        if what == "ask":
            source = self._sources.get(name)
            if source is None:
                return []
            source.asks_at = None
            return self._ask(name, now)
        if what == "gone" and not self.connected[name]:
            return self._give_up(name, "out of reach", now)
        if what == "answer" and self.asked[name]:
            return self._give_up(name, "no answer", now)
        return []

    def _give_up(self, replica: NodeId, why: str, now: float) -> list[Effect]:
        """Rule 3: go on without this replica."""
        self.awaited[replica] = False
        detail = f"{why} for {self.bounds.give_up_s:g} s"
        effects: list[Effect] = [Trace(Record("unawaited", replica, detail=detail))]
        for publisher in list(self._waiting):
            effects += self._display(publisher, now)
        return effects

    # ------------------------------------------------------------ events come

    def on_delivery(self, replica: NodeId, message: Delivery, *, is_new: bool, now: float) -> list[Effect]:
        """A replica has passed a number. `is_new`: the event itself has not come from this replica before."""
        publisher, sequence = message.event.id
        predecessor = message.predecessor
        effects: list[Effect] = []
        source = self._source(publisher)
        passed = source.passed.get(replica, 0)
        if predecessor >= 0 and sequence > passed:
            is_first = replica not in source.passed
            if predecessor > passed and not (is_first and (self._has_forgotten or replica in self._inherited)):
                effects += self._miss(publisher, source, predecessor, replica)
            source.passed[replica] = sequence
        if is_new:
            effects += self._take(replica, source, message.event, message.subscriptions, now)
        return effects + self._display(publisher, now)

    def _miss(self, publisher: str, source: _Source, number: int, replica: NodeId) -> list[Effect]:
        """`replica` had this event, and never sent it: somebody else may."""
        if number > source.displayed:
            if number not in source.held and len(source.missing) < MISSING_MAX:
                source.missing.setdefault(number, replica)
            return []
        return self._gap(publisher, number, replica) if self._seen.add(publisher, number) else []

    def _gap(self, publisher: str, number: int, replica: NodeId) -> list[Effect]:
        self.gaps += 1
        return [
            Trace(
                Record("gap", replica, "", publisher, number, detail="it had this event, and no replica delivered it")
            )
        ]

    def _take(
        self, replica: NodeId, source: _Source, event: Event, subscriptions: tuple[str, ...], now: float
    ) -> list[Effect]:
        """Hold an event, or know it."""
        publisher, sequence = event.id
        if sequence <= source.displayed:
            if self._seen.add(publisher, sequence):
                self.overtaken += 1
                detail = f"{source.displayed} was displayed before"
                return [Trace(Record("overtaken", replica, "", publisher, sequence, detail=detail))]
            return [Trace(Record("suppressed", replica, "", publisher, sequence))]
        held = source.held.get(sequence)
        if held is not None:  # for one subscription here, for another there
            held.subscriptions += tuple(name for name in subscriptions if name not in held.subscriptions)
            return [Trace(Record("suppressed", replica, "", publisher, sequence))]
        source.held[sequence] = _Held(event, subscriptions, now)
        insort(source.numbers, sequence)
        source.missing.pop(sequence, None)
        self.held += 1
        self._waiting[publisher] = None
        return []

    def _display(self, publisher: str, now: float) -> list[Effect]:
        """Display what all replicas have passed, in order; ask about the rest in time."""
        source = self._sources.get(publisher)
        if source is None or not source.numbers:
            return []
        passed = source.passed
        level = min(
            (passed.get(replica, 0) for replica, is_awaited in self.awaited.items() if is_awaited), default=None
        )
        effects: list[Effect] = []
        numbers, count = source.numbers, 0
        while count < len(numbers) and (level is None or numbers[count] <= level or self.held > self.bounds.held_max):
            number = numbers[count]
            if level is not None and number > level:
                detail = f"more than {self.bounds.held_max} events are held"
                effects.append(Trace(Record("unawaited", "", "", publisher, number, detail=detail)))
            held = source.held.pop(number)
            for missing in [each for each in source.missing if each < number]:
                effects += self._gap(publisher, missing, source.missing.pop(missing))
                self._seen.add(publisher, missing)
            source.displayed = number
            self._seen.add(publisher, number)
            effects.append(Notify(held.event, held.subscriptions))
            self.held -= 1
            count += 1
        del numbers[:count]
        if not numbers:
            del self._waiting[publisher]
            if source.asks_at is not None:
                source.asks_at = None
                effects.append(StopTimer(("ask", publisher)))
            return effects
        return effects + self._ask(publisher, now)

    # ------------------------------------------------------------ questions and answers

    def _ask(self, publisher: str, now: float) -> list[Effect]:
        """Ask the replicas that have not passed what has waited long enough; and again when more has. Rule 2a.

        Nothing is asked, and no timer runs, while all that are behind are out of reach or have still to answer.
        """
        source, after_s = self._sources[publisher], self.bounds.ask_after_s
        if not source.numbers or (source.asks_at is not None and now < source.asks_at):
            return []
        last, passed = source.numbers[-1], source.passed
        reachable = [each for each in self.awaited if self.awaited[each] and self.connected[each]]
        behind = [each for each in reachable if passed.get(each, 0) < last and publisher not in self.asked[each]]
        source.asks_at = None
        if not behind:
            return []
        through = max((n for n, held in source.held.items() if held.since + after_s <= now), default=0)
        effects: list[Effect] = []
        for replica in behind:
            if passed.get(replica, 0) < through:
                asked = self.asked[replica]
                if not asked:
                    effects.append(StartTimer(("answer", replica), now + self.bounds.give_up_s))
                asked[publisher] = (question := FetchEvents(publisher, source.displayed, through), now)
                effects.append(Tell(replica, question))
        times = [held.since + after_s for held in source.held.values() if held.since + after_s > now]
        if times:
            source.asks_at = min(times)
            effects.append(StartTimer(("ask", publisher), source.asks_at))
        return effects

    def check_fetched_events(self, replica: NodeId, message: FetchedEvents) -> None:
        """`PeerFault` unless the replica answers what it was asked."""
        question, _ = self.asked[replica].get(message.publisher, (None, 0.0))
        _check_fetched_events(message, question)

    def on_fetched_events(self, replica: NodeId, message: FetchedEvents, now: float) -> list[Effect]:
        """An answer: the replica has passed what it was asked about, or as much as fits."""
        question, _ = self.asked[replica].get(message.publisher, (None, 0.0))
        _check_fetched_events(message, question)
        publisher, asked = message.publisher, self.asked[replica]
        del asked[publisher]
        effects: list[Effect] = []
        if asked:
            oldest = next(iter(asked.values()))[1]
            effects.append(StartTimer(("answer", replica), max(now, oldest + self.bounds.give_up_s)))
        else:
            effects.append(StopTimer(("answer", replica)))
        self.awaited[replica] = True
        source = self._source(publisher)
        for item in message.items:
            effects += self._take(replica, source, item.event, item.subscriptions, now)
        source.passed[replica] = max(source.passed.get(replica, 0), message.through)
        source.asks_at = None
        return effects + self._display(publisher, now)

    def stop(self) -> list[Effect]:
        """Forget every timer."""
        keys: list[TimerKey] = [(what, replica) for replica in self.awaited for what in ("gone", "answer")]
        keys += [("ask", publisher) for publisher in self._waiting]
        return [StopTimer(key) for key in keys]

    # ------------------------------------------------------------ publishers

    def _source(self, publisher: str) -> _Source:
        """The state of a publisher, which becomes the most recently used."""
        source = self._sources.pop(publisher, None)
        if source is None:
            source = _Source()
            if len(self._sources) >= self.bounds.publishers_max:  # rule 6
                silent = next((each for each, known in self._sources.items() if not known.numbers), None)
                if silent is not None:
                    del self._sources[silent]
                    self._has_forgotten = True
        self._sources[publisher] = source
        return source


def _check_fetched_events(message: FetchedEvents, question: FetchEvents | None) -> None:
    """`PeerFault` unless this answers the question."""
    if question is None or message.after != question.after:
        raise PeerFault(f"{shown(message)} answers no request")
    if not message.after < message.through <= question.through:
        raise PeerFault(f"{question.after} to {question.through} was asked for, not up to {message.through}")
    if len(message.items) > ITEMS_MAX:
        raise PeerFault(f"an answer of more than {ITEMS_MAX} events")
    last = message.after
    for item in message.items:
        check_event(item.event)
        if item.event.publisher != message.publisher:
            raise PeerFault(f"an event of {item.event.publisher} in an answer about {message.publisher}")
        if not last < item.event.sequence <= message.through:
            raise PeerFault(f"event {item.event.sequence} in an answer about {last} to {message.through}")
        last = item.event.sequence
