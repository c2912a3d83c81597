"""The exchange of changes: how peers of a scope come to have the same changes.

*Theory.* A change is published when it is made, and brokers keep events for peers that are away; so usually every peer
has every change without asking. What remains are peers that are new to a scope, that were away for longer than brokers
keep a session, or that have lost their disk. They say what they have (`Have`), and one that has more sends what is
missing (`Changes`). Both are events to all peers of the scope. Of many peers that could answer, one does: each waits
for a time that depends on its own name and the asker's, and a peer that hears the answer of another while it waits
drops what was in it. The answer is heard by all, so several that lack the same are served by one answer.

An event may also be lost between two brokers, when one of them loses its disk, while the peers stay attached and
notice nothing. So peers say what they have again at times, and a peer that has heard the same from another meanwhile
does not: of all peers of a scope that agree, about one speaks in `AGAIN_S`, however many they are.

*Rules.*
1. Peers that are attached and lack nothing are silent, but for one `Have` when they attach, and one of all of them at
   times.
2. As long as a peer lacks a change that another attached peer of the scope has, one of the two has a timer that leads
   to a `Have` or to `Changes`. So peers that have met converge.
3. A peer that has asked and learned nothing waits twice as long before it asks again, up to `ASK_MAX_S`.
4. An answer has at most `ANSWER_MAX` changes. It bears what its sender has, so a receiver sees that there is more.
5. A change with a problem (a wrong signature, a device that is not known yet) is not taken and not counted as known. It
   is asked for again, as rule 3 has it; so a device that becomes known later loses nothing.
"""

from collections.abc import Collection
from typing import Protocol

from godwit.teamwork.machine.bus import Changes, Have
from godwit.teamwork.machine.changes import Change, Vector
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.store import Store
from godwit.teamwork.machine.turns import SLOT_S, TURNS_S, turn_after_s

__all__ = ["Exchange", "ExchangeHost"]

ASK, ANSWER, AGAIN = "ask", "answer", "again"
AGAIN_S = 1800.0
ASK_S = 1.0
ASK_MAX_S = 600.0
ANSWER_MAX = 200


class ExchangeHost(PartHost, Protocol):
    """What the exchange needs of its peer."""

    def take(self, change: Change) -> bool:
        """Take a change of another device; False if it has a problem or is not next."""
        ...


