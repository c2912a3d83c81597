"""A terminal that closes does not end what was started in it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.network.serving import ANY_PORT
from tests.network.team_peers import found

IN_TERMINAL = """
import os, sys
os.login_tty(int(sys.argv.pop(1)))
from godwit.cli.main import app
app(prog_name="godwit")
"""


def in_terminal(folder: Path, *words: str) -> tuple["subprocess.Popen[bytes]", int]:
    """Start `godwit` with these words in a terminal of its own; its process and the other end of the terminal."""
    here, there = os.openpty()
    command = [sys.executable, "-c", IN_TERMINAL, str(there), *words]
    state = {"XDG_STATE_HOME": str(folder)}
    process = subprocess.Popen(command, cwd=folder, pass_fds=[there], env=os.environ | state)
    os.close(there)
    return process, here


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", *ANY_PORT, "--durability", "memory"), b"is up"),
        (("adhoc", "ann", "n > 0", "--no-multicast", "--listen", "127.0.0.1:0"), b"listens on"),
        (("team", "serve"), b"is up"),
    ],
)
def test_a_command_that_serves_goes_on_when_its_terminal_closes(
    tmp_path: Path, words: tuple[str, ...], said: bytes
) -> None:
    if words[0] == "team":
        words = (*words, str(found(tmp_path, "127.0.0.1:1")))
    process, terminal = in_terminal(tmp_path, *words)
    try:
        seen = b""
        while said not in seen:
            seen += os.read(terminal, 1_000)
        os.close(terminal)  # which sends SIGHUP
        process.terminate()
        assert process.wait() == 0
    finally:
        process.kill()
        process.wait()
