"""What travels: one frozen type per message, the same in the simulator and on the wire.

*Theory.* Three layers, each with its own types.

1. **Frames** go over a link between two brokers, which may lose, double and delay them: `Hello`, `Frame`, `Ack`.
   `links.py` turns them into messages that come exactly once and in order.
2. **Messages between brokers** travel in frames. The tree family speaks `Subscribe`, `Unsubscribe`, `Advertise`,
   `Unadvertise`, `Publish` and `Synced`; the graph family `LinkState` and `Packet`.
3. **Messages between client and border broker**. A client's requests are numbered by the client, deliveries by the
   session; both are acknowledged cumulatively and outlive the connection they were sent on.

*Rules.*
1. A message is never changed after it is made: the same object goes through every hop of a simulated network.
2. An `id` names an entry as its sender knows it. The same id again replaces the filter in one step.
3. Nothing here says how a message is handled.
"""

from typing import Literal

import msgspec

from godwit.filters.contexts import Described
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.values import Value

__all__ = [
    "Accepted",
    "Ack",
    "Advertise",
    "AdvertisementAdded",
    "AdvertisementRemoved",
    "Attach",
    "Attached",
    "Bye",
    "Carried",
    "ChannelStart",
    "ChannelTail",
    "Context",
    "ContextAdded",
    "ContextRemoved",
    "Control",
    "Delivery",
    "Denied",
    "DropSubscriptions",
    "EntryId",
    "FetchEvents",
    "FetchedEvents",
    "Frame",
    "FrameOrAck",
    "Goodbye",
    "Hello",
    "InContext",
    "LinkState",
    "LostNumbers",
    "Message",
    "Nack",
    "NodeId",
    "Note",
    "Packet",
    "PastConnection",
    "Publish",
    "Quench",
    "QueueRules",
    "QueuedEvent",
    "Receipt",
    "ReceiptUpdate",
    "Received",
    "Refused",
    "Request",
    "Retain",
    "RetainedRest",
    "Revoked",
    "SessionState",
    "SetSessionExpiry",
    "Subscribe",
    "SubscribeQuery",
    "SubscriptionsComplete",
    "Suspended",
    "Synced",
    "Unadvertise",
    "Unsubscribe",
]

NodeId = str
"""The name of a broker or client."""

EntryId = tuple[str, str]
"""Names a subscription or advertisement everywhere: who made it (client or broker) and its own name for it."""


class QueueRules(msgspec.Struct, frozen=True):
    """What may leave the queue of a client that is away [mobile §4.3]. None: this rule is off."""

    age_s_max: float | None = None  # older ones go
    newest_per: str | None = None  # of events with the same value of this attribute only the newest stays
    high_water: str | None = None  # only the event with the highest value of this attribute stays
    count_max: int | None = None
    bytes_max: int | None = None
    importance: str | None = None  # over a budget, the event with the least of this goes first; without it, the oldest


# ------------------------------------------------------------ between brokers, and inside a client's Request


class Subscribe(msgspec.Struct, frozen=True, tag=True, gc=False):
    """`id` wants what `filter` matches. The same id again replaces the filter, with no gap and no double."""

    id: EntryId
    filter: Filter
    expires: float | None = None  # only from a client: brokers between hear an Unsubscribe when it is over
    queue: QueueRules | None = None  # only from a client
    share: str = ""  # only from a client: of the members of this group each event goes to one; "": to us in any case
    retained: bool = False  # only from a client: begin with the retained events that match


class Unsubscribe(msgspec.Struct, frozen=True, tag=True):
    """`id` wants nothing more."""

    id: EntryId


class Advertise(msgspec.Struct, frozen=True, tag=True):
    """`id` is going to publish what `filter` matches."""

    id: EntryId
    filter: Filter


class Unadvertise(msgspec.Struct, frozen=True, tag=True):
    """`id` publishes nothing more."""

    id: EntryId


class Publish(msgspec.Struct, frozen=True, tag=True):
    """An event on its way."""

    event: Event


class Synced(msgspec.Struct, frozen=True, tag=True):
    """All that I have told you of `what` is complete: forget whatever else of it you knew from me."""

    what: Literal["everything", "advertisements", "subscriptions"] = "everything"


class Context(msgspec.Struct, frozen=True, tag=True):
    """From a client: my context is this from now on. [spcf §3: setContext] `my.x` and `myloc` refer to it."""

    values: dict[str, Value | tuple[Value, ...]]
    dwell_s: float | None = None  # for so long at least it stays each time; None: find out


