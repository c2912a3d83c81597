"""Messages between brokers about moving clients. The types of `broker/messages.py`, continued."""

import msgspec

from godwit.broker.messages import (
    Advertise,
    Context,
    EntryId,
    NodeId,
    QueuedEvent,
    RetainedRest,
    SessionState,
    Subscribe,
)
from godwit.filters.filters import Filter
from godwit.filters.values import Value

__all__ = [
    "AskInterests",
    "Collect",
    "Collected",
    "EndOlderSession",
    "FetchSession",
    "FetchedSubscription",
    "Flush",
    "Flushed",
    "Follow",
    "FollowPlaces",
    "FollowUpdate",
    "Interests",
    "MoveOut",
    "Prefetch",
    "Presubscribe",
    "Proxy",
    "ReachableBrokers",
    "Relocate",
    "Replay",
    "SessionElsewhere",
    "SessionNotFound",
    "SessionUnknown",
    "Superseded",
    "TrimConnectionLog",
    "Unfollow",
    "WithdrawPrefetch",
]


class ReachableBrokers(msgspec.Struct, frozen=True, tag=True):
    """These brokers are reached through me."""

    names: tuple[NodeId, ...]


class Relocate(msgspec.Struct, frozen=True, tag=True):
    """The client whose session was at `home` is at `to` now: send what you have of it there. [rebeca §4: fetch]

    It follows the client's subscriptions on every link of the way, and so divides events into those before and after.
    """

    client: NodeId
    home: NodeId
    to: NodeId
    attempt: int
    to_incarnation: int = 1  # of `to`, which loses count of a session's numbers when it loses its memory
    followed: int = -1  # for which attempt the session left the broker that led here, in the graph family by answering


class Replay(msgspec.Struct, frozen=True, tag=True):
    """A session on its way to its client: first its state, then what waited in its queue, in parts. [rebeca §4]"""

    client: NodeId
    to: NodeId
    attempt: int
    state: SessionState | None  # in the first part
    items: tuple[QueuedEvent, ...]
    is_last: bool
    has_published: bool = False  # graph family: its client has, here; let it publish when all have `Flushed`
    to_incarnation: int = 1  # of `to`, when it asked for it


class Superseded(msgspec.Struct, frozen=True, tag=True):
    """The client has been seen elsewhere since, with its attempt `latest`: forget that you wait for it."""

    client: NodeId
    to: NodeId
    attempt: int
    latest: int
    by: NodeId  # who says so, and knows more


class SessionUnknown(msgspec.Struct, frozen=True, tag=True):
    """The session that you ask for is unknown here: it is lost."""

    client: NodeId
    to: NodeId
    attempt: int


class Follow(msgspec.Struct, frozen=True, tag=True):
    """`id` wants what the open `filter` matches, for a client whose own state is `values`. [rebeca §5.1]

    The same id again replaces it. What must be allowed for at your end follows from how old that state is when it
    comes to you and how old events are when they come back (`spent_s` and `link_s`), and from `dwell_s`.
    """

    id: EntryId
    filter: Filter  # open
    values: dict[str, Value | tuple[Value, ...]]  # of what the filter refers to
    dwell_s: float | None  # for so long at least each state lasts; None: nobody knows
    spent_s: float | None  # round trips from the border broker to me; None: nobody knows
    link_s: float | None  # the round trip of the link between us, as I have measured it; None: not yet


class FollowUpdate(msgspec.Struct, frozen=True, tag=True):
    """The same with the filter that you know: the state, or the times, are these from now on. [rebeca §5.1]"""

    id: EntryId
    values: dict[str, Value | tuple[Value, ...]]
    dwell_s: float | None
    spent_s: float | None
    link_s: float | None


class FollowPlaces(msgspec.Struct, frozen=True, tag=True):
    """The clients behind `id` are at further places, and at others no longer; times are as before. [rebeca §5.1]"""

    id: EntryId
    added: tuple[Value, ...]
    removed: tuple[Value, ...]


class Unfollow(msgspec.Struct, frozen=True, tag=True):
    """`id` wants nothing more."""

    id: EntryId


class Flush(msgspec.Struct, frozen=True, tag=True):
    """Graph family: tell `to` by `Flushed` that this has come, behind all that you have sent it before."""

    client: NodeId
    to: NodeId
    attempt: int


class Flushed(msgspec.Struct, frozen=True, tag=True):
    """Graph family: a `Flush` of the broker `via` has come, and so has all that I sent you before I knew of it."""

    client: NodeId
    attempt: int
    via: NodeId


