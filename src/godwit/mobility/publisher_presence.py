"""Publishers that move: which brokers advertise for them in the meantime, and for how long.

*Theory.* An advertisement builds a tree over the whole network, and subscriptions come back along it. A publisher that
goes takes its tree with it, and a publisher that comes builds one; until it stands, its events reach only a part of
those who want them. The five ways differ in which brokers advertise for a publisher besides the one it is at:

| mode | who | until |
|---|---|---|
| standard | nobody | |
| delayed | the broker that it has left | `delay_s` later |
| prefetching | the broker that it will come to, as the last one predicts | it is seen again, or `prefetch_s` |
| prefetching+delayed | both | |
| proxy | its own proxies, or those nearest to its first broker | it leaves permanently, or sends nothing for `lease_s`
|

A broker that advertises *holds* the advertisements: they stand in its tables as if the publisher were there. A tree
that still stands when the next one is built is what that one grafts onto: equal filters cover each other, so only the
brokers between the two are told anything new [pubmob §3: Delayed].

Each connection begins a session and ends it. There is nothing to replay for a publisher, so no session is fetched; what
it wants to subscribe to is lost while it is away.

*Rules.*
1. The entry of an advertisement stands in the tables of a broker exactly while the publisher's session here holds it or
   a holding does. It is placed and withdrawn in slices if that takes long (`session_entries.py`, `withdrawals.py`).
2. A publisher that comes brings its advertisements with its greeting, and they are made at once, or in slices if that
   takes long (`session_entries.py`); then what was held for it ends, but for what it has brought, so that nothing is
   torn down in between.
3. Of two orders about a publisher the one with the higher attempt counts, as with relocations.
4. A holding ends by itself. A proxy's lease is renewed by the broker that the publisher is at; when that was last, the
   publisher carries with it.
5. A prediction that turns out wrong is withdrawn: the broker where the publisher is, and was not expected, tells the
   one it came from, which tells the one that waits. One that comes back to the broker it has left was not expected
   there either.
6. Where a publisher was before is what its greeting says: the last broker that it has greeted since it was attached
   anywhere (`tried`), else the one where it was attached (`home`). A connection that breaks and comes back names this
   broker as home; then what was known before it broke still holds, for as long as the prediction that was made then.
   Otherwise it is unknown, also to the predictor.
7. A publisher may overtake itself: what it says here does not wait for what it said at the last broker, and may still
   be under way. Clients keep the order and drop what comes too late, on record.

*Paper.* [pubmob §3, §3.1]. *Symbols.* t1 → attached to Broker 1; t2 → teardown, or the next tree, while away; t3 →
away; t4 → from the greeting at Broker 2 until its tree stands; movein → `Attach`; moveout → the connection's end.
*Departures.* The paper's proxies are permanent; ours are leased, so that a publisher that never comes back is
forgotten. It does not say what a wrong prediction comes to; here it is withdrawn.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from godwit.broker.broker import EVERYTHING
from godwit.broker.component import Handlers, RelayedHandler
from godwit.broker.effects import ComponentInput, Effect, StartTimer, StopTimer, Tell, TimerKey, Trace
from godwit.broker.host import Host
from godwit.broker.limits import Limits
from godwit.broker.messages import Advertise, Attach, Attached, NodeId, Unadvertise
from godwit.broker.session import Session
from godwit.filters.filters import TRUE, Filter
from godwit.mobility.move_checks import check_move
from godwit.mobility.move_messages import Prefetch, Proxy, WithdrawPrefetch
from godwit.mobility.predictors import Predictor, model_of
from godwit.mobility.relocation import Relocation
from godwit.mobility.session_entries import SessionEntries
from godwit.trace import Record

__all__ = [
    "PUBLISHER_MODES",
    "HeldAdvertisements",
    "PublisherConfig",
    "PublisherPresence",
    "PublisherPresenceState",
    "PublisherReconfigured",
    "PublisherSettings",
]

HOLDINGS_MAX = 10_000
RENEWALS = 3  # in a lease
PROXIES_MAX = 16  # of a publisher, where they are listed
DELAYED = ("delayed", "prefetching+delayed")
PREFETCHING = ("prefetching", "prefetching+delayed")
PUBLISHER_MODES = ("standard", "prefetching", "proxy", "delayed", "prefetching+delayed")


class PublisherConfig(msgspec.Struct, frozen=True):
    """What the ways to move need to know."""

    delay_s: float = 10.0  # [pubmob §4.1] "tears down the tree 10s after the publisher disconnects"
    prefetch_s: float = 30.0  # how long a broker waits for a publisher that was predicted to come
    lease_s: float = 3_600.0
    proxies: int = 5  # [pubmob §4.1] "the five closest brokers"
    nearest: Mapping[NodeId, tuple[NodeId, ...]] = {}  # by broker, others and itself, the nearest first
    predictor: Predictor | None = None
    client_proxies: Mapping[NodeId, tuple[NodeId, ...]] = {}  # by publisher, its own: where it mostly is

    def proxies_of(self, origin: NodeId, client: NodeId = "") -> tuple[NodeId, ...]:
        """Who are the proxies of a publisher: its own, or those of the broker `origin` that it came to first."""
        return (self.client_proxies.get(client) or self.nearest.get(origin, (origin,)))[: self.proxies]


_DEFAULT = PublisherConfig()


class PublisherSettings(msgspec.Struct, frozen=True):
    """The same as plain data: what a journal keeps, and a machine is made of again."""

    delay_s: float = _DEFAULT.delay_s
    prefetch_s: float = _DEFAULT.prefetch_s
    lease_s: float = _DEFAULT.lease_s
    proxies: dict[NodeId, tuple[NodeId, ...]] = {}  # by broker that a publisher came to first; else that one alone
    model: str = ""  # a movement model, as JSON; "": nothing is predicted
    client_proxies: dict[NodeId, tuple[NodeId, ...]] = {}  # by publisher, its own proxies

    def config(self) -> PublisherConfig:
        """As brokers use it."""
        return PublisherConfig(
            self.delay_s,
            self.prefetch_s,
            self.lease_s,
            proxies=PROXIES_MAX,
            nearest=self.proxies,
            predictor=model_of(self.model, "the movement model") if self.model else None,
            client_proxies=self.client_proxies,
        )


class PublisherReconfigured(ComponentInput, frozen=True):
    """As `Reconfigured`, and these settings for publishers that move. A publisher that is advertised for already is so
    until its time.
    """

    neighbours: dict[NodeId, float]
    limits: Limits
    publishers: PublisherSettings


class HeldAdvertisements(msgspec.Struct):
    """Advertisements that stand here for a publisher that is not."""

    kind: str  # delayed, prefetched or proxy
    advertisements: dict[str, Filter]
    attempt: int
    until: float


class PresentPublisher(msgspec.Struct):
    """A publisher that is here."""

    mode: str
    origin: NodeId
    renewed_at: float
    told: dict[str, Filter]  # what its proxies have been told to advertise
    brings: bool  # advertisements, with its greeting
    before: NodeId | None = None  # where it was before it came here, if that is known


class PredictedMove(msgspec.Struct, frozen=True):
    """Where a publisher that has left was said to go."""

    to: NodeId
    attempt: int  # its greeting here
    before: NodeId | None  # where it was before it came here


class HeldAdvertisementsState(msgspec.Struct, frozen=True):
    """A holding, written down. Until when it lasts is the driver's, in a timer."""

    kind: str
    advertisements: dict[str, Filter]
    attempt: int


