"""How a command that serves is stopped: by SIGTERM or Ctrl-C, and at once by a second Ctrl-C."""

import asyncio
import os
import signal

__all__ = ["STATUS_INTERRUPTED", "stop_on_signals"]

STATUS_INTERRUPTED = 130  # as shells have it for SIGINT


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
