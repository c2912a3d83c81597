"""Real brokers for tests of the browser client: each a process with a journal, killed and started again."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tests.network.serving import Served, free_address, serving


class Broker:
    """One broker: where it is, and its process."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.native = free_address()
        self.web_address = free_address()
        self.words: list[str] = []
        self._life = AsyncExitStack()
        self._served: Served | None = None

    @property
    def web(self) -> str:
        return f"http://{self.web_address}"

    async def start(self) -> None:
        """Start, from its journal if there is one."""
        self._served = await self._life.enter_async_context(serving(*self.words, folder=self.folder))

    async def kill(self) -> None:
        """SIGKILL."""
        await self.stop(signal.SIGKILL)

    async def stop(self, number: int = signal.SIGTERM) -> None:
        assert self._served is not None
        await self._served.stop(number)
        await self._life.aclose()

    async def close(self) -> None:
        await self._life.aclose()


@asynccontextmanager
async def network(folder: Path, *names: str, settings: tuple[str, ...] = ()) -> AsyncIterator[list[Broker]]:
    """Brokers in a chain. Pages of one may use all."""
    brokers = [Broker(name, folder) for name in names]
    origins = ", ".join(f'"{broker.web}"' for broker in brokers)
    for at, broker in enumerate(brokers):
        broker.words = ["--name", broker.name, "--native", str(broker.native), "--mqtt", ""]
        broker.words += ["--http", str(broker.web_address), "--set", f"http.origins=[{origins}]"]
        for setting in settings:
            broker.words += ["--set", setting]
        if at > 0:
            broker.words += ["--neighbour", f"{names[at - 1]}={brokers[at - 1].native}"]
        if at + 1 < len(brokers):
            broker.words += ["--neighbour", f"{names[at + 1]}={brokers[at + 1].native}"]
    try:
        await asyncio.gather(*(broker.start() for broker in brokers))
        yield brokers
    finally:
        for broker in brokers:
            await broker.close()
