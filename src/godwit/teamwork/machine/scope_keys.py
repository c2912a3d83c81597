"""Keys of sealed scopes: which one its members use, and which devices receive it. The driver has the secrets
(`sealing.py`).

*Theory.* A scope whose setting `sealed` is true has keys. A key has a name, its fingerprint, and a record `key/NAME`
without a secret, which only an owner can make. The last one in the order of the scope is the key in use: all members
come to the same one. The device that takes a role away makes the next key, so those who left cannot read what is sealed
with it. The record of a key states which removals its maker knew (`removals.py`): the next key is *due* if the maker of
the one in use did not know of some removal.

A device that meets a key it does not have asks for it (`NeedKey`), signed. All peers of the scope hear this; those that
have the secret and find the asking user among the members wait for their turn, and the first gives it, sealed for that
device alone (`KeyBox`). The others hear that, too, and drop what they would have sent.

*Rules.*
1. A key is given to a device of a user who has a role in the scope now, as this peer knows it, and to nobody else; not
   to a device that was ended. A peer that has the key, but not yet its record and all removals that its maker knew,
   gives it to nobody.
2. A change that takes a role away, ends a device, or begins to seal the scope, makes its own device make a key. Two may
   do so at once: both keys are known, and the later in the order is in use. While the next key is due, the devices of
   owners wait for their turn to make it; one that ended before it could, when it is attached again. A key that comes
   ends the wait only if no further one is due.
3. A peer that still has no answer asks again, as often as it meets the key, and at most once in `ASK_S`.
4. A device that has not learned yet whether a scope is sealed, or with which key, takes nothing from its user that
   only readers of the scope may see. (`unknown`; the driver asks for it)
"""

from collections.abc import Callable
from typing import Protocol

import msgspec

from godwit.teamwork.machine.bus import KeyGiven, NeedKey, signed_bytes_of
from godwit.teamwork.machine.changes import Change
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.removals import KnownRemovals, known_removals, removals
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.machine.store import Store
from godwit.teamwork.machine.turns import SLOT_S, turn_after_s

__all__ = ["KeyHost", "ScopeKeys"]

ASK_S = 5.0
GIVE, ASKED, ROTATE = "give key", "asked for key", "rotate key"


class KeyHost(PartHost, Protocol):
    """What the keys need of their peer."""

    def make_key(self, scope: str) -> None:
        """Have the driver draw a key; it answers with `KeyMade`."""
        ...

    def give_key(self, scope: str, name: str, device: str) -> None:
        """Have the driver seal a key for a device, and publish it."""
        ...


