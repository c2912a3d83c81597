"""Whom an event is meant for: its `to` is tested in the contexts of those that receive it.

*Theory.* One event may go to thousands of sessions, each with a context of its own; all of them are tested in one
turn, so that events of one publisher stay in order. The contexts of all sessions are kept as columns
(`matching/attribute_table.py`), in which each literal of a `to` takes a few operations. A few sessions are tested one
by one. Where columns would take too many steps, because contexts have very many values or texts, sessions are tested
one by one as well, within a bound of steps for one user and for all users together.

*Rules.*
1. Columns and single tests give the same answers.
2. Sessions that are tested one by one share a test if they are in the same context. A test takes a step for each
   literal (more for a pattern or region), and as many again for each further value that the context has for its
   attribute, and for each 64 characters of these (`steps_of`). To find whether a context is new takes two for each of
   its values.
3. The tests of one event, one by one, take `STEPS_MAX` for the sessions of one user, and `ALL_STEPS_MAX` for all.
   Small contexts come first. Further sessions do not get the event. Their receipts count it as lost. It is not named
   there, for it may not have been for them.
4. The same goes for all events that came before a session from elsewhere: they take `EARLIER_STEPS_MAX` together.
5. A restored machine counts the same: what is counted follows from the contexts, not from what was worked out before.

*Paper.* [spcf §3: publish]
"""

from collections.abc import Iterable, Mapping
from typing import Any

from godwit.broker.effects import Effect, Trace
from godwit.broker.exact_tests import NO_EXACT_TESTS
from godwit.broker.messages import EntryId, NodeId
from godwit.broker.session import Session, steps_of
from godwit.broker.user_quotas import user_of
from godwit.filters.events import Event
from godwit.filters.filters import Filter, Missing, literals
from godwit.matching.attribute_table import AttributeTable, Matching
from godwit.matching.packed_values import steps_of_one
from godwit.trace import Record

__all__ = ["ALL_STEPS_MAX", "EARLIER_STEPS_MAX", "STEPS_MAX", "TO_WEIGHT_MAX", "Addressees", "Addressing", "Selection"]

TO_WEIGHT_MAX = 64  # steps of a `to`, in a context with one value for each attribute
STEPS_MAX = 160_000  # about 20 ms
ALL_STEPS_MAX = 2 * STEPS_MAX
EARLIER_STEPS_MAX = 2 * STEPS_MAX  # of the events that came before a session
COLUMN_STEPS_MAX = 250_000  # about 25 ms
FEW = 32  # sessions that are tested one by one
LARGEST_CONTEXT = 16 * 1_024  # steps for one literal, about: a context has a bound of bytes
OUT_OF_CONTEXT = "its context does not match the `to` of the event"


class Addressees:
    """The contexts of all sessions of a broker."""

    def __init__(self) -> None:
        self._contexts = AttributeTable()

    def restore(self, sessions: Iterable[Session]) -> None:
        """Know the contexts of these sessions, and of none besides."""
        self._contexts = AttributeTable()
        for session in sessions:
            self.know(session)

    def know(self, session: Session) -> None:
        """A session has begun or come, or its context is another one."""
        self._contexts.put(session.client, session.whole_context())
        session.context_size()  # it is remembered: an event must not wait until all are counted

    def forget(self, client: NodeId) -> None:
        """A session is no more."""
        self._contexts.put(client, {})

    def selection(
        self,
        event: Event,
        ids: Iterable[EntryId],
        sessions: Mapping[NodeId, Session],
        next_expiry: float | None,
        now: float,
    ) -> "Selection":
        """Whom an event with a `to` is meant for, of the clients with these subscriptions.

        `next_expiry`: when the first subscription of a session expires; it may be there after that.
        """
        ids, to = list(ids), event.to
        assert to is not None
        if len(ids) <= FEW or self._contexts.steps(to) > COLUMN_STEPS_MAX:
            return Selection(event, ids)
        meant = self._contexts.matching(to)
        is_some_over = next_expiry is not None and next_expiry <= now
        divided = None if is_some_over else _divided(ids, meant, sessions)
        return Selection(event, ids, meant) if divided is None else Selection(event, divided[0], meant, divided[1])


