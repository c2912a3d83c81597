"""SPCF: a subscription goes only to brokers with a publisher whose context may match, an event only to brokers with a
client that it may address.

*Theory.* Every broker knows the contexts of all brokers' clients (`context_table.py`). A subscription is told to those
brokers alone that have a context which its sender part may match: to all others it says nothing, since nobody there
publishes anything that it matches. When a context appears anywhere it *attracts* the subscriptions that may match it;
when one goes, what it alone had attracted goes too. So tables hold what can match, and a subscription costs as many
packets as there are brokers that can serve it.

An event is matched once, where it is published, as in `graph.py`. Of the subscriptions that it matches those are left
out whose client is in a context that `Event.to` does not match: brokers say with `InContext` in which of their contexts
each client is of whom they have told a subscription. The exact test of `to` is made where the event is delivered.

*Rules.*
1. Subscriptions with the same sender part are one class. `reach` of a class is whom it has been told to: all of it, or
   nothing. After each step it is D, the brokers that have a context which the class may match.
2. What another broker holds of ours is exactly what we told it and did not take back, in the order of the channel.
   `DropSubscriptions` takes back a class in one message.
3. *No gap.* A broker that has added a context awaits `SubscriptionsComplete` from every other. Until then an event from
   that context goes to those awaited, too. An event from a context that none of our clients is in (it was published
   offline, or long ago, or is forged) goes to everybody. So an event that a client publishes right after it has changed
   its context reaches all that it would reach later.
4. What is not known lets through: a client in no context that we know of may be meant by every `to`.
5. Order: a context is added before a client is said to be in it, and removed after the client is said to be in another.
   A subscription is told before it is said where its client is.
6. Numbers of contexts count within one life of a broker. Messages about a context of another life are ignored. With a
   new life of a broker all that was told to it and by it is forgotten, and all our contexts await it again; so they do
   whenever it tells everything from the start.
7. Nothing that another broker says of an unknown context, client or class does any harm.

*Moving.* `transfer_barrier.py` needs this: an event that a broker X publishes after it has taken N's `Flush` goes to
N, if it matches what N had subscribed to before it sent the `Flush`. N tells only those X that are in D. Say X
publishes it from its context k. If N's `SubscriptionsComplete` for k has not come, X awaits N and sends it the event.
If it has come, N knew k when it sent that. If N has subscribed since, X was in D then, and heard of it before the
`Flush`. If N had subscribed before, X heard of it before the `SubscriptionsComplete`. And from a context that X does
not know, the event goes to everybody.

*Paper.* [spcf §3.1.1] forwarding; [spcf §3.1.2] routing: subscribing, the three cases of a change of context.

*Symbols.* context table → `own` and `others`; content table → `remote`, by home broker; D → `SenderClass.reach`; D_N →
the targets of a packet to neighbour N; B_s → this broker in `on_subscribe`; c_s → `InContext`.

*Departures.*
1. Matched once at the source, as in `graph.py`: the exact targets are known there, and no Bloom filter is needed for
   the hops in between. `baselines/hop_routing.py` has the paper's form.
2. A client that changes its context does not subscribe again: one `InContext` says so to all that hold something of it.
3. `SubscriptionsComplete` and rule 3 close the gap that the paper leaves between a change of context and what it
   attracts.
4. Classes and `DropSubscriptions` take the place of labels (B_n, c_n) on entries: an entry that two contexts have
   attracted is there once, and stays until both are gone.
5. Where a context takes the place of another, one message says both.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec

from godwit.broker.context_table import (
    AddedContext,
    OtherBroker,
    OtherBrokerState,
    OwnContexts,
    OwnContextsState,
    SenderClass,
    SenderClassState,
)
from godwit.broker.effects import Trace
from godwit.broker.forwarding_strategy import GraphTables
from godwit.broker.graph import GraphRouting
from godwit.broker.messages import (
    Carried,
    ContextAdded,
    ContextRemoved,
    DropSubscriptions,
    EntryId,
    InContext,
    NodeId,
    Subscribe,
    SubscriptionsComplete,
    Unsubscribe,
)
from godwit.broker.packet_checks import CONTEXT_CHECKS, Further
from godwit.broker.routing import Answer
from godwit.filters.contexts import context_of, may_match, sender_part
from godwit.filters.events import Attributes, Event
from godwit.filters.filters import TRUE, Filter
from godwit.trace import Record

__all__ = ["CONTEXTS_MAX", "ContextForwarding", "SpcfState", "spcf_routing"]

CONTEXTS_MAX = 64
"""How many contexts a broker tells of before it sums them up."""
CONTEXTS_HELD_MAX = 4_096  # of another broker; one more is not answered, and so its events come to us all the same


class SpcfState(msgspec.Struct, frozen=True, tag=True):
    """The contexts here and elsewhere, and whom the subscriptions here were told to."""

    version: ClassVar[int] = 2
    own: OwnContextsState
    awaiting: dict[int, tuple[NodeId, ...]]
    others: dict[NodeId, OtherBrokerState]
    classes: tuple[SenderClassState, ...]
    held_by: dict[NodeId, dict[NodeId, int]]


class ContextForwarding:
    """Context forwarding at one broker. Implements `Forwarding`."""

    checks: Further = CONTEXT_CHECKS
    tables: GraphTables

    def __init__(self, contexts_max: int = CONTEXTS_MAX) -> None:
        self.own = OwnContexts(contexts_max)
        self.awaiting: dict[int, dict[NodeId, None]] = {}  # by context here, who has not told all for it; never empty
        self.others: dict[NodeId, OtherBroker] = {}
        self.classes: dict[Filter, SenderClass] = {}  # of the subscriptions here, by sender part
        self.class_of: dict[EntryId, Filter] = {}
        self.held_by: dict[NodeId, dict[NodeId, int]] = {}  # by client here, how many of its subscriptions each has

    def join(self, tables: GraphTables) -> None:
        self.tables = tables

    # ------------------------------------------------------------ snapshots

    def snapshot(self) -> SpcfState:
        """The tables as they are now."""
        return SpcfState(
            self.own.snapshot(),
            {number: tuple(names) for number, names in self.awaiting.items()},
            {name: other.snapshot() for name, other in self.others.items()},
            tuple(
                SenderClassState(asked, tuple(group.ids), tuple(group.reach), tuple(group.ways))
                for asked, group in self.classes.items()
            ),
            {client: dict(counts) for client, counts in self.held_by.items()},
        )

    def restore(self, state: SpcfState) -> None:
        """Have the tables of a broker of this name and these settings."""
        self.own.restore(state.own)
        self.awaiting = {number: dict.fromkeys(names) for number, names in state.awaiting.items()}
        for name, other in state.others.items():
            entries = self.tables.remote.get(name, {}).items()
            self.others[name] = OtherBroker()
            self.others[name].restore(other, ((id, sender_part(filter)) for id, filter in entries))
        for each in state.classes:
            told = dict.fromkeys(each.reach), dict.fromkeys(each.ways)
            self.classes[each.asked] = SenderClass(dict.fromkeys(each.ids), *told)
            self.class_of.update(dict.fromkeys(each.ids, each.asked))
        self.held_by = {client: dict(counts) for client, counts in state.held_by.items()}

    # ------------------------------------------------------------ subscriptions here

    def on_subscribe(self, id: EntryId, filter: Filter) -> list[Answer]:
        """Find D, send it towards D. [spcf §3.1.2]"""
        before, asked = self.class_of.get(id), sender_part(filter)
        known = self._leave_class(id) if before is not None and before != asked else []
        group = self._class(asked)  # step 2
        group.ids[id] = None
        self.class_of[id] = asked
        receivers = group.told
        answers = self.tables.tell(receivers, Subscribe(id, filter))  # steps 3, 4
        if before != asked:
            answers += self._introduce(id[0], [name for name in receivers if name not in known])
        gone = [name for name in known if name not in receivers]
        return answers + self.tables.tell(gone, Unsubscribe(id)) + self._discharge(id[0], gone)

    def on_unsubscribe(self, id: EntryId) -> list[Answer]:
        """The same with the filter removed. [spcf §3.1.2]"""
        receivers = self._leave_class(id)
        return self.tables.tell(receivers, Unsubscribe(id)) + self._discharge(id[0], receivers)

    def _class(self, asked: Filter) -> SenderClass:
        """The class of what is asked of a sender; a new one reaches D, and nobody of D holds anything of it yet."""
        group = self.classes.get(asked)
        if group is None:
            group = self.classes[asked] = SenderClass()
            group.reach = {name: None for name in sorted(self.others) if self.others[name].may_match(asked)}
            group.ways = dict.fromkeys(self.tables.between(group.reach))
        return group

    def _leave_class(self, id: EntryId) -> list[NodeId]:
        """Take a subscription out of its class; whom it was told to."""
        asked = self.class_of.pop(id)
        group = self.classes[asked]
        del group.ids[id]
        if not group.ids:
            del self.classes[asked]
        return group.told

    def settle_ways(self) -> list[Answer]:
        return [
            answer for asked, group in self.classes.items() for answer in self._place(asked, group, before=group.told)
        ]

    def _place(self, asked: Filter, group: SenderClass, before: list[NodeId]) -> list[Answer]:
        """D has changed, or the ways to it: tell the class to those that must have it, take it back from others."""
        group.ways = dict.fromkeys(self.tables.between(group.reach))
        after = group.told
        answers: list[Answer] = []
        if before == after:
            return answers
        if added := [name for name in after if name not in before]:
            for id in group.ids:
                answers += self.tables.tell(added, Subscribe(id, self.tables.local[id]))
                answers += self._introduce(id[0], added)
        if gone := [name for name in before if name not in after]:
            answers += self.tables.tell(gone, DropSubscriptions(asked))
            for id in group.ids:
                answers += self._discharge(id[0], gone)
        return answers

    def _introduce(self, client: NodeId, brokers: Iterable[NodeId]) -> list[Answer]:
        """These hold one subscription of a client more: those for whom it is the first hear where the client is."""
        counts = self.held_by.setdefault(client, {})
        strangers = [name for name in brokers if name not in counts]
        for name in brokers:
            counts[name] = counts.get(name, 0) + 1
        if not counts:
            del self.held_by[client]
        number = self.own.number_of_client(client)
        return self.tables.tell(strangers, InContext(client, number)) if number else []

    def _discharge(self, client: NodeId, brokers: Iterable[NodeId]) -> list[Answer]:
        """These hold one subscription of a client less."""
        counts = self.held_by.get(client, {})
        for name in brokers:
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        if not counts:
            self.held_by.pop(client, None)
        return []

    # ------------------------------------------------------------ contexts here

    def on_advertise(self, id: EntryId, filter: Filter) -> list[Answer]:
        """What is advertised attracts nothing here: contexts do."""
        return []

    def on_unadvertise(self, id: EntryId) -> list[Answer]:
        return []

    def set_context(self, client: NodeId, context: Attributes | None) -> list[Answer]:
        """The three cases of [spcf §3.1.2]: nothing to add, one to add and one to remove, one to add."""
        before, everyone = self.own.number_of_client(client), sorted(self.tables.incarnations)
        steps = self.own.put(client, context)
        after = self.own.number_of_client(client)
        answers: list[Answer] = []
        for step in steps:
            if isinstance(step, AddedContext):
                awaited = self.awaiting.pop(step.replaces, {})
                if waits_for := awaited if step.is_within else dict.fromkeys(everyone):  # rule 3
                    self.awaiting[step.number] = waits_for
                message = ContextAdded(self.tables.incarnation, step.number, step.described, step.replaces)
                answers += self.tables.tell(everyone, message)
                before = step.number if before and before == step.replaces else before
        if before != after and client in self.held_by:  # rule 5
            answers += self.tables.tell(sorted(self.held_by[client]), InContext(client, after))
        for step in steps:
            if not isinstance(step, AddedContext):
                self.awaiting.pop(step.number, None)
                answers += self.tables.tell(everyone, ContextRemoved(step.number))
        return answers

    # ------------------------------------------------------------ events

    def homes(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> set[NodeId]:
        """The brokers with a matching subscription of a client that the event may be addressed to, and those that
        rule 3 adds."""
        number = self.own.number_of(context_of(event))
        if not number:
            return set(self.tables.incarnations)
        homes = set(self.awaiting.get(number, ()))
        if event.to is None or event.to == TRUE:
            homes.update(home for home, _ in found)
            return homes
        verdicts: dict[tuple[NodeId, int], bool] = {}
        for home, (client, _) in found:
            if home not in homes and self._may_be_meant(event.to, home, client, verdicts):
                homes.add(home)
        return homes

    def knows_all(self, event: Event) -> bool:
        number = self.own.number_of(context_of(event))
        return number != 0 and number not in self.awaiting

    def meant(self, event: Event, found: Iterable[tuple[NodeId, EntryId]]) -> list[tuple[NodeId, NodeId]] | None:
        """The subscribers in contexts that match. [spcf §3.1.1]"""
        if event.to is None or event.to == TRUE:
            return None
        verdicts: dict[tuple[NodeId, int], bool] = {}
        subscribers = dict.fromkeys((home, client) for home, (client, _) in found)
        return [each for each in subscribers if self._may_be_meant(event.to, *each, verdicts)]

    def _may_be_meant(self, to: Filter, home: NodeId, client: NodeId, verdicts: dict[tuple[NodeId, int], bool]) -> bool:
        """Whether a client may be in a context that `to` matches; `verdicts`: on the contexts that were looked at."""
        placed = self.others[home].context_of(client)
        if placed is None:  # rule 4
            return True
        verdict = verdicts.get((home, placed[0]))
        if verdict is None:
            verdict = verdicts[home, placed[0]] = may_match(to, placed[1])
        return verdict

    def is_awaiting(self) -> bool:
        return bool(self.awaiting)

    def is_settled(self) -> bool:
        return not self.awaiting and not any(other.stale for other in self.others.values())

    def sizes(self) -> dict[str, int]:
        contexts = len(self.own) + sum(len(other.described) for other in self.others.values())
        placed = sum(len(other.places) for other in self.others.values())
        return {"contexts": contexts, "placed": placed, "classes": len(self.classes)}

    def remote_bytes(self) -> int:
        return 0

    # ------------------------------------------------------------ what other brokers say

    def on_message(self, source: NodeId, message: Any) -> list[Answer]:
        other = self.others[source]
        match message:
            case ContextAdded():
                return self._on_context_added(source, other, message)
            case ContextRemoved(number=number):
                return self._dismiss(source, other) if other.remove(number) else []
            case InContext(client=client, number=number):
                other.place(client, number)
            case SubscriptionsComplete(incarnation=incarnation, number=number):
                if incarnation == self.tables.incarnation:
                    self._stop_awaiting(source, number)
            case DropSubscriptions(filter=asked):
                for id in list(other.classes.get(asked, ())):
                    self.tables.remove(source, id)
        return []

    def on_start(self, source: NodeId) -> None:  # rule 6
        other = self.others[source]
        other.places, other.stale = {}, dict.fromkeys(other.firsts)
        self._await(source)

    def on_synced(self, source: NodeId) -> list[Answer]:
        other = self.others[source]
        for number in list(other.stale):
            other.remove(number)
        return self._dismiss(source, other)

    def _on_context_added(self, source: NodeId, other: OtherBroker, message: ContextAdded) -> list[Answer]:
        """A context attracts the subscriptions that may match it. [spcf §3.1.2]"""
        number, described = message.number, message.described
        if message.incarnation != self.tables.incarnations[source]:  # rule 6
            return []
        if (
            number not in other.firsts
            and len(other.firsts) >= CONTEXTS_HELD_MAX
            and message.replaces not in other.firsts
        ):
            return [Trace(Record("refused", source, "ContextAdded", number=number, detail="too many"))]
        other.add(number, described, message.replaces)
        answers: list[Answer] = []
        for asked, group in self.classes.items():
            if source not in group.reach and may_match(asked, described):
                before = group.told
                group.reach[source] = None
                answers += self._place(asked, group, before)
        if message.replaces:
            answers += self._dismiss(source, other)
        return answers + self.tables.tell((source,), SubscriptionsComplete(message.incarnation, number))

    def _dismiss(self, source: NodeId, other: OtherBroker) -> list[Answer]:
        """Contexts of a broker are gone: take back what none that is left may match. [spcf §3.1.2]"""
        answers: list[Answer] = []
        for asked, group in self.classes.items():
            if source in group.reach and not other.may_match(asked):
                before = group.told
                del group.reach[source]
                answers += self._place(asked, group, before)
        return answers

    def _await(self, broker: NodeId) -> None:
        """All contexts here await this broker."""
        for number in self.own.described:
            self.awaiting.setdefault(number, {})[broker] = None

    def _stop_awaiting(self, broker: NodeId, number: int) -> None:
        awaited = self.awaiting.get(number, {})
        awaited.pop(broker, None)
        if not awaited:
            self.awaiting.pop(number, None)

    def on_remote(self, source: NodeId, id: EntryId, before: Filter | None, after: Filter | None) -> None:
        """Count it with what it asks of a sender."""
        other = self.others[source]
        if before is not None:
            other.discount(id, sender_part(before), replaced=after is not None)
        if after is not None:
            other.count(id, sender_part(after))

    # ------------------------------------------------------------ lives

    def on_meet(self, broker: NodeId) -> None:  # rule 6
        self.others.setdefault(broker, OtherBroker()).forget()
        for group in self.classes.values():
            if broker in group.reach or broker in group.ways:
                group.reach.pop(broker, None)
                group.ways.pop(broker, None)
                for id in group.ids:
                    self._discharge(id[0], (broker,))
        self._await(broker)

    def everything(self, broker: NodeId) -> Iterable[Carried]:
        """Contexts, subscriptions by D, where their clients are, and that this is all for the other's contexts."""
        own, incarnation = self.own, self.tables.incarnation
        yield from (ContextAdded(incarnation, number, described) for number, described in own.described.items())
        for group in self.classes.values():
            if broker in group.reach or broker in group.ways:
                yield from (Subscribe(id, self.tables.local[id]) for id in group.ids)
        for client, counts in self.held_by.items():
            if broker in counts and (number := own.number_of_client(client)):
                yield InContext(client, number)
        if broker in self.others:
            yield from (
                SubscriptionsComplete(self.tables.incarnations[broker], number) for number in self.others[broker].firsts
            )


def spcf_routing(
    broker: NodeId,
    incarnation: int = 1,
    costs: Mapping[NodeId, float] | None = None,
    *options: Any,
    contexts_max: int = CONTEXTS_MAX,
    **more: Any,
) -> GraphRouting:
    """A broker of the graph family that goes by contexts; further options are those of `GraphRouting`."""
    return GraphRouting(broker, incarnation, costs, *options, forwarding=ContextForwarding(contexts_max), **more)
