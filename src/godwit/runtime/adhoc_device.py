"""A device of an ad hoc network on real sockets: the machine of `godwit.adhoc`, its links, its discovery, its key.

*Theory.* The same pure machine that the simulator runs (`adhoc/adhoc_node.py`) is driven by the node that drives
brokers (`node.py`), without a journal: what a device holds is gone when it stops, and leases say for how long others
rely on it. Links are TCP connections (`adhoc_links.py`); devices find each other by multicast (`adhoc_discovery.py`) or
by a list of peers. What the application asks for is an input of the node, too, so that all happens in one order.

*Rules.*
1. Each start is another life of the device: its messages, greetings and events have higher numbers than those of the
   life before (`DeviceFolder.next_life`). So nobody takes an event for one that was published before.
2. Keys that were seen are written to the disk soon, and not for each of them (`SAVE_S`).
"""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.device import AdHocConfig
from godwit.broker.effects import ComponentInput, Effect, Input, Notify, TimerDue
from godwit.client.client import Client, ClientConfig
from godwit.client.confirmations import CONFIRM_TIMER
from godwit.errors import ConfigurationError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_discovery import Discovery, MulticastSettings
from godwit.runtime.adhoc_keys import AllowedDevice, DeviceFolder
from godwit.runtime.adhoc_links import DeviceLinks, LinkLimits
from godwit.runtime.adhoc_uplink import UPLINK, Uplink
from godwit.runtime.node import Node
from godwit.trace import Record

__all__ = ["AdHocDevice", "DeviceSettings"]

SAVE_S = 2.0
ATTEMPTS_PER_LIFE = 2**20
EVENTS_PER_LIFE = 2**20  # a life lasts a second at least: more events a second than any device publishes


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """All that a device is made with."""

    name: str
    folder: Path
    network: str = "godwit"
    listen: Address = Address("0.0.0.0", 0)  # devices come from anywhere, and prove who they are
    peers: tuple[Address, ...] = ()
    multicast: MulticastSettings | None = None
    allowed: dict[str, AllowedDevice] | None = None
    machine: AdHocConfig = AdHocConfig()
    limits: LinkLimits = LinkLimits()
    buffer_events_max: int = 10_000  # published while no event broker is known
    brokers: tuple[str, ...] = ()  # fixed brokers, to which what the island publishes goes over
    credentials: dict[str, Any] = {}  # for them, as `connect` takes them


class Asked(ComponentInput, frozen=True):
    """The application has its client do something."""

    do: Callable[[Client, float], list[Effect]]


class DeviceMachine:
    """The machine of a device, as a node runs it: events for the application are taken out of its effects."""

    def __init__(self, machine: AdHocNode, on_event: Callable[[Event, tuple[str, ...]], None]) -> None:
        self.machine = machine
        self._on_event = on_event

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""
        if isinstance(input, Asked):
            effects = self.machine.ask(lambda client: input.do(client, now), now)
        else:
            effects = self.machine.handle(input, now)
        for effect in effects:
            if type(effect) is Notify:
                self._on_event(effect.event, effect.subscriptions)
        return effects

    def snapshot(self) -> msgspec.Struct:
        """Nothing is kept: see the theory."""
        raise TypeError("a device has no journal")

    def restore(self, state: Any) -> None:
        """Nothing was kept."""
        raise TypeError("a device has no journal")


class StateWatch:
    """Tells when a device does something else than before."""

    def __init__(self, state: Callable[[], str], on_state: Callable[[str], None], turned: asyncio.Event) -> None:
        self._state, self._on_state, self._turned = state, on_state, turned
        self._last = ""

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """The machine has handled some inputs."""
        self._turned.set()
        state = self._state()
        if state != self._last:
            self._last = state
            self._on_state(state)

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """They change no state."""

    def on_written(self, took_s: float, size: int) -> None:
        """There is no journal."""


