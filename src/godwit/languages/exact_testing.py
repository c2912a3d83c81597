"""Run the exact tests of one subscription; returns the outcome."""

from collections.abc import Callable, Sequence

import msgspec

from godwit.errors import FilterError, QueryTooCostly
from godwit.languages.query import Query, Subject

__all__ = ["STEP_S", "Outcome", "tested"]

STEP_S = 1e-6  # that a step of a test takes, about


class Outcome(msgspec.Struct, array_like=True, frozen=True):
    """What the tests of a subscription have decided about an event."""

    is_wanted: bool
    failure: str = ""  # why it could not be decided
    seconds: float = 0.0  # that it took; or would have taken, until its steps were used up
    is_costly: bool = False  # it was given up because of its steps
    is_fatal: bool = False  # the process that ran it has died, or cannot parse the query: others would fail, too


def tested(queries: Sequence[Query], subject: Subject, clock: Callable[[], float]) -> Outcome:
    """Whether all queries want an event. Nothing but the subject is changed.

    A test that is not begun, because it would take too many steps, counts as one that has taken all it may: else a
    query that nobody can afford would never use up its budget.
    """
    began, is_wanted, failure, is_costly = clock(), False, "", False
    try:
        is_wanted = all(query.wants(subject) for query in queries)
    except (FilterError, RecursionError) as error:
        failure, is_costly = str(error) or type(error).__name__, isinstance(error, QueryTooCostly)
    seconds = max(clock() - began, subject.steps_max * STEP_S if is_costly else 0.0)
    return Outcome(is_wanted, failure, seconds, is_costly)
