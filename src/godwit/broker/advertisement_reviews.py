"""Subscriptions are sent to a neighbour, or withdrawn, because its advertisements have changed: some of them at a time.

*Theory.* When a neighbour advertises more or less, each subscription of others may concern it from then on, or no
longer. To compare and to send 50,000 takes a second, so it is a *review*: it looks at some subscriptions at a time and
goes on when its timer is due, and what others send passes in between. A review is made of passes over all subscriptions
that are there when the pass begins. A pass is for filters that were added, and compares the subscriptions that the
neighbour does not have with them; or for filters that were withdrawn, and compares those that it has.

A publisher that moves publishes again when its session has come, since on every link the session follows the
subscriptions that its advertisement has called to the new place (`mobility/relocation.py`). So a message about a client
that moves waits here, on its way to a neighbour, for all that this neighbour has called by then.

*Rules.*
1. At its end the neighbour is told what it would have been told at once. A subscription that comes, changes or goes
   meanwhile is compared with all advertisements when that happens, and need not wait for the review.
2. What changes during a pass is reviewed in another pass, however many changes those are. What was added comes first,
   so that what both attract stays told.
3. A neighbour has not been told all while a review is under way: `Synced` waits for its end.
4. Between two parts of a review its state is in snapshots: a replay sends the same messages.
5. Messages that follow a review stay in their order. Each waits for the end of the pass that looks for what was added
   before it came, however much is added later. If there are more than `FOLLOWING_MAX`, all of them go at once.
"""

from collections.abc import Mapping
from typing import Protocol, cast

from godwit.broker.effects import StartTimer
from godwit.broker.messages import Advertise, EntryId, Message, NodeId, Subscribe, Unadvertise, Unsubscribe
from godwit.broker.placements import Change
from godwit.broker.reductions import Outgoing, intersects
from godwit.broker.routing import Answer, Forward
from godwit.broker.tree_state import ReviewState
from godwit.filters.effort import Effort
from godwit.filters.filters import TRUE, Filter

__all__ = ["REVIEW", "ReviewedTables", "Reviews", "tell_changes"]

REVIEW = "review"
"""The first part of the key of the timers, the second one is the neighbour."""

AT_ONCE_MAX = 10_000  # steps of one part: 5 to 20 ms
PAUSE_S = 0.01  # between two parts, so that all reviews together leave half of the time to others
STEPS_OF_CHANGE = 50  # to place a filter and to send it
COMPARING_EFFORT_MAX = 200_000  # steps of a pass, and for each subscription:
COMPARING_EFFORT_EACH = 20
PLACING_EFFORT_MAX = 200_000  # steps of all that is placed in a pass
FOLLOWING_MAX = 10_000  # messages
WITHDRAWN_MAX = 64  # filters in a pass; of more, each subscription is compared with what is advertised still


class ReviewedTables(Protocol):
    """What a review needs of the tree."""

    @property
    def in_subs(self) -> Mapping[NodeId, Mapping[EntryId, Filter]]:
        """The subscriptions, by source."""

    @property
    def out_subs(self) -> Mapping[NodeId, Outgoing]:
        """What each neighbour has been told of them."""

    def concerns(self, filter: Filter, neighbour: NodeId, effort: Effort | None = None) -> bool:
        """Whether the neighbour has advertised anything that this subscription may want."""


class Review:
    """Of one neighbour: what has changed, and the subscriptions of this pass that are left, the next one last."""

    __slots__ = (
        "changed", "comparing", "following", "is_adding", "later_added", "later_following", "later_withdrawn", "left",
        "placing",
    )  # fmt: skip

    def __init__(self) -> None:
        self.changed: dict[Filter, None] = {}
        self.is_adding = True
        self.later_added: dict[Filter, None] = {}
        self.later_withdrawn: dict[Filter, None] = {}
        self.following: list[Message] = []  # which go when this pass ends
        self.later_following: list[Message] = []  # or the next one
        self.left: dict[NodeId, list[EntryId]] = {}
        self.comparing = self.placing = Effort(0)

    def begin_pass(self, neighbour: NodeId, in_subs: Mapping[NodeId, Mapping[EntryId, Filter]]) -> None:
        """Look at all subscriptions again, for what was added since, or else for what was withdrawn."""
        self.is_adding = bool(self.later_added)
        if self.is_adding:
            self.changed, self.later_added = self.later_added, {}
        else:
            self.changed, self.later_withdrawn = self.later_withdrawn, {}
        self.left = {
            source: list(entries)[::-1] for source, entries in in_subs.items() if entries and source != neighbour
        }
        self.following, self.later_following = self.later_following, []
        count = sum(map(len, self.left.values()))
        self.comparing = Effort(COMPARING_EFFORT_MAX + COMPARING_EFFORT_EACH * count)
        self.placing = Effort(PLACING_EFFORT_MAX)


