"""Who of the team is here now, and how available. [motion §1: "X is currently online and available for a meeting"]

*Rules.*
1. A peer says so when it is attached, again after half the time for which it holds, and when it goes. A peer that ends
   without saying so counts as gone after that time.
2. A user with the availability `hidden` sends nothing. Others cannot tell this from a peer that is away.
3. What a peer says of itself is signed, and believed if the signature is that of a device of its user. It holds for
   `HOLDS_S` at most, by the clock of the peer that hears it. What is older than what is known is ignored, so nobody can
   say it again in another's name.
4. A user may show presence to some users alone: then each of them is told, and nobody else.
5. What a device says that is not known to the team yet is kept, and believed when it is known: a new device may speak
   before its record has arrived.
6. Every change of what is known of a device is reported, once; repetitions are not. A device that went without saying
   so is reported at most `SWEEP_S` after its time has expired.
7. At most `DEVICES_MAX` devices are remembered, the latest, and `UNKNOWN_MAX` that are not known.
"""

from typing import Protocol

import msgspec

from godwit.teamwork.machine.bus import Gone, Here, HereFor, signed_bytes_of
from godwit.teamwork.machine.part_host import PartHost
from godwit.teamwork.machine.peer_effects import PresenceChanged, SetAvailability
from godwit.teamwork.machine.scope_log import Devices
from godwit.teamwork.machine.wall_clocks import WallClocks

__all__ = ["AVAILABILITIES", "HOLDS_S", "Presence"]

AVAILABILITIES = ("available", "busy", "do not disturb", "hidden")
SHOWN = AVAILABILITIES[:-1]
HOLDS_S = 1800.0
DEVICES_MAX = 100_000
UNKNOWN_MAX = 1_000
SHOWN_TO_MAX = 100
STATUS_CHARS_MAX = 200
SWEEP_S = 60.0
TIMER = ("presence", "again")
SWEEP = ("presence", "sweep")


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

    def __init__(self, host: PresenceHost, devices: Devices) -> None:
        self._host, self._keys = host, devices
        self._said = SetAvailability(AVAILABILITIES[0])
        self._is_attached = False
        self._devices: dict[str, Here] = {}
        self._unbelieved: dict[str, Here] = {}  # by device, the last that had no good signature as far as is known
        self._reported: dict[str, Here] = {}  # by device that is here, as listeners know it
        self._sweep_at: float | None = None
        self.clocks = WallClocks(HOLDS_S)

    def devices(self) -> dict[str, Here]:
        """By device that is here now, what it said."""
        now = self._host.now
        return {device: here for device, here in self._devices.items() if here.until > now}

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
        self._is_attached = True
        self._say()

    def on_detached(self) -> None:
        self._is_attached = False
        self._devices.pop(self._host.device, None)
        self._report(self._host.device)
        self._host.stop_timer(TIMER)

    def on_leaving(self) -> None:
        """The peer is about to go."""
        if self._is_attached and self._said.availability != "hidden":
            self._say_goodbye()
        self._is_attached = False
        self._host.stop_timer(TIMER)

    def on_timer(self, *key: str) -> None:
        if key == SWEEP:
            self._sweep()
        elif self._is_attached:
            self._say()

    def _say(self) -> None:
        host, said = self._host, self._said
        if said.availability == "hidden":
            host.stop_timer(TIMER)
            return
        here = Here(host.device, host.user, said.availability, host.now + HOLDS_S, said.status)
        here = msgspec.structs.replace(here, signature=self._keys.sign(signed_bytes_of(here)))
        self._remember(here)
        if said.shown_to:  # (rule 4)
            for user in said.shown_to:
                host.publish(HereFor(host.device, user, here), until=here.until)
        else:
            host.publish(here, until=here.until)
        host.start_timer(TIMER, HOLDS_S / 2)

    def _say_goodbye(self) -> None:
        gone = Gone(self._host.device, self._host.user, self._host.now)
        signature = self._keys.sign(signed_bytes_of(gone))
        self._host.publish(msgspec.structs.replace(gone, signature=signature), until=self._host.now + HOLDS_S)

    # ------------------------------------------------------------ what others say

    def on_here(self, message: Here) -> None:
        if reason := self._keys.check(message.device, message.user, signed_bytes_of(message), message.signature):
            self._host.reject(f"presence of {message.device}", reason)
            _put_last(self._unbelieved, message, UNKNOWN_MAX)
            return
        known, now = self._devices.get(message.device), self._host.now
        if known is not None and message.until < known.until:
            return
        if message.availability not in SHOWN or len(message.status) > STATUS_CHARS_MAX:
            allowed = f"availability must be one of {', '.join(SHOWN)}, with a status of {STATUS_CHARS_MAX} characters"
            self._host.reject(f"presence of {message.device}", allowed)
            return
        self._host.reject("clock", self.clocks.hear(message.device, message.until - HOLDS_S, now))
        self._remember(msgspec.structs.replace(message, until=min(message.until, now + HOLDS_S)))

    def on_device(self, device: str) -> None:
        """The record of a device is another one now. (rule 5)"""
        if (message := self._unbelieved.pop(device, None)) is not None and message.until > self._host.now:
            self.on_here(message)

    def on_here_for(self, message: HereFor) -> None:
        if message.for_user == self._host.user and message.here.device == message.device:
            self.on_here(message.here)

    def on_gone(self, message: Gone) -> None:
        self._unbelieved.pop(message.device, None)
        known = self._devices.get(message.device)
        if known is None or known.user != message.user or message.time < known.until - HOLDS_S:
            return
        if reason := self._keys.check(message.device, message.user, signed_bytes_of(message), message.signature):
            self._host.reject(f"presence of {message.device}", reason)
            return
        del self._devices[message.device]
        self._report(message.device)

    def _remember(self, here: Here) -> None:
        dropped = _put_last(self._devices, here, DEVICES_MAX)
        self._report(here.device)
        if dropped:
            self._report(dropped)
        if here.until > self._host.now and (self._sweep_at is None or here.until < self._sweep_at):
            self._plan_sweep(here.until)

    # ------------------------------------------------------------ what listeners are told

    def _report(self, device: str) -> None:
        """Tell listeners what a device says now, if that is not what they know. (rule 6)"""
        here, known = self._devices.get(device), self._reported.get(device)
        if here is None or not here.until > self._host.now:
            if known is not None:
                del self._reported[device]
                self._host.report_presence(PresenceChanged(self._host.team, known.user, device, ""))
        elif known is None or _said(known) != _said(here):
            self._reported[device] = here
            self._host.report_presence(PresenceChanged(self._host.team, here.user, device, *_said(here)[1:]))

    def _sweep(self) -> None:
        """Forget devices whose time has expired, and check again when that of the next one does."""
        self._sweep_at = None
        now = self._host.now
        for device in [device for device, here in self._devices.items() if not here.until > now]:
            del self._devices[device]
            self._report(device)
        if self._devices:
            self._plan_sweep(min(here.until for here in self._devices.values()))

    def _plan_sweep(self, at: float) -> None:
        self._sweep_at = max(at, self._host.now + SWEEP_S)
        self._host.start_timer(SWEEP, self._sweep_at - self._host.now)


def _said(here: Here) -> tuple[str, str, str]:
    return here.user, here.availability, here.status


def _put_last(heres: dict[str, Here], here: Here, count_max: int) -> str:
    """Keep what a device said, as the latest of all; the earliest goes when there are too many: which device."""
    heres.pop(here.device, None)
    heres[here.device] = here
    if len(heres) <= count_max:
        return ""
    dropped = next(iter(heres))
    del heres[dropped]
    return dropped
