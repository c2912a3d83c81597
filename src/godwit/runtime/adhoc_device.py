"""A device of an ad hoc network on real sockets: the machine of `godwit.adhoc`, its links, its discovery, its key.

*Theory.* The same pure machine that the simulator runs (`adhoc/adhoc_node.py`) is driven by the node that drives
brokers (`node.py`). Its journal has what the device holds for others, and no more (`adhoc_journal.py`). Links are TCP
connections (`adhoc_links.py`); devices find each other by multicast (`adhoc_discovery.py`) or by a list of peers.
Requests of the application are inputs of the node, too, so that everything has one order.

*Rules.*
1. Each start begins a new life of the device: its messages, greetings and events have higher numbers than those of the
   life before (`DeviceFolder.next_life`). So no event is taken for an earlier one.
2. The matcher's kernels are loaded before the first link. Loading them with the first event would take so long that
   neighbours would consider the device gone.
3. A device that stops while it leads waits, for `parting_s` at most, until those whose events it has taken have
   acknowledged its answer. Otherwise they would keep the events, and look for an event broker that may never appear.
4. Known keys are written to the disk after a short time, not one by one (`SAVE_S`).
5. The application gets an event when its effects are in the journal; a fixed broker may get it sooner.
6. An event that came down from a fixed broker is given to the application once, whichever devices have brought it
   (`adhoc_downlink.py`).
7. A request of the application that is refused changes nothing: it is counted (`left_out`), and `on_trouble` tells why.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from godwit.adhoc.adhoc_node import AdHocNode
from godwit.adhoc.device import AdHocConfig
from godwit.adhoc.holdings import Holdings, HoldingsState, Kept, resume
from godwit.broker.effects import ComponentInput, Effect, Input, Notify, TimerDue
from godwit.client.client import Client, ClientConfig
from godwit.client.confirmations import CONFIRM_TIMER
from godwit.codec.journal_entries import JournalEntry
from godwit.errors import ConfigurationError, GodwitError, JournalError
from godwit.filters.events import Event
from godwit.filters.filters import Filter
from godwit.filters.language import as_filter
from godwit.matching.kernel_cache import COMPILED
from godwit.matching.warm_up import warm_up
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_discovery import Discovery, MulticastSettings
from godwit.runtime.adhoc_downlink import Downlink, ShownEvents, downlink_name
from godwit.runtime.adhoc_journal import KeptInput, entries_of_changes, kept_inputs
from godwit.runtime.adhoc_keys import AllowedDevice, DeviceFolder
from godwit.runtime.adhoc_links import DeviceLinks, LinkLimits
from godwit.runtime.adhoc_uplink import UPLINK, Uplink
from godwit.runtime.journal import Durability, Journal
from godwit.runtime.node import Node
from godwit.trace import Record

__all__ = ["AdHocDevice", "DeviceSettings"]

SAVE_S = 2.0
ATTEMPTS_PER_LIFE = 2**20
DOWN_MAX = 100  # events brought down that no event broker has yet
EVENTS_PER_LIFE = 2**20  # a life lasts a second at least: more events a second than any device publishes


class DeviceSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a device."""

    name: str
    folder: Path
    network: str = "godwit"
    listen: Address = Address("0.0.0.0", 0)  # devices may connect from any address, and authenticate by their key
    peers: tuple[Address, ...] = ()
    multicast: MulticastSettings | None = None
    allowed: dict[str, AllowedDevice] | None = None
    machine: AdHocConfig = AdHocConfig()
    limits: LinkLimits = LinkLimits()
    buffer_events_max: int = 10_000  # published while no event broker is known
    parting_s: float = 10.0  # rule 3
    brokers: tuple[str, ...] = ()  # fixed brokers, where the events of the island are published
    credentials: dict[str, Any] = {}  # for them, as `connect` takes them
    down: str = ""  # filter: what of their events goes down to the island
    durability: Durability = "relaxed"  # of the journal


class Asked(ComponentInput, frozen=True):
    """A request of the application to its client."""

    do: Callable[[Client, float], list[Effect]]
    on_refused: Callable[[GodwitError], None]


