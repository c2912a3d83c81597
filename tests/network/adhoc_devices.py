"""Devices of an ad hoc network in this process, on real sockets of the loopback interface."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from godwit.adhoc.device import AdHocConfig
from godwit.runtime.addresses import Address
from godwit.runtime.adhoc_device import AdHocDevice, DeviceSettings
from godwit.runtime.adhoc_links import LinkLimits
from tests.network.waiting import until

__all__ = ["HERE", "PATIENT", "Devices", "devices", "quick"]

HERE = Address("127.0.0.1", 0)
SCALED = ("beacon_s", "search_s", "spread_s", "gather_s", "poll_s", "fetch_s")
PATIENT = LinkLimits(silence_s=60.0)


def quick(scale: float = 0.2, **more: Any) -> AdHocConfig:
    """The times of a device, shorter by a factor. A leader counts as lost late, so that a slow machine loses none."""
    usual = AdHocConfig()
    times = {field: getattr(usual, field) * scale for field in SCALED}
    return AdHocConfig(**{**times, "lost_s": 20.0, "lease_s": 200.0, "merge_s": 20.0, **more})


class Devices:
    """Devices by name, what each has received, and what became of its links."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: dict[str, AdHocDevice] = {}
        self.addresses: dict[str, Address] = {}
        self.came: dict[str, list[tuple[str, Any]]] = {}
        self.records: dict[str, list[tuple[str, str]]] = {}
        self.links: dict[str, list[tuple[str, str]]] = {}

    def __getitem__(self, name: str) -> AdHocDevice:
        return self.running[name]

    async def start(self, name: str, peers: Iterable[str] = (), *, wants: str = "TRUE", **settings: Any) -> AdHocDevice:
        """Start a device that dials these others."""
        came, records = self.came.setdefault(name, []), self.records.setdefault(name, [])
        links = self.links.setdefault(name, [])
        made = DeviceSettings(
            **{
                "name": name,
                "folder": self.folder / name,
                "listen": HERE,
                "peers": tuple(self.addresses[peer] for peer in peers),
                "machine": quick(),
                "limits": PATIENT,
                **settings,
            }
        )
        device = AdHocDevice(
            made,
            lambda event, _: came.append((event.publisher, event.attributes["n"])),
            lambda record: records.append((record.kind, record.peer)),
            lambda peer, reason: links.append((peer, reason)),
        )
        self.running[name] = device
        self.addresses[name] = await device.start()
        if wants:
            device.subscribe("s", wants)
        return device

    async def stop(self, name: str) -> None:
        """Stop a device."""
        await self.running.pop(name).close()

    def leaders(self) -> list[str]:
        """Those that lead."""
        return [name for name, device in self.running.items() if device.machine.is_leading]

    async def one_island(self) -> str:
        """Until all follow one of them, who holds all their subscriptions; its name."""
        await until(self._is_one_island, f"{', '.join(self.running)} are one island")
        return self.leaders()[0]

    def _is_one_island(self) -> bool:
        leaders = self.leaders()
        if len(leaders) != 1 or any(device.machine.leader != leaders[0] for device in self.running.values()):
            return False
        broker = self[leaders[0]].machine.broker
        assert broker is not None
        return all(
            (session := broker.sessions.session(name)) is not None
            and session.connection is not None
            and set(session.subscriptions) == {topic[1] for topic in self[name].client.wanted}
            for name in self.running
        )


@asynccontextmanager
async def devices(folder: Path) -> AsyncIterator[Devices]:
    """Devices that are stopped at the end."""
    found = Devices(folder)
    try:
        yield found
    finally:
        for name in list(found.running):
            await found.stop(name)
