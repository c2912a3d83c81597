"""Rights that change at random, and the authorisation law: nothing enters or is delivered that no right covers.

*Theory.* Each broker has a user file, in which each client is a user. From time to time an entry changes, at one broker
or at all of them, one after the other: the client may subscribe to less, to something else, to everything, or is
removed for a while; and so for what it may publish. As in production, a client's requests are checked by the file when
they arrive, and the machine is told of changes by inputs. After a restart a broker is told the present content of its
file.

*Rules.*
1. The law checks every delivery of a broker, whatever its origin: routing, a queue, a retained event, a group, a
   replay, a session from another broker. The rights are the last ones that this broker was told.
2. It also checks every event that a client publishes at a broker: the client may publish it, and if the event is
   retained, it may publish the one that it replaces, too.
3. The law is independent of the brokers' implementation: it reads their inputs and effects.
4. Clients lose subscriptions here, so nothing is owed to them: other laws are not checked in such a run.
"""

from functools import partial
from random import Random
from typing import Any

from msgspec import structs

from godwit.broker.authorisation import RightsChanged, RightsGranted
from godwit.broker.broker import Broker
from godwit.broker.client_rights import NOT_ALLOWED, ClientRights, left_of, may_publish
from godwit.broker.effects import Effect, Heard, Input, Tell, Trace
from godwit.broker.messages import (
    Attach,
    Delivery,
    Denied,
    FetchedEvents,
    NodeId,
    Publish,
    Request,
    Retain,
    Subscribe,
)
from godwit.broker.retained import MARK
from godwit.client.client import Client
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter, any_of
from godwit.filters.references import is_open
from godwit.simulator.ledger import Ledger
from godwit.simulator.network import Network
from godwit.simulator.population import Population
from godwit.simulator.random_streams import RandomStreams
from godwit.simulator.recorder import Recorder
from godwit.simulator.scenario import Scenario
from godwit.simulator.world import World
from godwit.trace import Record

__all__ = ["LAW", "RightsChanges"]

LAW = "nothing unauthorised"
KEYS = "abc"  # of retained events
SPREAD_S = 0.5  # from the first broker at which an entry changes to the last
REMOVED_SHARE = 0.15
REMOVED_S = 2.0
EVERYTHING_SHARE = 0.3
PUBLISH_EVERYTHING_SHARE = 0.5
UNSAID = ("sender.", MARK)  # attributes that no client publishes itself


