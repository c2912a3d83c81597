"""Ask `godwit_process.py` for a command. As a program it is that command: with its files, and it ends as it does.

It loads next to nothing, since it is started for each command of a page.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence


def ask(
    told: socket.socket, words: Sequence[str], folder: str, environment: Mapping[str, str], files: Sequence[int]
) -> None:
    request = {"words": list(words), "folder": folder, "environment": dict(environment)}
    said = json.dumps(request).encode() + b"\n"
    sent = socket.send_fds(told, [said], files)
    if sent < len(said):  # who sends nothing to a command that has ended already has a broken pipe
        told.sendall(said[sent:])


def main() -> None:
    told = socket.socket(socket.AF_UNIX)
    told.connect(sys.argv[1])
    ask(told, sys.argv[2:], os.getcwd(), os.environ, (0, 1, 2))  # noqa: PTH109 (pathlib takes its time)
    with told.makefile() as said:
        said.readline()
        status = int(said.readline())
    sys.exit(status if status >= 0 else 128 - status)


if __name__ == "__main__":
    main()
