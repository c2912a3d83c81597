"""Requests of clients: subscribe, advertise, publish, declare a context; each with its entry in the ledger.

*Theory.* Each request goes to the client's machine and into the ledger, with the events that are in flight at that
moment. A subscription may refer to its client's own context (`my.x`): its filter changes with the context. A
subscription may expire, by the clock of the client's broker.

*Rules.*
1. Every request of a run goes through this module, so the ledger has all of them.
2. A context has parts, each declared by itself; the client's own context is all of them together.
3. A subscription of a client that roams ends when the clock of one of its brokers says so, and nobody knows which one.
"""

from dataclasses import replace

from godwit.broker.effects import Effect
from godwit.client.client import Client
from godwit.filters.contexts import of_sender, stamped
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import Filter, all_of
from godwit.filters.language import to_text
from godwit.filters.references import LOCATION, is_open
from godwit.filters.values import Value
from godwit.mobility.possible_values import Movements
from godwit.simulator.broker_inspection import is_answered
from godwit.simulator.in_flight import InFlight
from godwit.simulator.ledger import Ledger
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.recorder import Recorder
from godwit.simulator.scenario import Scenario
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["DEVICE", "ClientRequests"]

ROUNDING_S = 1e-6  # more than sums of clocks are off by
DEVICE = "device"  # the part of a context that is drawn; the place of a walker is another