class Selection:
    """Those of many clients that an event is meant for."""

    __slots__ = ("_event", "_left_out", "_meant", "ids")

    def __init__(
        self,
        event: Event,
        ids: list[EntryId],
        meant: Matching | None = None,
        left_out: dict[NodeId, None] | None = None,
    ) -> None:
        self.ids = ids
        """The subscriptions to look at: some may be of clients that the event is not meant for."""
        self._event = event
        self._meant = meant  # None: these are tested one by one
        self._left_out = left_out  # None: not known until exact tests were made

    def leave_out(self, names_of: dict[Session, tuple[str, ...]], effects: list[Effect]) -> None:
        """Leave out whom the event is not meant for."""
        if self._meant is None:
            _leave_out_one_by_one(self._event, names_of, effects)
            return
        left_out: Iterable[NodeId]
        if self._left_out is None:
            excluded = [session for session in names_of if session.client not in self._meant]
            for session in excluded:
                del names_of[session]
            left_out = [session.client for session in excluded]
        else:
            left_out = self._left_out
        effects += _not_addressed(left_out, self._event)


def _divided(
    ids: list[EntryId], meant: Matching, sessions: Mapping[NodeId, Session]
) -> tuple[list[EntryId], dict[NodeId, None]] | None:
    """The subscriptions of clients that an event is meant for, and the other clients; None: exact tests come first."""
    others, otherwise, session_of = meant.others, meant.otherwise, sessions.get
    kept: list[EntryId] = []
    left_out: dict[NodeId, None] = {}
    for id in ids:
        client, name = id
        if (client in others) is not otherwise:
            kept.append(id)
        elif (session := session_of(client)) is not None and name in session.subscriptions:
            if session.exact is not NO_EXACT_TESTS:
                return None
            left_out[client] = None
    return kept, left_out


class Addressing:
    """The tests of many events for one session. (rule 4)"""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._spent = 0  # steps

    def left_out(self, event: Event) -> Trace | None:
        """The record that an event is not for the client, or was not tested; None: it is for the client."""
        if event.to is None:
            return None
        if self._spent >= EARLIER_STEPS_MAX:
            return _untested(self._session, event)
        self._spent += _steps(_weights(event.to), self._session)
        return None if self._session.is_addressed(event) else _not_addressed([self._session.client], event)[0]


def _leave_out_one_by_one(event: Event, names_of: dict[Session, tuple[str, ...]], effects: list[Effect]) -> None:
    """The same, with a test for each context. (rules 2, 3)"""
    to, verdicts, spent_of, spent_by_all = event.to, dict[Any, bool](), dict[str, int](), 0
    assert to is not None
    is_bounded = len(names_of) * to.weight * LARGEST_CONTEXT > STEPS_MAX  # else there is nothing to count
    weights = _weights(to) if is_bounded else {}
    left_out: dict[Session, bool] = {}  # and whether it was tested
    for session in sorted(names_of, key=Session.context_size) if is_bounded else names_of:
        user, steps = "", 0
        if is_bounded:
            user = user_of(session.client)
            if spent_of.get(user, 0) >= STEPS_MAX or spent_by_all >= ALL_STEPS_MAX:
                left_out[session] = False
                continue
            steps = 2 * session.context_size()
        key = session.context_key()
        verdict = verdicts.get(key)
        if verdict is None:
            verdict = verdicts[key] = session.is_addressed(event)
            steps += _steps(weights, session) if is_bounded else 0
        spent_of[user] = spent_of.get(user, 0) + steps
        spent_by_all += steps
        if not verdict:
            left_out[session] = True
    for session in [each for each in names_of if each in left_out]:
        del names_of[session]
        effects += _not_addressed([session.client], event) if left_out[session] else [_untested(session, event)]


def _steps(weights: dict[str, int], session: Session) -> int:
    """The steps of a test in the context of a session. (rule 2)"""
    context, steps = session.whole_context(), sum(weights.values())
    if session.context_size() == len(context):  # each attribute has one short value
        return steps
    return steps + sum(each * (steps_of(context[name]) - 1) for name, each in weights.items() if name in context)


def _weights(filter: Filter) -> dict[str, int]:
    """By attribute, how many steps its literals take for one value."""
    weights: dict[str, int] = {}
    for part in literals(filter):
        steps = 1 if isinstance(part, Missing) else steps_of_one(part.values)
        weights[part.attribute] = weights.get(part.attribute, 0) + steps
    return weights


def _not_addressed(clients: Iterable[NodeId], event: Event) -> list[Trace]:
    """The records that an event was not for clients, in their contexts of that moment."""
    publisher, sequence = event.id
    return [
        Trace(Record("not_addressed", client, "", publisher, sequence, "", -1, 0, OUT_OF_CONTEXT)) for client in clients
    ]


def _untested(session: Session, event: Event) -> Trace:
    """The record that a client does not get an event, which its receipt counts. (rule 3)"""
    session.lost_more += 1
    detail = "its `to` was tested in too many contexts"
    return Trace(Record("lost", session.client, "", event.publisher, event.sequence, detail=detail))
