"""The machine of a peer of a team: it handles inputs, stores changes, and returns effects.

*Rules.*
1. What one input changes is in the store before any of its effects is carried out: the driver commits first. So what a
   peer has acknowledged survives the end of its process.
2. A change of the user needs no broker. It is in the store, and its event in the outbox, until there is one.
3. What another peer sends is checked before it is taken. A message that is wrong changes nothing, and is reported.
4. What is over a bound is dropped and counted by scope and device; every tenfold count is reported.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from godwit.teamwork.machine.bus import (
    Answers,
    Changes,
    Gone,
    Have,
    Here,
    HereFor,
    Invite,
    KeyGiven,
    NeedKey,
    PeerMessage,
    Present,
    Question,
    Removed,
    attributes_of,
    decoded,
)
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.departures import Departures
from godwit.teamwork.machine.exchange import Exchange
from godwit.teamwork.machine.governance import GOVERNING, Governance, Role
from godwit.teamwork.machine.invitations import Invitations, ProfileTest
from godwit.teamwork.machine.listings import Listings
from godwit.teamwork.machine.peer_effects import (
    Attached,
    ChangeRecord,
    Detached,
    Effect,
    EndSearch,
    EventCame,
    Follow,
    GiveKey,
    Happened,
    Input,
    Invited,
    KeyMade,
    KeyMissing,
    Leaving,
    MakeKey,
    PresenceChanged,
    Publish,
    Rejected,
    SearchAnswered,
    SetAvailability,
    StartSearch,
    StartTimer,
    StopTimer,
    SubscribeScope,
    TakeKey,
    TimerDue,
    TimerKey,
    Unfollow,
    UnsubscribeScope,
)
from godwit.teamwork.machine.presence import MemoryPresence, Presence, PresenceStore
from godwit.teamwork.machine.receipts import Receipts
from godwit.teamwork.machine.scope_keys import ScopeKeys
from godwit.teamwork.machine.scope_log import Devices, ScopeLog
from godwit.teamwork.machine.search import Index, Progress, Search
from godwit.teamwork.machine.store import Store

__all__ = ["Identity", "Peer"]


KEY_MATTERS = GOVERNING | {"key"}


class Identity(msgspec.Struct, frozen=True):
    """Whose peer it is."""

    team: str
    user: str
    device: str


class Peer:
    """One device of one user."""

    def __init__(
        self,
        identity: Identity,
        store: Store,
        devices: Devices,
        index: Index,
        has_secret: Callable[[str, str], bool] = lambda scope, name: False,
        matches: ProfileTest = lambda language, query, record: False,
        heard: PresenceStore | None = None,
    ) -> None:
        """`has_secret`: whether the driver has the key of that scope and name. `matches`: tests profiles by queries.

        `heard`: where it keeps what is known of who is here (default: in memory).
        """
        self.identity = identity
        self.now = 0.0
        self._store, self._devices = store, devices
        self._logs: dict[str, ScopeLog] = {}
        self._effects: list[Effect] = []
        self.dropped: Counter[tuple[str, str]] = Counter()
        """By scope and device, how often a change was not taken because there are too many."""
        exchange, search = Exchange(self, store), Search(self, index, devices)
        presence = Presence(self, devices, MemoryPresence() if heard is None else heard)
        keys = ScopeKeys(self, store, devices, has_secret)
        self._invitations = Invitations(self, store, devices, matches)
        self._departures = departures = Departures(self, store, devices)
        self._receipts, self._listings = Receipts(self, store), Listings(self, store)
        self._exchange, self.presence, self.search, self.keys = exchange, presence, search, keys
        self._on_input: dict[type, Callable[[Any], None]] = {
            Attached: self._on_attached,
            Detached: self._on_detached,
            Leaving: lambda input: presence.on_leaving(),
            EventCame: self._on_event,
            TimerDue: lambda input: self._on_timer[input.key[0]](*input.key),
            ChangeRecord: self._on_change_record,
            Follow: self._on_follow,
            Unfollow: lambda input: self.unfollow(input.scope),
            KeyMade: lambda input: keys.on_made(input.scope, input.name),
            KeyMissing: lambda input: keys.on_missing(input.scope, input.name),
            StartSearch: lambda input: self.reject("search", search.begin(input.asking)),
            EndSearch: lambda input: search.end(input.search),
            SetAvailability: lambda input: self.reject("availability", presence.set(input)),
        }
        self._on_message: dict[type[PeerMessage], Callable[[Any], None]] = {
            Have: self._on_have,
            Changes: self._on_changes,
            Question: search.on_question,
            Answers: self._on_answers,
            NeedKey: self._on_need_key,
            KeyGiven: self._on_key_given,
            Removed: departures.on_removed,
            Invite: self._invitations.on_invite,
            Here: presence.on_here,
            HereFor: presence.on_here_for,
            Present: presence.on_present,
            Gone: presence.on_gone,
        }
        self._on_timer: dict[str, Callable[..., None]] = {
            "ask": exchange.on_timer,
            "answer": exchange.on_timer,
            "again": exchange.on_timer,
            "presence": presence.on_timer,
            "give key": keys.on_timer,
            "asked for key": keys.on_timer,
            "rotate key": keys.on_timer,
            "invite again": self._invitations.on_timer,
            "told of removal": departures.on_timer,
        }

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take an input. `now` is the time of day, which is shown to people and decides nothing."""
        self.now = now
        self._on_input[type(input)](input)
        self._receipts.write()
        self._listings.write()
        effects, self._effects = self._effects, []
        return effects

    def log(self, scope: str) -> ScopeLog:
        """The changes of a scope, and who may do what in it."""
        if scope not in self._logs:
            self._logs[scope] = ScopeLog(scope, self._store, self._devices)
        return self._logs[scope]

    # ------------------------------------------------------------ what the parts need

    @property
    def user(self) -> str:
        return self.identity.user

    @property
    def device(self) -> str:
        return self.identity.device

    def publish(self, message: PeerMessage, *, until: float | None = None, to: str = "") -> None:
        payload = msgspec.msgpack.encode(message)
        self._effects.append(Publish(attributes_of(self.identity.team, message), payload, until, to))

    def report(self, progress: Progress) -> None:
        self._effects.append(SearchAnswered(progress))

    def make_key(self, scope: str) -> None:
        self._effects.append(MakeKey(scope))

    def give_key(self, scope: str, name: str, device: str) -> None:
        self._effects.append(GiveKey(scope, name, device))

    def governance(self, scope: str) -> Governance:
        return self.log(scope).governance

    @property
    def followed(self) -> Collection[str]:
        return self._exchange.scopes

    @property
    def team(self) -> str:
        return self.identity.team

    def invited(self, message: Invite) -> None:
        self._effects.append(Invited(message))

    def report_presence(self, changed: PresenceChanged) -> None:
        self._effects.append(changed)

    def unsendable(self, input: ChangeRecord) -> str:
        """Why a change of the user cannot be sealed as it must be. What governs a scope, and its keys, need no seal."""
        kind = input.record.partition("/")[0]
        return "" if kind in GOVERNING or kind == "key" else self.keys.unknown(input.scope)

    def change_fields(self, scope: str, record: str, fields: dict[str, Any]) -> None:
        self._on_change_record(ChangeRecord(scope, record, fields))

    def unfollow(self, scope: str) -> None:
        self._effects.append(UnsubscribeScope(scope))
        self._exchange.end(scope)

    def change_together(self, scope: str, records: Mapping[str, dict[str, Any]]) -> None:
        log, made = self.log(scope), []
        for record, fields in records.items():
            change = log.make(self.device, self.user, record, fields, self.now)
            if not (log.refusal(change) or log.over_quota(change)):
                self._add(log, change)
                made.append(change)
        self._exchange.spread(*made)

    def readable_scopes(self, user: str) -> list[str]:
        return [scope for scope in self._store.scopes() if self.log(scope).governance.role(user) > Role.NONE]

    def start_timer(self, key: TimerKey, after_s: float) -> None:
        self._effects.append(StartTimer(key, after_s))

    def stop_timer(self, key: TimerKey) -> None:
        self._effects.append(StopTimer(key))

    def take(self, change: Change) -> bool:
        log = self.log(change.scope)
        if problem := log.problem(change):
            self.reject(f"change {change.number} of {change.device} in {change.scope}", problem)
            return False
        if not log.is_next(change):
            return False
        if excess := log.excess(change):
            self._drop(change, excess)
            return False
        self._add(log, change)
        return True

    def _drop(self, change: Change, reason: str) -> None:
        """Count a change that is over a bound. (rule 4)"""
        key = change.scope, change.device
        self.dropped[key] += 1
        if str(count := self.dropped[key]).strip("0") == "1":
            self.reject(f"change {change.number} of {change.device} in {change.scope} ({count:,} dropped)", reason)

    def _add(self, log: ScopeLog, change: Change) -> None:
        members = set(log.governance.members())
        added = log.add(change)
        self._effects.append(Happened(added))
        if change.kind in KEY_MATTERS:
            self.keys.on_change(change, members)
        for record in added.records:
            self._receipts.on_record(log.scope, record)
            self._listings.on_record(log.scope, record.name)
            self._invitations.on_record(log.scope, record.name)
            self._departures.on_record(log.scope, record.name)
            if log.scope == self.team and record.name.startswith("device/"):
                self.presence.on_device(record.name.partition("/")[2])

    # ------------------------------------------------------------ inputs

    def reject(self, what: str, reason: str) -> None:
        if reason:
            self._effects.append(Rejected(what, reason))

    def _on_attached(self, input: Attached) -> None:
        self._exchange.on_attached()
        self.presence.on_attached()
        self.keys.on_attached()

    def _on_detached(self, input: Detached) -> None:
        self._exchange.on_detached()
        self.presence.on_detached()

    def _on_event(self, input: EventCame) -> None:
        message = decoded(input.payload)
        if isinstance(message, str):
            self.reject("event", message)
        elif reason := self._ended(message.device):
            self.reject(f"{type(message).__struct_config__.tag}", reason)
        elif message.device != self.device:
            self._on_message[type(message)](message)

    def _ended(self, device: str) -> str:
        """That a device was ended in the team, or nothing."""
        return f"the device {device} was ended" if device in self.governance(self.team).ended else ""

    def _on_change_record(self, input: ChangeRecord) -> None:
        log = self.log(input.scope)
        change = log.make(self.device, self.identity.user, input.record, input.fields, self.now)
        if reason := log.refusal(change) or log.over_quota(change) or self._ended(self.device):
            self.reject(input.record, reason)
            return
        self._add(log, change)
        self._exchange.spread(change)
        self._invitations.on_own_change(change)

    def _on_have(self, message: Have) -> None:
        if not self._departures.has_departed(message.scope, message.vector):
            self._exchange.on_have(message)
            self._invitations.on_have(message)

    def _on_changes(self, message: Changes) -> None:
        if not self._departures.has_departed(message.scope, message.vector):
            self._exchange.on_changes(message)

    def _on_need_key(self, message: NeedKey) -> None:
        self.keys.on_need(message)
        self._departures.on_need(message)

    def _on_answers(self, message: Answers) -> None:
        if self.search.on_answers(message):
            self.presence.on_search_answered(message.device)

    def _on_key_given(self, message: KeyGiven) -> None:
        if message.to == self.device:
            self._effects.append(TakeKey(message.scope, message.name, message.box))
        else:
            self.keys.on_given(message)

    def _on_follow(self, input: Follow) -> None:
        self._effects.append(SubscribeScope(input.scope))
        self._exchange.begin(input.scope)