# ------------------------------------------------------------ inside a client's Request alone


class Retain(msgspec.Struct, frozen=True, tag=True):
    """Publish the event, and keep it for later subscribers: the last one of `key`; with `clear`, keep none."""

    event: Event
    key: str
    clear: bool = False


class Note(msgspec.Struct, frozen=True, tag=True):
    """Keep this with my session, wherever that goes, and tell me with `Attached`; None: no more."""

    key: str
    value: bytes | None


class SubscribeQuery(msgspec.Struct, frozen=True, tag=True):
    """Subscribe by a filter to route by, and keep the queries with my session, for the broker or gateway that tests
    them."""

    subscribe: Subscribe
    queries: tuple[tuple[str, str], ...]  # language and text of each; all of them must want an event


class SetSessionExpiry(msgspec.Struct, frozen=True, tag=True):
    """When I am away, keep my session for so long, if you would keep it longer; None: as long as you do."""

    seconds: float | None


class Denied(msgspec.Struct, frozen=True, tag=True):
    """In the place of a wish that the server does not grant: refuse it for this reason."""

    reason: str


# ------------------------------------------------------------ graph family


class LinkState(msgspec.Struct, frozen=True, tag=True):
    """What `broker` knows of its own links: `neighbours` maps a name to the cost of the link. [spcf §3.1]"""

    broker: NodeId
    incarnation: int
    number: int  # the higher of two with one incarnation is the newer
    neighbours: dict[NodeId, float]


class Packet(msgspec.Struct, frozen=True, tag=True):
    """A message from one broker to several: `targets` names each with the packet's number on the way there.

    The numbers of one (source, target) pair count 1, 2, 3, …: the target puts packets back in order by them, drops what
    comes twice and sees what is missing.
    """

    source: NodeId
    incarnation: int  # of the source: numbers start again with each
    targets: dict[NodeId, int]
    message: "Carried"


class Nack(msgspec.Struct, frozen=True, tag=True):
    """I miss these numbers from you: send them again, or say that they are lost. None: tell me everything again."""

    incarnation: int
    numbers: tuple[int, ...]


class LostNumbers(msgspec.Struct, frozen=True, tag=True):
    """These numbers from me are lost: do not wait for them."""

    incarnation: int
    numbers: tuple[int, ...]


class ChannelStart(msgspec.Struct, frozen=True, tag=True):
    """What I tell the life `incarnation` of yours starts with this packet: all my subscriptions, then `Synced`."""

    incarnation: int


class ChannelTail(msgspec.Struct, frozen=True, tag=True):
    """Nothing, but a number: whatever I sent you before has a lower one. Somebody on the way may have lost it."""


# ------------------------------------------------------------ graph family, by contexts (spcf.py)


class ContextAdded(msgspec.Struct, frozen=True, tag=True):
    """Clients of mine are in this context: tell me what may match it, then `SubscriptionsComplete`. [spcf §3.1.2]

    Clients in the context `replaces` are in this one now, and that one has ended; 0: none.
    """

    incarnation: int  # of mine: numbers mean something within it
    number: int  # counts my contexts; none is used twice in one life
    described: Described
    replaces: int = 0


class ContextRemoved(msgspec.Struct, frozen=True, tag=True):
    """None of my clients is in that context of mine any more. [spcf §3.1.2]"""

    number: int


class InContext(msgspec.Struct, frozen=True, tag=True):
    """My client, some of whose subscriptions you have, is in that context of mine; 0: nobody knows in which."""

    client: NodeId
    number: int


class SubscriptionsComplete(msgspec.Struct, frozen=True, tag=True):
    """You have all my subscriptions that may match that context of yours."""

    incarnation: int  # of yours
    number: int


class DropSubscriptions(msgspec.Struct, frozen=True, tag=True):
    """Forget all my subscriptions of which this is the sender part: no context of yours matches it."""

    filter: Filter


# ------------------------------------------------------------ graph family, by advertisements (advertised.py)


class AdvertisementAdded(msgspec.Struct, frozen=True, tag=True):
    """Clients of mine advertise this: tell me what intersects it, then `SubscriptionsComplete`. [pubmob Fig. 2]"""

    incarnation: int  # of mine: numbers mean something within it
    number: int  # counts my advertisements; none is used twice in one life
    filter: Filter


class AdvertisementRemoved(msgspec.Struct, frozen=True, tag=True):
    """Nobody here advertises that any more."""

    number: int


