"""Discovery of devices on a network segment: signed announcements over UDP multicast.

*Theory.* Every device sends a datagram to a multicast group every `announce_s`: its name, its key and the port at which
it accepts connections, signed. A device that receives one connects to the host that it came from, if there is no link
yet. Of two devices that receive each other's announcements, the one whose name sorts first connects; the other one does
after `PATIENCE` announcements without a link, since its own announcements may not arrive.

*Rules.*
1. A datagram has at most `DATAGRAM_BYTES_MAX` bytes, and is checked only if its host and all hosts together stay below
   their rates: a signature is costly to check.
2. An announcement is valid if its key is that of its name, it is recent, and it is newer than the last one of that
   name.
3. Datagrams do not leave the segment (TTL 1). The table of announced devices is bounded; the oldest is forgotten first.
4. Missing multicast is not an error: the reason is reported, and a list of peers works without it.
"""

import asyncio
import socket
import struct
from collections import OrderedDict
from collections.abc import Callable
from time import time

import msgspec

from godwit.errors import ConfigurationError, NotAdmitted, PeerFault
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_keys import DeviceKey, KnownKeys
from godwit.runtime.adhoc_wire import announced, check_announcement
from godwit.runtime.rate_limits import TokenBucket

__all__ = ["GROUP", "Discovery", "MulticastSettings"]

GROUP = Address("239.255.71.87", 7187)  # of the block for one organisation
DATAGRAM_BYTES_MAX = 1_024
ALL_PER_S, ALL_BURST = 200.0, 400
HOST_PER_S, HOST_BURST = 10.0, 40
HOSTS_MAX = 1_024
PATIENCE = 3


class MulticastSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where announcements go."""

    group: Address = GROUP
    interface: str = "0.0.0.0"  # address of the interface; this one: the system chooses
    announce_s: float = 2.0
    skew_s: float = 300.0


class Discovery(asyncio.DatagramProtocol):
    """Announces this device, and receives the announcements of others."""

    def __init__(
        self,
        name: str,
        network: str,
        key: DeviceKey,
        known: KnownKeys,
        settings: MulticastSettings,
        dial: Callable[[str, Address], None],
        now: Callable[[], float] = time,
    ) -> None:
        self._name, self._network, self._key, self._known = name, network, key, known
        self._settings, self._dial, self._now = settings, dial, now
        self._all = TokenBucket(ALL_PER_S, ALL_BURST, now())
        self._hosts: OrderedDict[str, TokenBucket] = OrderedDict()
        self._heard: OrderedDict[str, tuple[float, int]] = OrderedDict()  # by name: when it was sent, and how many
        self._transport: asyncio.DatagramTransport | None = None
        self._announcing: asyncio.Task[None] | None = None
        self.refused = 0  # datagrams that were forged, too many, or invalid
        self.unsent = ""  # why the last announcement could not be sent

    @property
    def heard(self) -> list[str]:
        """The devices that have announced themselves."""
        return list(self._heard)

    async def start(self, port: int) -> None:
        """Announce that this device accepts connections at a port, until `close`. ConfigurationError if there is no
        multicast."""
        near = multicast_socket(self._settings)
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, sock=near)
        self._transport = transport
        self._announcing = asyncio.create_task(self._announce(port))

    async def _announce(self, port: int) -> None:
        group = self._settings.group
        while True:
            assert self._transport is not None
            self._transport.sendto(
                announced(self._key, self._network, self._name, port, self._now()), (group.host, group.port)
            )
            await asyncio.sleep(self._settings.announce_s)

    def error_received(self, error: Exception) -> None:
        self.unsent = str(error)  # the interface may be back with the next one

    def datagram_received(self, data: bytes, sender: tuple[str, int]) -> None:
        now = self._now()
        if not self._is_within_rates(sender[0], now) or len(data) > DATAGRAM_BYTES_MAX:  # rule 1
            self.refused += 1
            return
        try:
            found = check_announcement(data, self._network)
            if found is None or found.name == self._name:
                return
            self._known.check(found.name, found.key, now)
        except (PeerFault, NotAdmitted):
            self.refused += 1
            return
        last, count = self._heard.pop(found.name, (0.0, 0))
        is_of_now = not self._settings.skew_s or abs(now - found.sent_at) <= self._settings.skew_s
        if found.sent_at <= last or not is_of_now:  # rule 2
            self._heard[found.name] = (last, count)
            self.refused += 1
            return
        if len(self._heard) >= HOSTS_MAX:
            self._heard.popitem(last=False)
        self._heard[found.name] = (found.sent_at, count + 1)
        if self._name < found.name or count >= PATIENCE:
            self._dial(found.name, Address(sender[0], found.port))

    def _is_within_rates(self, host: str, now: float) -> bool:
        bucket = self._hosts.pop(host, None) or TokenBucket(HOST_PER_S, HOST_BURST, now)
        if len(self._hosts) >= HOSTS_MAX:
            self._hosts.popitem(last=False)
        self._hosts[host] = bucket
        if not bucket.has(1, now) or not self._all.has(1, now):
            return False
        bucket.take(1, now)
        self._all.take(1, now)
        return True

    def close(self) -> None:
        """Announce nothing more."""
        if self._announcing is not None:
            self._announcing.cancel()
        if self._transport is not None:
            self._transport.close()


def multicast_socket(settings: MulticastSettings) -> socket.socket:
    """A socket that receives from a multicast group and sends to it. ConfigurationError if that is not possible."""
    near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            near.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        group, interface = socket.inet_aton(settings.group.host), socket.inet_aton(settings.interface)
        near.bind((settings.group.host, settings.group.port))
        near.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, struct.pack("4s4s", group, interface))
        near.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        near.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)  # rule 3
        near.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        near.setblocking(False)
    except OSError as error:
        near.close()
        where = f"{settings.group} at the interface {settings.interface}"
        raise ConfigurationError(f"no multicast to {where}: {error.strerror or error}") from None
    return near
