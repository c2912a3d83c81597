"""The client's machine: each request is carried out once at a border broker, and each event is delivered once.

*Theory.* The application's wishes become numbered requests. At most `in_flight_max` are under way; the others wait
(`request_outbox.py`). Unacknowledged requests are kept, and resent on the next connection with the same numbers, so the
broker knows which it has handled. Deliveries are numbered by the session. The client accepts increasing numbers only,
confirms the last one from time to time, and repeats it in each `Attach`.

If the broker has another session than the client remembers, old numbers have no meaning. The client then sends all
again from `accepted + 1`: subscriptions, unacknowledged events, waiting requests. Ids of events reveal duplicates.

    away ── Opened ──> greeting ── Attached ──> attached;  from any of them ── Closed, or a fault of the broker ──> away

*Rules.*
1. There is one `Notify` for each event, in the order of delivery.
2. Nothing but `Attach` is sent before `Attached`.
3. A request that is acknowledged or refused is never sent again in the same session.
4. Events are published in the order of their numbers, which start after `sequence_start` and are used once.
5. The buffer is bounded: `buffer_events_max` events (and `in_flight_max` that were under way), and one wish for each
   name of a subscription or advertisement. An event dropped because the buffer is full is counted and recorded.
6. Fewer requests are under way than a border broker remembers numbers of a publisher: no event is accepted twice.

*Paper.* [mobile §3.1] a disconnected source queues its events; [mobile §3.2] quenching; [mobile §5] duplicates;
[rebeca §4] a client reconnects with its last sequence number.
"""

from collections import deque
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any, cast

