"""What a session holds is compared with the rights of its client: a part at a time, if it takes long.

*Theory.* When a session comes from another broker, or rights change, each subscription is compared with the rights, and
so is each event that waits. For 50 filters of 900 comparisons that takes up to 0.3 s. So it is done in slices, with
time for others between them. Nothing may be delivered meanwhile that no right covers, and a subscription that is not
compared yet may let such an event in. So the queue is held until all is compared: whatever comes for the session waits
in it, and is sent afterwards. What takes little is done at once.

An event that comes after the last subscription was compared needs no comparison: the rights cover every subscription
that it matches. So the end does not wait for events that come faster than they can be compared.

*Rules.*
1. Subscriptions are compared first, those of groups before others: what a group gives to a member is given to no other.
   Then the events are compared that wait at that moment, in their order.
2. The queue is released when the last of these events is compared, and not before.
3. A slice takes at most `STEPS_AT_ONCE` steps, and what one subscription or event takes. Steps are counted: a replay
   makes the same slices.
4. The sessions of a user are compared one after the other, so one user has one slice at a time.
5. If rights change meanwhile, the comparison begins again. If the client comes back, what was sent to it and was not
   confirmed waits again, and the events are compared from the first.
"""

from collections.abc import Callable

import msgspec

from godwit.broker.client_rights import EFFORT_MAX, ClientRights, left_of
from godwit.broker.effects import Effect
from godwit.broker.host import Host
from godwit.broker.messages import NodeId, Subscribe
from godwit.broker.routing import steps_taken
from godwit.broker.session import Session
from godwit.filters.effort import Effort
from godwit.filters.filters import TRUE, Filter

__all__ = ["REVIEWING", "RightsReviewState", "RightsReviews", "steps_to_match"]

REVIEWING = "reviewing rights"
STEPS_EACH = 2  # at least, for a session, a subscription or an event
STEPS_TO_PLACE = 5  # a filter that was narrowed, for each literal
MATCHED_PER_STEP = 8  # literals of a right, when an event of 1 KiB is compared with it

Revoke = Callable[[Session, Subscribe, Filter | None, list[Effect], float], None]
"""`(session, subscribe, filter, effects, now)`: narrow a subscription to `filter`; None: end it."""


class RightsReviewState(msgspec.Struct, frozen=True):
    """What is still to be compared of one session."""

    user: str
    names: tuple[str, ...]  # subscriptions
    compared: int  # the number of the last event in the queue that was compared
    last: int | None  # the number of the last event to be compared; None: subscriptions are not all compared yet


class _Review(msgspec.Struct):
    names: dict[str, None]
    compared: int = 0
    last: int | None = None


class RightsReviews:
    """The sessions that are being compared."""

    host: Host

    def __init__(self, revoke: Revoke) -> None:
        self._revoke = revoke
        self._of_user: dict[str, dict[NodeId, _Review]] = {}
        self._user_of: dict[NodeId, str] = {}

    def snapshot(self) -> dict[NodeId, RightsReviewState]:
        """All of them."""
        return {
            client: RightsReviewState(user, tuple(review.names), review.compared, review.last)
            for user, reviews in self._of_user.items()
            for client, review in reviews.items()
        }

    def restore(self, state: dict[NodeId, RightsReviewState]) -> None:
        """Go on with these. The sessions are there already."""
        self._of_user, self._user_of = {}, {}
        for client, each in state.items():
            session = self.host.sessions.session(client)
            assert session is not None
            self._put(session, each.user, _Review(dict.fromkeys(each.names), each.compared, each.last))

    def __contains__(self, client: NodeId) -> bool:
        return client in self._user_of

    def first(self, user: str) -> NodeId | None:
        """The client whose session is compared next, of those of a user."""
        return next(iter(self._of_user.get(user, ())), None)

    def begin(self, session: Session, user: str) -> None:
        """Compare all subscriptions of a session, and then the events that wait. (rules 1, 5)"""
        ordered = sorted(session.subscriptions.values(), key=lambda subscribe: not subscribe.share)
        self._put(session, user, _Review({subscribe.id[1]: None for subscribe in ordered}))

    def _put(self, session: Session, user: str, review: _Review) -> None:
        client = session.client
        if self._user_of.get(client, user) != user:
            self.drop(client)
        self._user_of[client] = user
        self._of_user.setdefault(user, {})[client] = review
        session.queue.hold()

    def compare_queue_again(self, client: NodeId) -> None:
        """The client has come back: what was sent to it before waits again. (rule 5)"""
        self._of_user[self._user_of[client]][client].compared = 0

    def drop(self, client: NodeId) -> bool:
        """Compare no further. Returns whether the session was being compared; its queue is still held then."""
        user = self._user_of.pop(client, None)
        if user is None:
            return False
        reviews = self._of_user[user]
        del reviews[client]
        if not reviews:
            del self._of_user[user]
        return True

    def go_on(self, session: Session, rights: ClientRights, steps_max: int, effects: list[Effect], now: float) -> int:
        """Compare a part of a session. Returns the steps that it took. (rule 3)"""
        client = session.client
        review = self._of_user[self._user_of[client]][client]
        is_over, steps = True, 0
        if rights.subscribe != TRUE:
            steps = self._compare_subscriptions(session, review, rights, steps_max, effects, now)
            is_over = False
            if not review.names:
                review.last = session.queue.taken if review.last is None else review.last
                more, is_over = _compare_queue(session, review, rights.subscribe, steps_max - steps)
                steps += more
                effects += session.gone()
        if is_over:
            self.drop(client)
            session.queue.release()  # rule 2
        return STEPS_EACH + steps

    def _compare_subscriptions(
        self, session: Session, review: _Review, rights: ClientRights, steps_max: int, effects: list[Effect], now: float
    ) -> int:
        host, routing, steps, has_less = self.host, self.host.routing, 0, False
        while review.names and steps < steps_max:
            name = next(iter(review.names))
            del review.names[name]
            subscribe = session.subscriptions.get(name)
            if subscribe is None:
                continue
            before, effort = steps_taken(routing), Effort(EFFORT_MAX)
            left = left_of(subscribe.filter, rights.subscribe, rights.beyond_grants, effort)
            if left is not subscribe.filter:
                has_less = True
                self._revoke(session, subscribe, left, effects, now)
                steps += 0 if left is None else left.weight * STEPS_TO_PLACE
            steps += STEPS_EACH + effort.spent + steps_taken(routing) - before
        if has_less:
            effects += host.demand_removed(now)
        return steps


def steps_to_match(right: Filter, size: int) -> int:
    """What it takes to compare an event of this size with a right."""
    return STEPS_EACH + right.weight * (1 + (size >> 10)) // MATCHED_PER_STEP


def _compare_queue(session: Session, review: _Review, right: Filter, steps_max: int) -> tuple[int, bool]:
    """Take out of the queue what the right does not cover. Returns the steps taken, and whether all is compared."""
    assert review.last is not None
    steps, is_over = 0, True
    beyond: list[int] = []
    for event, number, size in session.queue.waiting_after(review.compared):
        if number > review.last:
            break
        if steps >= steps_max:
            is_over = False
            break
        steps += steps_to_match(right, size)
        if not right.matches(event):
            beyond.append(number)
        review.compared = number
    session.queue.withhold(beyond)
    return steps, is_over
