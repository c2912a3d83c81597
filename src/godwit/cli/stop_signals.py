"""Stopping a server command: SIGTERM or Ctrl-C stop it cleanly, a second Ctrl-C at once."""

import asyncio
import os
import signal

from godwit.cli.statuses import STATUS_INTERRUPTED

__all__ = ["stop_on_signals"]


def stop_on_signals() -> asyncio.Event:
    """The event that SIGTERM and SIGINT set. A SIGINT after that ends the process at once."""
    stop = asyncio.Event()

    def on_signal(number: int) -> None:
        if stop.is_set() and number == signal.SIGINT:
            os._exit(STATUS_INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return stop