def _tried(asked: Asked, client: Client, now: float) -> list[Effect]:
    """What a request brings about; nothing if it is refused. (rule 7)"""
    try:
        return asked.do(client, now)
    except GodwitError as error:
        asked.on_refused(error)
        return []


class DeviceMachine:
    """The machine of a device, as a node runs it, and what of it is in the journal."""

    def __init__(
        self, machine: AdHocNode, client: Client, uplink: Uplink | None, wanted: Mapping[str, Filter | str]
    ) -> None:
        self.machine, self.client = machine, client
        self.holdings = Holdings()
        self._uplink = uplink
        self._wanted = wanted  # by the application, at any time
        self._has_begun = False

    def handle(self, input: Input, now: float) -> list[Effect]:
        """Take one input; what is to be done because of it, in order."""
        if isinstance(input, KeptInput):
            self.holdings.add(input.kept)
            return []
        effects = [] if self._has_begun else self._begun(now)
        if isinstance(input, Asked):
            effects += self.machine.ask(lambda client: _tried(input, client, now), now)
        else:
            effects += self.machine.handle(input, now)
        if self._uplink is not None:
            for effect in effects:
                if type(effect) is Notify and UPLINK in effect.subscriptions:
                    self._uplink.take(effect.event)
        return effects

    def _begun(self, now: float) -> list[Effect]:
        """Go on with what the journal has; what the application wants comes first, so that it misses nothing."""
        self._has_begun = True
        if self._uplink is not None:
            self._uplink.restore(self.holdings.forwarding.values())
        effects: list[Effect] = []
        for name, filter in self._wanted.items():
            effects += self.machine.ask(lambda client: client.subscribe(name, filter, now), now)  # noqa: B023 (at once)
        return effects + resume(self.machine, self.holdings, now)

    def changes(self) -> list[Kept]:
        """What is to go into the journal; nothing before the device goes on with what it held."""
        if not self._has_begun:
            return []
        new, done = ((), ()) if self._uplink is None else self._uplink.changes()
        return self.holdings.changes(self.machine, self.client, new, done)

    def snapshot(self) -> HoldingsState:
        """What the device holds."""
        return self.holdings.snapshot()

    def restore(self, state: HoldingsState) -> None:
        """Hold what a snapshot has."""
        self.holdings.restore(state)


class DeviceRecorder:
    """Says what goes into the journal of a device."""

    def __init__(self, machine: Callable[[], DeviceMachine]) -> None:
        self._machine = machine

    def of_turn(self, now: float) -> list[JournalEntry]:
        """What is to be written of the turn that is over."""
        return entries_of_changes(self._machine().changes(), now)

    def read(self, batch: bytes) -> Iterator[tuple[Input, float]]:
        """What stands in a batch."""
        return kept_inputs(batch)


class StateWatch:
    """Tells when a device does something else than before, and which events have come."""

    def __init__(
        self,
        state: Callable[[], str],
        on_state: Callable[[str], None],
        turned: asyncio.Event,
        on_event: Callable[[Event, tuple[str, ...]], None],
    ) -> None:
        self._state, self._on_state, self._turned, self._on_event = state, on_state, turned, on_event
        self._last = ""

    def on_turn(self, inputs: list[tuple[Input, bytes]], took_s: float, now: float) -> None:
        """The machine has handled some inputs."""
        self._turned.set()
        state = self._state()
        if state != self._last:
            self._last = state
            self._on_state(state)

    def on_effects(self, effects: list[Effect], now: float) -> None:
        """Events for the application. (rule 5)"""
        for effect in effects:
            if type(effect) is Notify:
                self._on_event(effect.event, effect.subscriptions)

    def on_written(self, took_s: float, size: int) -> None:
        """That takes nobody's time."""


