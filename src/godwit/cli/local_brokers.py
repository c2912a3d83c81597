"""Brokers for demonstrations: each a `godwit serve` process on this machine, which can also be killed."""

import asyncio
import signal
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from godwit.errors import GodwitError

__all__ = ["LocalBroker", "start_network"]

START_S = 240.0  # the first one on a machine compiles the matcher


class LocalBroker:
    """One broker. It keeps its ports over a restart."""

    def __init__(self, name: str, folder: Path, doors: Iterable[str], settings: str = "") -> None:
        """`doors`: listeners, of native, mqtt and http. `settings`: further TOML, which begins in the table
        `broker`."""
        self.name, self.folder = name, folder
        self.listens = {door: "127.0.0.1:0" if door in doors else "" for door in ("native", "mqtt", "http")}
        self.neighbours: dict[str, str] = {}
        self.is_up = False  # it runs, and has reported its addresses
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, and wait until it reports its addresses."""
        log = await asyncio.to_thread((self.folder / f"{self.name}.log").open, "ab")
        with log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "godwit", "serve", str(self._written())),
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                process_group=0,  # Ctrl-C is for the demonstration, which then stops its brokers
            )
        assert self._process.stdout is not None
        async with asyncio.timeout(START_S):
            line = await self._process.stdout.readline()
        if not line:
            text = (self.folder / f"{self.name}.log").read_text(errors="replace")
            raise GodwitError(f"the broker {self.name} did not start: {text[-2_000:]}")
        said = msgspec.json.decode(line)
        self.listens = {door: said.get(door, "") for door in self.listens}
        self.is_up = True

    def _written(self) -> Path:
        """Its configuration."""
        file = self.folder / f"{self.name}.toml"
        tables = {"listen": self.listens, "neighbours": self.neighbours}
        file.write_text(
            f'[broker]\nname = "{self.name}"\n{self._settings}\n'
            + "".join(f"\n[{name}]\n{_lines(table)}" for name, table in tables.items())
            + f'\n[journal]\nfolder = "{self.folder / self.name}"\ndurability = "relaxed"\n'
        )
        return file

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, by SIGTERM or SIGKILL."""
        self.is_up = False
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()


def _lines(table: Mapping[str, str]) -> str:
    return "".join(f'{key} = "{value}"\n' for key, value in table.items())


async def start_network(brokers: Mapping[str, LocalBroker], links: Iterable[tuple[str, str]], hub: str) -> None:
    """Start all: the second broker of each link connects to the first. The hub starts first, then all others."""
    links = list(links)
    for first, second in links:
        brokers[first].neighbours[second] = ""
    await brokers[hub].start()
    for first, second in links:
        brokers[second].neighbours[first] = brokers[first].listens["native"]
    try:
        await asyncio.gather(*(broker.start() for name, broker in brokers.items() if name != hub))
    except BaseException:
        await asyncio.gather(*(broker.stop(signal.SIGKILL) for broker in brokers.values()))
        raise
