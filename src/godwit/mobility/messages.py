"""What brokers say to each other about clients that move. The types of `broker/messages.py`, continued."""

import msgspec

from godwit.broker.messages import Advertise, NodeId, SessionState, Waiting

__all__ = ["Brokers", "NotHere", "Prefetch", "Proxy", "Relocate", "Replay", "Superseded", "Withdraw"]


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


class Prefetch(msgspec.Struct, frozen=True, tag=True):
    """The publisher will turn up at `to` next, as far as can be told: advertise this for it. [pubmob §3]"""

    client: NodeId
    to: NodeId
    attempt: int  # its last greeting before
    advertisements: tuple[Advertise, ...]


class Withdraw(msgspec.Struct, frozen=True, tag=True):
    """The publisher is elsewhere, with this attempt: whoever was told to expect it need not any more."""

    client: NodeId
    to: NodeId
    attempt: int


class Proxy(msgspec.Struct, frozen=True, tag=True):
    """Advertise this for the publisher wherever it is, until told otherwise; nothing: stop that. [pubmob §3]"""

    client: NodeId
    to: NodeId
    attempt: int
    advertisements: tuple[Advertise, ...]
