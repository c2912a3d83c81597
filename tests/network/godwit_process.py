"""The `godwit` command in processes of its own, without what Python takes to start.

This program is started once. It loads what commands use, and then takes requests from the socket that is its standard
input: a JSON object of words, folder and environment, and with it three open files: a socket, and what is to be the
command's standard output and standard error. For each request it forks a guard, and the guard forks the command. On the
socket the guard says the command's process, and in the end its exit status. When the other end of the socket is closed,
it kills the command: whatever becomes of a test, its commands do not outlive it.
"""

import gc
import json
import os
import signal
import socket
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

import uvloop  # noqa: F401 (what `godwit serve` loads when it runs)
from typer.testing import CliRunner

import godwit.runtime.http
import godwit.runtime.mqtt_gateway
import godwit.runtime.station  # noqa: F401
from godwit.cli.main import app
from tests.network.broker_process import warm_up

REQUEST_BYTES_MAX = 1 << 20


def command(request: dict[str, Any], told: socket.socket, output: int, errors: int) -> None:
    """Be the command."""
    status: Any = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for ours, its in ((nothing, 0), (output, 1), (errors, 2)):
            os.dup2(ours, its)
            os.close(ours)
        told.close()
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv[1:] = request["words"]
        app()
        status = 0
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else int(status is not None))


def guard(request: dict[str, Any], told: socket.socket, output: int, errors: int) -> None:
    """Start the command, and tell of it."""
    process = os.fork()
    if process == 0:
        command(request, told, output, errors)
    os.close(output)
    os.close(errors)

    def kill_when_alone() -> None:
        told.recv(1)
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process, signal.SIGKILL)

    threading.Thread(target=kill_when_alone, daemon=True).start()
    told.sendall(b"%d\n" % process)
    _, status = os.waitpid(process, 0)
    told.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))


def fork_for_each_request() -> None:
    warm_up()
    CliRunner().invoke(app, ["check-config", os.devnull])  # so that all is loaded that commands load when they run
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    requests = socket.socket(fileno=os.dup(0))
    while True:
        said, files, _, _ = socket.recv_fds(requests, REQUEST_BYTES_MAX, 3)
        if not said:
            return
        if os.fork() == 0:
            try:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                requests.close()
                guard(json.loads(said), socket.socket(fileno=files[0]), *files[1:])
            except BrokenPipeError:
                pass  # nobody wants to know any more
            finally:
                os._exit(0)
        for file in files:
            os.close(file)


if __name__ == "__main__":
    fork_for_each_request()