class SessionElsewhere(msgspec.Struct, frozen=True, tag=True):
    """Graph family: the session that you ask for is at `home`, or on its way there: ask there."""

    client: NodeId
    to: NodeId
    attempt: int
    home: NodeId
    followed: int = -1  # for which attempt it went there, to be repeated in the question


class EndOlderSession(msgspec.Struct, frozen=True, tag=True):
    """The client's session is at the broker `by` since its greeting `attempt`: if you have an older one, end it."""

    client: NodeId
    to: NodeId
    attempt: int
    by: NodeId


# ------------------------------------------------------------ the mode junction (attach_policies/junction.py)


class FetchedSubscription(msgspec.Struct, frozen=True):
    """A subscription of a client that has moved, and the last number that it has received for it. [rebeca §4.1]"""

    name: str
    filter: Filter
    received: int


class FetchSession(msgspec.Struct, frozen=True, tag=True):
    """The client is at `to` now: send its session there, or pass this on to where it may be. [rebeca §4.1: fetch]

    Of its subscriptions you are told those in `told` by this message: as by a `Subscribe` under the client's own id.
    """

    client: NodeId
    to: NodeId
    attempt: int
    to_incarnation: int
    session: str  # that the numbers count in
    subscriptions: tuple[FetchedSubscription, ...]
    told: tuple[str, ...] = ()
    round: int = 0  # above 0: the tables have not led to it, so all are asked


class SessionNotFound(msgspec.Struct, frozen=True, tag=True):
    """Neither I nor anybody behind me has the session that this round of `to` asks for."""

    client: NodeId
    to: NodeId
    attempt: int
    round: int


# ------------------------------------------------------------ the other ways to move (handoffs.py)


class AskInterests(msgspec.Struct, frozen=True, tag=True):
    """The client whose session was at `home` is at `to` now and has brought nothing: what does it want?"""

    client: NodeId
    home: NodeId
    to: NodeId
    attempt: int
    followed: int = -1  # for which attempt the session left the broker that has passed this on


class Interests(msgspec.Struct, frozen=True, tag=True):
    """What the session of the client holds."""

    client: NodeId
    to: NodeId
    attempt: int
    wanted: tuple[Subscribe | Advertise, ...]


class Collect(msgspec.Struct, frozen=True, tag=True):
    """The client was at `home` and has a session at `to` now: end the old one and send what it kept."""

    client: NodeId
    home: NodeId
    to: NodeId
    attempt: int


class Collected(msgspec.Struct, frozen=True, tag=True):
    """What a session at `home` had kept, in parts, and with the last part what it had seen. Nothing: there was none."""

    client: NodeId
    home: NodeId
    to: NodeId
    attempt: int  # of the question
    latest: int  # of the greeting at `to`: it grows each time that this is sent on to where the client went
    items: tuple[QueuedEvent, ...]
    seen: tuple[tuple[str, int, bytes], ...]  # publisher, highest number, bits (seen.py)
    is_last: bool
    retained_rests: tuple[RetainedRest, ...] = ()  # with the last part: the retained events that were still to come


class Presubscribe(msgspec.Struct, frozen=True, tag=True):
    """The client will turn up at `to` next, as far as can be told: subscribe for it, and fetch its session from `home`.

    Mode presubscribe. [rebeca §6]
    """

    client: NodeId
    home: NodeId
    to: NodeId
    attempt: int  # of this claim: between the client's last greeting and its next
    wanted: tuple[Subscribe | Advertise, ...]  # all that the session holds
    context: Context | None  # the client's


class MoveOut(msgspec.Struct, frozen=True, tag=True):
    """From a client: I am about to go, keep my events until I am somewhere else. The broker closes the connection."""


class TrimConnectionLog(msgspec.Struct, frozen=True, tag=True):
    """To a client: these brokers keep nothing for you any more, strike them from your log."""

    brokers: tuple[NodeId, ...]


# ------------------------------------------------------------ publishers (publisher_presence.py)


class Prefetch(msgspec.Struct, frozen=True, tag=True):
    """The publisher will turn up at `to` next, as far as can be told: advertise this for it. [pubmob §3]"""

    client: NodeId
    to: NodeId
    attempt: int  # its last greeting before
    advertisements: tuple[Advertise, ...]


class WithdrawPrefetch(msgspec.Struct, frozen=True, tag=True):
    """The publisher is elsewhere, with this attempt: brokers that expect it need not any more."""

    client: NodeId
    to: NodeId
    attempt: int


class Proxy(msgspec.Struct, frozen=True, tag=True):
    """Advertise this for the publisher wherever it is, until told otherwise; nothing: stop that. [pubmob §3]"""

    client: NodeId
    to: NodeId
    attempt: int
    advertisements: tuple[Advertise, ...]
