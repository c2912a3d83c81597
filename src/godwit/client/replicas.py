"""A client with sessions at several brokers at once, which merges their deliveries.

*Theory.* The client holds one session at each of its replicas, with the machine that every client has (`client.py`):
each brings what its broker has for the client, once and in order. What the application asks for goes to all of them.
What they deliver meets here, and a filter decides what is displayed:

| filter | displays | ordered | consistent | complete |
|---|---|---|---|---|
| `none` | all that comes | | | yes |
| `unique` | what was not displayed before | | yes | yes |
| `ordered` | what is newer than the last of its source | yes | yes | |
| `complete` | what all replicas have passed, by its number (`complete_merge.py`) | yes | yes | yes |

As a source, the client sends its events through all replicas [mobile §5], or through one at a time: when that one is
out of reach, the next takes over. It gets all that the first has not acknowledged, and before that the last few events
once more, which the first may still have in hand: so they go before the new ones, whichever way is faster.

*Rules.*
1. Replicas are independent: what one of them does, or does wrong, closes its own connection and no other.
2. All sessions bear the client's name; numbers of requests and deliveries count within each session.
3. Events have one number, whichever way they take: border brokers know by it what comes twice.
4. A session stays at its broker: a replica does not roam.
5. Published through `all`, an event is in the network if one replica takes it. Through `one`, too, as long as a replica
   that goes has at most `again_max` events in hand; what it has beyond that comes late, or dies with its disk. (Of a
   replica that has lost its disk and is back sooner than a slower one passes on what was lost, events may come late.)
   `again_max` is below the numbers that border brokers remember of a publisher, so that nothing comes twice.
6. `unique` remembers `unique_window` numbers of a publisher; what is further behind counts as displayed.

*Paper.* [mobile §5, Table 1]; EB1, EB2 → replicas; ED → this machine; ES → `publish`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import structs

from godwit.broker.effects import (
    Close,
    Closed,
    Effect,
    Heard,
    Input,
    Notify,
    Opened,
    StartTimer,
    StopTimer,
    Tell,
    TimerDue,
    Trace,
)
from godwit.broker.messages import Attach, Attached, Delivery, FetchedEvents, NodeId, QueueRules, Receipt
from godwit.client.broker_message_checks import check_delivery
from godwit.client.client import Client, ClientConfig, Refusal
from godwit.client.complete_merge import CompleteMerge, MergeBounds
from godwit.client.merge_receipt import MergeReceipt, ReceiptKeeper
from godwit.client.own_context import asked, written
from godwit.client.request_outbox import Topic
from godwit.errors import PeerFault, SubscriptionError
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter
from godwit.filters.language import as_filter
from godwit.filters.values import Value
from godwit.languages.query import Query
from godwit.seen import Seen
from godwit.trace import Record

__all__ = ["FILTERS", "ReplicaConfig", "ReplicatedClient"]

FilterName = Literal["none", "unique", "ordered", "complete"]
FILTERS: tuple[FilterName, ...] = ("none", "unique", "ordered", "complete")
"""What may decide about what is displayed, from the weakest to the strongest."""

REPLICA_SEEN_WINDOW = 1_024  # an inner client passes on what comes behind a later event: the filter decides


class ReplicaConfig(msgspec.Struct, frozen=True):
    """How a client with several sessions behaves."""

    filter: FilterName = "complete"
    publish: Literal["all", "one"] = "all"
    again_max: int = 64  # events that go through the next replica once more
    bounds: MergeBounds = MergeBounds()
    client: ClientConfig = ClientConfig()
    unique_window: int = 4_096
    publishers_max: int = 10_000

    def __post_init__(self) -> None:
        if self.filter not in FILTERS:
            raise ValueError(f"filter is {self.filter!r}: allowed are {', '.join(FILTERS)}")
        if self.publish not in ("all", "one"):
            raise ValueError(f"publish is {self.publish!r}: allowed are all, one")
        if self.unique_window < 1 or self.publishers_max < 2 or self.again_max < 0:
            raise ValueError("unique_window must be 1 or more, publishers_max 2 or more, again_max 0 or more")


class ReplicatedClient:
    """One client, attached to all of `replicas`."""

    def __init__(
        self,
        name: NodeId,
        replicas: tuple[NodeId, ...],
        config: ReplicaConfig = ReplicaConfig(),  # noqa: B008 (it is frozen)
    ) -> None:
        if not replicas or len(set(replicas)) != len(replicas):
            raise ValueError(f"replicas are {replicas!r}: at least one is needed, and none twice")
        self.name = name
        self.config = config
        inner = structs.replace(config.client, seen_window=REPLICA_SEEN_WINDOW)
        self.clients = {replica: Client(name, inner) for replica in replicas}
        self.publishes_through = replicas[0]  # when it publishes through one
        self.sequence = config.client.sequence_start
        self.notified = 0
        self._receipt = ReceiptKeeper()
        self._recent: deque[Event] = deque(maxlen=config.again_max if config.publish == "one" else 0)
        self.merge = CompleteMerge(replicas, config.bounds) if config.filter == "complete" else None
        window = {"none": 0, "unique": config.unique_window, "ordered": 1, "complete": 0}[config.filter]
        self._seen = Seen(window, config.publishers_max) if window else None

    @property
    def receipt(self) -> MergeReceipt:
        """What happened to all events so far: displayed, suppressed, missing."""
        return self._receipt.receipt

    @property
    def refusals(self) -> list[Refusal]:
        """What replicas have refused, each once for each that did."""
        return [refusal for client in self.clients.values() for refusal in client.refusals]

    @property
    def receipts(self) -> dict[NodeId, list[Receipt]]:
        """The receipts of each replica's session."""
        return {replica: list(client.receipts) for replica, client in self.clients.items()}

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
    ) -> list[Effect]:
        """Want what `filter` matches, from publishers whose context `sender` matches, at every replica."""
        if isinstance(filter, Query):
            query, options = filter, {"sender": sender, "expires": expires, "queue": queue}
            asked(query.routable, sender)  # an error before any replica is asked
            return self._all(lambda client: client.subscribe(name, query, now, **options), now)  # type: ignore[arg-type]
        wanted = asked(filter, sender)
        return self._all(lambda client: client.subscribe(name, wanted, now, expires=expires, queue=queue), now)

    def unsubscribe(self, name: str, now: float) -> list[Effect]:
        """Want nothing more under `name`, at any replica."""
        return self._wanting(("subscription", name), lambda client: client.unsubscribe(name, now), now)

    def advertise(self, name: str, filter: Filter | str, now: float) -> list[Effect]:
        """Say to every replica that events to be published match `filter`."""
        promised = as_filter(filter)
        return self._all(lambda client: client.advertise(name, promised, now), now)

    def unadvertise(self, name: str, now: float) -> list[Effect]:
        """Publish nothing more under `name`."""
        return self._wanting(("advertisement", name), lambda client: client.unadvertise(name, now), now)

    @property
    def context(self) -> Attributes:
        """Its own context, as the first replica has it or is to hear it."""
        return next(iter(self.clients.values())).context

    def set_context(
        self, values: Mapping[str, Any], now: float, *, part: str = "", dwell_s: float | None = None
    ) -> list[Effect]:
        """Say to every replica what a part of its context is from now on. [spcf §3: setContext]"""
        return self._all(lambda client: client.set_context(values, now, part=part, dwell_s=dwell_s), now)

    def move_to(self, place: Value, now: float, *, dwell_s: float | None = None) -> list[Effect]:
        """Say to every replica that it is at another place. [rebeca §5]"""
        return self._all(lambda client: client.move_to(place, now, dwell_s=dwell_s), now)

    def set_session_expiry(self, seconds: float | None, now: float) -> list[Effect]:
        """Set how long brokers keep the sessions while the client is away. None: the broker's default."""
        return self._all(lambda client: client.set_session_expiry(seconds, now), now)

    def publish(
        self, content: Mapping[str, Any] | Event, now: float, *, to: Filter | str | None = None
    ) -> list[Effect]:
        """Publish an event, through all replicas or through one, under one number and as of one context."""
        details: dict[str, Any] = {"publisher": self.name, "sequence": self.sequence + 1, "published_at": now}
        stamped = written(content, self.context, to, **details)
        self.sequence += 1
        for client in self.clients.values():  # each must know which events were published before its context changed
            client.sequence = self.sequence
        if self.config.publish == "all":
            return self._all(lambda client: client.publish_numbered(stamped), now)
        effects = self._fail_over(now)
        self._recent.append(stamped)
        through = self.publishes_through
        return effects + self._step(through, lambda client: client.publish_numbered(stamped), now)

    def leave(self, now: float) -> list[Effect]:
        """Leave permanently: all sessions end, and held events are dropped."""
        effects = self._all(lambda client: client.leave(now), now)
        if self.merge is not None:
            effects += self.merge.stop()
            self.merge = CompleteMerge(tuple(self.clients), self.config.bounds)
        return effects

    def has_unanswered_changes(self) -> bool:
        """Whether anything it asked for, events aside, is not accepted or refused yet by some replica."""
        return any(client.has_unanswered_changes() for client in self.clients.values())

    # ------------------------------------------------------------ what happens

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take notice of an input. A fault of a replica closes its connection, and no other."""
        match input:
            case Heard(connection=replica) if replica in self.clients:
                effects = self._on_heard(replica, input, now)
            case Closed(connection=replica) if replica in self.clients:
                effects = self._step(replica, lambda client: client.handle(input, now), now)
            case Opened(connection=replica):
                if replica not in self.clients:
                    return [Close(replica, f"{replica} is not a replica of {self.name}")]
                effects = self._step(replica, lambda client: client.handle(input, now), now)
            case TimerDue(key=("replica", replica, *key)):
                return self._step(replica, lambda client: client.handle(TimerDue(tuple(key)), now), now)
            case TimerDue(key=key) if self.merge is not None:
                return self._shown(self.merge.on_timer_due(key, now))
            case _:
                return []
        return effects + self._fail_over(now) if self.config.publish == "one" else effects

    def _on_heard(self, replica: NodeId, input: Heard, now: float) -> list[Effect]:
        message, client = input.message, self.clients[replica]
        if client.connection is None or self.merge is None or type(message) not in (Delivery, FetchedEvents):
            is_fresh = type(message) is not Attached or message.fresh
            return self._step(replica, lambda client: client.handle(input, now), now, is_fresh=is_fresh)
        try:
            if not client.is_attached:
                raise PeerFault(f"{type(message).__name__} before Attached")
            if type(message) is FetchedEvents:
                self.merge.check_fetched_events(replica, message)
                wanted, residues = self._decided(client, message)
                return self._shown([*residues, *self.merge.on_fetched_events(replica, wanted, now)])
            check_delivery(message)
        except PeerFault as fault:
            return self._shut(replica, message, fault, now)
        effects = self._own(replica, client.handle(input, now))
        is_new = any(type(effect) is Notify for effect in effects)
        merged = self.merge.on_delivery(replica, message, is_new=is_new, now=now)
        return [*(each for each in effects if type(each) is not Notify), *self._shown(merged)]

    def _decided(self, client: Client, message: FetchedEvents) -> tuple[FetchedEvents, list[Trace]]:
        """The answer without the events that the exact tests of queries turn away."""
        items, residues = [], []
        for item in message.items:
            names, turned_away = client.queries.decide(item.subscriptions, item.event, client.wanted)
            residues += turned_away
            if names:
                items.append(structs.replace(item, subscriptions=names))
        return structs.replace(message, items=tuple(items)), residues

    def _shut(self, replica: NodeId, message: Any, fault: PeerFault, now: float) -> list[Effect]:
        """Rule 1."""
        record = Record("fault", replica, type(message).__name__, detail=str(fault))
        effects = self._step(replica, lambda client: client.handle(Closed(replica), now), now)
        return [Trace(record), Close(replica, str(fault)), *effects]

    # ------------------------------------------------------------ replicas

    def _all(self, do: Callable[[Client], list[Effect]], now: float) -> list[Effect]:
        return [effect for replica in self.clients for effect in self._step(replica, do, now)]

    def _wanting(self, topic: Topic, do: Callable[[Client], list[Effect]], now: float) -> list[Effect]:
        """The same at those replicas that have not refused the subscription or advertisement."""
        wanting = [replica for replica, client in self.clients.items() if topic in client.wanted]
        if not wanting:
            raise SubscriptionError(f"there is no {topic[0]} {topic[1]!r}")
        return [effect for replica in wanting for effect in self._step(replica, do, now)]

    def _step(
        self, replica: NodeId, do: Callable[[Client], list[Effect]], now: float, *, is_fresh: bool = True
    ) -> list[Effect]:
        """Let a replica's machine do something, and take notice when it has come or gone by that."""
        client = self.clients[replica]
        was_attached, session = client.is_attached, client.session
        effects = self._filtered(self._own(replica, do(client)))
        if self.merge is not None and client.is_attached != was_attached:
            if client.is_attached:
                resumed = session != "" and client.session == session
                inherited = session == "" and not is_fresh  # from another process of this name
                effects += self._shown(self.merge.on_attached(replica, now, resumed=resumed, inherited=inherited))
            else:
                effects += self.merge.on_gone(replica, now)
        return effects

    def _own(self, replica: NodeId, effects: list[Effect]) -> list[Effect]:
        """A replica's effects as this machine's: timers bear its name, and its greeting asks for predecessors."""
        own: list[Effect] = []
        for effect in effects:
            match effect:
                case StartTimer(key=key, at=at):
                    effect = StartTimer(("replica", replica, *key), at)
                case StopTimer(key=key):
                    effect = StopTimer(("replica", replica, *key))
                case Tell(message=Attach() as attach) if self.merge is not None:
                    effect = Tell(replica, structs.replace(attach, replicated=True))
            own.append(effect)
        return own

    def _filtered(self, effects: list[Effect]) -> list[Effect]:
        """What the replica's machine notifies of is displayed, or not. [mobile §5, Table 1]"""
        shown: list[Effect] = []
        for effect in effects:
            if type(effect) is Notify and self._seen is not None and not self._seen.add(*effect.event.id):
                shown.append(Trace(Record("suppressed", "", "", *effect.event.id)))
            else:
                shown.append(effect)
        return self._shown(shown)

    def _shown(self, effects: list[Effect]) -> list[Effect]:
        self.notified += sum(type(effect) is Notify for effect in effects)
        self._receipt.count(effects)
        return effects

    def _fail_over(self, now: float) -> list[Effect]:
        """Publish through another replica, when the one that should is out of reach and another is not."""
        before = self.clients[self.publishes_through]
        if before.is_attached:
            return []
        reachable = [replica for replica, client in self.clients.items() if client.is_attached]
        if not reachable:
            return []
        self.publishes_through = replica = reachable[0]
        effects: list[Effect] = []
        again = {one.sequence: one for one in (*before.unanswered(), *self._recent)}
        for _, one in sorted(again.items()):
            effects += self._step(replica, partial(Client.publish_numbered, event=one), now)
        return effects
