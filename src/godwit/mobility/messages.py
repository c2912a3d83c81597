"""What brokers say to each other about clients that move. The types of `broker/messages.py`, continued."""

import msgspec

from godwit.broker.messages import Advertise, NodeId, SessionState, Subscribe, Waiting

__all__ = [
    "AskWishes",
    "Brokers",
    "Collect",
    "Collected",
    "MoveOut",
    "NotHere",
    "Relocate",
    "Replay",
    "Strike",
    "Superseded",
    "Wishes",
]


class Brokers(msgspec.Struct, frozen=True, tag=True):
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


class Replay(msgspec.Struct, frozen=True, tag=True):
    """A session on its way to its client: first its state, then what waited in its queue, in parts. [rebeca §4]"""

    client: NodeId
    to: NodeId
    attempt: int
    state: SessionState | None  # in the first part
    items: tuple[Waiting, ...]
    is_last: bool


class Superseded(msgspec.Struct, frozen=True, tag=True):
    """The client has been seen elsewhere since, with its attempt `latest`: forget that you wait for it."""

    client: NodeId
    to: NodeId
    attempt: int
    latest: int


class NotHere(msgspec.Struct, frozen=True, tag=True):
    """The session that you ask for is unknown here: it is lost."""

    client: NodeId
    to: NodeId
    attempt: int


# ------------------------------------------------------------ the other ways to move (handoffs.py)


class AskWishes(msgspec.Struct, frozen=True, tag=True):
    """The client whose session was at `home` is at `to` now and has brought nothing: what does it want?"""

    client: NodeId
    home: NodeId
    to: NodeId
    attempt: int


class Wishes(msgspec.Struct, frozen=True, tag=True):
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
    items: tuple[Waiting, ...]
    seen: tuple[tuple[str, int, int], ...]  # publisher, highest number, bits
    is_last: bool


class MoveOut(msgspec.Struct, frozen=True, tag=True):
    """From a client: I am about to go, keep my events until I am somewhere else. The broker closes the connection."""


class Strike(msgspec.Struct, frozen=True, tag=True):
    """To a client: these brokers keep nothing for you any more, strike them from your log."""

    brokers: tuple[NodeId, ...]
