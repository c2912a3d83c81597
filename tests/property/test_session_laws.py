"""The laws of sessions: whatever breaks, each event that a session took in comes once and in order, or is counted.

A `Sessions` and a `Client` are joined by a connection that is first in, first out, and that breaks at any moment with
all that is under way on it, in both directions. Sometimes only the client notices. Sometimes the sessions are
written down and read again, as by a snapshot.
"""

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from godwit.broker.effects import Close, Closed, Heard, Notify, Opened, StartTimer, StopTimer, Tell, TimerDue, Trace
from godwit.broker.limits import Limits
from godwit.broker.messages import Attach, Attached, Publish, QueueRules, Received, Request
from godwit.broker.queues import Queue
from godwit.broker.sessions import Sessions
from godwit.client import Client, ClientConfig
from godwit.filters.events import event
from godwit.filters.filters import TRUE
from tests.snapshots import restored

LIMITS = Limits(window=4, queue_events_max=9, queue_bytes_max=1_500, session_expiry_s=None)
CONFIG = ClientConfig(in_flight_max=3, confirm_every=3, buffer_events_max=1_000)

RULES = st.one_of(
    st.none(),
    st.none(),
    st.builds(
        QueueRules,
        age_s_max=st.one_of(st.none(), st.sampled_from([1.0, 5.0])),
        newest_per=st.sampled_from([None, None, "key"]),
        high_water=st.sampled_from([None, None, "level"]),
        count_max=st.sampled_from([None, None, 0, 2, 4]),
        bytes_max=st.sampled_from([None, None, 100, 400]),
        importance=st.sampled_from([None, "level"]),
    ),
)

Id = tuple[str, int]


class Driver:
    """Carries out the effects of one side."""

    def __init__(self) -> None:
        self.timers: dict[tuple[str, ...], float] = {}

    def take(self, effect: Any) -> None:
        if isinstance(effect, StartTimer):
            self.timers[effect.key] = effect.at
        elif isinstance(effect, StopTimer):
            self.timers.pop(effect.key, None)

    def due(self, now: float) -> Iterator[tuple[str, ...]]:
        while ready := sorted((at, key) for key, at in self.timers.items() if at <= now):
            del self.timers[ready[0][1]]
            yield ready[0][1]


