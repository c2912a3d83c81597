"""Whom an event is meant for: its `to` is tested in the contexts of those that receive it.

*Theory.* A test takes time for each literal of the `to`, and for each value that the context has for its attribute. One
event may go to thousands of sessions, each with a context of its own; all of them are tested in one turn, so that
events of one publisher stay in order. So tests are counted in steps, and one user has a bound of them for each event.

*Rules.*
1. Sessions in the same context share a test.
2. A test takes a step for each literal, for each further value that the context has for its attribute, and for each 64
   characters of these (`steps_of`). To find whether a context is new takes two for each of its values. A restored
   machine counts the same: nothing depends on what was worked out before.
3. The tests of one event take `STEPS_MAX` for the sessions of one user: enough for a `to` of 56 literals in 5,000
   different contexts of 4 attributes with one short value each. Further sessions of that user do not get the event.
   Their receipts count it as lost. It is not named there, for it may not have been for them.
4. For a session that has come from elsewhere the same counts for all events that came before it.

*Paper.* [spcf §3: publish]
"""

from typing import Any

from godwit.broker.effects import Effect, Trace
from godwit.broker.messages import NodeId
from godwit.broker.session import Session, steps_of
from godwit.broker.user_quotas import user_of
from godwit.filters.events import Event
from godwit.filters.filters import And, Filter, Or
from godwit.trace import Record

__all__ = ["STEPS_MAX", "TO_WEIGHT_MAX", "Addressing", "leave_out"]

TO_WEIGHT_MAX = 64  # steps of a `to`, in a context with one value for each attribute
STEPS_MAX = 5_000 * 64  # about 40 ms
LARGEST_CONTEXT = 1_024  # steps for one literal, about: a context has a bound of bytes


class Addressing:
    """The tests of many events for one session. (rule 4)"""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._spent = 0  # steps

    def left_out(self, event: Event) -> Trace | None:
        """The record that an event is not for the client, or was not tested; None: it is for the client."""
        if event.to is None:
            return None
        if self._spent >= STEPS_MAX:
            return _untested(self._session, event)
        self._spent += _steps(event.to, _weights(event.to), self._session)
        return None if self._session.is_addressed(event) else _not_addressed(self._session.client, event)


def leave_out(event: Event, names_of: dict[Session, tuple[str, ...]], effects: list[Effect]) -> None:
    """Leave out whom an event is not meant for."""
    to, verdicts, spent_of = event.to, dict[Any, bool](), dict[str, int]()
    assert to is not None
    is_bounded = len(names_of) * to.weight * LARGEST_CONTEXT > STEPS_MAX  # else there is nothing to count
    weights, user, spent = _weights(to) if is_bounded else {}, "", 0
    for session in list(names_of):
        if is_bounded:
            user = user_of(session.client)
            spent = spent_of.get(user, 0)
            if spent >= STEPS_MAX:
                del names_of[session]
                effects.append(_untested(session, event))
                continue
            spent += 2 * session.context_size()
        key = session.context_key()
        verdict = verdicts.get(key)
        if verdict is None:
            verdict = verdicts[key] = session.is_addressed(event)
            spent += _steps(to, weights, session) if is_bounded else 0
        spent_of[user] = spent
        if not verdict:
            del names_of[session]
            effects.append(_not_addressed(session.client, event))


def _steps(to: Filter, weights: dict[str, int], session: Session) -> int:
    """The steps of a test in the context of a session. (rule 2)"""
    context = session.whole_context()
    if session.context_size() == len(context):  # each attribute has one short value
        return to.weight
    return to.weight + sum(each * (steps_of(context[name]) - 1) for name, each in weights.items() if name in context)


def _weights(filter: Filter) -> dict[str, int]:
    """By attribute, how many steps its literals take for one value."""
    weights: dict[str, int] = {}
    parts = [filter]
    while parts:
        part = parts.pop()
        if isinstance(part, And | Or):
            parts += part.parts
        else:
            weights[part.attribute] = weights.get(part.attribute, 0) + part.weight
    return weights


def _not_addressed(client: NodeId, event: Event) -> Trace:
    """The record that an event was not for a client, in its context of that moment."""
    detail = "its context does not match the `to` of the event"
    return Trace(Record("not_addressed", client, "", event.publisher, event.sequence, detail=detail))


def _untested(session: Session, event: Event) -> Trace:
    """The record that a client does not get an event, which its receipt counts. (rule 3)"""
    session.lost_more += 1
    detail = "its `to` was tested in too many contexts of its user's sessions"
    return Trace(Record("lost", session.client, "", event.publisher, event.sequence, detail=detail))
