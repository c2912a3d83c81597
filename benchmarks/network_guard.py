"""Keeps watch over a process that must not outlive who wanted it: `network_guard.py FOLDER COMMAND…`.

The command runs in a session of its own, whose number is the first line of output, before any of the command's. When
our input ends (the process that started us has closed it or is dead) or the command ends by itself, all processes of
that session's group are stopped and the folder is removed.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys

PATIENCE_S = 10.0


def main(folder: str, command: list[str]) -> int:
    """Until the input ends, or the command."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stay)  # not SIG_IGN, which the command would inherit
    try:
        said = ["sh", "-c", 'echo $$; exec "$@"', "sh", *command]
        with subprocess.Popen(said, stdin=subprocess.DEVNULL, start_new_session=True, cwd=folder) as process:
            try:
                while process.poll() is None and not select.select([sys.stdin], [], [], 0.1)[0]:
                    pass
                _stop(process)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            return process.returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _stay(number: int, frame: object) -> None:
    """The process that started us closes our input in time."""


def _stop(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