class AdHocDevice:
    """A device: publishes, subscribes, and hosts the event broker of its island when it is elected."""

    def __init__(
        self,
        settings: DeviceSettings,
        on_event: Callable[[Event, tuple[str, ...]], None],
        on_record: Callable[[Record], None] = lambda record: None,
        on_link: Callable[[str, str], None] = lambda peer, reason: None,
        on_state: Callable[[str], None] = lambda state: None,
        on_trouble: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.settings = settings
        self.folder = DeviceFolder(settings.folder)
        self.key = self.folder.key()
        self.known = self.folder.known(settings.allowed)
        self.known.check_own(settings.name, self.key.public)
        self.uplink: Uplink | None = None
        self.downlink: Downlink | None = None
        if settings.brokers:
            self.uplink = Uplink(
                settings.network,
                list(settings.brokers),
                is_journaled=settings.durability != "memory",
                **settings.credentials,
            )
        if settings.down:
            self.downlink = Downlink(
                downlink_name(settings.network, settings.name),
                settings.down,
                list(settings.brokers),
                self._is_here,
                self._bring_down,
                **settings.credentials,
            )
        self._on_event, self._on_trouble = on_event, on_trouble
        self.left_out = 0  # requests of the application that were refused
        self._wanted: dict[str, Filter | str] = {}
        self._shown = ShownEvents(settings.network)
        journal = self._journal()
        self.node = Node(
            self._made,
            journal,
            on_record=lambda record, _: on_record(record),
            on_trouble=on_trouble,
            recorder=None if journal is None else DeviceRecorder(lambda: self._driven),
        )
        self._turned = asyncio.Event()
        self.node.watch = StateWatch(lambda: self.state, on_state, self._turned, self._take)
        self.links = DeviceLinks(
            settings.name, settings.network, self.key, self.known, self.node, settings.limits, on_link=on_link
        )
        self.discovery: Discovery | None = None
        self.without_multicast = ""  # why there is no multicast
        self._saving: asyncio.Task[None] | None = None

    def _journal(self) -> Journal | None:
        """Where it keeps what it holds. `JournalError` says what is wrong with it."""
        settings = self.settings
        if settings.durability == "memory":
            return None
        folder = settings.folder / "journal"
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            return Journal(folder, settings.name, settings.durability)
        except JournalError as error:
            raise JournalError(
                f"{error}. To start without what this device held for others, move {folder} away"
            ) from None

    def _made(self) -> DeviceMachine:
        """The machine, at the beginning of a life. (rule 1)"""
        settings, life = self.settings, self.folder.next_life()
        client = Client(
            settings.name,
            ClientConfig(sequence_start=life * EVENTS_PER_LIFE, buffer_events_max=settings.buffer_events_max),
        )
        client.attempt = life * ATTEMPTS_PER_LIFE
        return DeviceMachine(
            AdHocNode(settings.name, client, settings.machine, life), client, self.uplink, self._wanted
        )

    @property
    def _driven(self) -> DeviceMachine:
        return cast(DeviceMachine, self.node.machine)

    @property
    def machine(self) -> AdHocNode:
        """The machine of this device."""
        return self._driven.machine

    @property
    def client(self) -> Client:
        """Its client."""
        return self._driven.client

    @property
    def holdings(self) -> Holdings:
        """What is in its journal."""
        return self._driven.holdings

    async def start(self) -> Address:
        """Listen, connect to peers and announce this device. Returns the address at which it listens."""
        settings = self.settings
        if COMPILED:  # rule 2
            warm_up()
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
        if self.downlink is not None:
            self.downlink.start()
        self._ask(lambda client, now: [])  # so that it goes on with what it held, though nobody comes
        self._saving = asyncio.create_task(self._save())
        return address

    def _take(self, event: Event, names: tuple[str, ...]) -> None:
        """An event has come for the application, perhaps. (rule 6)"""
        names = tuple(name for name in names if name != UPLINK)
        if names and self._shown.add(event):
            self._on_event(event, names)

    def _is_here(self, event: Event) -> bool:
        """Whether the island has an event of the fixed network: it has come from there."""
        publisher = event.publisher.removeprefix(f"{self.settings.network}/")
        if publisher == event.publisher or self.uplink is None:
            return False
        return publisher == self.settings.name or self.uplink.has_taken(publisher, event.sequence)

    async def _bring_down(self, event: Event) -> bool:
        """Publish an event of the fixed network here; until the journal has it, and not many wait."""
        refused: list[GodwitError] = []
        self._ask(lambda client, now: client.publish(event, now), refused.append)
        await self.node.quiet()
        await self._until(lambda: len(self.client.unanswered()) < DOWN_MAX)
        return not refused

    # ------------------------------------------------------------ what the application asks for

    def subscribe(self, name: str, filter: Filter | str) -> None:
        """Subscribe to the events that `filter` matches. `FilterError` if it is none."""
        filter = self._wanted[name] = as_filter(filter)
        self._ask(lambda client, now: client.subscribe(name, filter, now))

    def unsubscribe(self, name: str) -> None:
        """End a subscription."""
        self._wanted.pop(name, None)
        self._ask(lambda client, now: client.unsubscribe(name, now))

    def publish(self, said: Mapping[str, Any] | Event) -> None:
        """Publish an event: in the island at once, or when there is one."""
        self._ask(lambda client, now: client.publish(said, now))

    def _ask(
        self,
        do: Callable[[Client, float], list[Effect]],
        on_refused: Callable[[GodwitError], None] | None = None,
    ) -> None:
        self.node.tell(Asked(do, on_refused or self._leave_out))

    def _leave_out(self, error: GodwitError) -> None:
        """A request was refused. (rule 7)"""
        self.left_out += 1
        self._on_trouble(f"a request was refused: {error}")

    # ------------------------------------------------------------ looking

    @property
    def state(self) -> str:
        """The present state of this device, for display."""
        if self.machine.is_leading:
            return "leading"
        return "searching" if self.machine.leader is None else f"following {self.machine.leader}"

    async def taken(self) -> None:
        """Wait until an event broker has all published events."""
        await self._until(lambda: not self.node.unhandled and not self.client.unanswered())

    async def gone_over(self) -> None:
        """Wait until others have all events that this device has published, so that it may stop.

        Others are another event broker or, while this device leads, all subscribers that are not forgotten; with an
        uplink, also the fixed broker.
        """
        await self.taken()
        await self._until(self._holds_nothing)
        uplink, client = self.uplink, self.client
        if uplink is not None and client.sequence > client.config.sequence_start:
            await self._until(lambda: uplink.has_taken(client.name, client.sequence))
            await uplink.drained()

    def _holds_nothing(self) -> bool:
        """Whether no event is queued at an event broker on this device."""
        broker = self.machine.broker
        return broker is None or not any(session.queue.events() for session in broker.sessions)

    async def _until(self, holds: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is checked after each turn of the machine."""
        while not holds():
            self._turned.clear()
            await self._turned.wait()

    # ------------------------------------------------------------ the end

    async def _save(self) -> None:
        while True:
            await asyncio.sleep(SAVE_S)
            self.folder.write_known(self.known)

    async def _part(self) -> None:
        """Wait until the publishers have the acknowledgements of the event broker here. (rule 3)"""
        unheard = set[str]()

        def is_heard() -> bool:
            nonlocal unheard
            unheard = self.machine.device.unheard(unheard)
            return not unheard

        with suppress(TimeoutError):
            async with asyncio.timeout(self.settings.parting_s):
                await self._until(is_heard)

    async def close(self) -> None:
        """Confirm received events, close all connections, and store the known keys."""
        if self.client.is_attached:
            self._ask(lambda client, now: client.handle(TimerDue(CONFIRM_TIMER), now) if client.is_attached else [])
        own = self.machine.device.own
        if own is not None:
            self.node.tell(TimerDue(("circuit", "ack", own.name)))  # not awaited
        await self.node.quiet()
        await self._part()
        if self._saving is not None:
            self._saving.cancel()
        if self.discovery is not None:
            self.discovery.close()
        for link in (self.uplink, self.downlink):
            if link is not None:
                await link.close()
        await self.links.close()
        await self.node.save()
        await self.node.close()
        self.folder.write_known(self.known)
