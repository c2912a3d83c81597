"""Groups: shared subscriptions. Each event goes to one member.

*Theory.* A subscription with `share` belongs to the group of that name and of its filter. Who is in a group, at which
broker and whether its client is there, stands in a table that every broker has (`gossip.py`). An event travels as
ever and comes to every broker with a member; each of them computes, from the event's id and the names of the members,
one of those whose clients are there, or of all if nobody is (`member_tree.py`). The broker of that one queues the
event, the others drop it.

*Rules.*
1. Exactly one member gets an event as long as the brokers agree on who is in the group: a member that comes, goes or
   moves while an event is under way may make it come to two, or to none. Only a broker writes of its own members, so
   the brokers agree when the news has come to all.
2. The same event and the same members give the same choice, in every process. Each member gets about as many as each
   other.
3. What was chosen for a member waits in its session if the client goes; it is not given to another.
4. A session that is on its way is in no group: what comes for it meanwhile it takes if there is no member elsewhere.
5. The choice looks at neither the clients' contexts nor an event's `to`: the one who is chosen may not be meant, and
   then nobody gets the event. Filters on the own context (`my.x`) and groups do not go together well.
6. A member at a broker that is out of reach is still one. What it is chosen for waits on the links to there.

*Paper.* None; MQTT has shared subscriptions.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import ClassVar

import msgspec

from godwit.broker.component import Handlers
from godwit.broker.effects import Effect, Trace
from godwit.broker.gossip import GROUPS, Gossip
from godwit.broker.gossip_messages import Fact, GroupMember
from godwit.broker.host import Host
from godwit.broker.member_tree import MemberTree, Place
from godwit.broker.messages import EntryId, NodeId, Subscribe
from godwit.broker.session import Session
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.language import to_text
from godwit.trace import Record

__all__ = ["Groups", "GroupsState"]

DIGEST_BYTES = 16

Group = tuple[str, str]
"""Its name, and a digest of its filter."""


class GroupsState(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """By client here, the groups of its subscriptions. Who else is a member stands in the table of all brokers."""

    version: ClassVar[int] = 1
    memberships: dict[NodeId, dict[str, Group]] = {}


class _Members:
    """The members of one group, and whether their clients are there."""

    def __init__(self) -> None:
        self.places: dict[Place, bool] = {}
        self._there = MemberTree()
        self._away = MemberTree()

    def set(self, place: Place, attached: bool | None) -> None:
        """A member is there or away; None: it is none any more."""
        before = self.places.pop(place, None)
        if attached is not None:
            self.places[place] = attached
        if attached is before:
            return
        if before is not None:
            (self._there if before else self._away).remove(place)
        if attached is not None:
            (self._there if attached else self._away).add(place)

    def chosen(self, event: Event) -> Place:
        """The member that gets an event: one of those who are there, or of all. (rule 2)"""
        return (self._there if len(self._there) else self._away).chosen(event)


class Groups:
    """Who shares events with whom, and who gets which."""

    label = "groups"
    host: Host | None = None

    def __init__(self, gossip: Gossip) -> None:
        self._gossip = gossip
        self._broker = gossip.name
        self.local: dict[EntryId, Group] = {}  # members here
        self._of: dict[NodeId, dict[str, Group]] = {}  # the same, by client
        self._members: dict[Group, _Members] = {}  # everywhere
        self._digests: dict[EntryId, tuple[Filter, str]] = {}  # of filters of members here: a large one takes 2 ms

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = host
        return Handlers(
            facts={GROUPS: lambda fact, effects, now: self.on_fact(fact, now)},
            on_session_changed=self._on_session_changed,
        )

    def _on_session_changed(self, client: NodeId, effects: list[Effect], now: float) -> None:
        assert self.host is not None
        reason = self.settle(client, self.host.sessions.session(client), now)
        if reason is not None:
            effects.append(Trace(Record("lost", client, "GossipUpdate", detail=reason)))
        self.host.intercept_local(self.label, self._choose if self.local else None)

    def _choose(self, event: Event, ids: list[EntryId], effects: list[Effect], now: float) -> list[EntryId]:
        return self.chosen(event, ids)

    def members(self, share: str, filter: Filter) -> dict[Place, bool]:
        """Who is in a group, and who of them is there."""
        found = self._found(share, filter)
        return {} if found is None else found.places

    def _found(self, share: str, filter: Filter) -> _Members | None:
        return self._members.get((share, _digest(filter)))

    def snapshot(self) -> GroupsState:
        """The memberships of clients here."""
        return GroupsState({client: dict(groups) for client, groups in self._of.items()})

    def restore(self, state: GroupsState) -> None:
        """Have these members here, and elsewhere those of the table, which is restored before."""
        self._of = {client: dict(groups) for client, groups in state.memberships.items()}
        self.local = {(client, name): group for client, groups in self._of.items() for name, group in groups.items()}
        if self.local and self.host is not None:
            self.host.intercept_local(self.label, self._choose)
        for fact in self._gossip:
            if fact.table == GROUPS and isinstance(fact.value, GroupMember):
                share, digest, broker, client, name = fact.key
                self._set((share, digest), (broker, client, name), fact.value)

    # ------------------------------------------------------------ who is in

    def settle(self, client: NodeId, session: Session | None, now: float) -> str | None:
        """A session has come, gone or changed: so have its memberships. Why not all, if there is no room."""
        before = self._of.pop(client, {})
        wanted: dict[str, Group] = {}
        if session is not None:
            shared = [each for each in session.subscriptions.values() if each.share]
            wanted = {each.id[1]: (each.share, self._digest_of(each)) for each in shared}
        for name, group in before.items():
            if name not in wanted:
                self._digests.pop((client, name), None)
            if wanted.get(name) != group:
                del self.local[client, name]
                self._say(group, (self._broker, client, name), None, now)
        if session is None or not wanted:
            return None
        self._of[client] = wanted
        reason = None
        for name, group in wanted.items():
            self.local[client, name] = group
            member = GroupMember(session.connection is not None)
            reason = self._say(group, (self._broker, client, name), member, now) or reason
        return reason

    def _digest_of(self, subscribe: Subscribe) -> str:
        """The digest of a member's filter, computed once: a session changes far more often than its filters."""
        filter, digest = self._digests.get(subscribe.id, (None, ""))
        if filter is not subscribe.filter:
            digest = _digest(subscribe.filter)
            self._digests[subscribe.id] = subscribe.filter, digest
        return digest

    def _say(self, group: Group, place: Place, member: GroupMember | None, now: float) -> str | None:
        key = (*group, *place)
        if self._gossip.value(GROUPS, *key) == member:
            return None
        reason = self._gossip.put(GROUPS, key, member, now)
        if reason is None:
            self._set(group, place, member)
        return reason

    def on_fact(self, fact: Fact, now: float) -> None:
        """Another broker has said who is in a group; or what a past life of this one said, which is over."""
        share, digest, broker, client, name = fact.key
        group, place = (share, digest), (broker, client, name)
        self._set(group, place, fact.value if isinstance(fact.value, GroupMember) else None)
        if broker == self._broker and fact.value is not None and self.local.get((client, name)) != group:
            self._say(group, place, None, now)

    def _set(self, group: Group, place: Place, member: GroupMember | None) -> None:
        members = self._members.get(group)
        if members is None:
            members = self._members[group] = _Members()
        members.set(place, None if member is None else member.attached)
        if not members.places:
            del self._members[group]

    # ------------------------------------------------------------ who gets what

    def chosen(self, event: Event, ids: list[EntryId]) -> list[EntryId]:
        """Of the subscriptions here that an event matches, those that get it."""
        taken: list[EntryId] = []
        winners: dict[Group, Place] = {}
        for id in ids:
            group = self.local.get(id)
            if group is not None:
                if group not in winners:
                    winners[group] = self._members[group].chosen(event) if group in self._members else ("", "", "")
                if winners[group] not in ((self._broker, *id), ("", "", "")):
                    continue
            taken.append(id)
        return taken

    def takes(self) -> Callable[[Event, Subscribe], bool]:
        """Whether a subscription of a session that has just come takes an event that came before it. (rule 4)

        For many events at once: its members are looked up once, for the digest of a large filter takes 2 ms.
        """
        groups: dict[EntryId, _Members | None] = {}

        def takes(event: Event, subscribe: Subscribe) -> bool:
            if not subscribe.share:
                return True
            if subscribe.id not in groups:
                groups[subscribe.id] = self._found(subscribe.share, subscribe.filter)
            members = groups[subscribe.id]
            return members is None or members.chosen(event) == (self._broker, *subscribe.id)

        return takes

    def winner(self, event: Event, subscribe: Subscribe) -> Place | None:
        """The member of a subscription's group that gets an event; None: it is in no group."""
        members = self._found(subscribe.share, subscribe.filter) if subscribe.share else None
        return None if members is None else members.chosen(event)


def _digest(filter: Filter) -> str:
    return blake2b(to_text(filter).encode(), digest_size=DIGEST_BYTES).hexdigest()
