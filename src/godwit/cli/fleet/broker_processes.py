"""The five brokers, each a process of its own that runs `godwit serve`, and one that is killed and comes back."""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec

from godwit.cli.fleet.town import AREA_M, BROKERS, HUB, LINKS, SQUARES
from godwit.errors import GodwitError

__all__ = ["BrokerProcess", "start_all"]

START_S = 240.0  # the first one on a machine compiles the matcher
DOORS = ("native", "mqtt", "http")


class BrokerProcess:
    """One broker. It keeps its ports over a restart."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.listens = dict.fromkeys(DOORS, "127.0.0.1:0")
        self.neighbours: dict[str, str] = {}
        self.is_up = False  # it runs, and has said where it listens
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Run it, until it says where it listens."""
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
        self.listens = {door: said[door] for door in DOORS}
        self.is_up = True

    def _written(self) -> Path:
        """Its configuration."""
        file = self.folder / f"{self.name}.toml"
        quoted = {key: f'"{value}"' for key, value in {**self.listens, **self.neighbours}.items()}
        lon, lat = BROKERS[self.name]
        (self.folder / "squares.json").write_bytes(msgspec.json.encode({"places": SQUARES, "edges": []}))
        file.write_text(
            f'[broker]\nname = "{self.name}"\nposition = "point({lon}, {lat})"\n'
            f'area = "circle({lon}, {lat}, {AREA_M})"\n\n[places]\nsquare = "squares.json"\n\n[listen]\n'
            + "".join(f"{door} = {quoted[door]}\n" for door in DOORS)
            + "\n[neighbours]\n"
            + "".join(f"{peer} = {quoted[peer]}\n" for peer in self.neighbours)
            + f'\n[journal]\nfolder = "{self.folder / self.name}"\ndurability = "relaxed"\n'
        )
        return file

    async def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Stop it, kindly or not."""
        self.is_up = False
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(how)
            await self._process.wait()


async def start_all(folder: Path) -> dict[str, BrokerProcess]:
    """The network: the first broker of each link is dialled by the second. The hub starts first, then all others."""
    processes = {name: BrokerProcess(name, folder) for name in BROKERS}
    for first, second in LINKS:
        processes[first].neighbours[second] = ""
    await processes[HUB].start()
    for first, second in LINKS:
        processes[second].neighbours[first] = processes[first].listens["native"]
    try:
        await asyncio.gather(*(process.start() for name, process in processes.items() if name != HUB))
    except BaseException:
        await asyncio.gather(*(process.stop(signal.SIGKILL) for process in processes.values()))
        raise
    return processes
