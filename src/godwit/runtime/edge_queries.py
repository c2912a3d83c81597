"""The queries of a thin client's subscription: their time budget, and the outcomes of their tests."""

from collections.abc import Callable
from typing import Any

from godwit.broker.query_notes import Queries
from godwit.languages.exact_testing import Outcome, tested
from godwit.languages.query import Query, Subject
from godwit.runtime.rate_limits import TokenBucket

__all__ = ["EdgeQuery"]

GIVEN_UP_MAX = 5  # tests in a row


class EdgeQuery:
    """The queries of one subscription."""

    __slots__ = (
        "_budget",
        "_given_up",
        "failed",
        "failure",
        "is_costly",
        "last_failure",
        "queries",
        "residues",
        "said",
        "suspended",
        "wanted",
    )

    def __init__(
        self,
        said: Queries,
        budget: TokenBucket,
        is_costly: bool = False,
    ) -> None:
        self.said = said
        self.queries: tuple[Query, ...] | None = None  # parsed; None: not yet, or not any more
        self.wanted = 0
        self.residues = 0  # events that passed the routable filter and failed the test
        self.failed = 0  # of these: no test could be made
        self.failure = ""  # error of the last test; "": none
        self.last_failure = ""  # the last there was
        self.suspended = ""  # why; "": it is not
        self.is_costly = is_costly  # a test may take, or has taken, more steps than the event loop can afford
        self._budget = budget
        self._given_up = 0  # tests in a row, because of their steps

    def test(self, subject: Subject, clock: Callable[[], float]) -> Outcome:
        """Run the tests here. The caller must count the outcome."""
        return tested(self.queries or (), subject, clock)

    def count(self, outcome: Outcome, now: float) -> bool:
        """Record an outcome and its time; returns whether the event is wanted."""
        self.failure = outcome.failure
        if outcome.is_wanted:
            self.wanted += 1
        else:
            self.residues += 1
        if outcome.failure:
            self.failed += 1
            self.last_failure = outcome.failure
        if outcome.seconds and self._budget.take(outcome.seconds, now) > 0:
            allowed_ms = self._budget.rate * 1e3
            self.suspended = f"its tests take more than {allowed_ms:g} ms per second (limits.test_ms_per_s)"
        self._given_up = self._given_up + 1 if outcome.is_costly else 0
        if self._given_up >= GIVEN_UP_MAX:
            self.suspended = f"{GIVEN_UP_MAX} tests in a row were given up (limits.test_steps_max): {outcome.failure}"
        if outcome.is_fatal:
            self.suspended = outcome.failure
        return outcome.is_wanted

    @property
    def needs_context(self) -> bool:
        """Whether a test uses the client's own context, as far as is known."""
        return self.queries is None or any(query.references for query in self.queries)

    def resume(self) -> None:
        """The client has subscribed again."""
        if self.queries != ():
            self.suspended = ""
            self._given_up = 0

    def told(self) -> dict[str, Any]:
        """The counts of outcomes, as plain data."""
        return {
            "wanted": self.wanted,
            "residues": self.residues,
            "failed": self.failed,
            "last_failure": self.last_failure,
            "suspended": self.suspended,
        }
