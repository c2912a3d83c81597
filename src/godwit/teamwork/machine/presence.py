"""Who of the team is here now, and how available. [motion §1: "X is currently online and available for a meeting"]

*Rules.*
1. A peer says so when it is attached, again after half the time for which it holds, and when it goes. A peer that ends
   without saying so counts as gone when that time is over.
2. A user with the availability `hidden` sends nothing. Others cannot tell this from a peer that is away.
3. What a peer says of itself is not signed: presence is a hint, and gives nobody a right.
4. At most `DEVICES_MAX` devices are remembered, the latest.
"""

from godwit.teamwork.machine.bus import Gone, Here
from godwit.teamwork.machine.part_host import PartHost

__all__ = ["AVAILABILITIES", "Presence"]

AVAILABILITIES = ("available", "busy", "do not disturb", "hidden")
HOLDS_S = 1800.0
DEVICES_MAX = 100_000
TIMER = ("presence", "again")


class Presence:
    """The part of a peer that knows who is here."""

    def __init__(self, host: PartHost) -> None:
        self._host = host
        self._availability = AVAILABILITIES[0]
        self._is_attached = False
        self._devices: dict[str, Here] = {}

    def devices(self) -> dict[str, Here]:
        """By device that is here now, what it said."""
        now = self._host.now
        return {device: here for device, here in self._devices.items() if here.until > now}

    def set_availability(self, availability: str) -> str:
        """How available the user is; why not, if that is no such thing."""
        if availability not in AVAILABILITIES:
            return f"availability must be one of {', '.join(AVAILABILITIES)}, not {availability!r}"
        if availability == "hidden" and self._availability != "hidden" and self._is_attached:
            self._host.publish(Gone(self._host.device, self._host.user))
        self._availability = availability
        self._devices.pop(self._host.device, None)
        if self._is_attached:
            self._say()
        return ""

    def on_attached(self) -> None:
        self._is_attached = True
        self._say()

    def on_detached(self) -> None:
        self._is_attached = False
        self._devices.pop(self._host.device, None)
        self._host.stop_timer(TIMER)

    def on_leaving(self) -> None:
        """The peer is about to go."""
        if self._is_attached and self._availability != "hidden":
            self._host.publish(Gone(self._host.device, self._host.user))
        self._is_attached = False
        self._host.stop_timer(TIMER)

    def on_timer(self, *key: str) -> None:
        if self._is_attached:
            self._say()

    def on_here(self, message: Here) -> None:
        self._devices.pop(message.device, None)
        self._devices[message.device] = message
        if len(self._devices) > DEVICES_MAX:
            del self._devices[next(iter(self._devices))]

    def on_gone(self, message: Gone) -> None:
        known = self._devices.get(message.device)
        if known is not None and known.user == message.user:
            del self._devices[message.device]

    def _say(self) -> None:
        if self._availability == "hidden":
            self._host.stop_timer(TIMER)
            return
        host = self._host
        here = Here(host.device, host.user, self._availability, host.now + HOLDS_S)
        self.on_here(here)
        host.publish(here)
        host.start_timer(TIMER, HOLDS_S / 2)
