"""A broker on a loop in a thread of its own, for commands that have a loop of theirs; and how commands are run."""

import asyncio
import json
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from click.testing import CliRunner

from godwit.cli.main import app
from tests.network import warm
from tests.network.test_native import Running, start
from tests.network.waiting import new_loop, until

PATIENCE_S = 120.0


class Apart:
    """Brokers on another thread's loop."""

    def __init__(self) -> None:
        self.loop = new_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def do(self, scene: Coroutine[Any, Any, Any]) -> Any:
        future = asyncio.run_coroutine_threadsafe(scene, self.loop)
        try:
            return future.result(PATIENCE_S)
        finally:
            future.cancel()

    def until(self, holds: Callable[[], bool]) -> None:
        self.do(until(holds, patience_s=PATIENCE_S))

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
    return CliRunner().invoke(app, words, input=input, env={"COLUMNS": "120", "NO_COLOR": "1", "GODWIT_BROKER": ""})


def lines(printed: str) -> list[Any]:
    """The lines of JSON that a command has printed."""
    return [json.loads(line) for line in printed.splitlines()]


def in_background(*words: str, on_terminal: bool = False) -> Callable[[], Any]:
    """Run a command in a process of its own: what it gave, when it has ended."""
    printed, its_output = os.openpty() if on_terminal else os.pipe()
    said, its_errors = os.pipe()
    _, told = warm.start_here(words, its_output, its_errors, environment={"TERM": "dumb", "COLUMNS": "120"})
    os.close(its_output)
    os.close(its_errors)

    def result() -> tuple[int, str, str]:
        """Status, standard output and standard error."""
        with told:
            output, errors = _all_of(printed), _all_of(said)  # before its status: a full pipe would keep it from ending
            told.settimeout(PATIENCE_S)
            return int(warm.line(told)), output, errors

    return result


def _all_of(file: int) -> str:
    """What was written to a pipe or a terminal that nobody writes to any more."""
    parts: list[bytes] = []
    with suppress(OSError):  # so Linux says of a terminal that it is over
        while part := os.read(file, 65_536):
            parts.append(part)
    os.close(file)
    return b"".join(parts).decode().replace("\r\n", "\n")
