"""The connection of `godwit team` to the peer of a folder: through its running process, or by opening the folder.

Only small modules are imported here: a running peer is asked over a socket, with the standard library alone.
"""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any

from godwit.cli.signatures import Option
from godwit.errors import GodwitError, RepositoryInUse

__all__ = ["DEFAULT_FOLDER", "Folder", "answer_of", "answers_of", "ask", "is_served", "when_free"]

DEFAULT_FOLDER = "godwit-team"
CONNECT_S = 5.0
IN_USE_S, AGAIN_S = 20.0, 0.2

Folder = Annotated[
    str,
    Option(
        "--folder",
        "-f",
        metavar="DIR",
        envvar="GODWIT_TEAM_FOLDER",
        help=f"Folder of the peer (default: {DEFAULT_FOLDER}).",
        show_default=False,
    ),
]

Show = Callable[[Any], None]


class NotServed(Exception):
    """No process serves this folder."""


def ask(folder: str, command: str, arguments: dict[str, Any], show: Show) -> None:
    """Run a command at the peer of a folder; `show` is called with each answer as it arrives.

    A peer that is starting or stopping, or another command, has the folder for some seconds: that is waited for.
    """
    path = Path(folder)

    def run() -> None:
        try:
            with _connected(path) as connection:
                _ask(connection, command, arguments, show)
                return
        except NotServed:
            pass
        from godwit.teamwork.peer_opening import run_here  # heavy

        run_here(path, command, arguments, show)

    when_free(run)


def when_free(use: Callable[[], None], is_served: Callable[[], bool] = lambda: False) -> None:
    """Use a folder; again for a while if another process has it, unless that one goes on serving it."""
    until = monotonic() + IN_USE_S
    while True:
        try:
            use()
            return
        except RepositoryInUse:
            if monotonic() >= until or is_served():
                raise
            sleep(AGAIN_S)


def is_served(folder: Path) -> bool:
    """Whether a peer takes commands for a folder."""
    try:
        with _connected(folder):
            return True
    except NotServed:
        return False


def answers_of(folder: str, command: str, **arguments: Any) -> list[Any]:
    """All answers."""
    answers: list[Any] = []
    ask(folder, command, arguments, answers.append)
    return answers


def answer_of(folder: str, command: str, **arguments: Any) -> Any:
    """The answer of a command that has exactly one."""
    [answer] = answers_of(folder, command, **arguments)
    return answer


# ---------------------------------------------------------------- the process that serves a folder


class Connection:
    """A connection to the peer that serves a folder."""

    def __init__(self, stream: socket.socket, token: str) -> None:
        self._stream, self._token = stream, token

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def lines(self, command: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Send a request, and yield the answers until the connection ends. An error if the other end is not a peer."""
        request = {"token": self._token, "command": command, "arguments": arguments}
        try:
            with self._stream.makefile("rwb") as file:
                file.write(json.dumps(request).encode() + b"\n")
                file.flush()
                for line in file:
                    said = json.loads(line)
                    if not isinstance(said, dict):
                        return
                    yield said
        except (OSError, ValueError):
            return


def _connected(folder: Path) -> Connection:
    try:
        said = json.loads((folder / "serving.json").read_bytes())
        stream = socket.create_connection((said["host"], said["port"]), CONNECT_S)
        stream.settimeout(None)
        return Connection(stream, said["token"])
    except (OSError, ValueError, KeyError, TypeError):
        raise NotServed from None


def _ask(connection: Connection, command: str, arguments: dict[str, Any], show: Show) -> None:
    is_taken = False
    for line in connection.lines(command, arguments):
        if "error" in line:
            raise GodwitError(line["error"])
        if "done" in line:
            return
        if "answer" in line:
            show(line["answer"])
        is_taken = True
    if not is_taken:  # a killed peer has left its file, and another program may have its port
        raise NotServed
    raise GodwitError(f"the peer stopped before it had answered {command!r}: check what was done")
