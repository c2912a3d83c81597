"""Authorisation in the machine: the rights of clients here, and the consequences when rights change.

*Theory.* A driver checks each request of a client before the machine sees it (`runtime/grants.py`). That is not enough
for what happens later, or to others: a subscription that was allowed is there for days, and the event that a `Retain`
replaces is another client's. So a driver tells the machine the rights of a client before its greeting
(`RightsGranted`), and each change of a user's rights (`RightsChanged`). Both are inputs: they are in the journal, and a
replay needs no user file.

Every subscription of a client with rights is covered by its right to subscribe. So an event that a subscription lets in
is allowed at that moment, and only what waits in a queue must be looked at again when rights change. The exception is a
session that is being compared with rights: nothing is sent from its queue before that is over (`rights_reviews.py`).

*Rules.*
1. When rights change, each subscription that they do not cover is ended, or narrowed if the rights say so: in slices,
   if to compare them takes long. It leaves routing and its group then. The client is told (`Revoked`), and again with
   each greeting until it has a receipt that was written later.
2. What waits in a queue and is not covered any more leaves it, counted in receipts as `purged` by the rule `rights`.
   What was sent before the change, and has to be sent again, is examined first.
3. When a user is gone, its sessions end, present or away, and their connections are closed with the reason.
4. A session that comes from another broker is examined by the rights that its client has here.
5. An event is retained, replaced or cleared by a key only if the client may publish the event that is there now. Of two
   brokers that have not heard of each other's event, the later one counts, as for any retained event.
6. Rights that come back bring nothing back: the client subscribes again.
7. A client whose rights are unknown here has every right: brokers without users tell none.
8. So the rights of a client that is about to greet are not forgotten, even if others greet meanwhile: for
   `GREETS_WITHIN_S` after they were told, which is longer than any driver takes to hand on a greeting.

*Paper.* None.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec import structs

from godwit.broker.client_rights import NOT_ALLOWED, ClientRights
from godwit.broker.component import Handlers
from godwit.broker.effects import ComponentInput, Effect, StartTimer, Tell, TimerKey, Trace
from godwit.broker.host import Host
from godwit.broker.messages import Attach, NodeId, QueuedEvent, Revoked, Subscribe, Unsubscribe
from godwit.broker.quenching import Quenching
from godwit.broker.queues import event_size
from godwit.broker.retained import Retained
from godwit.broker.rights_reviews import REVIEWING, RightsReviews, RightsReviewState, steps_to_match
from godwit.broker.session import Session
from godwit.broker.withdrawals import PAUSE_S, STEPS_AT_ONCE
from godwit.filters.filters import TRUE, Filter
from godwit.filters.language import to_text
from godwit.trace import Record

__all__ = [
    "GREETS_WITHIN_S",
    "NAME_GONE",
    "USER_GONE",
    "Authorisation",
    "AuthorisationState",
    "RightsChanged",
    "RightsGranted",
]

SHOWN_CHARS_MAX = 200
ENTRIES_MIN = 1_024  # clients; from here on, at each power of two, those without a session are looked for
GREETS_WITHIN_S = 600.0
USER_GONE = "the user was removed"
NAME_GONE = "the name is no longer this user's"


class RightsGranted(ComponentInput, frozen=True, tag=True):
    """The client that greets next by this name has these rights."""

    client: NodeId
    rights: ClientRights


class RightsChanged(ComponentInput, frozen=True, tag=True):
    """The user file states other rights of a user; None: the user was removed."""

    user: str
    rights: ClientRights | None
    clients: tuple[str, ...] = ()  # names that its clients may have, besides those that begin with its own


class RevocationState(msgspec.Struct, frozen=True):
    """A subscription that was ended or narrowed, and which receipt shows that the client knows."""

    reason: str
    is_narrowed: bool
    receipt: int


class RightsEntryState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The rights of one client."""

    rights: ClientRights
    granted_at: float = 0.0  # when it was last about to greet
    is_settled: bool = False  # its session holds nothing that they do not cover
    revoked: dict[str, RevocationState] = {}