class ClientRequests:
    """The requests of all clients, as they are made."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        network: Network,
        population: Population,
        in_flight: InFlight,
        ledger: Ledger,
        recorder: Recorder,
        movements: Movements,
    ) -> None:
        self.context_changes = 0
        self._sessions = scenario.sessions
        roaming = scenario.clients.roaming
        self._roaming = frozenset(population.members(roaming.who) if roaming.is_on else ())
        self._payload = bytes(scenario.clients.payload_bytes) or None
        self._tracks_contexts = scenario.contexts.is_on or scenario.fire.is_on
        self._world = world
        self._network = network
        self._population = population
        self._in_flight = in_flight
        self._ledger = ledger
        self._recorder = recorder
        self._movements = movements
        self._contexts: dict[str, dict[str, Attributes]] = {}  # by client and part, as declared
        self._open_filters: dict[tuple[str, str], Filter] = {}  # of subscriptions that refer to their client's context
        self._subscribed = 0
        self._numbers: dict[tuple[str, str], int] = {}  # the request that a subscription's time is counted from
        self._expires: dict[tuple[str, str], float] = {}  # by its client's clock
        self._over_at: dict[tuple[str, str], float] = {}  # of the same, when all brokers say that it is over
        self._ending: dict[tuple[str, str], float] = {}  # subscriptions that may have ended: when all brokers say so

    # ------------------------------------------------------------ subscriptions

    def subscribe(self, name: str, subscription: str, content: Filter, sender: Filter | None = None) -> None:
        """A client subscribes, or replaces a filter."""
        self._subscribed += 1
        filter = content if sender is None else all_of(content, of_sender(sender))
        expires = None
        if self._sessions.subscription_expires_s is not None:
            world = self._world
            expires = world.now + world.nodes[name].skew_s + self._sessions.subscription_expires_s
            self._expires[name, subscription] = expires
            first_at, last_at = self._expires_between(name, expires)
            self._over_at[name, subscription] = last_at
            world.clock.call_at(first_at, self._expire, name, subscription, self._subscribed, last_at)
        self._open_filters.pop((name, subscription), None)
        if is_open(filter):
            self._open_filters[name, subscription] = filter
        self._ending.pop((name, subscription), None)
        self.note("subscription", name, subscription, filter)
        self._numbers[name, subscription] = self._subscribed
        rules = self._sessions.rules()

        def request(client: Client, now: float) -> list[Effect]:
            return client.subscribe(subscription, content, now, sender=sender, expires=expires, queue=rules)

        self._world.command(name, request)

    def unsubscribe(self, name: str, subscription: str) -> None:
        """A client ends a subscription."""
        self._ending.pop((name, subscription), None)
        self.note("subscription", name, subscription, None)
        self._world.command(name, lambda client, now: client.unsubscribe(subscription, now))

    def standing_subscriptions(self) -> list[tuple[str, str]]:
        """Client and name of each active subscription, as far as its client knows."""
        histories = self._ledger.subscriptions.items()
        wanted = [key for key, history in histories if history.filter is not None]
        return [(name, entry) for name, entry in wanted if self._is_wanted(name, entry)]

    def expired_by(self, name: str, at: float) -> set[str]:
        """The subscriptions of a client that have expired by then, by its own clock."""
        return {entry for (client, entry), expires in self._expires.items() if client == name and expires <= at}

    def end_expired(self, name: str, at: float) -> None:
        """A client whose session may go on under another name ends in it what has expired by its own clock."""
        for entry in sorted(self.expired_by(name, at)):
            history = self._ledger.subscriptions[name, entry]
            if history.filter is not None and not history.is_down:
                self.note("subscription", name, entry, None, self._over_at[name, entry])

    def _expires_between(self, name: str, expires: float) -> tuple[float, float]:
        """The first and the last moment at which its broker may end a subscription. (rule 3)"""
        brokers = self._network.overlay.brokers if name in self._roaming else (self._population.homes[name],)
        moments = [expires - self._world.nodes[broker].skew_s for broker in brokers]
        return min(moments) - ROUNDING_S, max(moments) + ROUNDING_S

    def _expire(self, name: str, subscription: str, number: int, last_at: float) -> None:
        history = self._ledger.subscriptions[name, subscription]
        if (filter := history.filter) is None:
            return
        if self._numbers.get((name, subscription)) == number:
            self._ending[name, subscription] = last_at
            self.note("subscription", name, subscription, None, last_at)
        elif not history.is_down and not is_answered(self._network.client(name)):
            # its broker may not have the replacement yet, and ends it: a gap, until the replacement arrives
            self.note("subscription", name, subscription, None)
            self.note("subscription", name, subscription, filter)

    def _is_wanted(self, name: str, subscription: str) -> bool:
        return ("subscription", subscription) in self._network.client(name).wanted

    # ------------------------------------------------------------ advertisements

    def advertise(self, name: str, advertisement: str, filter: Filter) -> None:
        """A client advertises, or replaces an advertisement."""
        self.note("advertisement", name, advertisement, filter)
        self._world.command(name, lambda client, now: client.advertise(advertisement, filter, now))

    def unadvertise(self, name: str, advertisement: str) -> None:
        """A client withdraws an advertisement."""
        self.note("advertisement", name, advertisement, None)
        self._world.command(name, lambda client, now: client.unadvertise(advertisement, now))

    def note(self, kind: str, name: str, entry: str, filter: Filter | None, over_at: float | None = None) -> None:
        """Record a client's request in the ledger, whichever part passes it to the machine."""
        if filter is not None and is_open(filter):  # in the context that the client is in
            filter = self._movements.exact(filter, self.context_of(name))
        self._ledger.asked(kind, name, entry, filter, self._world.now, self._in_flight.events(), over_at=over_at)
        if self._recorder.is_tracing:
            text = "" if filter is None else to_text(filter)
            self._recorder.record(name, Record("asked", message=kind, subscription=entry, detail=text))

    # ------------------------------------------------------------ events

    def publish(self, name: str, attributes: Attributes, to: Filter | None) -> None:
        """A client publishes an event, in its present context, to receivers that match `to`."""
        expires_s = self._sessions.event_expires_s
        own = self.context_of(name)

        def publish(client: Client, now: float) -> list[Effect]:
            expires_at = None if expires_s is None else now + expires_s
            event = Event(attributes, name, client.sequence + 1, self._payload, published_at=now, expires_at=expires_at)
            meant = None if to is None else self._movements.exact(to, own)
            self._ledger.published(replace(stamped(event, own), to=meant), self._world.now)
            return client.publish(event, now, to=to)

        self._world.command(name, publish)

    # ------------------------------------------------------------ contexts

    def context_of(self, name: str) -> Attributes:
        """The context of a client: declared and asserted attributes."""
        declared = {key: value for part in self._contexts.get(name, {}).values() for key, value in part.items()}
        return {**declared, **self._ledger.asserted.get(name, {})}

    def has_context(self, name: str) -> bool:
        """Whether a client has declared any context yet."""
        return name in self._contexts

    def set_context(self, name: str, context: Attributes) -> None:
        """A client declares the context of its device."""
        self.context_changes += name in self._contexts
        self._world.command(name, lambda client, now: client.set_context(context, now, part=DEVICE))
        self._on_context(name, DEVICE, context)

    def move_to(self, name: str, place: Value, dwell_s: float | None) -> None:
        """A client declares its place, and how long it stays there at least."""
        self._world.command(name, lambda client, now: client.move_to(place, now, dwell_s=dwell_s))
        self._on_context(name, LOCATION, {LOCATION: place})

    def _on_context(self, name: str, part: str, context: Attributes) -> None:
        """A part of a client's context has changed, and with it each subscription that refers to it."""
        self._contexts.setdefault(name, {})[part] = context
        if self._tracks_contexts:
            events = self._in_flight.events()
            self._ledger.context_declared(name, self.context_of(name), self._world.now, events)
        for (client, subscription), filter in self._open_filters.items():
            # what has expired by its own clock may be left out after a disk was lost
            if client != name or not self._is_wanted(name, subscription):
                continue
            if self._ledger.subscriptions[name, subscription].filter is not None:
                self.note("subscription", name, subscription, filter)
            elif (last_at := self._ending.get((name, subscription), 0.0)) > self._world.now:  # it may still stand
                self.note("subscription", name, subscription, filter)
                self.note("subscription", name, subscription, None, last_at)
