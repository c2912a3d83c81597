"""Who lives in a simulated network: clients that come, ask, publish, go away, come back and change their minds."""

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from godwit.broker.effects import Effect
from godwit.client.client import Client
from godwit.filters.contexts import of_sender, stamped
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter, all_of
from godwit.filters.language import to_text
from godwit.filters.references import is_open
from godwit.simulator.broker_inspection import (
    is_answered,
)
from godwit.simulator.movement_models import Move
from godwit.simulator.setup import Stage
from godwit.simulator.wires import Wire
from godwit.trace import Record

__all__ = ["Population"]

MARGIN_S = 1.0  # a client that is told of a lost session so late may leave out a subscription, as expired
ANNOUNCED = ("explicit", "naive")  # modes in which a client can say that it goes
WORDS_MAX = 20
ROUNDING_S = 1e-6  # more than clocks' sums are off by
RETRY_S = 1.0
DEVICE = "device"  # the part of a context that is drawn; where a walker is, is another


class Population(Stage):
    """A stage with people on it."""

    # ------------------------------------------------------------ plans

    def _plan_publishing(self, k: int, name: str, rng: Random) -> None:
        clients, at = self.scenario.clients, self.scenario.run.warmup_s
        count = 0
        while clients.publish_per_s > 0:
            at += rng.expovariate(clients.publish_per_s)
            if at >= self.scenario.publishing_ends_s or (clients.events is not None and count >= clients.events):
                break
            self.world.at(at, self._publish, k, name, count)
            count += 1

    def _plan_away(self, rng: Random) -> None:
        away = self.scenario.clients.disconnections
        who = self._those(away.who)
        at = self.scenario.run.warmup_s
        while away.per_s > 0 and who and (at := at + rng.expovariate(away.per_s)) < self.scenario.faults_end_s:
            name = rng.choice(who)
            until = min(at + max(rng.expovariate(1 / away.lasts_s), 0.05), self.scenario.faults_end_s)
            self.world.at(at, self._go_away, name)
            self.world.at(until, self._come_back, name)

    def _plan_roaming(self) -> None:
        words, roaming = Random(f"{self.seed}/move-outs"), self.scenario.clients.roaming
        moves = [(name, move) for name, moves in self.itineraries.items() for move in moves]
        for name, move in sorted(moves, key=lambda each: each[1].leaves_s):
            if self.client(name).config.mode in ANNOUNCED and words.random() < roaming.announced:
                self.world.at(move.leaves_s - self._word_s(), self._move_out, name, move, WORDS_MAX)
                continue
            self.world.at(move.leaves_s, self._move_away, name, move.to)
            self.world.at(move.arrives_s, self._come_back, name)

    def _word_s(self) -> float:
        """How long a client that says good-bye waits for the answer."""
        network = self.scenario.overlay
        return min((4 * network.client_latency_ms + 2 * network.disk_sync_ms) / 1_000, self.scenario.run.warmup_s)

    def _move_out(self, name: str, move: Move, words: int) -> None:
        """A client says that it goes until it is heard, and then goes; after some words it goes unheard."""
        if words == 0 or self.client(name).connection is None:
            self._move_away(name, move.to, None)
            self.world.at(max(self.world.now, move.arrives_s), self._come_back, name)
            return
        self.world.command(name, lambda client, now: client.move_out(now))
        self.world.at(self.world.now + self._word_s(), self._move_out, name, move, words - 1)

    def _plan_churn(self) -> None:
        churn, rng = self.scenario.churn, self.rng["churn"]
        rates: dict[Callable[[Any, Any, Any], None], float] = {
            self._subscribe_more: churn.subscribe_per_s,
            self._unsubscribe_one: churn.unsubscribe_per_s,
            self._replace_one: churn.replace_per_s,
            self._readvertise_one: churn.advertise_per_s,
        }
        self._plan_bursts(rates, rng)
        self._plan_bursts(
            {self._change_one_context: self.scenario.contexts.changes_per_s}, Random(f"{self.seed}/changes")
        )

    def _plan_bursts(self, rates: dict[Callable[[Any, Any, Any], None], float], rng: Random) -> None:
        churn, ends_s = self.scenario.churn, self.scenario.publishing_ends_s
        for do, per_s in rates.items():
            start = self.scenario.run.warmup_s
            while per_s > 0 and start < ends_s:
                at = start
                while (at := at + rng.expovariate(per_s)) < min(start + churn.burst_s, ends_s):
                    self.world.at(at, do)
                start += churn.burst_s + churn.pause_s

    # ------------------------------------------------------------ clients

    def _come(self, name: str, _b: Any, _c: Any) -> None:
        """A client comes for the first time and says what it wants or is going to publish."""
        if self.scenario.contexts.is_on:
            self._change_context(name)
        self._reconnect_client(name)
        if name.startswith("p"):
            k = int(name[1:])
            if self.scenario.routing.advertisements == "required":
                self._advertise(name, "all", self.workload.advertisement(k))
            elif self.config.advertisements == "optional":
                self._ask("advertisement", name, "*", TRUE)  # by its coming alone
        else:
            for _ in range(self.scenario.clients.subscriptions):
                self._subscribe(name)

    def _subscribe(self, name: str, subscription: str | None = None) -> None:
        k = self.subscriptions_made
        self.subscriptions_made += 1
        filter = self.situations.narrowed(self.workload.filter(k, self.rng["workload"]))
        self._subscribe_to(name, subscription or f"sub{k}", filter)

    def _subscribe_to(self, name: str, subscription: str, content: Filter, sender: Filter | None = None) -> None:
        filter = content if sender is None else all_of(content, of_sender(sender))
        settings = self.scenario.sessions
        expires = None
        if settings.subscription_expires_s is not None:
            world = self.world
            expires = world.now + world.nodes[name].skew_s + settings.subscription_expires_s
            self.expires[name, subscription] = expires
            ends_at = expires - world.nodes[self.homes[name]].skew_s
            world.at(ends_at - ROUNDING_S, self._expire, name, subscription, self.subscriptions_made)
        self.open_filters.pop((name, subscription), None)
        if is_open(filter):
            self.open_filters[name, subscription] = filter
        self._ask("subscription", name, subscription, filter)
        self.expiring[name, subscription] = self.subscriptions_made
        rules = settings.rules()
        self.world.command(
            name,
            lambda client, now: client.subscribe(
                subscription, content, now, sender=sender, expires=expires, queue=rules
            ),
        )

    def _expire(self, name: str, subscription: str, number: int) -> None:
        standing = self.ledger.subscriptions[name, subscription]
        if (filter := standing.filter) is None:
            return
        if self.expiring.get((name, subscription)) == number:
            self._ask("subscription", name, subscription, None, self.world.now + 2 * ROUNDING_S)
        elif not standing.is_down and not is_answered(self.client(name)):
            # its broker may not know yet that it was replaced, and ends it: a gap, until it hears the new one
            self._ask("subscription", name, subscription, None)
            self._ask("subscription", name, subscription, filter)

    def _advertise(self, name: str, advertisement: str, filter: Filter) -> None:
        self._ask("advertisement", name, advertisement, filter)
        self.world.command(name, lambda client, now: client.advertise(advertisement, filter, now))

    def _ask(self, kind: str, name: str, entry: str, filter: Filter | None, over_at: float | None = None) -> None:
        if filter is not None and is_open(filter):  # in the state that the client is in
            filter = self.movements.exact(filter, self.context_of(name))
        self.ledger.asked(kind, name, entry, filter, self.world.now, self._in_flight(), over_at=over_at)
        if self.trace is not None:
            text = "" if filter is None else to_text(filter)
            record = Record("asked", message=kind, subscription=entry, detail=text)
            self.trace.write(self.world.now, name, record)

    def _publish(self, k: int, name: str, number: int) -> None:
        attributes = self.workload.attributes(k, number, self.rng["workload"])
        self._say(name, attributes, self.situations.meant())

    def _say(self, name: str, attributes: Attributes, to: Filter | None) -> None:
        """A client publishes an event for whom `to` means, in its context of now."""
        scenario = self.scenario
        expires_s = scenario.sessions.event_expires_s
        payload = bytes(scenario.clients.payload_bytes) if scenario.clients.payload_bytes else None
        own = self.context_of(name)

        def publish(client: Client, now: float) -> list[Effect]:
            expires_at = None if expires_s is None else now + expires_s
            event = Event(attributes, name, client.sequence + 1, payload, published_at=now, expires_at=expires_at)
            meant = None if to is None else self.movements.exact(to, own)
            self.ledger.published(replace(stamped(event, own), to=meant), self.world.now)
            return client.publish(event, now, to=to)

        self.world.command(name, publish)

    def _plan_probes(self, name: str) -> None:
        """A publisher has connected: it publishes a few events, to see when its tree stands. [pubmob §4.1]"""
        probes, wire = self.scenario.clients.probes, self.world.nodes[name].wires[self.homes[name]]
        for i in range(probes.count):
            at = self.world.now + (probes.first_ms + i * probes.every_ms) / 1_000
            if at < self.scenario.publishing_ends_s:
                self.world.at(at, self._probe_tree, name, i + 1, (wire, wire.connection))

    def _probe_tree(self, name: str, i: int, link: tuple[Wire, int]) -> None:
        wire, connection = link
        if wire.connection != connection:  # it has gone on
            return
        client, k = self.client(name), int(name[1:])
        said = json.dumps(self.workload.attributes(k, client.sequence, Random(0)), sort_keys=True, default=str)
        record = Record("probed", wire.target.name, "", name, client.sequence + 1, number=i, detail=said)
        self._on_record(name, record, self.world.now)
        self._publish(k, name, client.sequence)

    def _go_away(self, name: str, _b: Any, _c: Any) -> None:
        self.away[name] = self.away.get(name, 0) + 1
        self.world.disconnect(name, self.homes[name])

    def _move_away(self, name: str, to: str, _c: Any) -> None:
        """A client is out of reach, and will turn up at another broker. [rebeca §4]"""
        self._go_away(name, None, None)
        if self.homes[name] != to:
            self.moves += 1
        self.homes[name] = to
        self._wire_client(name, to)

    def _come_back(self, name: str, _b: Any, _c: Any) -> None:
        self.away[name] -= 1
        self._reconnect_client(name)

    def _on_record(self, node: str, record: Record, now: float) -> None:
        """As ever; and a client that only has its name tries again when a broker has sent it away."""
        super()._on_record(node, record, now)
        is_named = record.kind == "closed" and record.peer in self.homes and node not in self.homes
        if is_named and self.client(record.peer).config.mode == "named" and record.detail != "the client has left":
            self.world.at(now + RETRY_S, self._reconnect_client, record.peer)

    def _reconnect_client(self, name: str, _b: Any = None, _c: Any = None) -> None:
        """Connect a client that wants to be connected, if its broker is there."""
        home = self.homes[name]
        is_back = self.away.get(name, 0) == 0 and self.world.connect(name, home)
        if is_back and self.scenario.clients.probes.count and name.startswith("p"):
            self._plan_probes(name)
        if is_back and self.begins_anew(name):
            self.ledger.home_lost(name, self.world.now, self._in_flight())  # unless its last broker has said so
            self.ledger.home_renewed(name, self.world.now, self._in_flight())
        if is_back and name in self.unrenewed:
            soon = self.world.now + self.world.nodes[name].skew_s + MARGIN_S
            over = {entry for (client, entry), at in self.expires.items() if client == name and at <= soon}
            self.ledger.home_renewed(name, self.world.now, self._in_flight(), besides=over)

    # ------------------------------------------------------------ contexts

    def _change_one_context(self, _a: Any, _b: Any, _c: Any) -> None:
        name = self.rng["contexts"].choice([*self.publishers, *self.subscribers])
        if name in self.said:  # otherwise it has not come yet
            self._change_context(name)

    def _change_context(self, name: str) -> None:
        """A client says that its context is another from now on."""
        self._set_context(name, self.situations.context(self.homes[name]))

    def _set_context(self, name: str, context: Attributes) -> None:
        self.context_changes += name in self.said
        self.world.command(name, lambda client, now: client.set_context(context, now, part=DEVICE))
        self._situated(name, DEVICE, context)

    def _situated(self, name: str, part: str, context: Attributes) -> None:
        """A client has said a part of its context: so much for the ledger, and for what refers to it."""
        self.said.setdefault(name, {})[part] = context
        if self.tracks_contexts:
            self.ledger.context_declared(name, self.context_of(name), self.world.now, self._in_flight())
        wanted = self.client(name).wanted  # what has expired by its own clock may be left out after a disk was lost
        for (client, subscription), filter in self.open_filters.items():
            stands = client == name and self.ledger.subscriptions[name, subscription].filter is not None
            if stands and ("subscription", subscription) in wanted:
                self._ask("subscription", name, subscription, filter)

    # ------------------------------------------------------------ churn

    def _standing_subscriptions(self) -> list[tuple[str, str]]:
        standings = self.ledger.subscriptions.items()
        wanted = [key for key, standing in standings if standing.filter is not None]
        return [(name, entry) for name, entry in wanted if ("subscription", entry) in self.client(name).wanted]

    def _subscribe_more(self, _a: Any, _b: Any, _c: Any) -> None:
        if self.subscribers:
            self._subscribe(self.rng["churn"].choice(self.subscribers))

    def _unsubscribe_one(self, _a: Any, _b: Any, _c: Any) -> None:
        standing = self._standing_subscriptions()
        if standing:
            name, subscription = self.rng["churn"].choice(standing)
            self._ask("subscription", name, subscription, None)
            self.world.command(name, lambda client, now: client.unsubscribe(subscription, now))

    def _replace_one(self, _a: Any, _b: Any, _c: Any) -> None:
        standing = self._standing_subscriptions()
        if standing:
            self._subscribe(*self.rng["churn"].choice(standing))

    def _readvertise_one(self, _a: Any, _b: Any, _c: Any) -> None:
        """A publisher withdraws its advertisement, makes it, or makes it wider or narrower."""
        if self.config.advertisements == "off" or not self.publishers:
            return
        rng = self.rng["churn"]
        k = rng.randrange(len(self.publishers))
        name = self.publishers[k]
        standings = self.ledger.advertisements
        if (name, "all") not in standings and (name, "*") not in standings:
            return  # it has not come yet
        standing = standings.get((name, "all"))
        if standing is not None and standing.filter is not None and rng.random() < 0.5:
            self._ask("advertisement", name, "all", None)
            self.world.command(name, lambda client, now: client.unadvertise("all", now))
            return
        self._advertise(name, "all", self.workload.advertisement(k, rng.randrange(3)))
        if (name, "*") in standings and standings[name, "*"].filter is not None:  # it counts as every other from now on
            self._ask("advertisement", name, "*", None)