class AuthorisationState(msgspec.Struct, frozen=True, tag=True, omit_defaults=True):
    """The rights of all clients here, by name."""

    version: ClassVar[int] = 4
    entries: dict[NodeId, RightsEntryState] = {}
    reviews: dict[NodeId, RightsReviewState] = {}  # sessions that are being compared


class _Entry(msgspec.Struct):
    rights: ClientRights
    granted_at: float
    is_settled: bool = False
    revoked: dict[str, RevocationState] = {}

    def adopt(self, rights: ClientRights) -> None:
        """These are the rights from now on."""
        self.rights, self.is_settled = rights, False


class Authorisation:
    """The rights of clients, and what follows from a change."""

    label = "authorisation"
    host: Host

    def __init__(self, retained: Retained, quenching: Quenching) -> None:
        retained.rights_of = self.rights_of
        self._quenching = quenching
        self._reviews = RightsReviews(self._revoke)
        self._reasons = _Reasons()
        self._entries: dict[NodeId, _Entry] = {}
        self._of_user: dict[str, set[NodeId]] = {}

    def join(self, host: Host) -> Handlers:
        """Become part of a broker."""
        self.host = self._reviews.host = host
        return Handlers(
            authority=self,
            timers={REVIEWING: self._on_due},
            inputs={RightsGranted: self.on_rights_granted, RightsChanged: self.on_rights_changed},
            requests={Subscribe: self._on_request, Unsubscribe: self._on_request},
            on_session_changed=self._on_session_changed,
        )

    def snapshot(self) -> AuthorisationState | None:
        """All rights; None: there are none."""
        if not self._entries:
            return None
        entries = {
            client: RightsEntryState(entry.rights, entry.granted_at, entry.is_settled, dict(entry.revoked))
            for client, entry in self._entries.items()
        }
        return AuthorisationState(entries, self._reviews.snapshot())

    def restore(self, state: AuthorisationState | None) -> None:
        """Know these rights."""
        if state is None:
            return
        for client, each in state.entries.items():
            self._put(client, _Entry(each.rights, each.granted_at, each.is_settled, dict(each.revoked)))
        self._reviews.restore(state.reviews)

    # ------------------------------------------------------------ questions

    def rights_of(self, client: NodeId) -> ClientRights | None:
        """The rights of a client; None: every right."""
        entry = self._entries.get(client)
        return None if entry is None else entry.rights

    def clients(self) -> dict[NodeId, ClientRights]:
        """By client, the rights that the user file was last known to state."""
        entries = self._entries.items()
        return {client: entry.rights for client, entry in entries if not entry.rights.from_token}

    def covered(self, client: NodeId, items: Sequence[QueuedEvent]) -> tuple[list[QueuedEvent], int]:
        """Which of these events a client may be sent, and how many were compared: as many as in a slice."""
        rights = self.rights_of(client)
        if rights is None or rights.subscribe == TRUE:
            return list(items), len(items)
        right, found = rights.subscribe, list[QueuedEvent]()
        steps = compared = 0
        while compared < len(items) and steps < STEPS_AT_ONCE:
            item = items[compared]
            steps += steps_to_match(right, event_size(item.event))
            compared += 1
            if right.matches(item.event):
                found.append(item)
        return found, compared

    def _put(self, client: NodeId, entry: _Entry) -> None:
        self._drop(client)
        self._entries[client] = entry
        self._of_user.setdefault(entry.rights.user, set()).add(client)

    def _drop(self, client: NodeId) -> None:
        entry = self._entries.pop(client, None)
        if entry is not None:
            clients = self._of_user[entry.rights.user]
            clients.discard(client)
            if not clients:
                del self._of_user[entry.rights.user]

    # ------------------------------------------------------------ changes

    def on_rights_granted(self, input: RightsGranted, now: float) -> list[Effect]:
        """A client is about to greet. Its session, if it is here, is examined when it goes on."""
        client, entry = input.client, self._entries.get(input.client)
        effects: list[Effect] = []
        if input.rights.is_everything and not input.rights.user:
            self._drop(client)
            session = self.host.sessions.session(client)
            if self._reviews.drop(client) and session is not None:
                session.queue.release()
                effects += _sent(session, now)
            return effects
        if entry is None or entry.rights.user != input.rights.user:
            self._put(client, _Entry(input.rights, now))
            self._forget_old(now)
        else:
            entry.granted_at = now
            if entry.rights == input.rights:
                return effects
            entry.adopt(input.rights)
        if client in self._reviews:  # by rights that it has no longer
            session = self.host.sessions.session(client)
            assert session is not None
            self._review(session, self._entries[client], effects, now)
        return effects

    def on_rights_changed(self, input: RightsChanged, now: float) -> list[Effect]:
        """The rights of a user have changed, or the user is gone. (rules 1 to 3)"""
        effects: list[Effect] = []
        is_first = self._reviews.first(input.user) is None
        for client in sorted(self._of_user.get(input.user, ())):
            entry = self._entries[client]
            if entry.rights.from_token:
                continue
            is_owner = client == input.user or client.startswith(f"{input.user}/") or client in input.clients
            if input.rights is None or not is_owner:
                effects += self._end(client, entry, USER_GONE if input.rights is None else NAME_GONE, now)
            elif entry.rights != input.rights:
                entry.adopt(input.rights)
                session = self.host.sessions.session(client)
                if session is not None:
                    self._begin_review(session, entry, effects)
        if is_first:
            self._go_on(input.user, effects, now)
        return effects

    def _end(self, client: NodeId, entry: _Entry, reason: str, now: float) -> list[Effect]:
        """A client has no place here any more. (rule 3)

        It keeps an entry, without any right: it may be about to greet, and without an entry it would have every right.
        """
        host, session = self.host, self.host.sessions.session(client)
        entry.adopt(entry.rights.without_any())
        entry.revoked = {}
        self._reviews.drop(client)
        if session is None:
            return []
        effects = [] if session.connection is None else host.unlink(session.connection)
        return effects + host.withdraw(host.sessions.end(client, now, reason), now, client)

    def _forget_old(self, now: float) -> None:
        """Forget clients that have no session here, await none, and are not about to greet. (rule 8)"""
        count = len(self._entries)
        if count < ENTRIES_MIN or count & (count - 1):
            return
        sessions = self.host.sessions
        for client, entry in list(self._entries.items()):
            is_greeting = now - entry.granted_at <= GREETS_WITHIN_S
            if not is_greeting and sessions.session(client) is None and not sessions.is_awaited(client):
                self._drop(client)

    def _on_session_changed(self, client: NodeId, effects: list[Effect], now: float) -> None:
        """A session that has gone elsewhere may bring along other things when it comes back."""
        entry = self._entries.get(client)
        if entry is not None and self.host.sessions.session(client) is None:
            entry.is_settled = False
            self._reviews.drop(client)

    def _on_request(self, connection: str, wish: Any, effects: list[Effect], now: float) -> None:
        """A client has subscribed again, or does not want it any more: there is nothing more to say of it."""
        client, name = wish.id
        entry = self._entries.get(client)
        if entry is not None:
            entry.revoked.pop(name, None)

    # ------------------------------------------------------------ what a session holds

    def adopted(self, session: Session, now: float) -> list[Effect]:
        """A session has come from another broker. (rule 4)"""
        entry, effects = self._entries.get(session.client), list[Effect]()
        if entry is not None:
            entry.revoked = {}
            self._review(session, entry, effects, now)
        return effects

    def resumed(self, session: Session, message: Attach, now: float) -> list[Effect]:
        """A client has come to its session. (rules 1, 2)

        Called before the next receipt is written. The effects are for after what waits, which is delivered first.
        """
        client = session.client
        entry, effects = self._entries.get(client), list[Effect]()
        if entry is None:
            return effects
        if client in self._reviews:
            self._reviews.compare_queue_again(client)
        elif not entry.is_settled:
            self._review(session, entry, effects, now, greets=True)
        receipt = message.receipt if message.session == session.name else 0  # the last that it has
        entry.revoked = {name: told for name, told in entry.revoked.items() if told.receipt > receipt}
        return effects + self._told(session, entry, list(entry.revoked))

    def _review(
        self, session: Session, entry: _Entry, effects: list[Effect], now: float, *, greets: bool = False
    ) -> None:
        """Compare what a session holds with the rights of its client, as far as a slice goes."""
        user = entry.rights.user
        is_first = self._reviews.first(user) is None  # else the next slice is due soon
        self._begin_review(session, entry, effects)
        if is_first:
            self._go_on(user, effects, now, greets=greets)

    def _begin_review(self, session: Session, entry: _Entry, effects: list[Effect]) -> None:
        if entry.rights.publish != TRUE and session.connection is not None:
            effects += self._quenching.dismiss(session.connection)
        self._reviews.begin(session, entry.rights.user)

    def _on_due(self, key: TimerKey, now: float) -> list[Effect]:
        """The next slice for the sessions of a user."""
        effects: list[Effect] = []
        self._go_on(key[1], effects, now)
        return effects

    def _go_on(self, user: str, effects: list[Effect], now: float, *, greets: bool = False) -> None:
        """One slice; `greets`: the client is told with the answer to its greeting, and sent what waits."""
        steps = 0
        while steps < STEPS_AT_ONCE and (client := self._reviews.first(user)) is not None:
            session, entry = self.host.sessions.session(client), self._entries[client]
            assert session is not None
            before = dict(entry.revoked)
            steps += self._reviews.go_on(session, entry.rights, STEPS_AT_ONCE - steps, effects, now)
            if not greets:
                names = [name for name, told in entry.revoked.items() if told is not before.get(name)]
                effects += self._told(session, entry, names)
                if session.named and session.connection is not None:  # without memory: it counts as told
                    entry.revoked = {}
            if client not in self._reviews:
                entry.is_settled = not session.queue.has_sent
                sent = [] if greets else _sent(session, now)
                steps += len(sent)
                effects += sent
        if self._reviews.first(user) is not None:
            effects.append(StartTimer((REVIEWING, user), now + PAUSE_S))

    def _revoke(
        self, session: Session, subscribe: Subscribe, filter: Filter | None, effects: list[Effect], now: float
    ) -> None:
        """A subscription is narrowed to `filter`; None: it is ended."""
        host, client, name, entry = self.host, session.client, subscribe.id[1], self._entries[session.client]
        reason = self._reasons.of(entry.rights.subscribe)
        effects.append(Trace(Record("revoked", client, subscription=name, detail=reason)))
        if filter is None:
            effects += host.sessions.end_subscription(session, name)
            host.carry_out(host.routing.unsubscribe((client, name), now), effects, now)
        else:
            session.filters.put_subscription(structs.replace(subscribe, filter=filter))
            session.set_exact(name, host.sessions.binding)
            if subscribe.share:
                host.sessions.touched[client] = None
            host.subscribe((client, name), filter, effects, now)
        entry.revoked[name] = RevocationState(reason, filter is not None, session.last_receipt() + 1)

    @staticmethod
    def _told(session: Session, entry: _Entry, names: list[str]) -> list[Effect]:
        if session.connection is None or not names:
            return []
        ended = tuple(name for name in names if not entry.revoked[name].is_narrowed)
        narrowed = tuple(name for name in names if entry.revoked[name].is_narrowed)
        return [Tell(session.connection, Revoked(ended, narrowed, entry.revoked[names[-1]].reason))]


def _sent(session: Session, now: float) -> list[Effect]:
    """What waited while its session was compared, as far as it may be sent now."""
    if session.connection is None:
        return []
    deliveries: list[Effect] = [Tell(session.connection, delivery) for delivery in session.take(now)]
    return deliveries + session.gone()


class _Reasons:
    """Why subscriptions are revoked. The last reason is kept: many have the same, and a right may be a long text."""

    def __init__(self) -> None:
        self._right: Filter | None = None
        self._reason = ""

    def of(self, right: Filter) -> str:
        """What a client hears that has only this right to subscribe."""
        if right is not self._right:
            text = to_text(right)
            shown = text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
            self._reason = f"your rights have changed: {NOT_ALLOWED} subscribe to that, only to what matches: {shown}"
            self._right = right
        return self._reason