from godwit.broker.effects import (
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    Notify,
    Opened,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.message_checks import TRIED_MAX
from godwit.broker.messages import (
    Accepted,
    Advertise,
    Attach,
    Attached,
    Bye,
    Context,
    Delivery,
    NodeId,
    Publish,
    Quench,
    QueueRules,
    Receipt,
    ReceiptUpdate,
    Refused,
    Request,
    Retain,
    Revoked,
    SetSessionExpiry,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from godwit.client.after_loss import AfterLoss, follows_loss, of_loss, wants
from godwit.client.broker_message_checks import CHECKS
from godwit.client.brought_wishes import wishes_to_bring
from godwit.client.client_config import ClientConfig, Refusal
from godwit.client.confirmations import CONFIRM_TIMER, Confirmations
from godwit.client.connection_log import ConnectionLog
from godwit.client.exact_queries import ExactQueries
from godwit.client.own_context import OwnContext, asked, written
from godwit.client.request_outbox import CONTEXT, SESSION_EXPIRY, Control, RequestOutbox, Topic, Wish, topic_of
from godwit.client.subscription_numbers import SubscriptionNumbers
from godwit.errors import PeerFault, SubscriptionError
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.language import as_filter
from godwit.filters.references import LOCATION
from godwit.filters.values import Value
from godwit.languages.query import Query
from godwit.mobility.modes import MODES, SEEN_WINDOW
from godwit.mobility.move_messages import MoveOut, TrimConnectionLog
from godwit.seen import Seen
from godwit.trace import Record

__all__ = ["Client", "ClientConfig", "Refusal"]

Said = Subscribe | Advertise | Context | SetSessionExpiry


class Client:
    """One client, wherever it is attached."""

    def __init__(self, name: NodeId, config: ClientConfig = ClientConfig()) -> None:  # noqa: B008 (it is frozen)
        self.name = name
        self.config = config
        self.connection: str | None = None
        self.is_attached = False
        self.session = ""  # the session that the numbers belong to
        self.home: NodeId = ""  # the last broker that it was attached to
        self.kept: int | None = None  # the last delivery that the application has read, if reading confirms
        self.attempt = 0  # number of greetings sent
        self.wanted: dict[Topic, Said] = {}  # what the application wants at present
        self.own = OwnContext()
        self.outbox = RequestOutbox(config.buffer_events_max)
        self.sequence = config.sequence_start  # of the last event
        self.receipts: deque[Receipt] = deque(maxlen=config.receipts_max)
        self.refusals: deque[Refusal] = deque(maxlen=config.receipts_max)
        self.closed_because = ""  # the broker's last reason to close a connection
        self.notified = 0
        self.duplicates = 0
        self._since = 0  # the attempt that reached `home`
        self._origin, self._renewed_at = "", 0.0  # of the last broker's proxies, for the next broker
        self._strayed = False  # whether it has greeted another broker since `home`
        self._brought: tuple[Subscribe | Advertise, ...] = ()  # wishes in the last greeting, which the session may hold
        self._tried: dict[str, None] = {}  # brokers greeted since, without an answer so far
        self._granted: dict[Topic, Said] = {}  # the part of `wanted` that the broker has accepted
        self._under_way: deque[Request] = deque()
        self._numbered = 0  # the last number that was given to a request
        self._received = 0  # the last number of a delivery
        self._receipt = 0  # and of a receipt
        self._early: deque[Refused] = deque(maxlen=config.in_flight_max)  # received before their session is known
        self._confirmations = Confirmations(config)
        self._numbers = SubscriptionNumbers(config.mode)
        self.queries = ExactQueries()
        window = max(config.seen_window, SEEN_WINDOW) if config.mode == "carry" else config.seen_window
        self._seen = Seen(window, config.seen_publishers_max)
        self._log = ConnectionLog()  # mode carry
        self._after_loss = AfterLoss()

    # ------------------------------------------------------------ what the application asks for

    def subscribe(
        self,
        name: str,
        filter: Filter | str | Query,
        now: float,
        *,
        sender: Filter | str | None = None,
        expires: float | None = None,
        queue: QueueRules | None = None,
        share: str = "",
        retained: bool = False,
    ) -> list[Effect]:
        """Subscribe to events that match `filter`, from publishers whose context matches `sender`. [spcf §3: subscribe]

        The exact test of a query runs here; brokers get its routable filter. [motion Fig. 2]
        """
        routable = filter.routable if isinstance(filter, Query) else filter
        wish = Subscribe((self.name, name), asked(routable, sender), expires, queue, share, retained)
        if isinstance(filter, Query):
            under_way = (request.wish for request in self._under_way)
            self.queries.put(wish, filter, chain(self.wanted.values(), self._granted.values(), under_way))
        return self._say(wish)

    replace = subscribe

    def unsubscribe(self, name: str, now: float) -> list[Effect]:
        """End the subscription `name`."""
        topic: Topic = ("subscription", name)
        if self.wanted.pop(topic, None) is None:
            raise SubscriptionError(f"there is no subscription {name!r}")
        self.queries.forget(name)
        if self._was_never_sent(topic):
            self.outbox.drop(topic)
            return []
        return self._wait(Unsubscribe((self.name, name)))

    def advertise(self, name: str, filter: Filter | str, now: float) -> list[Effect]:
        """Announce that published events will match `filter`."""
        promised = as_filter(filter)
        self.outbox.drop(("unadvertisement", name))
        self.outbox.on_advertise()
        return self._say(Advertise((self.name, name), promised))

    def unadvertise(self, name: str, now: float) -> list[Effect]:
        """Withdraw the advertisement `name`."""
        topic: Topic = ("advertisement", name)
        if self.wanted.pop(topic, None) is None:
            raise SubscriptionError(f"there is no advertisement {name!r}")
        if self._was_never_sent(topic) and not self.outbox.events:
            self.outbox.drop(topic)
            return []
        return self._wait(Unadvertise((self.name, name)))

    def publish(
        self,
        content: Mapping[str, Any] | Event,
        now: float,
        *,
        to: Filter | str | None = None,
        retain: str | None = None,
        clear: bool = False,
    ) -> list[Effect]:
        """Publish an event, given as attributes or as an event, to receivers whose context matches `to`.

        Its publisher, number, time and the context of its sender are filled in here. `retain`: keep it for later
        subscribers under this key, instead of the one before; `clear`: keep none. [spcf §3: publish]
        """
        details: dict[str, Any] = {"publisher": self.name, "sequence": self.sequence + 1, "published_at": now}
        event = written(content, self.context, to, **details)
        if retain is None:
            return self.publish_numbered(event)
        self.sequence = event.sequence
        return self._wait(Retain(event, retain, clear))

    def publish_numbered(self, event: Event) -> list[Effect]:
        """Publish an event that has a number: it may be published through another broker, too. [mobile §5]"""
        self.sequence = max(self.sequence, event.sequence)
        if self.outbox.quenches(event):  # [mobile §3.2] "the event is discarded (quenched) at the source"
            return [self._record("quenched", event)]
        return self._wait(Publish(event))

    def unanswered(self) -> list[Event]:
        """Events that no broker has acknowledged, the oldest first."""
        under_way = [request.wish.event for request in self._under_way if isinstance(request.wish, Publish | Retain)]
        return under_way + self.outbox.waiting()

    def unanswered_wishes(self) -> dict[int, Any]:
        """Unacknowledged wishes, by their identity."""
        return {id(wish): wish for wish in (*(request.wish for request in self._under_way), *self.outbox.wishes())}

    def unanswered_about(self, topic: Topic) -> Wish | None:
        """The last unacknowledged wish about a topic."""
        sent = (request.wish for request in reversed(self._under_way) if topic_of(cast(Wish, request.wish)) == topic)
        return self.outbox.get(topic) or cast(Wish | None, next(sent, None))

    @property
    def context(self) -> Attributes:
        """The client's context, all parts merged: tested by `my.x`, `myloc`, and by `sender.x` and `to` of others."""
        said = self.wanted.get(CONTEXT)
        return said.values if isinstance(said, Context) else {}

    def set_context(
        self, values: Mapping[str, Any], now: float, *, part: str = "", dwell_s: float | None = None
    ) -> list[Effect]:
        """Set one part of the context; other parts stay as they are. [spcf §3: setContext]

        `dwell_s`: the shortest time until the next change, in seconds. [rebeca §5]
        """
        context = self.own.say(part, values, dwell_s, instead=CONTEXT in self.outbox)
        self.outbox.on_context(self.sequence)
        return self._say(context)

    def move_to(self, place: Value, now: float, *, dwell_s: float | None = None) -> list[Effect]:
        """Set the place; other parts of the context stay as they are. [rebeca §5]"""
        dwell_s = self.own.dwell_s(LOCATION) if dwell_s is None else dwell_s
        return self.set_context({LOCATION: place}, now, part=LOCATION, dwell_s=dwell_s)

    def set_session_expiry(self, seconds: float | None, now: float) -> list[Effect]:
        """Set how long brokers keep the session while the client is away. None: the broker's default."""
        return self._say(SetSessionExpiry(seconds))

    def leave(self, now: float) -> list[Effect]:
        """End the session: waiting requests are sent first. Without a connection, the session ends when it expires."""
        effects: list[Effect] = []
        if self.connection is not None:
            effects += self._sent(in_flight_max=None)
            if self.is_attached:
                effects.append(Tell(self.connection, Bye("the client leaves")))
            effects.append(Close(self.connection, "the client leaves"))
        effects += self._gone_away()
        self.session, self._received, self._receipt = "", 0, 0
        if CONTEXT in self.wanted:
            self.outbox.on_context(self.sequence)
        self.wanted.clear()
        self.own.clear()
        self._log.clear()
        self._granted.clear()
        self._under_way.clear()
        self.outbox.drop_controls()
        return effects

    def move_out(self, now: float) -> list[Effect]:
        """Announce a move (mode `explicit`), or end the session (mode `naive`). [rebeca §1 on JEDI]"""
        if self.connection is None or not self.is_attached:
            return []
        return [Tell(self.connection, Bye("the client moves") if self.config.mode == "naive" else MoveOut())]

    def has_unanswered_changes(self) -> bool:
        """Whether a request other than an event is not yet accepted or refused."""
        under_way = any(not isinstance(request.wish, Publish | Retain) for request in self._under_way)
        return under_way or len(self.outbox) > self.outbox.events

    def _say(self, wish: Said) -> list[Effect]:
        self.wanted[topic_of(wish)] = wish
        return self._wait(wish)

    def _was_never_sent(self, topic: Topic) -> bool:
        under_way = (topic_of(cast(Wish, request.wish)) for request in self._under_way)
        return topic in self.outbox and topic not in self._granted and topic not in under_way

    def _wait(self, wish: Wish) -> list[Effect]:
        """Send `wish` when its turn comes, which may be now."""
        discarded = self.outbox.put(wish)
        effects: list[Effect] = []
        if discarded is not None:
            effects.append(self._record("lost" if discarded[1] else "quenched", discarded[0]))
        return effects + self._sent(self.config.in_flight_max)

    def _sent(self, in_flight_max: int | None) -> list[Effect]:
        """Number and send waiting requests, until `in_flight_max` are under way."""
        if self.connection is None or not self.is_attached:
            return []
        effects: list[Effect] = []
        while self.outbox and (in_flight_max is None or len(self._under_way) < in_flight_max):
            self._numbered += 1
            request = Request(self._numbered, self.outbox.take())
            self._under_way.append(request)
            effects.append(Tell(self.connection, request))
        return effects

    # ------------------------------------------------------------ what happens

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Handle an input. A fault of the broker closes the connection."""
        match input:
            case Heard(connection=connection):
                if connection != self.connection:
                    return []
                try:
                    return self._on_message(input.message, now)
                except PeerFault as fault:
                    record = Record("fault", connection, type(input.message).__name__, detail=str(fault))
                    return [Trace(record), Close(connection, str(fault)), *self._gone_away()]
            case Opened(connection=connection):
                return self.on_opened(connection, now)
            case Closed(connection=connection):
                return self._gone_away() if connection == self.connection else []
            case TimerDue(key=key) if key == CONFIRM_TIMER:
                return self._confirmations.said(cast(str, self.connection))
        return []

    def on_opened(self, broker: str, now: float) -> list[Effect]:
        """Greet the broker of a new connection, with the name and the last delivery. [rebeca §4]"""
        effects = self._gone_away()
        self.connection = broker
        goes_ahead = self.config.mode == "presubscribe"  # the session may have gone elsewhere by itself
        self.attempt += 2 if goes_ahead else 1  # and has done so by the number between two greetings
        self._strayed = self._strayed or broker != self.home or goes_ahead
        may_have_moved = self.session != "" and (self._strayed or self._starts_over)
        is_carried, self._brought = self.config.mode == "carry", ()
        log, dropped = self._log.greet(broker, self.attempt, now) if is_carried else ((), [])
        effects += dropped
        if may_have_moved or (self.session != "" and log):
            self._brought = wishes_to_bring(self.config.mode, self.wanted, self._granted, self._under_way)
        tried = tuple(name for name in self._tried if name != broker)[-TRIED_MAX:]
        self._tried.pop(broker, None)
        self._tried[broker] = None
        attach = Attach(
            self.name,
            self._received if self.kept is None else self.kept,
            self.session,
            self.config.quench,
            self._receipt,
            self.attempt,
            self.home,
            self._since,
            self._brought,
            self.config.mode,
            context=self._possible_context() if may_have_moved or self._brought else None,
            tried=tried,
            log=log,
            origin=self._origin,
            renewed_at=self._renewed_at,
        )
        return [*effects, Tell(broker, self._numbers.greeting(attach))]

    @property
    def _starts_over(self) -> bool:
        """Whether each connection begins a session, as in the modes of `mobility/publisher_presence.py`."""
        return self.config.mode in MODES and MODES[self.config.mode].for_publishers

    def _possible_context(self) -> Context | None:
        """The latest context that the session may have."""
        said = [self._granted.get(CONTEXT), *(request.wish for request in self._under_way)]
        return next((wish for wish in reversed(said) if isinstance(wish, Context)), None)

    def _gone_away(self) -> list[Effect]:
        """Forget the connection."""
        self.connection = None
        self.is_attached = False
        self.outbox.on_closed()
        return self._confirmations.stop()

    def _on_message(self, message: Any, now: float) -> list[Effect]:
        handler = _HANDLERS.get(type(message))
        if handler is None:
            raise PeerFault(f"a {type(message).__name__} is not a message of a broker to its client")
        if not self.is_attached and type(message) in (Delivery, Accepted, ReceiptUpdate):
            raise PeerFault(f"{type(message).__name__} before Attached")
        if (check := CHECKS.get(type(message))) is not None:
            check(message)
        if type(message) is Refused and not self.is_attached and self.config.mode == "named":
            self._early.append(message)
            return []
        return handler(self, message, now)

    def on_attached(self, message: Attached, now: float) -> list[Effect]:
        """The broker has accepted the greeting: continue the session, or start over."""
        if self.is_attached:
            raise PeerFault("a second Attached on one connection")
        is_same = not message.fresh and message.session == self.session
        has_lost = message.accepted < self._numbered - len(self._under_way)  # the broker: its last inputs
        resumed = is_same and not has_lost
        effects = [each for refused in self._early for each in self.on_refused(refused, now)] if resumed else []
        self._early.clear()
        if resumed and not self._numbered - len(self._under_way) <= message.accepted <= self._numbered:
            found = f"the session has {message.accepted} requests, and this client has sent {self._numbered}"
            raise PeerFault(f"{found}: does another program use its name?")
        self.is_attached = True
        self.home, self._since, self._strayed = message.broker, self.attempt, False
        self._log.name(cast(str, self.connection), message.broker)
        self._tried.clear()
        self._origin, self._renewed_at = message.origin, message.renewed_at
        self._take_receipt(of_loss(message.receipt) if is_same and has_lost else message.receipt)
        if not resumed:
            self._after_loss.begin(is_on=follows_loss(self.config.mode, self.session, message))
        if resumed:
            self._acknowledged(message.accepted)
            effects += self._heed_quench()  # which came before this, and after whatever was accepted
            connection = cast(str, self.connection)
            effects += [Tell(connection, request) for request in self._under_way]
            return effects + self._sent(self.config.in_flight_max)
        is_first = self.session == "" and message.fresh  # every wish still waits, in its order
        self.session = message.session
        self._received = 0
        self._numbered = message.accepted
        self._brought = () if message.fresh else self._brought
        if not is_first:
            self._say_all_again(now)
        return [*self._heed_quench(), *self._sent(self.config.in_flight_max)]

    def on_receipt_update(self, message: ReceiptUpdate, now: float) -> list[Effect]:
        """A broker has lost its last inputs while we are connected."""
        self._take_receipt(message.receipt)
        return []

    def _take_receipt(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        self._receipt = receipt.number

    def _say_all_again(self, now: float) -> None:
        """The session is empty: send every present wish again, then the events that it may not have."""
        said = [*self._granted.values(), *(request.wish for request in self._under_way), *self.outbox.drop_controls()]
        events = [wish for wish in said if isinstance(wish, Publish | Retain)]
        self._under_way.clear()
        self._granted.clear()
        for topic, wish in list(self.wanted.items()):
            if isinstance(wish, Subscribe) and wish.expires is not None and wish.expires <= now:
                del self.wanted[topic]
        former: dict[Topic, Advertise] = {}  # withdrawn since, but waiting events were advertised by it
        if events or self.outbox.events or self._starts_over:  # or the next broker advertises for the client already
            former = {topic_of(wish): wish for wish in said if isinstance(wish, Advertise)}
        former = {topic: wish for topic, wish in former.items() if topic not in self.wanted}
        wanted = sorted(self.wanted.values(), key=lambda wish: not isinstance(wish, Context))  # `to` is tested by it
        self.own.start_over(wanted[0] if wanted and isinstance(wanted[0], Context) else None)
        self.outbox.put_first([*wanted, *former.values(), *events])
        for wish in former.values():
            self.outbox.put(Unadvertise(wish.id))
        for topic, brought in {topic_of(wish): wish for wish in self._brought}.items():
            is_over = isinstance(brought, Subscribe) and brought.expires is not None and brought.expires <= now
            if topic not in self.wanted and topic not in former and not is_over:  # the new session began with it
                self.outbox.put(Unsubscribe(brought.id) if isinstance(brought, Subscribe) else Unadvertise(brought.id))

    def on_accepted(self, message: Accepted, now: float) -> list[Effect]:
        """The broker has handled every request up to a number."""
        if message.number > self._numbered:
            raise PeerFault(f"Accepted({message.number}), but {self._numbered} were sent")
        self._acknowledged(message.number)
        return self._sent(self.config.in_flight_max)

    def on_refused(self, message: Refused, now: float) -> list[Effect]:
        """The broker has refused one request and handled every earlier one. The message may be repeated."""
        if message.number > self._numbered:
            raise PeerFault(f"Refused({message.number}), but {self._numbered} were sent")
        self._acknowledged(message.number - 1)
        if not self._under_way or self._under_way[0].number != message.number:
            return []
        wish = cast(Wish, self._under_way.popleft().wish)
        self.refusals.append(Refusal(wish, message.reason))
        topic = topic_of(wish)
        if self.wanted.get(topic) is wish:  # the broker keeps what it accepted before
            del self.wanted[topic]
            if topic in self._granted:
                self.wanted[topic] = self._granted[topic]
        if isinstance(wish, Context):
            corrected = self.own.on_refused(wish, instead=CONTEXT in self.outbox)
            if corrected is not None:
                self.wanted[CONTEXT] = corrected
                self.outbox.put(corrected)
            self.outbox.on_context(self.sequence)
        effects = self._heed_quench() if isinstance(wish, Context | Advertise) else []
        publisher, sequence = wish.event.id if isinstance(wish, Publish | Retain) else ("", -1)
        kind, number, why = type(wish).__name__, message.number, message.reason
        record = Record("refused", self.name, kind, publisher, sequence, number=number, detail=why)
        return [Trace(record), *effects, *self._sent(self.config.in_flight_max)]

    def on_revoked(self, message: Revoked, now: float) -> list[Effect]:
        """The broker has ended subscriptions whose right is gone, unless they were requested again since."""
        for topic in [("subscription", name) for name in message.ended]:
            if self.unanswered_about(topic) is None and (wish := self.wanted.pop(topic, None)) is not None:
                self._granted.pop(topic, None)
                self.queries.forget(topic[1])
                self.refusals.append(Refusal(wish, message.reason))
        return [Trace(Record("revoked", self.name, subscription=name, detail=message.reason)) for name in message.ended]

    def _acknowledged(self, number: int) -> None:
        under_way = self._under_way
        while under_way and under_way[0].number <= number:
            wish = cast(Wish, under_way.popleft().wish)
            if not isinstance(wish, Publish | Retain):
                self._grant(wish)

    def _grant(self, wish: Control) -> None:
        match wish:
            case Subscribe() | Advertise():
                self._granted[topic_of(wish)] = wish
            case Context():
                self._granted[CONTEXT] = wish
                self.own.on_accepted(wish)
            case SetSessionExpiry():
                self._granted[SESSION_EXPIRY] = wish
            case Unsubscribe(id=(_, name)):
                self._granted.pop(("subscription", name), None)
            case Unadvertise(id=(_, name)):
                self._granted.pop(("advertisement", name), None)

    def on_delivery(self, message: Delivery, now: float) -> list[Effect]:
        """Deliver an event once and in order: a number that is not higher is a duplicate. [mobile §5]"""
        self._confirmations.came(message.number)
        if message.number <= self._received:
            self.duplicates += 1
            is_unsure = self.config.mode == "named"  # else the broker knows
            return self._confirmations.due(cast(str, self.connection), now) if is_unsure else []
        self._received = message.number
        self._numbers.came(self.session, message)
        effects: list[Effect] = []
        names = message.subscriptions
        is_naive = self.config.mode == "naive"  # it accepts all but events of ended subscriptions
        if is_naive or self._after_loss.is_on:
            for wish in self._after_loss.unknown(self.name, message, self.wanted):
                effects += self._wait(wish)
            names = tuple(name for name in names if wants(self.wanted, name, message.event))
        is_new = names != ()
        if is_new and not is_naive:
            is_retained = message.event.attributes.get("retained") is True  # requested, whether delivered before or not
            is_new = is_retained or self._seen.add(message.event.publisher, message.event.sequence)
        if not is_new:
            self.duplicates += 1
            effects.append(self._record("suppressed", message.event))
        else:
            names, residues = self.queries.decide(names, message.event, self.wanted)
            effects += residues
            if names:
                self.notified += 1
                effects.append(Notify(message.event, names))
        return effects + self._confirmations.due(cast(str, self.connection), now)

    def on_quench(self, message: Quench, now: float) -> list[Effect]:
        """Take the present union of all subscriptions. [mobile §3.2]"""
        if not self.config.quench:
            raise PeerFault("a Quench that was not requested")
        self.outbox.on_quench(message.filter)
        return self._heed_quench() if self.is_attached else []

    def _heed_quench(self) -> list[Effect]:
        """Discard what nobody wants, if the filter was made knowing the present context and advertisements."""
        if self.outbox.may_change_filter() or any(isinstance(r.wish, Context | Advertise) for r in self._under_way):
            return []
        return [self._record("quenched", event) for event in self.outbox.on_settled()]

    def on_trim_connection_log(self, message: TrimConnectionLog, now: float) -> list[Effect]:
        """Remove brokers that keep nothing for this client from the log. [mobile §4.3]"""
        self._log.strike(message.brokers, self.home)
        return []

    def on_bye(self, message: Bye, now: float) -> list[Effect]:
        """The broker is about to close the connection; `Closed` follows."""
        self.closed_because = message.reason
        return []

    def _record(self, kind: str, event: Event) -> Trace:
        return Trace(Record(kind, publisher=event.publisher, sequence=event.sequence))


_HANDLERS: dict[type, Callable[[Client, Any, float], list[Effect]]] = {
    Accepted: Client.on_accepted,
    Attached: Client.on_attached,
    Bye: Client.on_bye,
    Delivery: Client.on_delivery,
    Quench: Client.on_quench,
    ReceiptUpdate: Client.on_receipt_update,
    Refused: Client.on_refused,
    Revoked: Client.on_revoked,
    TrimConnectionLog: Client.on_trim_connection_log,
}