class PresentPublisherState(msgspec.Struct, frozen=True):
    """A publisher that is here, written down, without what is read only while its greeting is handled."""

    mode: str
    origin: NodeId
    told: dict[str, Filter]
    before: NodeId | None


class PublisherPresenceState(msgspec.Struct, frozen=True, tag=True):
    """Publishers that are here, advertised for or expected; and the settings, if they are not the first ones."""

    version: ClassVar[int] = 3
    settings: PublisherSettings | None
    publishers: dict[NodeId, PresentPublisherState]
    holdings: dict[NodeId, HeldAdvertisementsState]
    predicted: dict[NodeId, PredictedMove]


class PublisherPresence:
    """The publishers that are here, and the advertisements that are held for others."""

    label = "publisher presence"
    host: Host

    def __init__(self, relocation: Relocation, entries: SessionEntries, config: PublisherConfig) -> None:
        self.relocation, self.entries = relocation, entries
        self.routes = relocation.routes
        self.config = config
        self._settings: PublisherSettings | None = None  # what `config` was made of, if it is not the first one
        self.publishers: dict[NodeId, PresentPublisher] = {}
        self.holdings: dict[NodeId, HeldAdvertisements] = {}
        entries.held_for = self._held_for
        self.predicted: dict[NodeId, PredictedMove] = {}

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        to = attrgetter("to")
        return Handlers(
            relayed={
                Prefetch: RelayedHandler(self.on_prefetch, check_move, to),
                Proxy: RelayedHandler(self.on_proxy, check_move, to),
                WithdrawPrefetch: RelayedHandler(self.on_withdraw_prefetch, check_move, to),
            },
            inputs={PublisherReconfigured: self.on_resettled},
            timers={
                "holding": self._on_holding_due,
                "predicted": self._on_predicted_due,
                "renew": self._on_renew_due,
            },
            requests={Advertise: self._on_advertised, Unadvertise: self._on_advertised},
            on_attach=self._on_attach,
            on_detach=self._on_detach,
            on_leave=self._on_leave,
            on_session_ended=self._on_session_ended,
            keeps_advertisements=self._held_for,
            keeps_context=self._keeps_context,
            brings_advertisements=self._brings_advertisements,
        )

    def snapshot(self) -> PublisherPresenceState:
        """All state."""
        publishers = {
            client: PresentPublisherState(here.mode, here.origin, dict(here.told), here.before)
            for client, here in self.publishers.items()
        }
        holdings = {
            client: HeldAdvertisementsState(held.kind, dict(held.advertisements), held.attempt)
            for client, held in self.holdings.items()
        }
        return PublisherPresenceState(self._settings, publishers, holdings, dict(self.predicted))

    def restore(self, state: PublisherPresenceState) -> None:
        """Take over a snapshot."""
        if state.settings is not None:
            self._settings, self.config = state.settings, state.settings.config()
        self.publishers = {
            client: PresentPublisher(here.mode, here.origin, 0.0, dict(here.told), brings=False, before=here.before)
            for client, here in state.publishers.items()
        }
        self.holdings = {
            client: HeldAdvertisements(held.kind, dict(held.advertisements), held.attempt, until=0.0)
            for client, held in state.holdings.items()
        }
        self.predicted = dict(state.predicted)

    def on_resettled(self, input: PublisherReconfigured, now: float) -> list[Effect]:
        """Have these settings from now on."""
        self._settings, self.config = input.publishers, input.publishers.config()
        return self.host.reconfigure(input.neighbours, input.limits, now)

    # ------------------------------------------------------------ it comes

    def attach(self, connection: str, message: Attach, now: float) -> list[Effect]:
        """A publisher comes, with what it advertises. [pubmob §3: movein]"""
        message = self.relocation.redirected(message)
        host, client = self.host, message.client
        brought = {wish.id[1]: wish.filter for wish in message.wanted if type(wish) is Advertise}
        is_new = host.sessions.session(client) is None
        if is_new:
            message = structs.replace(message, session="", received=0)  # a new session is what it asks for
        known = {} if message.origin == "" else (brought or self._everything())
        renewed_at = message.renewed_at if message.origin else now
        before = self._before(message)
        present = PresentPublisher(message.mode, message.origin or host.name, renewed_at, known, bool(brought), before)
        self.publishers[client] = present
        effects = host.attach(connection, message, now)
        if host.sessions.client_of(connection) != client:  # there was no room
            del self.publishers[client]
            return effects
        session = host.sessions.session(client)
        assert session is not None
        if is_new:
            self._adopt(session, brought, effects, now)
        held = self.holdings.get(client)
        if held is not None and held.kind != "proxy":
            self._let_go(client, effects, now)  # rule 2
        effects += self._withdraw(client, message.attempt, now)
        home = message.home
        if message.mode in PREFETCHING and held is None and home != host.name and self.routes.knows(home):
            effects += self.routes.send_to(home, WithdrawPrefetch(client, home, message.attempt), now)  # rule 5
        if message.mode == "proxy":
            effects = self._renewed_when_due(session, present, effects, now)
        return effects

    def _on_attach(self, message: Attach) -> None:
        """A client that comes in another mode is none of these publishers any more."""
        if message.mode not in PUBLISHER_MODES:
            self.publishers.pop(message.client, None)

    def _before(self, message: Attach) -> NodeId | None:
        """Where a publisher that comes was before; None when nobody knows. Rule 6."""
        last = message.tried[-1] if message.tried else message.home
        if last != self.host.name:
            return last or None
        known = self.publishers.get(message.client) or self.predicted.get(message.client)
        return None if known is None else known.before

    def _adopt(self, session: Session, brought: dict[str, Filter], effects: list[Effect], now: float) -> None:
        """Let a new session begin with the advertisements of the last one."""
        limits = self.host.config.limits
        if not brought or len(brought) > limits.advertisements_max:
            return
        fitting = {name: filter for name, filter in brought.items() if filter.size <= limits.filter_literals_max}
        session.adopt_advertisements(fitting)
        self.entries.advertise(session, effects, now)

    def _brings_advertisements(self, client: NodeId) -> bool:
        """Whether a publisher has brought its advertisements with it."""
        present = self.publishers.get(client)
        return present is not None and present.brings

    def _everything(self) -> dict[str, Filter]:
        """What a client advertises that never does."""
        return {EVERYTHING: TRUE} if self.host.config.advertisements == "optional" else {}

    def _said(self, session: Session) -> dict[str, Filter]:
        """What a session advertises."""
        return dict(session.advertisements) if session.has_advertised else self._everything()

    # ------------------------------------------------------------ it goes

    def _on_detach(self, connection: str, now: float) -> list[Effect] | None:
        """A publisher goes: tear down its tree, or leave it to others. [pubmob §3: moveout]"""
        host = self.host
        client = host.sessions.client_of(connection)
        present = None if client is None else self.publishers.pop(client, None)
        if client is None or present is None:
            return None
        effects = host.keep_session(connection, now)
        session = host.sessions.session(client)
        assert session is not None
        if present.mode == "proxy":
            effects.append(StopTimer(("renew", client)))
        if present.mode in PREFETCHING:
            effects += self._predict(session, present.before, now)
        if present.mode in DELAYED:
            until = now + self.config.delay_s
            effects += self._hold_for(
                client, HeldAdvertisements("delayed", self._said(session), session.attempt, until), now
            )
        return effects + host.withdraw(host.sessions.end(client, now, "the publisher has gone"), now, client)

    def _on_session_ended(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """What is held for a publisher stays, as it is held: its session may have had other filters. (rule 1)"""
        self.publishers.pop(client, None)
        if (held := self.holdings.get(client)) is not None:
            self.entries.hold(client, held.advertisements, effects, now)

    def _held_for(self, client: NodeId) -> Mapping[str, Filter]:
        """What is advertised here for a client without a session. (rule 1)"""
        held = self.holdings.get(client)
        return {} if held is None else held.advertisements

    def _keeps_context(self, client: NodeId) -> bool:
        """A publisher that has just left may be back before long, and so its context stays as its tree does."""
        held = self.holdings.get(client)
        return held is not None and held.kind == "delayed"

    def _predict(self, session: Session, before: NodeId | None, now: float) -> list[Effect]:
        """Tell the broker that a publisher will come to, to build its tree. [pubmob §3: Prefetching]"""
        client, attempt = session.client, session.attempt
        predictor, said = self.config.predictor, self._said(session)
        to = None if predictor is None else predictor.next_broker(client, self.host.name, attempt, before)
        if to is None or not self.routes.knows(to) or not said or len(self.predicted) >= HOLDINGS_MAX:
            return []
        self.predicted[client] = PredictedMove(to, attempt, before)
        timer = StartTimer(("predicted", client), now + self.config.prefetch_s)
        return [timer, *self.routes.send_to(to, Prefetch(client, to, attempt, _advertisements(client, said)), now)]

    def _on_leave(self, client: NodeId) -> Callable[[float], list[Effect]] | None:
        """A publisher that leaves permanently leaves its proxies, too, once its session has ended."""
        session, present = self.host.sessions.session(client), self.publishers.pop(client, None)
        if present is None or session is None:
            return None
        attempt = session.attempt

        def let_proxies_go(now: float) -> list[Effect]:
            effects: list[Effect] = []
            if present.mode == "proxy":
                effects.append(StopTimer(("renew", client)))
                effects += self._tell_proxies(client, present, attempt, {}, now)
            if client in self.holdings:
                self._let_go(client, effects, now)
            return effects

        return let_proxies_go

    # ------------------------------------------------------------ proxies

    def _on_advertised(self, connection: str, wish: Any, effects: list[Effect], now: float) -> None:
        """Proxies hear what a publisher advertises. [pubmob §3: Proxy]"""
        client = self.host.sessions.client_of(connection)
        present = None if client is None else self.publishers.get(client)
        if client is not None and present is not None and present.mode == "proxy":
            session = self.host.sessions.session(client)
            assert session is not None
            if self._said(session) != present.told:
                effects += self._tell_proxies(client, present, session.attempt, self._said(session), now)

    def _renewed_when_due(
        self, session: Session, present: PresentPublisher, effects: list[Effect], now: float
    ) -> list[Effect]:
        """Tell the proxies of a publisher that comes what they do not know, or that they are to go on. Rule 4."""
        client, said = session.client, self._said(session)
        every_s = self.config.lease_s / RENEWALS
        told: list[Effect] = []
        if said != present.told or (said and now - present.renewed_at >= every_s):
            told = self._tell_proxies(client, present, session.attempt, said, now)
        stamped = [_stamped(effect, present) if type(effect) is Tell else effect for effect in effects]
        return [*stamped, *told, StartTimer(("renew", client), present.renewed_at + every_s)]

    def _tell_proxies(
        self, client: NodeId, present: PresentPublisher, attempt: int, said: dict[str, Filter], now: float
    ) -> list[Effect]:
        present.told, present.renewed_at = said, now
        effects: list[Effect] = []
        for to in self.config.proxies_of(present.origin, client):
            if to == self.host.name or self.routes.knows(to):
                effects += self.routes.send_to(to, Proxy(client, to, attempt, _advertisements(client, said)), now)
        return effects

    def on_proxy(self, peer: NodeId, message: Proxy, now: float) -> list[Effect]:
        """Keep a tree for a publisher, wherever it is; or keep it no longer."""
        client, held = message.client, self.holdings.get(message.client)
        if held is not None and message.attempt < held.attempt:  # rule 3
            return []
        said = {advertise.id[1]: advertise.filter for advertise in message.advertisements}
        if said:
            return self._hold_for(
                client, HeldAdvertisements("proxy", said, message.attempt, now + self.config.lease_s), now
            )
        effects: list[Effect] = []
        if held is not None:
            self._let_go(client, effects, now)
        return effects

    def _on_renew_due(self, key: TimerKey, now: float) -> list[Effect]:
        """A lease that is used is renewed. (rule 4)"""
        client = key[1]
        present, session = self.publishers.get(client), self.host.sessions.session(client)
        if present is None or session is None:
            return []
        effects = self._tell_proxies(client, present, session.attempt, self._said(session), now)
        return [*effects, StartTimer(("renew", client), now + self.config.lease_s / RENEWALS)]

    # ------------------------------------------------------------ the next broker

    def on_prefetch(self, peer: NodeId, message: Prefetch, now: float) -> list[Effect]:
        """A publisher is on its way here: build its tree. [pubmob §3: Prefetching]"""
        session, held = self.host.sessions.session(message.client), self.holdings.get(message.client)
        if max(session.attempt if session else -1, held.attempt if held else -1) > message.attempt:  # rule 3
            return []
        said = {advertise.id[1]: advertise.filter for advertise in message.advertisements}
        if held is not None:  # it has left us, and will be back
            said = {**held.advertisements, **said}
        until = now + self.config.prefetch_s
        return self._hold_for(message.client, HeldAdvertisements("prefetched", said, message.attempt, until), now)

    def on_withdraw_prefetch(self, peer: NodeId, message: WithdrawPrefetch, now: float) -> list[Effect]:
        """A publisher is elsewhere: tell the broker that expects it, or stop waiting for it. Rule 5."""
        client, attempt = message.client, message.attempt
        effects = self._withdraw(client, attempt, now)
        held = self.holdings.get(client)
        if held is not None and held.kind == "prefetched" and held.attempt < attempt:
            self._let_go(client, effects, now)
        return effects

    def _withdraw(self, client: NodeId, attempt: int, now: float) -> list[Effect]:
        """The publisher has been seen again: the broker that expects it need not wait any longer. Rule 5."""
        said = self.predicted.get(client)
        if said is None or said.attempt >= attempt:
            return []
        del self.predicted[client]
        withdraw = WithdrawPrefetch(client, said.to, attempt)
        return [StopTimer(("predicted", client)), *self.routes.send_to(said.to, withdraw, now)]

    def _on_predicted_due(self, key: TimerKey, now: float) -> list[Effect]:
        self.predicted.pop(key[1], None)
        return []

    # ------------------------------------------------------------ holding

    def _hold_for(self, client: NodeId, holding: HeldAdvertisements, now: float) -> list[Effect]:
        """Advertise for a publisher that is not here; instead of what was held for it before."""
        host, before = self.host, self.holdings.get(client)
        if before is None and len(self.holdings) >= HOLDINGS_MAX:
            return [Trace(Record("lost", client, "Advertise", detail="too many publishers are advertised for"))]
        effects: list[Effect] = []
        if not holding.advertisements:
            if before is not None:
                self._let_go(client, effects, now)
            return effects
        self.holdings[client] = holding
        session = host.sessions.session(client)
        here = {} if session is None else self._said(session)
        self.entries.hold(client, [name for name in holding.advertisements if name not in here], effects, now)
        known = {} if before is None else before.advertisements
        gone = [name for name in known if name not in holding.advertisements and name not in here]
        self._unadvertise(client, gone, effects, now)
        return [*effects, StartTimer(("holding", client), holding.until)]

    def _let_go(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """Advertise for a publisher no longer; what its session here advertises stays."""
        host, holding = self.host, self.holdings.pop(client)
        session = host.sessions.session(client)
        here = {} if session is None else self._said(session)
        effects.append(StopTimer(("holding", client)))
        self._unadvertise(client, [name for name in holding.advertisements if name not in here], effects, now)
        if session is None:
            host.tell_context(client, effects, now)

    def _unadvertise(self, client: NodeId, names: Sequence[str], effects: list[Effect], now: float) -> None:
        """Nobody has these advertisements any more. (rule 1)"""
        for name in names:
            if name == EVERYTHING:  # at once: no session has it by that name
                self.host.carry_out(self.host.routing.unadvertise((client, name), now), effects, now)
        self.host.withdrawals.withdraw((), [(client, name) for name in names if name != EVERYTHING], effects, now)

    def _on_holding_due(self, key: TimerKey, now: float) -> list[Effect]:
        """What was held for a while ends. [pubmob §3] "tears down only the extraneous portions\""""
        effects: list[Effect] = []
        if key[1] in self.holdings:
            self._let_go(key[1], effects, now)
        return effects


def _advertisements(client: NodeId, said: Mapping[str, Filter]) -> tuple[Advertise, ...]:
    return tuple(Advertise((client, name), filter) for name, filter in said.items())


def _stamped(tell: Tell, present: PresentPublisher) -> Tell:
    """The welcome with what the publisher is to carry to the next broker."""
    if type(tell.message) is not Attached:
        return tell
    welcome = structs.replace(tell.message, origin=present.origin, renewed_at=present.renewed_at)
    return Tell(tell.connection, welcome)
