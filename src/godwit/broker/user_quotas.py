"""Quotas of one user at a border broker: a share, so that other users always have room.

*Theory.* A client's name is its user's, or begins with its user's and a slash, so the machine knows the user of every
session without being told. (A client that was given another name by its operator counts as a user of its own.) A user
has a share of all sessions (`Limits.user_share`), a budget of bytes for queues and notes (`Limits.user_bytes_max`), and
one for the filters of its subscriptions and advertisements (`Limits.user_filter_bytes_max`).

*Rules.*
1. A user that has its share of sessions, or any that finds the broker full, makes room for a new session by its own
   oldest idle one: of its sessions without a connection the one that would be forgotten first. Without one it is
   refused. Sessions of other users are never touched.
2. Past the budget of bytes events leave the queues of that user: idle sessions first, those that would be forgotten
   first before others, then the longest queue. What is left is 7/8 of the budget.
3. Sums of bytes of queues and notes are estimates from above between two counts, and an event is only taken when the
   exact sum is over the budget. So a restored machine, which counts again, does the same.
4. A filter for which the budget has no room is refused, unless the first `ENDED_MAX` idle sessions of that user hold
   enough: then they end, in the order of rule 1, the first at once and the others one by one, with time for others in
   between (`load_shedding.py`). Until then the user exceeds its budget by what these sessions hold. Filters of a
   session that comes from another broker are never refused. While they exceed the budget, the user begins no session
   without rule 1.
"""

from collections.abc import Iterable
from math import inf

from godwit.broker.effects import Effect
from godwit.broker.held_filters import FilterTotal, entry_size
from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, NodeId, Note, Subscribe
from godwit.broker.query_notes import Queries, query_note
from godwit.broker.session import Session

__all__ = ["UserQuotas", "user_of"]

KEPT_SHARE = 7 / 8
RULE = "user_bytes"
ENDED_MAX = 8  # sessions, for the room of one filter


def user_of(client: NodeId) -> str:
    """The user that a client is of, by its name."""
    return client.partition("/")[0]


def _forgotten_at(session: Session) -> float:
    return inf if session.ends_at is None else session.ends_at


class _User:
    """The sessions of one user, and what they hold at most."""

    __slots__ = ("bytes", "filters", "sessions")

    def __init__(self, filters: FilterTotal) -> None:
        self.sessions: dict[NodeId, Session] = {}
        self.filters = FilterTotal(filters)
        self.bytes: float = inf  # not less than it is; inf: nobody has counted

    def count(self) -> int:
        """What they hold."""
        self.bytes = held = sum(session.queue.bytes + notes_size(session) for session in self.sessions.values())
        return held

    def idle(self) -> list[Session]:
        """Those without a connection, the one that would be forgotten first before others."""
        return sorted([each for each in self.sessions.values() if each.connection is None], key=_forgotten_at)

    def oldest_idle(self) -> Session | None:
        """The first of them."""
        away = [each for each in self.sessions.values() if each.connection is None]
        return min(away, key=_forgotten_at, default=None)


