"""How `godwit team` reaches the peer of a folder: through the process that serves it, or by opening the folder itself.

Only light things are imported here: what serves a folder is asked over a socket, with the standard library alone.
"""

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from godwit.errors import GodwitError

__all__ = ["DEFAULT_FOLDER", "Folder", "answer_of", "answers_of", "ask"]

DEFAULT_FOLDER = "godwit-team"
CONNECT_S = 5.0

Folder = Annotated[
    str,
    typer.Option(
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
    """Nobody serves this folder."""


def ask(folder: str, command: str, arguments: dict[str, Any], show: Show) -> None:
    """Have a command carried out by the peer of a folder; `show` is given each answer as it comes."""
    path = Path(folder)
    try:
        with _connected(path) as connection:
            _ask(connection, command, arguments, show)
            return
    except NotServed:
        pass
    from godwit.teamwork.peer_opening import run_here  # heavy

    run_here(path, command, arguments, show)


def answers_of(folder: str, command: str, **arguments: Any) -> list[Any]:
    """All answers."""
    answers: list[Any] = []
    ask(folder, command, arguments, answers.append)
    return answers


def answer_of(folder: str, command: str, **arguments: Any) -> Any:
    """The answer of a command that gives one."""
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
        """Ask, and yield what comes back, until the connection ends or the other end turns out to be no peer."""
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
    raise GodwitError(f"the peer has ended before it gave all answers to {command!r}: look at what it has done")