class RightsChanges:
    """The user files of all brokers, and their effects on clients."""

    def __init__(
        self,
        scenario: Scenario,
        streams: RandomStreams,
        world: World,
        network: Network,
        population: Population,
        ledger: Ledger,
        recorder: Recorder,
    ) -> None:
        self._per_s, self._until_s = scenario.rights.changes_per_s, scenario.publishing_ends_s
        self._times, self._draws = streams.stream("rights-times"), streams.stream("rights")
        self._publish_draws = streams.stream("rights-publish")
        self._world, self._network, self._population = world, network, population
        self._ledger, self._recorder = ledger, recorder
        self.changes = 0
        self.checked = 0  # deliveries,
        self.retained = 0  # and of these, retained events
        self.revoked = 0  # subscriptions
        self.entered = 0  # events that were checked,
        self.replaced = 0  # and of these, events that replaced a retained one
        self.withheld = 0  # that did not enter
        self._stored: dict[NodeId, dict[str, Event | None]] = {}  # by broker and key, before an input
        self._seen: Event | None = None  # the last event that was delivered
        self._files: dict[NodeId, dict[NodeId, ClientRights | None]] = {}  # by broker and client; missing: everything
        self._in_force: dict[NodeId, dict[NodeId, ClientRights | None]] = {}  # as the machines were told
        world.on_effects = self._on_effects
        world.admits = self._admits
        population.on_connected.append(self._on_connected)
        recorder.listen(("restarted",), self._on_restarted)
        recorder.listen(("revoked",), self._on_revoked)

    def plan(self) -> None:
        """When something changes."""
        at = 0.0
        while self._per_s > 0 and (at := at + self._times.expovariate(self._per_s)) < self._until_s:
            self._world.clock.call_at(at, self._change)

    # ------------------------------------------------------------ the user files

    def _rights(self, broker: NodeId, client: NodeId) -> ClientRights | None:
        return self._files.get(broker, {}).get(client, ClientRights(client))

    def _change(self) -> None:
        """An entry changes, at one broker or at each of them at a moment of its own."""
        draws = self._draws
        client = draws.choice(list(self._population.homes))
        brokers = [broker.name for broker in self._network.brokers_up()]
        if not brokers:
            return
        self.changes += 1
        rights = None if draws.random() < REMOVED_SHARE else self._drawn(client, draws)
        if rights is not None:
            rights = structs.replace(rights, publish=self._drawn_publish())
        chosen = brokers if draws.random() < 0.5 else [draws.choice(brokers)]
        for broker in chosen:
            at = self._world.now + draws.uniform(0.0, SPREAD_S)
            self._world.clock.call_at(at, self._write, broker, client, rights)
            if rights is None:
                self._world.clock.call_at(at + REMOVED_S, self._write, broker, client, ClientRights(client))

    def _drawn(self, client: NodeId, draws: Random) -> ClientRights:
        if draws.random() < EVERYTHING_SHARE:
            return ClientRights(client)
        wanted = self._wanted()
        filters: list[Filter] = draws.sample(wanted, min(len(wanted), draws.randint(0, 2)))
        beyond_grants = draws.choice(("refuse", "narrow"))
        return ClientRights(client, TRUE, any_of(*filters), beyond_grants)  # type: ignore[arg-type]

    def _drawn_publish(self) -> Filter:
        """What a client may publish: everything, or what a few subscriptions ask for."""
        draws = self._publish_draws
        if draws.random() < PUBLISH_EVERYTHING_SHARE:
            return TRUE
        wanted = self._wanted()
        return any_of(*draws.sample(wanted, min(len(wanted), draws.randint(0, 3))))

    def _wanted(self) -> list[Filter]:
        """The filters of all subscriptions."""
        return [
            subscribe.filter
            for broker in self._network.brokers_up()
            for session in broker.sessions
            for subscribe in session.subscriptions.values()
            if not is_open(subscribe.filter)
        ]

    def _write(self, broker: NodeId, client: NodeId, rights: ClientRights | None) -> None:
        self._files.setdefault(broker, {})[client] = rights
        self._world.give(broker, RightsChanged(client, rights))
        if rights is not None:
            self._population.reconnect(client)
            self._ask_again(client)

    def _ask_again(self, client: NodeId) -> None:
        """A client asks again for what was refused or revoked, with retained events, some of it in a group.

        And it retains an event like one that was delivered, so that there are some.
        """
        machine = self._network.client(client)
        refused = [refusal.wish for refusal in machine.refusals]
        lost = {wish.id[1]: wish for wish in refused if isinstance(wish, Subscribe)}
        for name, wish in lost.items():
            if ("subscription", name) not in machine.wanted:
                share = self._draws.choice(("", "", "group"))
                self._world.command(client, partial(_subscribe, name=name, filter=wish.filter, share=share))
        if self._seen is not None:
            said = {name: value for name, value in self._seen.attributes.items() if not name.startswith(UNSAID)}
            key = self._draws.choice(KEYS)
            self._world.command(client, partial(self._retain, client=client, said=said, key=key))

    def _retain(self, machine: Client, now: float, *, client: NodeId, said: Attributes, key: str) -> list[Effect]:
        self._ledger.published(Event(said, client, machine.sequence + 1), self._world.now)
        return machine.publish(said, now, retain=key)

    def _on_restarted(self, broker: NodeId, record: Record, now: float) -> None:
        for client, rights in self._files.get(broker, {}).items():
            self._world.give(broker, RightsChanged(client, rights))

    # ------------------------------------------------------------ the door

    def _on_connected(self, client: NodeId) -> None:
        """A client has connected, and has sent nothing yet."""
        broker = self._population.homes[client]
        rights = self._rights(broker, client)
        if rights is None:
            self._world.disconnect(client, broker)  # `_write` lets it retry
        else:
            self._world.give(broker, RightsGranted(client, rights))

    def _admits(self, broker: NodeId, client: NodeId, message: Any) -> Any:
        """A client's message as the driver passes it to the machine."""
        rights = self._rights(broker, client)
        if rights is None:
            rights = ClientRights(client).without_any()
        if isinstance(message, Attach):
            wanted = [_checked(wish, rights) for wish in message.wanted]
            quench = message.quench and rights.publish == TRUE  # else it would learn what is wanted
            left = tuple(wish for wish in wanted if not isinstance(wish, Denied))
            return structs.replace(message, wanted=left, quench=quench)
        if isinstance(message, Request):
            wish = _checked(message.wish, rights)
            self.withheld += isinstance(wish, Denied) and isinstance(message.wish, Publish | Retain)
            return Request(message.number, wish)
        return message

    # ------------------------------------------------------------ the law

    def _on_effects(self, broker: NodeId, input: Input, effects: list[Any]) -> None:
        """Compare each delivery with the rights in force. (rule 1)"""
        known = self._in_force.setdefault(broker, {})
        if isinstance(input, RightsGranted):
            known[input.client] = input.rights
        elif isinstance(input, RightsChanged):
            known[input.user] = input.rights
        if isinstance(input, Heard) and isinstance(input.message, Request):
            self._check_entered(broker, input, effects, known)
        self._note_stored(broker)
        for effect in effects:
            if type(effect) is not Tell:
                continue
            client = effect.connection.partition("#")[0]
            if type(effect.message) is Delivery:
                self._check(broker, client, effect.message.event, known)
            elif type(effect.message) is FetchedEvents:
                for item in effect.message.items:
                    self._check(broker, client, item.event, known)

    def _check_entered(
        self, broker: NodeId, input: Heard, effects: list[Any], known: dict[NodeId, ClientRights | None]
    ) -> None:
        """Compare an event that was accepted with what its publisher may publish. (rule 2)"""
        wish = input.message.wish
        if not isinstance(wish, Publish | Retain) or not any(_is_published(effect) for effect in effects):
            return
        client = input.connection.partition("#")[0]
        rights = known.get(client, ClientRights(client))
        self.entered += 1
        told = [(wish.event, "entered")]
        if isinstance(wish, Retain) and (before := self._stored.get(broker, {}).get(wish.key)) is not None:
            self.replaced += 1
            told.append((before, "was replaced"))
        for event, what in told:
            if rights is None or not rights.publish.matches(event):
                publisher, sequence = event.id
                text = f"event {sequence} of {publisher} {what} at {broker}, and {client} may not publish it there"
                self._recorder.violate(LAW, text, client)

    def _note_stored(self, broker: NodeId) -> None:
        retained = self._network.broker(broker).sessions.retained
        if retained is not None:
            self._stored[broker] = {key: retained.event(key) for key in KEYS}

    def _check(self, broker: NodeId, client: NodeId, event: Event, known: dict[NodeId, ClientRights | None]) -> None:
        self.checked += 1
        self.retained += event.attributes.get(MARK) is True
        self._seen = event
        rights = known.get(client, ClientRights(client))
        if rights is None or not rights.subscribe.matches(event):
            publisher, sequence = event.id
            text = f"event {sequence} of {publisher} was delivered by {broker}, and no right in force there covers it"
            self._recorder.violate(LAW, text, client)

    def _on_revoked(self, node: NodeId, record: Record, now: float) -> None:
        if isinstance(self._world.nodes[node].machine, Broker):
            self.revoked += 1


def _subscribe(machine: Client, now: float, *, name: str, filter: Filter, share: str) -> list[Effect]:
    return machine.subscribe(name, filter, now, share=share, retained=True)


def _is_published(effect: Any) -> bool:
    return type(effect) is Trace and effect.record.kind == "published"


def _checked(wish: Any, rights: ClientRights) -> Any:
    """A request as far as it is granted."""
    if isinstance(wish, Subscribe):
        left = left_of(wish.filter, rights.subscribe, rights.beyond_grants)
        return Denied(f"{NOT_ALLOWED} subscribe to that") if left is None else structs.replace(wish, filter=left)
    if isinstance(wish, Publish | Retain) and not may_publish(rights.publish, wish.event.attributes):
        return Denied(f"{NOT_ALLOWED} publish that")
    return wish
