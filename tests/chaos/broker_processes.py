"""Brokers of a chaos run: each a process of `godwit serve`, reached by clients and neighbours through proxies.

What can be done to one is a method each: kill, pause, fill its disk, take an older copy of its journal. A broker keeps
its ports over restarts, since its proxies and neighbours know them.
"""

import asyncio
import json
import os
import resource
import shutil
import signal
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import trustme

from godwit.runtime import Address
from tests.network.proxy import Proxy

__all__ = ["Broker", "Network", "NetworkPlan"]

PROGRAM = (sys.executable, "-m", "tests.chaos.hasty_broker")
ROOT = Path(__file__).parents[2]
START_S = 120.0
UNLIMITED = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)


class Broker:
    """One broker."""

    def __init__(self, name: str, folder: Path, settings: dict[str, dict[str, Any]]) -> None:
        self.name = name
        self.folder = folder
        self.settings = settings
        self.listens = {"native": "127.0.0.1:0", "mqtt": "127.0.0.1:0"}
        self.doors: dict[str, Proxy] = {}
        self.neighbours: dict[str, str] = {}
        self.process: asyncio.subprocess.Process | None = None
        self.flags: tuple[str, ...] = ()  # for the next start only

    @property
    def journal(self) -> Path:
        return self.folder / self.name

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def is_up(self) -> bool:
        return self.process is not None and self.process.returncode is None

    def address(self, door: str) -> Address:
        host, _, port = self.listens[door].rpartition(":")
        return Address(host, int(port))

    async def launch(self) -> None:
        """Start the process, and do not wait for it."""
        config = self.folder / f"{self.name}.toml"
        config.write_text(self._written())
        flags, self.flags = self.flags, ()
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *PROGRAM, "serve", str(config), *flags, stdout=asyncio.subprocess.PIPE, stderr=log, cwd=ROOT
            )

    async def ready(self) -> bool:
        """Wait until it serves; False: it has ended instead."""
        assert self.process is not None
        assert self.process.stdout is not None
        async with asyncio.timeout(START_S):
            line = await self.process.stdout.readline()
        if not line:
            await self.process.wait()
            return False
        said = json.loads(line)
        self.listens = {door: said[door] for door in self.listens}
        return True

    async def start(self) -> None:
        await self.launch()
        if not await self.ready():
            raise AssertionError(f"the broker {self.name} did not start: {self.last_words()}")

    async def start_anyway(self) -> None:
        """Start it, and let it go on without what its disk has lost, if it asks for that."""
        await self.launch()
        if not await self.ready():
            assert "--accept-loss" in self.last_words(), f"the broker {self.name} did not start: {self.last_words()}"
            self.flags = ("--accept-loss",)
            await self.start()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-1_000:]

    def _written(self) -> str:
        sections = {
            **self.settings,
            "listen": {**self.listens, "http": ""},
            "neighbours": self.neighbours,
        }
        sections["broker"] = {"name": self.name, **sections["broker"]}
        sections["journal"] = {"folder": str(self.journal), **sections["journal"]}
        return "\n".join(
            f"[{section}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
            for section, keys in sections.items()
        )

    # ------------------------------------------------------------ what is done to it

    async def kill(self) -> None:
        if self.is_up:
            assert self.process is not None
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> int:
        """Stop it kindly; its exit status."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            self.process.terminate()
        return await self.process.wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_up:
            assert self.process is not None
            os.kill(self.process.pid, number)

    def fill_disk(self) -> None:
        """No file of it may grow from now on."""
        sizes = [path.stat().st_size for path in self.journal.iterdir() if path.is_file()]
        self._limit_files(max(sizes, default=0))

    def empty_disk(self) -> None:
        self._limit_files(resource.RLIM_INFINITY)

    def _limit_files(self, size: int) -> None:
        if self.is_up:
            assert self.process is not None
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def copy_journal(self) -> Path:
        """A copy of the journal of a broker that is down."""
        copy = self.folder / f"{self.name}.copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.journal, copy)
        return copy

    def put_back(self, copy: Path) -> None:
        shutil.rmtree(self.journal)
        shutil.copytree(copy, self.journal)

    def flip_a_bit(self, rng: Random) -> None:
        """Change one bit of the file that new batches are written to."""
        file = self.journal / "journal.sqlite-wal"
        data = bytearray(file.read_bytes())
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            file.write_bytes(data)

    async def close_doors(self) -> None:
        for door in self.doors.values():
            await door.stop()


class NetworkPlan:
    """How a network is made: its links and what stands in each broker's configuration."""

    def __init__(self, links: Iterable[tuple[str, str]], family: str, durability: str, *, tls: bool) -> None:
        self.links = list(links)
        self.names = sorted({name for link in self.links for name in link})
        self.family, self.durability, self.tls = family, durability, tls

    def __str__(self) -> str:
        return f"{len(self.names)} brokers, {self.family}, {self.durability}{', TLS' if self.tls else ''}"


class Network:
    """The brokers of a run. The first broker of a link dials the second, through a proxy."""

    def __init__(self, folder: Path, plan: NetworkPlan) -> None:
        self.plan = plan
        self.authority = trustme.CA() if plan.tls else None
        self.brokers = {name: Broker(name, folder, self._settings(folder, name)) for name in plan.names}
        self.links: dict[tuple[str, str], Proxy] = {}

    def _settings(self, folder: Path, name: str) -> dict[str, dict[str, Any]]:
        settings: dict[str, dict[str, Any]] = {
            "broker": {"family": self.plan.family},
            "journal": {"durability": self.plan.durability},
        }
        if self.authority is not None:
            certificate, authorities = folder / f"{name}.pem", folder / "authority.pem"
            self.authority.issue_cert(name, "localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
                str(certificate)
            )
            self.authority.cert_pem.write_to_path(str(authorities))
            settings["tls"] = {"certificate": str(certificate), "authorities": str(authorities)}
            settings["links"] = {"tls": True}
        return settings

    async def start(self) -> None:
        for a, b in self.plan.links:
            self.brokers[b].neighbours[a] = ""
            self.brokers[a].neighbours[b] = ""
        for name in self.plan.names:
            broker = self.brokers[name]
            for a, b in self.plan.links:
                if b == name:
                    self.links[a, b] = proxy = Proxy(Address("127.0.0.1", 0))
                    self.brokers[a].neighbours[b] = str(await proxy.start())
            for door in broker.listens:
                broker.doors[door] = proxy = Proxy(Address("127.0.0.1", 0))
                await proxy.start()
        await asyncio.gather(*(broker.start() for broker in self.brokers.values()))
        for broker in self.brokers.values():
            for door, proxy in broker.doors.items():
                proxy.target = broker.address(door)
        for (_, b), proxy in self.links.items():
            proxy.target = self.brokers[b].address("native")

    def proxies(self) -> Iterable[Proxy]:
        yield from self.links.values()
        for broker in self.brokers.values():
            yield from broker.doors.values()

    async def heal(self) -> None:
        """Every broker runs, and every connection is a good one."""
        for proxy in self.proxies():
            proxy.heal()
        for broker in self.brokers.values():
            broker.resume()
            broker.empty_disk()
            if not broker.is_up:
                await broker.start()

    async def close(self) -> None:
        for broker in self.brokers.values():
            broker.resume()
            await broker.kill()
            await broker.close_doors()
        for proxy in self.links.values():
            await proxy.stop()