class ScopeKeys:
    """The part of a peer that knows which keys are in use."""

    def __init__(self, host: KeyHost, store: Store, devices: Devices, has_secret: Callable[[str, str], bool]) -> None:
        self._host, self._store, self._devices, self._has_secret = host, store, devices, has_secret
        self._asked: set[tuple[str, str]] = set()
        self._giving: dict[tuple[str, str, str], str] = {}  # by scope, key and device, whose device it is

    def in_use(self, scope: str) -> str | None:
        """The name of the key that is in use; None: the scope is not sealed, or has no key yet."""
        if not self._host.governance(scope).settings.get("sealed"):
            return None
        changes = self._store.changes_of_kinds(scope, ("key",))
        refused = {each.change for record in self._store.records(scope, "key") for each in record.refused}
        valid = [change for change in changes if change.id not in refused]
        return max(valid, key=lambda change: change.order).record.partition("/")[2] if valid else None

    def unknown(self, scope: str) -> str:
        """What is not known yet of how a member's changes of a scope are sent, or nothing. A team is never sealed."""
        governance = self._host.governance(scope)
        settings = governance.settings
        if scope.startswith("team/") or governance.role(self._host.user) is Role.NONE:
            return ""
        if not settings:
            return f"the settings of {scope} have not come yet: wait until another device of a member is online"
        if settings.get("sealed") and self.in_use(scope) is None:
            return f"the key of {scope} has not come yet: wait until another device of a member is online"
        return ""

    # ------------------------------------------------------------ making

    def on_change(self, change: Change, before: set[str]) -> None:
        """A change was added; `before` had a role until then. (rule 2)"""
        scope = change.scope
        if change.kind == "key":
            if self._is_due(scope):
                self._plan(scope)
            else:
                self._host.stop_timer((ROTATE, scope))
            return
        governance = self._host.governance(scope)
        if not governance.settings.get("sealed") or governance.role(self._host.user) is not Role.OWNER:
            return
        begins = change.kind == "scope" and "sealed" in change.fields
        if begins or before - governance.members().keys() or change.order in governance.ends:
            if change.device == self._host.device:
                self._host.make_key(scope)
            else:
                self._plan(scope)

    def on_attached(self) -> None:
        """The peer may have ended before it made a key that was due. (rule 2)"""
        for scope in self._store.scopes():
            if self._is_due(scope):
                self._plan(scope)

    def _plan(self, scope: str) -> None:
        """Make a key when it is this device's turn, if one is still due then."""
        self._host.start_timer((ROTATE, scope), SLOT_S + turn_after_s(self._host.device, scope))

    def _is_due(self, scope: str) -> bool:
        """Whether an owner's device must make a key: the maker of the one in use did not know of some removal."""
        governance = self._host.governance(scope)
        if governance.role(self._host.user) is not Role.OWNER or (name := self.in_use(scope)) is None:
            return False
        known = self._known_to_maker(scope, name)
        return not all(known.has(removal) for removal in removals(governance))

    def _known_to_maker(self, scope: str, name: str) -> KnownRemovals:
        """The removals that the maker of a key knew."""
        record = self._store.record(scope, f"key/{name}")
        return KnownRemovals.of(record.fields if record else {})

    def on_made(self, scope: str, name: str) -> None:
        """The driver has drawn a key and keeps it."""
        known = known_removals(self._host.governance(scope))
        self._host.change_fields(scope, f"key/{name}", msgspec.to_builtins(known))

    # ------------------------------------------------------------ asking

    def on_missing(self, scope: str, name: str) -> None:
        """Something came that is sealed with a key that is not here. (rule 3)"""
        if (scope, name) in self._asked:
            return
        self._asked.add((scope, name))
        question = NeedKey(self._host.device, self._host.user, scope, name)
        signature = self._devices.sign(signed_bytes_of(question))
        self._host.publish(msgspec.structs.replace(question, signature=signature))
        self._host.start_timer((ASKED, scope, name), ASK_S)

    # ------------------------------------------------------------ giving

    def on_need(self, message: NeedKey) -> None:
        """Another peer asks for a key. (rule 1)"""
        if not self._has_secret(message.scope, message.name) or not self._may_give(message.scope, message.name):
            return
        if self._devices.check(message.device, message.user, signed_bytes_of(message), message.signature):
            return
        if not self._is_reader(message.scope, message.user, message.device):
            return
        self._giving[message.scope, message.name, message.device] = message.user
        members = len(self._host.governance(message.scope).members())
        after_s = turn_after_s(self._host.device, message.device, members)
        self._host.start_timer((GIVE, message.scope, message.name, message.device), after_s)

    def _is_reader(self, scope: str, user: str, device: str) -> bool:
        """Whether a device of a user may have the keys of a scope. (rule 1)"""
        governance = self._host.governance(scope)
        return governance.role(user) is not Role.NONE and device not in governance.ended

    def _may_give(self, scope: str, name: str) -> bool:
        """Whether the record of a key is here, and all removals that its maker knew."""
        if self._store.record(scope, f"key/{name}") is None:
            return False
        return self._known_to_maker(scope, name).are_in(self._store.vector(scope))

    def on_given(self, message: KeyGiven) -> None:
        """Another peer has given a key."""
        key = message.scope, message.name, message.to
        if self._giving.pop(key, None) is not None:
            self._host.stop_timer((GIVE, *key))

    def on_timer(self, what: str, scope: str, name: str = "", device: str = "") -> None:
        if what == ROTATE:
            if self._is_due(scope) or (
                self.in_use(scope) is None and self._host.governance(scope).role(self._host.user) is Role.OWNER
            ):
                self._host.make_key(scope)
            return
        if what == ASKED:
            self._asked.discard((scope, name))
            return
        user = self._giving.pop((scope, name, device), None)
        if user is not None and self._is_reader(scope, user, device):  # it may have left meanwhile
            self._host.give_key(scope, name, device)
