"""Presence: which users of the team are online, and how available. [motion §1: "X is currently online and available
for a meeting"]

*Theory.* Each peer says at times that it is here (`Here`), and the others remember it. A peer that has just come asks,
with its own `Here`, who else is. Two of the peers that are here answer (`Present`) with everything that they have heard
for the whole team. Each statement has the signature of its own device, so the newcomer believes it, no matter which
peer hands it on. The two are those whose turn is first (`turns.py`) among the devices of which they know; peers that
know the same need not talk about it. If both have died, the newcomer asks again, and it is the turn of others, four
times as many.

*Rules.*
1. A peer says so when it is attached, again after half the time for which it holds, and when it goes. A peer that ends
   without saying so counts as gone after that time.
2. A user with the availability `hidden` sends nothing. Others cannot tell this from a peer that is away.
3. What a peer says of itself is signed, and believed if the signature is that of a device of its user. It holds for
   `HOLDS_S` at most, by the clock of the peer that hears it. What is older than what is known is ignored, so nobody can
   say it again in another's name. While what is known holds, the times that the sender signed decide what is older;
   after that the time by this clock, so a sender whose clock was ahead is believed again once it is right.
4. A user may show presence to some users alone: then each of them is told, that it goes as well, and nobody else. A
   statement for some is never handed on. Only a peer that shows itself to the newcomer answers.
5. What a device says that is not known to the team yet is kept, and believed when it is known: a new device may speak
   before its record has arrived.
6. Every change of what is known of a device is reported, once; repetitions are not. A device that went without saying
   so is reported at most `SWEEP_S` after its time has expired.
7. At most `DEVICES_MAX` devices are remembered, the latest, and `UNKNOWN_MAX` that are not known. What is believed is
   kept on the disk, so a peer that is started again knows what it knew.
8. A peer that attaches and knows of no other device that is here asks `ASKS_MAX` times at most, until one answers. It
   asks the whole team, or `ASKED_MAX` of the users to whom it shows itself. An answer has at most `HANDED_ON_MAX`
   statements, the latest.
9. A device is away if it said so less than `HOLDS_S` ago, or if nothing that it said holds although this peer has been
   attached for `HOLDS_S`. What this peer heard before it was attached tells no more than that. A device that has
   answered a search since is not away.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

import msgspec

from godwit.teamwork.machine.bus import Gone, Here, HereFor, Present, addressed_to, signed_bytes_of
from godwit.teamwork.machine.governance import Role
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.peer_effects import PresenceChanged, SetAvailability
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.machine.turns import is_among_first
from godwit.teamwork.machine.wall_clocks import WallClocks

__all__ = ["AVAILABILITIES", "HOLDS_S", "Heard", "MemoryPresence", "Presence", "PresenceStore"]

AVAILABILITIES = ("available", "busy", "do not disturb", "hidden")
SHOWN = AVAILABILITIES[:-1]
HOLDS_S = 1800.0
DEVICES_MAX = 100_000
UNKNOWN_MAX = 1_000
SHOWN_TO_MAX = 100
STATUS_CHARS_MAX = 200
SWEEP_S = 60.0
ASK_S = 5.0
ASKED_MAX = 2
ANSWERERS = (2, 8, 32)  # by how often the peer has asked
ASKS_MAX = len(ANSWERERS)
HANDED_ON_MAX = 2_000
PRESENT_MAX = 200  # statements in one event
TIMER = ("presence", "again")
SWEEP = ("presence", "sweep")

Value = TypeVar("Value")


class Heard(msgspec.Struct, frozen=True):
    """What a device said last."""

    user: str
    until: float
    """By the clock of this peer, until when it holds. A later statement replaces it."""
    here: Here | None
    """As it was signed; None: the device has gone."""
    is_for_all: bool = False
    """Whether it was said to the whole team."""
    said_at: float = 0.0
    """When, by the clock of the device. Statements that earlier versions kept do not have it."""

    def is_later_than(self, said_at: float, now: float) -> bool:
        """Whether a statement of the same device, made at that time by its clock, is older. (rule 3)"""
        by_own_clock = self.until - HOLDS_S
        return said_at < (max(self.said_at, by_own_clock) if self.until > now else by_own_clock)


class PresenceStore(Protocol):
    """Where a peer keeps what devices said, for its next start."""

    def heard(self) -> Iterable[tuple[str, Heard]]:
        """By device, what it said last."""
        ...

    def put(self, device: str, heard: Heard | None) -> None:
        """Keep what a device said, instead of what it said before; None: forget it."""
        ...


class MemoryPresence:
    """Such a store in memory."""

    def __init__(self) -> None:
        self._heard: dict[str, Heard] = {}

    def heard(self) -> Iterable[tuple[str, Heard]]:
        return list(self._heard.items())

    def put(self, device: str, heard: Heard | None) -> None:
        if heard is None:
            self._heard.pop(device, None)
        else:
            self._heard[device] = heard


class PresenceHost(PartHost, Protocol):
    """A peer, as this part sees it."""

    @property
    def team(self) -> str:
        """The scope of the team."""
        ...

    def report_presence(self, changed: PresenceChanged) -> None:
        """Tell listeners who has come or gone."""
        ...


class Presence:
    """The part of a peer that knows who is here."""

    def __init__(self, host: PresenceHost, devices: Devices, store: PresenceStore) -> None:
        self._host, self._keys, self._store = host, devices, store
        self._said = SetAvailability(AVAILABILITIES[0])
        self._attached_at: float | None = None
        self._asked = ASKS_MAX
        self._devices = {device: heard for device, heard in store.heard() if device != host.device}
        self._unbelieved: dict[str, tuple[Here, bool]] = {}  # by device, the last without a good signature as yet
        self._reported = {device: heard.here for device, heard in self._devices.items() if heard.here is not None}
        self._answered_at: dict[str, float] = {}  # by device, when it answered a search of this peer
        self._sweep_at: float | None = None
        self.clocks = WallClocks(HOLDS_S)

    def devices(self) -> dict[str, Here]:
        """By device that is here now, what it said."""
        return {device: msgspec.structs.replace(here, until=until) for device, here, until, _ in self._present()}

    def is_away(self, device: str) -> bool:
        """Whether a device cannot be expected to answer now. (rule 9)"""
        now, heard = self._host.now, self._devices.get(device)
        if self._answered_at.get(device, float("-inf")) > now - HOLDS_S:
            return False
        if heard is not None and heard.until > now:
            return heard.here is None
        return self._attached_at is not None and now - self._attached_at >= HOLDS_S

    def _present(self) -> Iterator[tuple[str, Here, float, bool]]:
        """Each device that is here, what it said, until when it holds, and whether that was said to the whole team."""
        now = self._host.now
        for device, heard in self._devices.items():
            if heard.here is not None and heard.until > now:
                yield device, heard.here, heard.until, heard.is_for_all

    # ------------------------------------------------------------ what this peer says

    def set(self, wanted: SetAvailability) -> str:
        """How available the user is; why not, if that is no such thing."""
        if wanted.availability not in AVAILABILITIES:
            return f"availability must be one of {', '.join(AVAILABILITIES)}, not {wanted.availability!r}"
        if len(wanted.status) > STATUS_CHARS_MAX or len(wanted.shown_to) > SHOWN_TO_MAX:
            return f"a status has at most {STATUS_CHARS_MAX} characters, and is shown to at most {SHOWN_TO_MAX} users"
        is_shown_less = wanted.availability == "hidden" or wanted.shown_to != self._said.shown_to
        if is_shown_less and self._said.availability != "hidden" and self._is_attached:
            self._say_goodbye()
        self._said = wanted
        self._devices.pop(self._host.device, None)
        if self._is_attached:
            self._say()
        self._report(self._host.device)
        return ""

    def on_attached(self) -> None:
        self._attached_at = self._host.now
        is_informed = any(device != self._host.device for device, *_ in self._present())
        self._asked = ASKS_MAX if is_informed else 0  # (rule 8)
        self._say()
        self._sweep()

    def on_detached(self) -> None:
        self._attached_at = None
        self._devices.pop(self._host.device, None)
        self._report(self._host.device)
        self._host.stop_timer(TIMER)

    def on_leaving(self) -> None:
        """The peer is about to go."""
        if self._is_attached and self._said.availability != "hidden":
            self._say_goodbye()
        self._attached_at = None
        self._host.stop_timer(TIMER)

    def on_timer(self, *key: str) -> None:
        if key == SWEEP:
            self._sweep()
        elif self._is_attached:
            self._say()

    @property
    def _is_attached(self) -> bool:
        return self._attached_at is not None

    def _say(self) -> None:
        host, said = self._host, self._said
        if said.availability == "hidden":
            host.stop_timer(TIMER)
            return
        is_asking = self._asked < ASKS_MAX
        asked = said.shown_to[ASKED_MAX * self._asked :][:ASKED_MAX] if is_asking else ()
        self._asked += is_asking
        here = self._signed(asks=self._asked if is_asking and not said.shown_to else 0)
        self._remember(here.device, Heard(here.user, here.until, here, not said.shown_to, host.now))
        if not said.shown_to:
            host.publish(here, until=here.until)
        for user in said.shown_to:  # (rule 4)
            told = self._signed(asks=self._asked) if user in asked else here
            host.publish(HereFor(host.device, user, told), until=here.until)
        host.start_timer(TIMER, ASK_S if self._asked < ASKS_MAX else HOLDS_S / 2)

    def _signed(self, asks: int) -> Here:
        host, said = self._host, self._said
        here = Here(host.device, host.user, said.availability, host.now + HOLDS_S, said.status, asks)
        return msgspec.structs.replace(here, signature=self._keys.sign(signed_bytes_of(here)))

    def _say_goodbye(self) -> None:
        """To those who were told that the peer is here."""
        host, shown_to = self._host, self._said.shown_to
        gone = Gone(host.device, host.user, host.now)
        signature = self._keys.sign(signed_bytes_of(gone))
        to = addressed_to(host.team, shown_to, besides=host.device) if shown_to else ""
        host.publish(msgspec.structs.replace(gone, signature=signature), until=host.now + HOLDS_S, to=to)

    # ------------------------------------------------------------ what others say

    def on_here(self, message: Here) -> None:
        """A device says to the whole team that it is here."""
        self._hear(message, is_for_all=True)

    def on_here_for(self, message: HereFor) -> None:
        """A device says to this user that it is here."""
        if message.for_user == self._host.user and message.here.device == message.device:
            self._hear(message.here, is_for_all=False)

    def _hear(self, message: Here, *, is_for_all: bool) -> None:
        if self._believe(message, is_for_all=is_for_all) and message.asks > 0:
            self._answer(message, is_for_all=is_for_all)

    def _believe(self, message: Here, *, is_for_all: bool) -> bool:
        """Remember what a device has said; False if that is not news."""
        if reason := self._keys.check(message.device, message.user, signed_bytes_of(message), message.signature):
            self._host.reject(f"presence of {message.device}", reason)
            _put_last(self._unbelieved, message.device, (message, is_for_all), UNKNOWN_MAX)
            return False
        if self._is_ended(message.device):  # another device may hand on what it said before
            return False
        known, now = self._devices.get(message.device), self._host.now
        said_at = message.until - HOLDS_S
        if known is not None and known.is_later_than(said_at, now):
            return False
        if message.availability not in SHOWN or len(message.status) > STATUS_CHARS_MAX:
            allowed = f"availability must be one of {', '.join(SHOWN)}, with a status of {STATUS_CHARS_MAX} characters"
            self._host.reject(f"presence of {message.device}", allowed)
            return False
        self._host.reject("clock", self.clocks.hear(message.device, said_at, now))
        is_repeated = known is not None and known.here == message
        until = known.until if known is not None and is_repeated else min(message.until, now + HOLDS_S)
        self._remember(message.device, Heard(message.user, until, message, is_for_all, said_at))
        return not is_repeated

    def on_device(self, device: str) -> None:
        """The record of a device is another one now. (rule 5)"""
        message, is_for_all = self._unbelieved.pop(device, (None, False))
        known = self._devices.get(device)
        if self._is_ended(device):
            if known is not None and known.here is not None:
                self._remember(device, Heard(known.user, known.until, None, said_at=known.said_at))
        elif message is not None and message.until > self._host.now:
            self._hear(message, is_for_all=is_for_all)

    def _is_ended(self, device: str) -> bool:
        return device in self._host.governance(self._host.team).ended

    def on_gone(self, message: Gone) -> None:
        """A device goes."""
        self._unbelieved.pop(message.device, None)
        known, now = self._devices.get(message.device), self._host.now
        if known is not None and (known.user != message.user or known.is_later_than(message.time, now)):
            return
        if reason := self._keys.check(message.device, message.user, signed_bytes_of(message), message.signature):
            self._host.reject(f"presence of {message.device}", reason)
            return
        self._answered_at.pop(message.device, None)
        self._remember(
            message.device, Heard(message.user, min(message.time, now) + HOLDS_S, None, said_at=message.time)
        )

    def on_search_answered(self, device: str) -> None:
        """A device has answered a search of this peer. (rule 9)"""
        _put_last(self._answered_at, device, self._host.now, DEVICES_MAX)

    def _remember(self, device: str, heard: Heard) -> None:
        dropped = _put_last(self._devices, device, heard, DEVICES_MAX)
        if device != self._host.device:
            self._store.put(device, heard)
        self._report(device)
        if dropped:
            self._store.put(dropped, None)
            self._report(dropped)
        if heard.until > self._host.now and (self._sweep_at is None or heard.until < self._sweep_at):
            self._plan_sweep(heard.until)

    # ------------------------------------------------------------ a newcomer asks

    def _answer(self, asker: Here, *, is_for_all: bool) -> None:
        """Tell a peer that has asked who is here, as far as it may be told and if it is this peer's turn. (rule 4)"""
        host, own = self._host, self._devices.get(self._host.device)
        if not self._is_attached or own is None or own.here is None:
            return  # hidden
        if host.governance(host.team).role(asker.user) is Role.NONE:
            return
        if not own.is_for_all:
            if asker.user in self._said.shown_to:
                host.publish(HereFor(host.device, asker.user, own.here), until=own.until)
            return
        said = [here for device, here, _, for_all in self._present() if for_all and device != asker.device]
        others = (here.device for here in said if is_for_all or here.user == host.user)
        count = ANSWERERS[min(asker.asks, ASKS_MAX) - 1]
        if not is_among_first(host.device, others, f"{asker.device} {asker.asks}", count):
            return
        latest = said[::-1][:HANDED_ON_MAX]
        for first in range(0, len(latest), PRESENT_MAX):
            heres = tuple(latest[first : first + PRESENT_MAX])
            host.publish(Present(host.device, asker.device, heres), until=host.now + HOLDS_S)

    def on_present(self, message: Present) -> None:
        """A peer answers what this one has asked."""
        if message.for_device != self._host.device:
            return
        if self._is_attached and self._asked < ASKS_MAX:
            self._asked = ASKS_MAX
            self._host.start_timer(TIMER, HOLDS_S / 2)
        for here in message.heres[:PRESENT_MAX]:
            if here.device != self._host.device and here.until > self._host.now:
                self._believe(here, is_for_all=True)

    # ------------------------------------------------------------ what listeners are told

    def _report(self, device: str) -> None:
        """Tell listeners what a device says now, if that is not what they know. (rule 6)"""
        heard, known = self._devices.get(device), self._reported.get(device)
        here = heard.here if heard is not None and heard.until > self._host.now else None
        if here is None:
            if known is not None:
                del self._reported[device]
                self._host.report_presence(PresenceChanged(self._host.team, known.user, device, ""))
        elif known is None or _said(known) != _said(here):
            self._reported[device] = here
            self._host.report_presence(PresenceChanged(self._host.team, here.user, device, *_said(here)[1:]))

    def _sweep(self) -> None:
        """Report the devices whose time has expired, and check again when that of the next one does."""
        self._sweep_at = None
        here = {device: until for device, _, until, _ in self._present()}
        for device in [device for device in self._reported if device not in here]:
            self._report(device)
        if here:
            self._plan_sweep(min(here.values()))

    def _plan_sweep(self, at: float) -> None:
        self._sweep_at = max(at, self._host.now + SWEEP_S)
        self._host.start_timer(SWEEP, self._sweep_at - self._host.now)


def _said(here: Here) -> tuple[str, str, str]:
    return here.user, here.availability, here.status


def _put_last(values: dict[str, Value], name: str, value: Value, count_max: int) -> str:
    """Set a value, as the latest of all; the earliest goes when there are too many: its name."""
    values.pop(name, None)
    values[name] = value
    if len(values) <= count_max:
        return ""
    dropped = next(iter(values))
    del values[dropped]
    return dropped