class Joined(RuleBasedStateMachine):
    """A client, its session, the connection between them, and what an onlooker knows."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.lives = 1
        self.sessions = Sessions(LIMITS, "b", self.lives)
        self.client = Client("ann", CONFIG)
        self.broker_side, self.client_side = Driver(), Driver()
        self.connections = 0
        self.up: deque[Any] | None = None  # None: there is no connection
        self.down: deque[Any] = deque()
        # What the onlooker knows.
        self.sequence = 0
        self.taken: list[Id] = []
        self.gone: dict[Id, str] = {}
        self.notified: list[Id] = []
        self.died: set[Id] = set()  # with a broker that lost its disk
        self.suppressed = 0
        self.admitted: list[Id] = []
        self.receipts: list[Any] = []
        self.settled = {"purged": 0, "expired": 0, "suppressed": 0, "lost": 0}
        self.of_this_session = dict(self.settled)

    @property
    def connection(self) -> str:
        return f"c{self.connections}"

    # ------------------------------------------------------------ effects

    def by_broker(self, effects: Any) -> None:
        for effect in effects:
            self.broker_side.take(effect)
            if isinstance(effect, Tell) and effect.connection == self.connection and self.up is not None:
                self.down.append(effect.message)
            elif isinstance(effect, Close):
                assert effect.peer != self.connection or self.up is None, effect.reason
            elif isinstance(effect, Trace):
                record = effect.record
                id = (record.publisher, record.sequence)
                if record.kind in ("purged", "expired", "lost"):
                    if id not in self.notified:
                        assert id not in self.gone
                        self.gone[id] = record.kind
                    self.of_this_session["expired" if record.kind == "expired" else "purged"] += 1
                    self.of_this_session["lost"] += record.kind == "lost"
                elif record.kind == "suppressed":
                    self.of_this_session["suppressed"] += 1

    def by_client(self, effects: Any) -> None:
        for effect in effects:
            self.client_side.take(effect)
            assert not isinstance(effect, Close), effect.reason
            if isinstance(effect, Tell) and self.up is not None:
                self.up.append(effect.message)
            elif isinstance(effect, Notify):
                self.notified.append(effect.event.id)

    # ------------------------------------------------------------ the connection

    @initialize(rules=RULES)
    def begins(self, rules: QueueRules | None) -> None:
        self.subscribes("x", rules, None)
        self.connects()
        self.all_arrives()

    @rule()
    @precondition(lambda self: self.up is not None)
    def all_arrives(self) -> None:
        while self.up or self.down:
            self.arrives_at_the_broker(100)
            self.arrives_at_the_client(100)

    @rule()
    @precondition(lambda self: self.up is None)
    def connects(self) -> None:
        self.connections += 1
        self.up, self.down = deque(), deque()
        self.by_client(self.client.handle(Opened("b"), self.now))

    @rule(broker_notices=st.booleans())
    @precondition(lambda self: self.up is not None)
    def breaks(self, broker_notices: bool) -> None:
        self.up = None
        self.down = deque()
        if broker_notices:
            self.by_broker(self.sessions.detach(self.connection, self.now))
        self.by_client(self.client.handle(Closed("b"), self.now))

    @rule(count=st.integers(1, 6))
    @precondition(lambda self: self.up)
    def arrives_at_the_broker(self, count: int) -> None:
        for _ in range(count):
            if self.up:
                self._to_broker(self.up.popleft())

    def _to_broker(self, message: Any) -> None:
        if isinstance(message, Attach):
            self.by_broker(self.sessions.attach(self.connection, message, self.now))
        elif isinstance(message, Received):
            self.by_broker(self.sessions.received(self.connection, message, self.now))
        elif isinstance(message, Request):
            wish, effects = self.sessions.admit(self.connection, message, self.now)
            self.by_broker(effects)
            if isinstance(wish, Publish):
                self.admitted.append(wish.event.id)

    @rule(count=st.integers(1, 6))
    @precondition(lambda self: self.down)
    def arrives_at_the_client(self, count: int) -> None:
        for _ in range(count):
            if self.down:
                message = self.down.popleft()
                if isinstance(message, Attached):
                    self._read(message)
                self.by_client(self.client.handle(Heard("b", message), self.now))

    def _read(self, message: Attached) -> None:
        receipt = message.receipt
        if message.session != self.client.session:
            self.settled = dict.fromkeys(self.settled, 0)
        self.settled["purged"] += sum(receipt.purged.values())
        self.settled["expired"] += receipt.expired
        self.settled["suppressed"] += receipt.suppressed
        self.settled["lost"] += len(receipt.lost) + receipt.lost_more
        assert all(self.gone.get(id) == "lost" or id in self.notified for id in receipt.lost)
        assert receipt.session_lost == (self.client.session not in ("", message.session))

    # ------------------------------------------------------------ what the world does

    @rule(name=st.sampled_from("xyz"), rules=RULES, lasts=st.sampled_from([None, 3.0]))
    def subscribes(self, name: str, rules: QueueRules | None, lasts: float | None) -> None:
        expires = None if lasts is None else self.now + lasts
        self.by_client(self.client.subscribe(name, TRUE, self.now, expires=expires, queue=rules))

    @rule(name=st.sampled_from("xyz"))
    @precondition(lambda self: self.client.wanted)
    def unsubscribes(self, name: str) -> None:
        if ("subscription", name) in self.client.wanted:
            self.by_client(self.client.unsubscribe(name, self.now))

    @rule()
    def the_client_publishes(self) -> None:
        self.by_client(self.client.publish({"n": self.client.sequence}, self.now))

    @rule(
        count=st.integers(1, 8),
        names=st.sets(st.sampled_from("xyz"), min_size=1),
        key=st.integers(0, 2),
        level=st.integers(0, 9),
        lasts=st.sampled_from([None, None, None, None, 0.0, 2.0]),
        twice=st.booleans(),
    )
    def events_come(self, count: int, names: set[str], key: int, level: int, lasts: float | None, twice: bool) -> None:
        session = self.sessions.session("ann")
        held = {} if session is None else session.subscriptions
        over = {name for name, each in held.items() if each.expires is not None and each.expires <= self.now}
        ids = [("ann", name) for name in sorted(names) if name in held and name not in over]
        for _ in range(count):
            self.sequence += 1
            expires_at = None if lasts is None else self.now + lasts
            one = event({"key": key, "level": level}, publisher="p", sequence=self.sequence, payload=b"x" * 40 * level)
            one = event(
                {"key": key, "level": level},
                publisher="p",
                sequence=self.sequence,
                payload=b"x" * 40 * level,
                expires_at=expires_at,
            )
            if ids:
                self.taken.append(one.id)
            for _ in range(1 + twice):
                self.by_broker(self.sessions.deliver(one, ids, self.now))

    @rule(data=st.data())
    @precondition(lambda self: self.lives > 1 and self.notified)
    def an_old_event_comes_to_a_broker_that_has_forgotten_it(self, data: st.DataObject) -> None:
        session = self.sessions.session("ann")
        publisher, sequence = data.draw(st.sampled_from(self.notified))
        ids = [] if session is None else [("ann", name) for name in session.subscriptions]
        self.by_broker(self.sessions.deliver(event({}, publisher=publisher, sequence=sequence), ids, self.now))

    @rule(seconds=st.sampled_from([0.01, 0.1, 1.0, 4.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for key in self.broker_side.due(self.now):
            removed = self.sessions.on_timer_due(key, self.now)
            self.by_broker(removed.effects)
        for key in self.client_side.due(self.now):
            self.by_client(self.client.handle(TimerDue(key), self.now))

    @rule()
    def the_sessions_are_saved_and_loaded(self) -> None:
        self.sessions = restored(self.sessions, Sessions(LIMITS, "b", self.lives))

    @rule()
    def the_broker_loses_its_disk(self) -> None:
        session = self.sessions.session("ann")
        if session is not None:
            self.died.update(set(self.taken) - set(self.gone) - set(self.notified))
        self.lives += 1
        self.sessions = Sessions(LIMITS, "b", self.lives)
        self.broker_side = Driver()
        self.of_this_session = dict.fromkeys(self.settled, 0)
        if self.up is not None:
            self.breaks(False)

    @rule()
    @precondition(lambda self: self.up is None)
    def all_is_well_again(self) -> None:
        self.connects()
        self.all_arrives()

    # ------------------------------------------------------------ the laws

    @invariant()
    def none_comes_twice_and_all_in_order(self) -> None:
        assert self.notified == sorted(set(self.notified), key=lambda id: id[1])

    @invariant()
    def what_left_the_queue_unsent_did_not_come(self) -> None:
        assert not self.gone.keys() & set(self.notified)

    @invariant()
    def the_queue_accounts_for_each_event(self) -> None:
        session = self.sessions.session("ann")
        if session is not None:
            queue = session.queue
            assert queue.taken == queue.confirmed + len(queue) + queue.expired + sum(queue.purged.values())
            assert len(queue) <= LIMITS.queue_events_max

    @invariant()
    def what_was_taken_in_came_or_waits_or_is_accounted_for(self) -> None:
        session = self.sessions.session("ann")
        waits = set() if session is None else {each.id for each in session.queue.events()}
        assert set(self.taken) <= {*self.notified, *self.gone, *waits, *self.died}

    @invariant()
    def the_clients_own_events_are_admitted_in_order(self) -> None:
        first_time = list(dict.fromkeys(self.admitted))
        assert first_time == [("ann", number) for number in range(1, len(first_time) + 1)]
        assert self.lives > 1 or first_time == self.admitted

    def teardown(self) -> None:
        """Once nothing breaks any more, all has come, and the receipts say what has not."""
        for _ in range(2):  # the second time for a receipt of what happened during the first
            if self.up is not None:
                self.breaks(True)
            self.connects()
            self.all_arrives()
            while self.client_side.timers:
                self.time_passes(0.1)
                self.all_arrives()
        session = self.sessions.session("ann")
        assert session is not None
        assert len(session.queue) == 0
        self.breaks(True)
        self.connects()
        self.all_arrives()
        assert self.client.receipts[-1].replayed == 0
        assert set(self.notified) | self.died >= set(self.taken) - self.gone.keys()
        assert self.settled == self.of_this_session
        assert [("ann", n + 1) for n in range(self.client.sequence)] == list(dict.fromkeys(self.admitted))


class WithoutLoss(Joined):
    """The same, with a broker that keeps its disk: there nothing at all may be missing."""

    the_broker_loses_its_disk = None  # type: ignore[assignment]

    @invariant()
    def nothing_died(self) -> None:
        assert not self.died


TestJoined = Joined.TestCase
TestJoined.settings = settings(stateful_step_count=50)
TestWithoutLoss = WithoutLoss.TestCase
TestWithoutLoss.settings = settings(stateful_step_count=50)


# ------------------------------------------------------------ planted faults


def _caught(machine: type[Joined] = WithoutLoss) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            machine, settings=settings(max_examples=300, stateful_step_count=40, phases=[Phase.generate])
        )


def test_a_queue_that_forgets_what_it_sent_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    resume = Queue.resume

    def forgetful(self: Queue, received: int, now: float) -> None:
        self.confirmed += len(self._sent)
        self._sent.clear()
        resume(self, received, now)

    monkeypatch.setattr(Queue, "resume", forgetful)
    _caught()


def test_a_queue_that_purges_and_does_not_tell_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Queue, item: Any, rule: str, *, lost: bool = False) -> None:
        self._leave(item)
        self.purged[rule] = self.purged.get(rule, 0) + 1

    monkeypatch.setattr(Queue, "_purge", silent)
    _caught()


def test_a_client_that_takes_any_number_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def trusting(self: Client, message: Any, now: float) -> list[Any]:
        self._received = message.number
        return [Notify(message.event, message.subscriptions)]

    monkeypatch.setattr("godwit.client.client._HANDLERS", {**_handlers(), _delivery(): trusting})
    _caught(Joined)


def test_a_broker_that_handles_a_request_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    admit = Sessions.admit

    def careless(self: Sessions, connection: str, message: Request, now: float) -> Any:
        session = self._of(connection)
        session.accepted = min(session.accepted, message.number - 1)
        return admit(self, connection, message, now)

    monkeypatch.setattr(Sessions, "admit", careless)
    attach = Sessions.attach

    def unsure(self: Sessions, connection: str, message: Attach, now: float) -> Any:
        session = self.session(message.client)
        if session is not None and session.accepted:
            session.accepted -= 1
        return attach(self, connection, message, now)

    monkeypatch.setattr(Sessions, "attach", unsure)
    _caught()


def _handlers() -> dict[type, Any]:
    from godwit.client.client import _HANDLERS

    return _HANDLERS


def _delivery() -> type:
    from godwit.broker.messages import Delivery

    return Delivery
