"""How a peer learns that its user is no longer a member of a scope, and ends following it.

*Theory.* Who removes a member makes a new key at once, and seals the removal with it. So the devices of that user
cannot read that they were removed: they meet a key that they do not have, and ask for it (`scope_keys.py`). The devices
of owners answer with the removal itself, and with the changes of its device before it, since changes of a device are
taken in their order. All of these were made while the user was a member.

*Rules.*
1. Only owners' devices answer, each device that asks at most once in `TOLD_S`, and with `BYTES_MAX` at most.
2. What is sent ends with the change that took the role away. A later one that repeats it would bring what was made
   after it.
3. A peer whose user was removed by another device takes no more changes of the scope, and follows it no longer.
4. A peer whose user has left on this device goes on until another device shows that it knows of it: until then the
   change may have to be sent again.
5. A device that was ended in the team follows the team alone.
6. A user who was invited again goes on: the clock of the invitation is beyond that of all changes that are here.
"""

from collections.abc import Collection
from itertools import pairwise
from typing import Protocol

import msgspec

from godwit.teamwork.machine.bus import NeedKey, Removed, signed_bytes_of
from godwit.teamwork.machine.changes import Change, Order, Vector
from godwit.teamwork.machine.governance import LEFT, SUSPENDED, Governance, Role
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.machine.store import Store

__all__ = ["DepartureHost", "Departures"]

TOLD, TOLD_S = "told of removal", 60.0
BYTES_MAX = 2**20


class DepartureHost(PartHost, Protocol):
    """What departures need of their peer."""

    @property
    def team(self) -> str:
        """The scope of the team."""
        ...

    @property
    def followed(self) -> Collection[str]:
        """Scopes that this peer follows."""
        ...

    def take(self, change: Change) -> bool:
        """Take a change of another device; False if it has a problem or is not next."""
        ...

    def unfollow(self, scope: str) -> None:
        """Take part in the exchange of a scope no longer."""
        ...


class Departures:
    """The part of a peer that ends memberships of its user."""

    def __init__(self, host: DepartureHost, store: Store, devices: Devices) -> None:
        self._host, self._store, self._devices = host, store, devices
        self._told: set[tuple[str, str]] = set()

    # ------------------------------------------------------------ telling

    def on_need(self, message: NeedKey) -> None:
        """A device asks for a key: tell it if its user was removed. (rules 1 and 2)"""
        host, scope, key = self._host, message.scope, (message.scope, message.device)
        if scope not in host.followed or key in self._told or host.governance(scope).role(host.user) is not Role.OWNER:
            return
        removal = _removal(host.governance(scope), message.user)
        if removal is None or self._devices.check(
            message.device, message.user, signed_bytes_of(message), message.signature
        ):
            return
        self._told.add(key)
        host.start_timer((TOLD, *key), TOLD_S)
        _, device, last = removal
        until = [change for change in self._store.changes_by(scope, device) if change.number <= last]
        host.publish(Removed(host.device, message.device, _within_bytes(until)))

    def on_timer(self, what: str, scope: str, device: str) -> None:
        """A device may be told again."""
        self._told.discard((scope, device))

    # ------------------------------------------------------------ being told

    def on_removed(self, message: Removed) -> None:
        """An owner's device says that the user was removed: the changes say so themselves."""
        if message.for_device == self._host.device:
            for change in message.changes:
                if change.scope in self._host.followed:
                    self._host.take(change)

    def on_record(self, scope: str, name: str) -> None:
        """A record is different now. (rules 3 and 5)"""
        host = self._host
        if (scope, name) == (host.team, f"device/{host.device}") and host.device in host.governance(scope).ended:
            for followed in sorted({*host.followed} - {scope}):
                host.unfollow(followed)
        removal = self._valid_removal(scope) if name == f"member/{self._host.user}" else None
        if removal is not None and removal[1] != self._host.device:
            self._host.unfollow(scope)

    def has_departed(self, scope: str, vector: Vector) -> bool:
        """Whether the user has left, and the sender of this vector knows it: nothing of it is taken. (rule 4)"""
        removal = self._valid_removal(scope)
        if removal is None or vector.get(removal[1], 0) < removal[2]:
            return False
        self._host.unfollow(scope)
        return True

    def _valid_removal(self, scope: str) -> Order | None:
        """The change that took the user's role in a scope away that is still followed, unless it was given back."""
        if scope == self._host.team or scope not in self._host.followed:
            return None
        removal = _removal(self._host.governance(scope), self._host.user)
        return None if removal is None or self._is_invited_again(scope) else removal

    def _is_invited_again(self, scope: str) -> bool:
        """Whether an invitation has come whose change is not here yet. (rule 6)"""
        last = (self._store.change(scope, id) for id in self._store.vector(scope).items())
        return self._store.clock(scope) > max((change.clock for change in last if change is not None), default=0)


def _removal(governance: Governance, user: str) -> Order | None:
    """The place of the change that took a user's last role away; None for members, and for users who never were."""
    if governance.role(user) is not Role.NONE or governance.state(user).get("state") not in (LEFT, SUSPENDED):
        return None
    held = governance.roles.get(user, [])
    ends = [order for (_, before), (order, role) in pairwise(held) if before is not Role.NONE and role is Role.NONE]
    return ends[-1] if ends else None


def _within_bytes(changes: list[Change]) -> tuple[Change, ...]:
    """The last changes of a device, as many as a message may have, in the order of their numbers. (rule 1)"""
    some: list[Change] = []
    size = 0
    for change in sorted(changes, key=lambda change: -change.number):
        size += len(msgspec.msgpack.encode(change))
        if some and size > BYTES_MAX:
            break
        some.append(change)
    return tuple(reversed(some))