class Reviews:
    """The reviews that are under way, one for each neighbour at most."""

    def __init__(self, tables: ReviewedTables) -> None:
        self._tables = tables
        self._under_way: dict[NodeId, Review] = {}
        self._noted: dict[NodeId, Review] = {}  # that have not begun

    def __contains__(self, neighbour: NodeId) -> bool:
        return neighbour in self._under_way

    def __len__(self) -> int:
        return len(self._under_way)

    def clear(self) -> list[Answer]:
        """All neighbours have been told what concerns them. What follows the reviews goes now."""
        answers = [Forward(n, message) for n, each in self._under_way.items() for message in _followers(each)]
        self._under_way.clear()
        return list[Answer](answers)

    def following(self) -> list[Message]:
        """The messages that wait here."""
        return [message for each in self._under_way.values() for message in _followers(each)]

    def follow(self, neighbour: NodeId, message: Message) -> list[Answer]:
        """Send a message behind the subscriptions that this neighbour has called, now or later. (rule 5)"""
        review = self._under_way.get(neighbour)
        if review is None or not (review.is_adding or review.later_added):
            return [Forward(neighbour, message)]
        (review.later_following if review.later_added else review.following).append(message)
        if len(_followers(review)) <= FOLLOWING_MAX:
            return []
        released = _followers(review)
        review.following, review.later_following = [], []
        return [Forward(neighbour, each) for each in released]

    def note(self, neighbour: NodeId, added: Filter | None, withdrawn: Filter | None) -> None:
        """A neighbour advertises this, or does so no longer. The caller begins the review."""
        review = self._under_way.get(neighbour) or self._noted.setdefault(neighbour, Review())
        if added is not None:
            review.later_added[added] = None
        if withdrawn is not None:
            review.later_withdrawn[withdrawn] = None
            if len(review.later_withdrawn) > WITHDRAWN_MAX:
                review.later_withdrawn = {TRUE: None}

    def begin(self, neighbour: NodeId, now: float) -> list[Answer]:
        """Review what was noted, if that does not happen already."""
        review = self._noted.pop(neighbour, None)
        if review is None:
            return []
        self._under_way[neighbour] = review
        review.begin_pass(neighbour, self._tables.in_subs)
        return self.go_on(neighbour, now)

    def go_on(self, neighbour: NodeId, now: float) -> list[Answer]:
        """The next part of a review, if it is still under way."""
        review, answers, steps = self._under_way.get(neighbour), list[Answer](), 0
        while review is not None:
            while review.left:
                if steps >= AT_ONCE_MAX:
                    return [*answers, StartTimer((REVIEW, neighbour), now + PAUSE_S)]
                source = next(iter(review.left))
                ids = review.left[source]
                before = review.comparing.left + review.placing.left
                changes = self._changes(neighbour, review, source, ids.pop())
                tell_changes(neighbour, changes, Subscribe, Unsubscribe, answers)
                steps += 1 + before - (review.comparing.left + review.placing.left) + STEPS_OF_CHANGE * len(changes)
                if not ids:
                    del review.left[source]
            answers += [Forward(neighbour, message) for message in review.following]
            if not review.later_added and not review.later_withdrawn:
                del self._under_way[neighbour]
                break
            review.begin_pass(neighbour, self._tables.in_subs)
        return answers

    def _changes(self, neighbour: NodeId, review: Review, source: NodeId, id: EntryId) -> list[Change]:
        """What a neighbour must be told of one subscription."""
        wanted = self._tables.in_subs[source].get(id)
        out, key, effort = self._tables.out_subs[neighbour], (source, id), review.comparing
        is_told = key in out.keys()  # noqa: SIM118  # an `Outgoing` is no mapping
        if wanted is None or is_told == review.is_adding:
            return []
        for filter in review.changed:  # a loop takes half of the time of any()
            if intersects(filter, wanted, effort):
                break
        else:
            return []
        if self._tables.concerns(wanted, neighbour, effort) == is_told:
            return []
        return out.remove(key, review.placing) if is_told else out.add(key, id, wanted, review.placing)

    def snapshot(self) -> dict[NodeId, ReviewState]:
        """Those that are under way."""
        return {
            neighbour: ReviewState(
                tuple(each.changed),
                each.is_adding,
                tuple(each.later_added),
                tuple(each.later_withdrawn),
                {source: tuple(reversed(ids)) for source, ids in each.left.items()},
                each.comparing.left,
                each.placing.left,
                tuple(each.following),
                tuple(each.later_following),
            )
            for neighbour, each in self._under_way.items()
        }

    def restore(self, state: Mapping[NodeId, ReviewState]) -> None:
        """Go on with these."""
        for neighbour, each in state.items():
            review = self._under_way[neighbour] = Review()
            review.changed, review.is_adding = dict.fromkeys(each.changed), each.is_adding
            review.later_added = dict.fromkeys(each.later_added)
            review.later_withdrawn = dict.fromkeys(each.later_withdrawn)
            review.left = {source: list(reversed(ids)) for source, ids in each.left.items()}
            review.comparing, review.placing = Effort(each.comparing_left), Effort(each.placing_left)
            review.following = list(cast(tuple[Message, ...], each.following))
            review.later_following = list(cast(tuple[Message, ...], each.later_following))


def _followers(review: Review) -> list[Message]:
    return [*review.following, *review.later_following]


def tell_changes(
    peer: NodeId,
    changes: list[Change],
    tell: type[Subscribe] | type[Advertise],
    take_back: type[Unsubscribe] | type[Unadvertise],
    answers: list[Answer],
) -> None:
    """Turn the changes of a reduction into messages to a neighbour."""
    for id, filter in changes:
        answers.append(Forward(peer, take_back(id) if filter is None else tell(id, filter)))