Carried = (
    Subscribe
    | Unsubscribe
    | Publish
    | Synced
    | ChannelStart
    | ChannelTail
    | Nack
    | LostNumbers
    | ContextAdded
    | ContextRemoved
    | InContext
    | SubscriptionsComplete
    | DropSubscriptions
    | AdvertisementAdded
    | AdvertisementRemoved
)
"""What a packet carries."""


Message = Subscribe | Unsubscribe | Advertise | Unadvertise | Publish | Synced | LinkState | Packet
"""What travels in a frame between brokers."""

Control = Subscribe | Unsubscribe | Advertise | Unadvertise | Synced | LinkState

# ------------------------------------------------------------ frames


class Hello(msgspec.Struct, frozen=True, tag=True):
    """First on every connection: which life of mine this is, and what I have received of which life of yours."""

    incarnation: int
    knows: int  # your incarnation as I know it; 0 when we never met
    received: int  # the last number of that incarnation that I have handled
    first: int  # the lowest number I may send again: what is below was given up
    heard: bool  # whether yours has come on this connection: if not, say it again
    acknowledged: int = 0  # the last number of mine that you have acknowledged in that incarnation


class Frame(msgspec.Struct, frozen=True, tag=True, gc=False):
    """A message and its number; `ack` says what has come the other way."""

    number: int
    ack: int
    message: Message


