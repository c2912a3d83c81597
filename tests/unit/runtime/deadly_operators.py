"""Operators of queries that end the process that runs them."""

import os
import signal
from pathlib import Path

from godwit.languages import operator


@operator("dies")
def dies(value: str) -> bool:
    os.kill(os.getpid(), signal.SIGKILL)
    return True


@operator("dies_once")
def dies_once(value: str, marker: str) -> bool:
    if not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return True


@operator("prints")
def prints(value: str) -> bool:
    print(value)
    return True
