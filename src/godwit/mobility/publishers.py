"""Publishers that move: who advertises for them while they are on their way, and for how long.

*Theory.* An advertisement builds a tree over the whole network, and subscriptions come back along it. A publisher that
goes takes its tree with it, and a publisher that comes builds one; until it stands, its events reach only a part of
those who want them. The five ways differ in which brokers advertise for a publisher besides the one it is at:

| mode | who | until |
|---|---|---|
| standard | nobody | |
| delayed | the broker that it has left | `delay_s` later |
| prefetching | the broker that it will come to, as the last one predicts | it is seen again, or `prefetch_s` |
| prefetching+delayed | both | |
| proxy | the `proxies` nearest to its first broker | it leaves for good, or is not heard of for `lease_s` |

Whoever advertises *holds* the advertisements: they stand in its tables as if the publisher were there. A tree that
still stands when the next one is built is what that one grafts onto: equal filters cover each other, so only the
brokers between the two are told anything new [pubmob §3: Delayed].

Each connection begins a session and ends it. There is nothing to replay for a publisher, so no session is fetched; what
it wants to subscribe to is lost while it is away.

*Rules.*
1. The entry of an advertisement stands in the tables of a broker exactly while the publisher's session here holds it or
   a holding does.
2. A publisher that comes brings its advertisements with its greeting, and they are made at once; then what was held for
   it ends, so that nothing is torn down in between.
3. Of two orders about a publisher the one with the higher attempt counts, as with relocations.
4. A holding ends by itself. A proxy's lease is renewed by the broker that the publisher is at; when that was last, the
   publisher carries with it.
5. A prediction that turns out wrong is withdrawn: the broker where the publisher is, and was not expected, tells the
   one it came from, which tells the one that waits. One that comes back to the broker it has left was not expected
   there either.
6. Where a publisher was before is what its greeting says: the last broker that it has greeted since it was let in
   anywhere (`tried`), else the one where it was let in (`home`). A connection that breaks and comes back names this
   broker as home; then what was known before it broke still holds, for as long as the prediction that was made then.
   Else it is not known, and a predictor is told so.
7. A publisher may overtake itself: what it says here does not wait for what it said at the last broker, and may still
   be under way. Clients keep the order and drop what comes too late, on record.

*Paper.* [pubmob §3, §3.1]. *Symbols.* t1 → attached to Broker 1; t2 → teardown, or the next tree, while away; t3 →
away; t4 → from the greeting at Broker 2 until its tree stands; movein → `Attach`; moveout → the connection's end.
*Departures.* The paper's proxies are for good; ours are leased, so that a publisher that never comes back is forgotten.
It does not say what a wrong prediction comes to; here it is withdrawn.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from godwit.broker.broker import EVERYTHING, BrokerConfig
from godwit.broker.effects import Effect, Heard, Reconfigured, StartTimer, StopTimer, Tell, TimerDue, Trace
from godwit.broker.messages import Advertise, Attach, Attached, Bye, NodeId, Request
from godwit.broker.session import Session
from godwit.broker.sessions import Removed
from godwit.filters.filters import TRUE, Filter
from godwit.mobility.graph_roaming import FlushingBroker
from godwit.mobility.locations import Movements
from godwit.mobility.messages import Prefetch, Proxy, Withdraw
from godwit.mobility.modes import MODES
from godwit.mobility.predictors import Predictor, model_of
from godwit.mobility.ways import Handler
from godwit.trace import Record

__all__ = ["Holding", "PublisherBroker", "PublisherConfig", "PublisherSettings", "Resettled"]

HOLDINGS_MAX = 10_000
RENEWALS = 3  # in a lease
PROXIES_MAX = 16  # of a publisher, where they are listed
DELAYED = ("delayed", "prefetching+delayed")
PREFETCHING = ("prefetching", "prefetching+delayed")


class PublisherConfig(msgspec.Struct, frozen=True):
    """What the ways to move need to know."""

    delay_s: float = 10.0  # [pubmob §4.1] "tears down the tree 10s after the publisher disconnects"
    prefetch_s: float = 30.0  # how long a broker waits for a publisher that was predicted to come
    lease_s: float = 3_600.0
    proxies: int = 5  # [pubmob §4.1] "the five closest brokers"
    nearest: Mapping[NodeId, tuple[NodeId, ...]] = {}  # by broker, others and itself, the nearest first
    predictor: Predictor | None = None

    def proxies_of(self, origin: NodeId) -> tuple[NodeId, ...]:
        """Who are the proxies of a publisher that came to `origin` first."""
        return self.nearest.get(origin, (origin,))[: self.proxies]


_DEFAULT = PublisherConfig()


class PublisherSettings(msgspec.Struct, frozen=True):
    """The same as plain data: what a journal keeps, and a machine is made of again."""

    delay_s: float = _DEFAULT.delay_s
    prefetch_s: float = _DEFAULT.prefetch_s
    lease_s: float = _DEFAULT.lease_s
    proxies: dict[NodeId, tuple[NodeId, ...]] = {}  # by broker that a publisher came to first; else that one alone
    model: str = ""  # a movement model, as JSON; "": nothing is predicted

    def config(self) -> PublisherConfig:
        """As brokers use it."""
        return PublisherConfig(
            self.delay_s,
            self.prefetch_s,
            self.lease_s,
            proxies=PROXIES_MAX,
            nearest=self.proxies,
            predictor=model_of(self.model, "the movement model") if self.model else None,
        )


class Resettled(Reconfigured, frozen=True):
    """As `Reconfigured`, and these settings for publishers that move. Who is held for already is so until its time."""

    publishers: PublisherSettings


class Holding(msgspec.Struct):
    """Advertisements that stand here for a publisher that is not."""

    kind: str  # delayed, prefetched or proxy
    advertisements: dict[str, Filter]
    attempt: int
    until: float


class Present(msgspec.Struct):
    """A publisher that is here."""

    mode: str
    origin: NodeId
    renewed_at: float
    told: dict[str, Filter]  # what its proxies have been told to advertise
    brings: bool  # advertisements, with its greeting
    before: NodeId | None = None  # where it was before it came here, if that is known


class Predicted(msgspec.Struct, frozen=True):
    """Where a publisher that has left was said to go."""

    to: NodeId
    attempt: int  # its greeting here
    before: NodeId | None  # where it was before it came here


class PublisherBroker(FlushingBroker):
    """A broker whose publishers move."""

    def __init__(
        self,
        name: NodeId,
        neighbours: Mapping[NodeId, float],
        config: BrokerConfig,
        incarnation: int = 1,
        *,
        movements: Movements | None = None,
        moving: PublisherConfig = PublisherConfig(),  # noqa: B008 (it is frozen)
    ) -> None:
        super().__init__(name, neighbours, config, incarnation, movements=movements)
        self.moving = moving
        self.resettled: PublisherSettings | None = None  # what `moving` was made of, if it is not as it was first
        self.publishers: dict[NodeId, Present] = {}
        self.holdings: dict[NodeId, Holding] = {}
        self.predicted: dict[NodeId, Predicted] = {}

    def on_resettled(self, input: Resettled, now: float) -> list[Effect]:
        """Have these settings from now on."""
        self.resettled, self.moving = input.publishers, input.publishers.config()
        return self.on_reconfigured(input, now)

    # ------------------------------------------------------------ it comes

    def _on_attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A publisher comes, with what it advertises. [pubmob §3: movein]"""
        if not MODES[message.mode].for_publishers:
            self.publishers.pop(message.client, None)
            return super()._on_attach(connection, message, now)
        client = message.client
        brought = {wish.id[1]: wish.filter for wish in message.wanted if type(wish) is Advertise}
        is_new = self.sessions.session(client) is None
        if is_new:
            message = structs.replace(message, session="", received=0)  # a new session is what it asks for
        known = {} if message.origin == "" else (brought or self._everything())
        renewed_at = message.renewed_at if message.origin else now
        before = self._before(message)
        present = Present(message.mode, message.origin or self.name, renewed_at, known, bool(brought), before)
        self.publishers[client] = present
        effects = super()._on_attach(connection, message, now)
        if self.sessions.client_of(connection) != client:  # there was no room
            del self.publishers[client]
            return effects
        session = self.sessions.session(client)
        assert session is not None
        if is_new:
            self._adopt(session, brought, effects, now)
        held = self.holdings.get(client)
        if held is not None and held.kind != "proxy":
            self._let_go(client, effects, now)  # rule 2
        effects += self._withdraw(client, message.attempt, now)
        if message.mode in PREFETCHING and held is None and message.home != self.name and self._knows(message.home):
            effects += self._send_to(message.home, Withdraw(client, message.home, message.attempt), now)  # rule 5
        if message.mode == "proxy":
            effects = self._renewed_when_due(session, present, effects, now)
        return effects

    def _before(self, message: Attach) -> NodeId | None:
        """Where a publisher that comes was before; None when nobody knows. Rule 6."""
        last = message.tried[-1] if message.tried else message.home
        if last != self.name:
            return last or None
        known = self.publishers.get(message.client) or self.predicted.get(message.client)
        return None if known is None else known.before

    def _adopt(self, session: Session, brought: dict[str, Filter], effects: list[Effect], now: float) -> None:
        """Let a new session begin with the advertisements of the last one."""
        limits = self.config.limits
        if not brought or len(brought) > limits.advertisements_max:
            return
        for name, filter in brought.items():
            if filter.size <= limits.filter_literals_max:
                session.advertisements[name] = filter
                self._carry_out(self.routing.advertise((session.client, name), filter, now), effects, now)
        session.has_advertised = True
        self._carry_out(self.routing.unadvertise((session.client, EVERYTHING), now), effects, now)

    def _advertise_everything(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Not for a publisher that brings its advertisements with it."""
        present = self.publishers.get(client)
        if present is None or not present.brings:
            super()._advertise_everything(client, effects, now)

    def _everything(self) -> dict[str, Filter]:
        """What a client advertises that never does."""
        return {EVERYTHING: TRUE} if self.config.advertisements == "optional" else {}

    def _said(self, session: Session) -> dict[str, Filter]:
        """What a session advertises."""
        return dict(session.advertisements) if session.has_advertised else self._everything()

    # ------------------------------------------------------------ it goes

    def _gone(self, connection: str, now: float) -> list[Effect]:
        """A publisher goes: tear down its tree, or leave it to others. [pubmob §3: moveout]"""
        client = self.sessions.client_of(connection)
        present = None if client is None else self.publishers.pop(client, None)
        effects = super()._gone(connection, now)
        if client is None or present is None:
            return effects
        session = self.sessions.session(client)
        assert session is not None
        if present.mode == "proxy":
            effects.append(StopTimer(("renew", client)))
        if present.mode in PREFETCHING:
            effects += self._predict(session, present.before, now)
        if present.mode in DELAYED:
            until = now + self.moving.delay_s
            effects += self._hold_for(client, Holding("delayed", self._said(session), session.attempt, until), now)
        return effects + self._without(self.sessions.end(client, now, "the publisher has gone"), now, client)

    def _without(self, removed: Removed, now: float, ended: NodeId | None = None) -> list[Effect]:
        """As every broker, but for what a holding holds (rule 1); whose session is over, or elsewhere, is not here."""
        if ended is None:
            return super()._without(removed, now)
        self.publishers.pop(ended, None)
        held = self.holdings[ended].advertisements if ended in self.holdings else {}
        ads = tuple(id for id in removed.advertisements if id[1] not in held)
        kept = Removed(removed.subscriptions, ads, removed.effects)
        effects = super()._without(kept, now, None if EVERYTHING in held else ended)
        for name, filter in held.items():  # as the holding has it, which may differ
            self._carry_out(self.routing.advertise((ended, name), filter, now), effects, now)
        self._tell_context(ended, effects, now)
        return effects

    def _tell_context(self, client: NodeId | None, effects: list[Effect], now: float) -> None:
        """As every broker; but who has just left may be back before long, and so its context stays as its tree does."""
        held = None if client is None else self.holdings.get(client)
        if held is None or held.kind != "delayed" or self.sessions.session(client or "") is not None:
            super()._tell_context(client, effects, now)

    def _predict(self, session: Session, before: NodeId | None, now: float) -> list[Effect]:
        """Tell the broker that a publisher will come to, to build its tree. [pubmob §3: Prefetching]"""
        client, attempt = session.client, session.attempt
        predictor, said = self.moving.predictor, self._said(session)
        to = None if predictor is None else predictor.next_broker(client, self.name, attempt, before)
        if to is None or not self._knows(to) or not said or len(self.predicted) >= HOLDINGS_MAX:
            return []
        self.predicted[client] = Predicted(to, attempt, before)
        timer = StartTimer(("predicted", client), now + self.moving.prefetch_s)
        return [timer, *self._send_to(to, Prefetch(client, to, attempt, _advertisements(client, said)), now)]

    def on_heard(self, input: Heard, now: float) -> list[Effect]:
        """As every broker; and who leaves for good leaves its proxies too."""
        if type(input.message) is not Bye:
            return super().on_heard(input, now)
        client = self.sessions.client_of(input.connection)
        session = None if client is None else self.sessions.session(client)
        present = None if client is None else self.publishers.pop(client, None)
        effects = super().on_heard(input, now)
        if client is None or present is None or session is None:
            return effects
        if present.mode == "proxy":
            effects.append(StopTimer(("renew", client)))
            effects += self._tell_proxies(client, present, session.attempt, {}, now)
        if client in self.holdings:
            self._let_go(client, effects, now)
        return effects

    # ------------------------------------------------------------ proxies

    def _on_request(self, connection: str, message: Request, now: float) -> list[Effect]:
        """As every broker; and proxies hear what a publisher advertises. [pubmob §3: Proxy]"""
        effects = super()._on_request(connection, message, now)
        if not self.publishers:
            return effects
        client = self.sessions.client_of(connection)
        present = None if client is None else self.publishers.get(client)
        if client is not None and present is not None and present.mode == "proxy":
            session = self.sessions.session(client)
            assert session is not None
            if self._said(session) != present.told:
                effects += self._tell_proxies(client, present, session.attempt, self._said(session), now)
        return effects

    def _renewed_when_due(self, session: Session, present: Present, effects: list[Effect], now: float) -> list[Effect]:
        """Tell the proxies of a publisher that comes what they do not know, or that they are to go on. Rule 4."""
        client, said = session.client, self._said(session)
        every_s = self.moving.lease_s / RENEWALS
        told: list[Effect] = []
        if said != present.told or (said and now - present.renewed_at >= every_s):
            told = self._tell_proxies(client, present, session.attempt, said, now)
        stamped = [_stamped(effect, present) if type(effect) is Tell else effect for effect in effects]
        return [*stamped, *told, StartTimer(("renew", client), present.renewed_at + every_s)]

    def _tell_proxies(
        self, client: NodeId, present: Present, attempt: int, said: dict[str, Filter], now: float
    ) -> list[Effect]:
        present.told, present.renewed_at = said, now
        effects: list[Effect] = []
        for to in self.moving.proxies_of(present.origin):
            if to == self.name or self._knows(to):
                effects += self._send_to(to, Proxy(client, to, attempt, _advertisements(client, said)), now)
        return effects

    def on_proxy(self, peer: NodeId, message: Proxy, now: float) -> list[Effect]:
        """Keep a tree for a publisher, wherever it is; or keep it no longer."""
        if message.to != self.name:
            return self._send_to(message.to, message, now)
        client, held = message.client, self.holdings.get(message.client)
        if held is not None and message.attempt < held.attempt:  # rule 3
            return []
        said = {advertise.id[1]: advertise.filter for advertise in message.advertisements}
        if said:
            return self._hold_for(client, Holding("proxy", said, message.attempt, now + self.moving.lease_s), now)
        effects: list[Effect] = []
        if held is not None:
            self._let_go(client, effects, now)
        return effects

    # ------------------------------------------------------------ the next broker

    def on_prefetch(self, peer: NodeId, message: Prefetch, now: float) -> list[Effect]:
        """A publisher is on its way here: build its tree. [pubmob §3: Prefetching]"""
        if message.to != self.name:
            return self._send_to(message.to, message, now)
        session, held = self.sessions.session(message.client), self.holdings.get(message.client)
        if max(session.attempt if session else -1, held.attempt if held else -1) > message.attempt:  # rule 3
            return []
        said = {advertise.id[1]: advertise.filter for advertise in message.advertisements}
        if held is not None:  # it has left us, and will be back
            said = {**held.advertisements, **said}
        until = now + self.moving.prefetch_s
        return self._hold_for(message.client, Holding("prefetched", said, message.attempt, until), now)

    def on_withdraw(self, peer: NodeId, message: Withdraw, now: float) -> list[Effect]:
        """A publisher is elsewhere: tell whom we told that it would come, or stop waiting for it. Rule 5."""
        if message.to != self.name:
            return self._send_to(message.to, message, now)
        client, attempt = message.client, message.attempt
        effects = self._withdraw(client, attempt, now)
        held = self.holdings.get(client)
        if held is not None and held.kind == "prefetched" and held.attempt < attempt:
            self._let_go(client, effects, now)
        return effects

    def _withdraw(self, client: NodeId, attempt: int, now: float) -> list[Effect]:
        """The publisher has been seen again: who was told that it would come need not wait any longer. Rule 5."""
        said = self.predicted.get(client)
        if said is None or said.attempt >= attempt:
            return []
        del self.predicted[client]
        return [StopTimer(("predicted", client)), *self._send_to(said.to, Withdraw(client, said.to, attempt), now)]

    # ------------------------------------------------------------ holding

    def _hold_for(self, client: NodeId, holding: Holding, now: float) -> list[Effect]:
        """Advertise for a publisher that is not here; instead of what was held for it before."""
        before = self.holdings.get(client)
        if before is None and len(self.holdings) >= HOLDINGS_MAX:
            return [Trace(Record("lost", client, "Advertise", detail="too many publishers are advertised for"))]
        effects: list[Effect] = []
        if not holding.advertisements:
            if before is not None:
                self._let_go(client, effects, now)
            return effects
        self.holdings[client] = holding
        session = self.sessions.session(client)
        here = {} if session is None else self._said(session)
        for name, filter in holding.advertisements.items():
            if name not in here:  # rule 1
                self._carry_out(self.routing.advertise((client, name), filter, now), effects, now)
        for name in () if before is None else before.advertisements:
            if name not in holding.advertisements and name not in here:
                self._carry_out(self.routing.unadvertise((client, name), now), effects, now)
        return [*effects, StartTimer(("holding", client), holding.until)]

    def _let_go(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Advertise for a publisher no longer; what its session here advertises stays."""
        holding = self.holdings.pop(client)
        session = self.sessions.session(client)
        here = {} if session is None else self._said(session)
        effects.append(StopTimer(("holding", client)))
        for name in holding.advertisements:
            if name not in here:
                self._carry_out(self.routing.unadvertise((client, name), now), effects, now)
        if session is None:
            self._tell_context(client, effects, now)

    def on_timer_due(self, input: TimerDue, now: float) -> list[Effect]:
        """What was held for a while ends; a lease that is used is renewed."""
        effects: list[Effect] = []
        match input.key:
            case ("holding", client):
                if client in self.holdings:  # [pubmob §3] "tears down only the extraneous portions"
                    self._let_go(client, effects, now)
                return effects
            case ("predicted", client):
                self.predicted.pop(client, None)
                return effects
            case ("renew", client):
                present, session = self.publishers.get(client), self.sessions.session(client)
                if present is not None and session is not None:
                    effects += self._tell_proxies(client, present, session.attempt, self._said(session), now)
                    effects.append(StartTimer(("renew", client), now + self.moving.lease_s / RENEWALS))
                return effects
        return super().on_timer_due(input, now)

    ANSWERS: ClassVar[dict[type, Handler]] = {
        **FlushingBroker.ANSWERS,
        Prefetch: on_prefetch,
        Proxy: on_proxy,
        Withdraw: on_withdraw,
    }
    HANDLERS: ClassVar[dict[type, Callable[[Any, Any, float], list[Effect]]]] = {
        **FlushingBroker.HANDLERS,
        Heard: on_heard,
        Resettled: on_resettled,
    }


def _advertisements(client: NodeId, said: Mapping[str, Filter]) -> tuple[Advertise, ...]:
    return tuple(Advertise((client, name), filter) for name, filter in said.items())


def _stamped(tell: Tell, present: Present) -> Tell:
    """The welcome with what the publisher is to carry to the next broker."""
    if type(tell.message) is not Attached:
        return tell
    welcome = structs.replace(tell.message, origin=present.origin, renewed_at=present.renewed_at)
    return Tell(tell.connection, welcome)
