"""A broker on a loop in a thread of its own, for commands that have a loop of theirs; and how commands are run."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from typer.testing import CliRunner

from godwit.cli.main import app
from tests.network.test_native import Running, a_turn, start

PATIENCE_S = 60.0


class Apart:
    """Brokers on another thread's loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, scene: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(scene, self.loop).result(PATIENCE_S)

    def until(self, holds: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not holds():
                await a_turn()

        self.do(wait())

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@contextmanager
def broker_apart() -> Iterator[tuple[Apart, Running]]:
    apart = Apart()
    broker = apart.do(start("b1", {}))
    try:
        yield apart, broker
    finally:
        apart.do(broker.stop())
        apart.end()


def godwit(*words: str, input: str | None = None) -> Any:
    """Run a command, as if on a pipe."""
    return CliRunner().invoke(app, words, input=input, env={"COLUMNS": "120", "NO_COLOR": "1", "GODWIT_AT": ""})


def lines(ran: Any) -> list[Any]:
    """The lines of JSON that it has printed."""
    return [json.loads(line) for line in ran.stdout.splitlines()]


def in_background(*words: str) -> Callable[[], Any]:
    """Run a command in a thread: what it gave, when it has ended."""
    ran: list[Any] = []
    thread = threading.Thread(target=lambda: ran.append(godwit(*words)), daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(PATIENCE_S)
        assert ran, f"godwit {' '.join(words)} has not ended"
        return ran[0]

    return result
