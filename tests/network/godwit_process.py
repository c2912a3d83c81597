"""The `godwit` command in processes of its own, without what Python takes to start.

This program is started once, with the number of an open socket to accept connections from. It loads what commands use.
For each connection it forks a guard. The guard takes a line of JSON (words, folder, environment), and with it three
open files, which are to be the command's standard input, output and error. It forks the command, and says its process
and in the end its exit status, a line each. When the connection is closed, it kills the command: whatever becomes of a
test, its commands do not outlive it. The program ends when its own standard input does.
"""

import gc
import json
import os
import select
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

import uvloop  # noqa: F401 (what `godwit serve` loads when it runs)
from click.testing import CliRunner

import godwit.teamwork.team_server  # noqa: F401 (and what `godwit team` does)
from godwit.cli.main import app
from godwit.matching.warm_up import warm_up
from tests.network.haste import HASTE, hasten

REQUEST_BYTES = 65_536  # read at once


def command(request: dict[str, Any], files: list[int]) -> None:
    """Be the command."""
    status: Any = 1
    try:
        for its, ours in enumerate(files):
            os.dup2(ours, its)
            os.close(ours)
        sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        if HASTE.items() <= os.environ.items():
            hasten()
        sys.argv[1:] = request["words"]
        app(prog_name="godwit")
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BrokenPipeError):  # nobody reads it
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))


def guard(told: socket.socket) -> None:
    """Start the command, and tell of it."""
    said, files, _, _ = socket.recv_fds(told, REQUEST_BYTES, 3)
    while not said.endswith(b"\n"):
        more = told.recv(REQUEST_BYTES)
        if not more:  # who asked has gone
            return
        said += more
    process = os.fork()
    if process == 0:
        told.close()
        command(json.loads(said), files)
    for file in files:
        os.close(file)

    def kill_when_alone() -> None:
        with suppress(ConnectionError):
            told.recv(1)
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process, signal.SIGKILL)

    threading.Thread(target=kill_when_alone, daemon=True).start()
    with suppress(ConnectionError):  # nobody wants to know any more
        told.sendall(b"%d\n" % process)
    _, status = os.waitpid(process, 0)
    with suppress(ConnectionError):
        told.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def fork_for_each_connection(listener: socket.socket) -> None:
    warm_up()
    CliRunner().invoke(app, ["check-config", os.devnull])  # so that all is loaded that commands load when they run
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while 0 not in select.select([0, listener.fileno()], [], [])[0]:
        told, _ = listener.accept()
        if os.fork() == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                guard(told)
            finally:
                os._exit(0)
        told.close()


if __name__ == "__main__":
    fork_for_each_connection(socket.socket(fileno=int(sys.argv[1])))