class AdHocDevice:
    """A device: publishes, subscribes, and hosts the event broker of its island when it is elected."""

    def __init__(
        self,
        settings: DeviceSettings,
        on_event: Callable[[Event, tuple[str, ...]], None],
        on_record: Callable[[Record], None] = lambda record: None,
        on_link: Callable[[str, str], None] = lambda peer, reason: None,
        on_state: Callable[[str], None] = lambda state: None,
    ) -> None:
        self.settings = settings
        self.folder = DeviceFolder(settings.folder)
        self.key = self.folder.key()
        self.known = self.folder.known(settings.allowed)
        self.known.check_own(settings.name, self.key.public)
        life = self.folder.next_life()
        client = Client(
            settings.name,
            ClientConfig(sequence_start=life * EVENTS_PER_LIFE, buffer_events_max=settings.buffer_events_max),
        )
        client.attempt = life * ATTEMPTS_PER_LIFE
        self.machine = AdHocNode(settings.name, client, settings.machine, life)
        self.client = client
        self.uplink: Uplink | None = None
        if settings.brokers:
            self.uplink = Uplink(settings.network, list(settings.brokers), **settings.credentials)
        self._on_event = on_event
        self.node = Node(lambda: DeviceMachine(self.machine, self._take), on_record=lambda record, _: on_record(record))
        self._turned = asyncio.Event()
        self.node.watch = StateWatch(lambda: self.state, on_state, self._turned)
        self.links = DeviceLinks(
            settings.name, settings.network, self.key, self.known, self.node, settings.limits, on_link=on_link
        )
        self.discovery: Discovery | None = None
        self.without_multicast = ""  # why there is none
        self._saving: asyncio.Task[None] | None = None

    async def start(self) -> Address:
        """Take connections, dial peers and announce this device. Returns the address at which it listens."""
        settings = self.settings
        address = await self.links.listen(settings.listen.host, settings.listen.port)
        if settings.multicast is not None:
            self.discovery = Discovery(
                settings.name, settings.network, self.key, self.known, settings.multicast, self.links.dial_announced
            )
            try:
                await self.discovery.start(address.port)
            except ConfigurationError as error:
                if not settings.peers:
                    await self.close()
                    raise
                self.without_multicast, self.discovery = str(error), None
        self.links.dial_peers(list(settings.peers))
        if self.uplink is not None:
            self.uplink.start()
            self.subscribe(UPLINK, "TRUE")
        self._saving = asyncio.create_task(self._save())
        return address

    def _take(self, event: Event, names: tuple[str, ...]) -> None:
        """An event has come: it is for the application, for the uplink, or for both."""
        if self.uplink is not None and UPLINK in names:
            self.uplink.take(event)
            names = tuple(name for name in names if name != UPLINK)
        if names:
            self._on_event(event, names)

    # ------------------------------------------------------------ what the application asks for

    def subscribe(self, name: str, filter: Filter | str) -> None:
        """Want what `filter` matches."""
        self._ask(lambda client, now: client.subscribe(name, filter, now))

    def unsubscribe(self, name: str) -> None:
        """Want it no longer."""
        self._ask(lambda client, now: client.unsubscribe(name, now))

    def publish(self, said: Mapping[str, Any] | Event) -> None:
        """Publish an event: to those of the island at once, or when there is one."""
        self._ask(lambda client, now: client.publish(said, now))

    def _ask(self, do: Callable[[Client, float], list[Effect]]) -> None:
        self.node.tell(Asked(do))

    # ------------------------------------------------------------ looking

    @property
    def state(self) -> str:
        """What this device does at present, for people."""
        if self.machine.is_leading:
            return "leading"
        return "searching" if self.machine.leader is None else f"following {self.machine.leader}"

    async def taken(self) -> None:
        """Until an event broker has every event that was published."""
        await self._until(lambda: not self.node.unhandled and not self.client.unanswered())

    async def gone_over(self) -> None:
        """Until others have every event that this device has published: it may go.

        That is another event broker or, while this device leads, all who want it and have not been forgotten. With an
        uplink, the fixed broker has it, too.
        """
        await self.taken()
        await self._until(self._holds_nothing)
        uplink, client = self.uplink, self.client
        if uplink is not None and client.sequence > client.config.sequence_start:
            await self._until(lambda: uplink.has_taken(client.name, client.sequence))
            await uplink.drained()

    def _holds_nothing(self) -> bool:
        """Whether no event waits for anybody at an event broker on this device."""
        broker = self.machine.broker
        return broker is None or not any(session.queue.events() for session in broker.sessions)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Until that is so, which may change with each turn of the machine."""
        while not holds():
            self._turned.clear()
            await self._turned.wait()

    # ------------------------------------------------------------ the end

    async def _save(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            self.folder.write_known(self.known)

    async def close(self) -> None:
        """Confirm what has come, let everybody go, and keep the keys that were seen."""
        if self.client.is_attached:
            self._ask(lambda client, now: client.handle(TimerDue(CONFIRM_TIMER), now) if client.is_attached else [])
            await self.node.quiet()
        if self._saving is not None:
            self._saving.cancel()
        if self.discovery is not None:
            self.discovery.close()
        if self.uplink is not None:
            await self.uplink.close()
        await self.links.close()
        await self.node.close()
        self.folder.write_known(self.known)
