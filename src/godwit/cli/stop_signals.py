"""Stopping a server command: SIGTERM or Ctrl-C stop it cleanly, a second Ctrl-C at once; a closed terminal does not."""

import asyncio
import os
import signal
from collections.abc import Iterable

from godwit.cli.statuses import STATUS_INTERRUPTED

__all__ = ["stop_on_signals"]

STANDARD_STREAMS = (0, 1, 2)


def stop_on_signals() -> asyncio.Event:
    """The event that SIGTERM and SIGINT set. A SIGINT after that ends the process at once. SIGHUP does not end it."""
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set() and number == signal.SIGINT:
            os._exit(STATUS_INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    if hasattr(signal, "SIGHUP"):  # not on every system
        loop.add_signal_handler(signal.SIGHUP, _leave_terminal, [each for each in STANDARD_STREAMS if os.isatty(each)])
    return stop


def _leave_terminal(terminals: Iterable[int]) -> None:
    """Use no terminal any more that has closed: writing to it would fail."""
    gone = [each for each in terminals if not os.isatty(each)]
    if not gone:
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in gone:
        os.dup2(nothing, each)
    os.close(nothing)