class Ack(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Everything up to `received` has come."""

    received: int


class Goodbye(msgspec.Struct, frozen=True, tag=True):
    """I close this link, because of `reason`."""

    reason: str


FrameOrAck = Hello | Frame | Ack | Goodbye
"""What travels on a link between brokers."""

# ------------------------------------------------------------ between client and border broker


class PastConnection(msgspec.Struct, frozen=True):
    """A client's own note of where it was. [mobile §4.3: "a log of its past connections"]"""

    broker: NodeId
    attempt: int  # of its last greeting there
    at: float  # when it was gone from there at the latest, by its own clock


class Attach(msgspec.Struct, frozen=True, tag=True):
    """First on a client's connection: `client` comes, or comes back having seen deliveries up to `received`."""

    client: NodeId
    received: int = 0
    session: str = ""  # the session that `received` counts in, as `Attached` named it; "" when there was none
    quench: bool = False  # tell me by `Quench` what anybody wants
    receipt: int = 0  # the number of the last receipt of that session that came
    attempt: int = 0  # counts a client's greetings, by two in the mode presubscribe: of two brokers that claim its
    # session the higher one is right
    home: NodeId = ""  # the broker where that session was last, as `Attached` named it
    since: int = 0  # the attempt that led to that `Attached`
    wanted: "tuple[Subscribe | Advertise, ...]" = ()  # for another broker than `home`: all that the session may hold
    mode: str = "relocate"  # how this client moves, by its name in `mobility/modes.py`
    replicated: bool = False  # one session of several: name the predecessor of each delivery [mobile §5]
    context: Context | None = None  # the client's, as far as the session may know it
    tried: tuple[NodeId, ...] = ()  # brokers that were greeted since and have not answered, the last one last
    log: "tuple[PastConnection, ...]" = ()  # mode carry: brokers that may still keep something for it
    origin: NodeId = ""  # with proxies: the broker that they are near to, as `Attached` named it
    renewed_at: float = 0.0  # and when they were last told to go on, by brokers' clocks, as `Attached` said
    fresh_start: bool = False  # mode named: end the session that there is, wherever it is, and begin a new one
    numbers: dict[str, int] = {}  # mode junction: by subscription, the last delivery that has come for it


class Receipt(msgspec.Struct, frozen=True):
    """What happened to the events that came while the client was away."""

    replayed: int = 0
    suppressed: int = 0  # came twice and are sent once, or came for a subscription that had ended
    purged: dict[str, int] = {}  # by rule: age, newest_per, high_water, count, bytes
    expired: int = 0  # events whose time was over
    lost: tuple[tuple[str, int], ...] = ()  # events that are known to be lost: publisher and sequence
    lost_more: int = 0  # so many more than `lost` has room for
    session_lost: bool = False  # the broker has forgotten the session: what came since `received` is gone
    number: int = 0  # receipts of a session count 1, 2, 3, …
    lost_since: float | None = None  # this broker or another lost its last inputs: of what was acknowledged after this
    # time some may be lost; 0: not known since when; None: nothing of that kind


class RetainedRest(msgspec.Struct, frozen=True):
    """A subscription that has not looked at all retained events yet: at none with a key above `after`.

    Of the events that were retained since it began (their stamp is above `asked`) it skips those that it has had.
    """

    name: str
    after: str
    asked: int


class SessionState(msgspec.Struct, frozen=True):
    """All of a session but the events in its queue: what moves when its client has moved."""

    client: NodeId
    name: str
    accepted: int
    refusals: tuple["Refused", ...]
    subscriptions: tuple[Subscribe, ...]
    advertisements: tuple[Advertise, ...]
    has_advertised: bool
    taken: int
    sent_up_to: int
    confirmed: int
    expired: int
    purged: dict[str, int]
    suppressed: int
    lost: tuple[tuple[str, int], ...]
    lost_more: int
    settled: Receipt
    told: Receipt
    accepted_then: int
    seen: tuple[tuple[str, int, bytes], ...]  # publisher, highest number, bits (seen.py)
    context: Context | None = None
    asserted: dict[str, Value | tuple[Value, ...]] = {}  # of its context, what the last connection's driver vouched for
    notes: dict[str, bytes] = {}
    linger_s: float | None = None
    named: bool = False  # its client brings its name alone: brokers tell each other where the session is
    lost_since: float | None = None  # what its next receipt must say of losses
    retained_rests: tuple[RetainedRest, ...] = ()  # the retained events that are still to come


class QueuedEvent(msgspec.Struct, frozen=True):
    """An event in a queue: its number, the subscriptions it is for, and since when it waits."""

    number: int
    event: Event
    subscriptions: tuple[str, ...]
    queued_at: float


class Attached(msgspec.Struct, frozen=True, tag=True):
    """Welcome. `accepted` is the last request of yours that was handled; `fresh` when there was no session."""

    accepted: int
    fresh: bool
    receipt: Receipt
    session: str = ""  # its name: numbers of requests and deliveries count within it
    broker: NodeId = ""  # this broker's name
    origin: NodeId = ""  # to be said again with the next `Attach`
    renewed_at: float = 0.0  # likewise
    notes: dict[str, bytes] = {}  # that the client has left with its session (`Note`)


class ReceiptUpdate(msgspec.Struct, frozen=True, tag=True):
    """A receipt while you are connected: a broker has lost its last inputs, and events for you may be among them."""

    receipt: Receipt


class Request(msgspec.Struct, frozen=True, tag=True):
    """A numbered wish of the client. Ids of subscriptions and advertisements in it are `(client, name)`."""

    number: int
    wish: (
        Subscribe
        | Unsubscribe
        | Advertise
        | Unadvertise
        | Publish
        | Context
        | Retain
        | Note
        | SetSessionExpiry
        | SubscribeQuery
        | Denied
    )


class Accepted(msgspec.Struct, frozen=True, tag=True):
    """Every request up to `number` is handled."""

    number: int


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Request `number` was refused for `reason` and changed nothing. It counts as handled."""

    number: int
    reason: str


class Revoked(msgspec.Struct, frozen=True, tag=True):
    """Your rights have changed: these subscriptions of yours have ended, and these let through less."""

    ended: tuple[str, ...]
    narrowed: tuple[str, ...]
    reason: str


class Suspended(msgspec.Struct, frozen=True, tag=True):
    """From a gateway: this subscription of yours gets no events until you subscribe again, for this reason."""

    subscription: str
    reason: str


class Delivery(msgspec.Struct, frozen=True, tag=True, gc=False):
    """An event for the client, because of these subscriptions of it."""

    number: int
    event: Event
    subscriptions: tuple[str, ...]
    predecessor: int = -1  # replicated: the number of its publisher's event before it here; 0: none, -1: not known


class Received(msgspec.Struct, frozen=True, tag=True):
    """Every delivery up to `number` has come."""

    number: int


class FetchEvents(msgspec.Struct, frozen=True, tag=True):
    """What have you of `publisher` above `after`, up to `through`, that you have not sent me? [mobile §5]"""

    publisher: NodeId
    after: int
    through: int


class FetchedEvents(msgspec.Struct, frozen=True, tag=True):
    """All I have of `publisher` above `after`, up to `through`, is what I sent on this connection before, and `items`.

    `through` is below the requested number if not all of it fits into one answer.
    """

    publisher: NodeId
    after: int
    through: int
    items: tuple[QueuedEvent, ...] = ()


class Quench(msgspec.Struct, frozen=True, tag=True):
    """What any subscription wants, in one filter: a source need not send anything else. [mobile §3.2]"""

    filter: Filter


class Bye(msgspec.Struct, frozen=True, tag=True):
    """From a client: I leave permanently, end my session. From a broker: I close this connection for `reason`."""

    reason: str = ""