class UserQuotas:
    """Sessions by their user, and what is too much."""

    def __init__(self) -> None:
        self._users: dict[str, _User] = {}
        self.filters = FilterTotal()  # of all users

    def restore(self, sessions: Iterable[Session]) -> None:
        """Have these sessions, and none besides."""
        self._users.clear()
        self.filters = FilterTotal()
        for session in sessions:
            self.add(session)

    def add(self, session: Session) -> None:
        """A session has begun here, or come."""
        name = user_of(session.client)
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _User(self.filters)
        user.sessions[session.client] = session
        session.filters.count_in(user.filters)
        user.bytes = inf

    def remove(self, client: NodeId) -> None:
        """A session has ended here, or gone."""
        name = user_of(client)
        user = self._users.get(name)
        if user is not None:
            session = user.sessions.pop(client, None)
            if session is not None:
                session.filters.count_in(None)
            if not user.sessions:
                del self._users[name]

    # ------------------------------------------------------------ sessions

    def room_for(self, client: NodeId, total: int, limits: Limits) -> tuple[NodeId | None, str]:
        """For a client that greets: the session that must end first, if any; and why it is turned away, or "".

        `total`: how many sessions there are, of all users. (rule 1)
        """
        user = self._users.get(user_of(client))
        if user is None or client in user.sessions:
            return None, ""
        budget = limits.user_filter_bytes_max
        holds_too_much = budget is not None and user.filters.bytes > budget  # rule 4
        if limits.user_share >= 1 and not holds_too_much:
            return None, ""
        is_full = len(user.sessions) >= limits.user_sessions_max
        if not is_full and not holds_too_much and total < limits.sessions_max:
            return None, ""
        oldest = user.oldest_idle()
        if oldest is not None:
            return oldest.client, ""
        if holds_too_much:
            return None, _too_many_filters(user_of(client), user.filters.bytes, limits, "take")
        reason = (
            f"user {user_of(client)!r} has {len(user.sessions)} sessions, all with a connection: "
            f"at most {limits.user_sessions_max} are allowed (limits.user_share of limits.sessions_max)"
        )
        return None, reason if is_full else ""

    # ------------------------------------------------------------ filters

    def room_for_filter(
        self, session: Session, wish: Subscribe | Advertise, limits: Limits
    ) -> tuple[NodeId | None, str | None]:
        """The session that must end before a subscription or advertisement is taken, and why it is not. (rule 4)"""
        budget, user = limits.user_filter_bytes_max, self._users.get(user_of(session.client))
        if budget is None:
            return None, None
        name, is_here = wish.id[1], user is not None and session.client in user.sessions
        held = (0 if user is None else user.filters.bytes) + (0 if is_here else session.filters.bytes)
        before = session.filters.size_of(name, is_subscription=isinstance(wish, Subscribe))
        size = entry_size(name, wish.filter, wish.share if isinstance(wish, Subscribe) else "")
        needed = held + size - before
        excess = needed - budget
        if excess <= 0 or size <= before:
            return None, None
        idle = [each for each in user.idle() if each.filters.bytes] if user is not None and is_here else []
        if sum(each.filters.bytes for each in idle[:ENDED_MAX]) >= excess:
            return idle[0].client, None
        return None, _too_many_filters(user_of(session.client), needed, limits, "would take")

    def next_to_end(self, name: str, limits: Limits) -> NodeId | None:
        """The next session of a user that must end because filters exceed the budget; None: none must. (rule 4)"""
        budget, user = limits.user_filter_bytes_max, self._users.get(name)
        if budget is None or user is None or user.filters.bytes <= budget:
            return None
        return next((each.client for each in user.idle() if each.filters.bytes), None)

    # ------------------------------------------------------------ bytes

    def on_queued(self, session: Session, size: int, limits: Limits) -> list[Effect]:
        """An event was queued: what follows if the user holds too much now. (rule 2)"""
        budget = limits.user_bytes_max
        user = self._users.get(user_of(session.client))
        if budget is None or user is None:
            return []
        user.bytes += size
        if user.bytes <= budget or user.count() <= budget:
            return []
        excess = int(user.bytes - KEPT_SHARE * budget)
        effects: list[Effect] = []
        present = [each for each in user.sessions.values() if each.connection is not None]
        for each in [*user.idle(), *sorted(present, key=lambda one: -one.queue.bytes)]:
            if excess > 0:
                freed = each.queue.shed(excess, RULE)
                excess -= freed
                user.bytes -= freed
                effects += each.gone()
        return effects

    def doubt(self, client: NodeId) -> None:
        """A session may hold more than was told: count again when it matters."""
        user = self._users.get(user_of(client))
        if user is not None:
            user.bytes = inf

    def why_not_queries(self, session: Session, name: str, queries: Queries, limits: Limits) -> str | None:
        """Why a subscription's queries are not kept; None: they are."""
        reason = self.why_not_note(session, query_note(name, queries), limits)
        return None if reason is None else f"the query, with the name of its subscription, is {reason}"

    def why_not_note(self, session: Session, note: Note, limits: Limits) -> str | None:
        """Why a note is not taken; None: it is."""
        size = len(note.key.encode()) + len(note.value or b"")
        if size > limits.note_bytes_max:
            return f"a note of {size} bytes: at most {limits.note_bytes_max} are allowed"
        if note.value is None:
            return None
        notes = session.notes
        if note.key not in notes and len(notes) >= limits.notes_max:
            return f"at most {limits.notes_max} notes are allowed"
        if (len(notes) + 1) * limits.note_bytes_max > limits.notes_bytes_max:  # else there is nothing to count
            held = notes_size(session) + size
            if held > limits.notes_bytes_max:
                return f"notes of {held} bytes: at most {limits.notes_bytes_max} are allowed (limits.notes_bytes_max)"
        budget, user = limits.user_bytes_max, self._users.get(user_of(session.client))
        if budget is None or user is None:
            return None
        if user.bytes + size > budget and user.count() + size > budget:
            name = user_of(session.client)
            return f"sessions of user {name!r} hold {user.bytes} bytes: at most {budget} (limits.user_bytes_max)"
        user.bytes += size
        return None


def notes_size(session: Session) -> int:
    """The bytes of a session's notes."""
    return sum(len(key) + len(value) for key, value in session.notes.items())


def _too_many_filters(user: str, size: int, limits: Limits, verb: str) -> str:
    return (
        f"subscriptions and advertisements of user {user!r} {verb} {size} bytes at this broker, in all sessions: "
        f"at most {limits.user_filter_bytes_max} are allowed (limits.user_filter_bytes_max)"
    )
