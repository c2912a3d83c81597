"""The guide for teams, played as a reader would: its commands in order, with a real broker and the peers it starts.

The shell blocks hold what `tests/conventions/test_docs.py` does not run: programs that go on, and commands that need
others. A command is given again until it succeeds: a reader takes longer to type the next one than changes take to
arrive.
"""

import asyncio
import os
import shlex
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.conventions.repository import ROOT
from tests.conventions.test_docs import FENCE, commands
from tests.network import warm
from tests.network.serving import ANY_PORT, serving
from tests.network.team_peers import team_peer
from tests.network.waiting import pause, run

GUIDE = ROOT / "docs" / "guides" / "work_together.md"
PATIENCE_S = 120.0
LOOK_S = 0.5


def steps() -> list[str]:
    """The commands of the guide, in order."""
    found: list[str] = []
    for fence in FENCE.finditer(GUIDE.read_text(encoding="utf-8")):
        if fence["kind"] == "sh":
            found += fence["body"].strip().splitlines()
        elif fence["kind"] == "console":
            found += [command.script for command in commands(fence[0])]
    return found


async def given(script: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """A command, as a shell runs it: its status, and what it prints."""
    shell = await asyncio.create_subprocess_exec(
        *("bash", "-c", script),
        cwd=folder,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await shell.communicate()
    assert shell.returncode is not None
    return shell.returncode, printed.decode()


@pytest.mark.timeout(300)
def test_the_guide_works_as_it_is_written(tmp_path: Path) -> None:
    bin = tmp_path / "bin"
    bin.mkdir()
    warm.program(bin)
    environment = {"PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            for script in steps():
                words = shlex.split(script)
                if words[:2] == ["godwit", "serve"]:
                    broker = await stack.enter_async_context(serving(*ANY_PORT, folder=tmp_path))
                    environment["GODWIT_BROKER"] = str(broker.native)
                elif words[:3] == ["godwit", "team", "serve"]:
                    await stack.enter_async_context(team_peer(tmp_path / words[3]))
                else:
                    await succeeds(script)
        assert (tmp_path / "copy.txt").read_text() == "The lens mount is made of brass.\n"

    async def succeeds(script: str) -> None:
        said = ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    status, said = await given(script, tmp_path, environment)
                    if status == 0:
                        return
                    assert "is not a member" not in said
                    await pause(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"$ {script}\n{said}") from None

    run(scene(), limit_s=280.0)