class Exchange:
    """The part of a peer that exchanges changes."""

    def __init__(self, host: ExchangeHost, store: Store) -> None:
        self._host, self._store = host, store
        self._scopes: set[str] = set()
        self._is_attached = False
        self._ask_s: dict[str, float] = {}  # by scope with a running timer, after how long
        self._askers: dict[str, Vector] = {}  # by scope that waits for an answer, the least that its askers have
        self._agreed: dict[str, bool] = {}  # by scope whose turn to speak again will come, whether another has spoken

    # ------------------------------------------------------------ scopes

    @property
    def scopes(self) -> Collection[str]:
        """Those of which this peer has the changes."""
        return self._scopes

    def begin(self, scope: str) -> None:
        """Take part in the exchange of a scope."""
        if scope not in self._scopes:
            self._scopes.add(scope)
            if self._is_attached:
                self._say_what_is_here(scope)

    def end(self, scope: str) -> None:
        """Take part no longer."""
        self._scopes.discard(scope)
        self._stop_timers(scope)

    def _stop_timers(self, scope: str) -> None:
        for what, waiting in ((ASK, self._ask_s), (ANSWER, self._askers), (AGAIN, self._agreed)):
            if waiting.pop(scope, None) is not None:
                self._host.stop_timer((what, scope))

    def on_detached(self) -> None:
        """The peer has lost its broker: it asks again at the next one, and others answer meanwhile."""
        self._is_attached = False
        for scope in sorted(self._scopes):
            self._stop_timers(scope)

    def on_attached(self) -> None:
        """A broker has let the peer in."""
        self._is_attached = True
        for scope in sorted(self._scopes):
            self._say_what_is_here(scope)

    # ------------------------------------------------------------ changes

    def spread(self, *changes: Change) -> None:
        """Send changes of this device, of one scope."""
        for first in range(0, len(changes), ANSWER_MAX):
            some = changes[first : first + ANSWER_MAX]
            self._host.publish(Changes(self._host.device, some[0].scope, some, self._store.vector(some[0].scope)))

    def on_have(self, message: Have) -> None:
        """Another peer says what it has."""
        if message.scope not in self._scopes:
            return
        here = self._store.vector(message.scope)
        if message.vector == here and message.scope in self._agreed:
            self._agreed[message.scope] = True
        if _lacks(message.vector, here):
            self._answer_later(message)
        if _lacks(here, message.vector):
            self._ask_later(message.scope)

    def on_changes(self, message: Changes) -> None:
        """Changes of another peer, or of others by way of it."""
        scope = message.scope
        if scope not in self._scopes:
            return
        learned = False
        for change in message.changes:
            if change.scope == scope and scope in self._scopes:  # not any more, if one of them has removed this user
                learned |= self._host.take(change)
        if scope not in self._scopes:
            return
        if _lacks(self._store.vector(scope), _joined(message.vector, message.changes)):
            self._ask_later(scope, at_once=learned)
        elif self._ask_s.pop(scope, None) is not None:
            self._host.stop_timer((ASK, scope))
        if scope in self._askers:
            least = self._askers[scope] = _advanced(self._askers[scope], message.changes)
            if not _lacks(least, self._store.vector(scope)):
                del self._askers[scope]
                self._host.stop_timer((ANSWER, scope))

    def on_timer(self, what: str, scope: str) -> None:
        """A timer of the exchange is due."""
        if what == ASK and scope in self._ask_s:
            self._say_what_is_here(scope)
            self._ask_s[scope] = min(2 * self._ask_s[scope], ASK_MAX_S)
            self._host.start_timer((ASK, scope), self._ask_s[scope])
        elif what == ANSWER and scope in self._askers:
            self._answer(scope, self._askers.pop(scope))
        elif what == AGAIN and scope in self._agreed:
            if self._agreed[scope]:
                self._speak_again_later(scope)
            else:
                self._say_what_is_here(scope)

    # ------------------------------------------------------------ asking and answering

    def _say_what_is_here(self, scope: str) -> None:
        self._host.publish(Have(self._host.device, scope, self._store.vector(scope)))
        self._speak_again_later(scope)

    def _speak_again_later(self, scope: str) -> None:
        self._agreed[scope] = False
        share = turn_after_s(self._host.device, scope) / TURNS_S
        self._host.start_timer((AGAIN, scope), AGAIN_S * (1 + share) / 2)

    def _ask_later(self, scope: str, *, at_once: bool = False) -> None:
        if at_once or scope not in self._ask_s:
            self._ask_s[scope] = ASK_S
            self._host.start_timer((ASK, scope), SLOT_S if at_once else ASK_S)

    def _answer_later(self, message: Have) -> None:
        scope = message.scope
        if scope in self._askers:
            self._askers[scope] = _least(self._askers[scope], message.vector)
            return
        self._askers[scope] = message.vector
        members = len(self._host.governance(scope).members())
        self._host.start_timer((ANSWER, scope), turn_after_s(self._host.device, message.device, members))

    def _answer(self, scope: str, least: Vector) -> None:
        missing = self._store.changes_after(scope, least, ANSWER_MAX)
        if missing:
            self._host.publish(Changes(self._host.device, scope, tuple(missing), self._store.vector(scope)))


def _lacks(one: Vector, other: Vector) -> bool:
    """Whether one lacks a change that the other has."""
    return any(number > one.get(device, 0) for device, number in other.items())


def _least(one: Vector, other: Vector) -> Vector:
    return {device: min(number, other[device]) for device, number in one.items() if device in other}


def _joined(vector: Vector, changes: tuple[Change, ...]) -> Vector:
    """A vector, and what a message brought besides."""
    joined = dict(vector)
    for change in changes:
        joined[change.device] = max(joined.get(change.device, 0), change.number)
    return joined


def _advanced(vector: Vector, changes: tuple[Change, ...]) -> Vector:
    """What somebody with this vector has after these changes."""
    advanced = dict(vector)
    for change in changes:
        if change.number == advanced.get(change.device, 0) + 1:
            advanced[change.device] = change.number
    return advanced
