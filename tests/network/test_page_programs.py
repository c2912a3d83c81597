"""Programs and HTTP requests of pages, as they are written: only addresses and folders are those of the test."""

import asyncio
import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conventions.repository import ROOT
from tests.conventions.sh_blocks import code_blocks
from tests.conventions.test_docs import shown_commands
from tests.network.serving import free_address, serving
from tests.network.waiting import run

HERE = "tests/network/test_page_programs.py"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed (make tools)")


def texts(name: str, kind: str) -> Iterator[str]:
    """The blocks of a page that say they are run here."""
    page = (ROOT / name).read_text(encoding="utf-8")
    yield from (block.text for block in code_blocks(page, kind) if block.run_by == HERE)


async def printed(*command: str, folder: Path) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said.decode()
    return said.decode()


@needs_curl
def test_health_and_explanations_are_asked_as_the_guide_shows(tmp_path: Path) -> None:
    shown = [each for block in texts("docs/guides/observe.md", "console") for each in shown_commands(block)]
    assert [command.script.split()[0] for command in shown] == ["curl"] * 3

    async def scene() -> list[str]:
        listen = ("--name", "b1", "--native", "127.0.0.1:0", "--mqtt", "", "--http", "127.0.0.1:0")
        neighbour = ("--neighbour", f"b2={free_address()}")
        async with serving(*listen, *neighbour, folder=tmp_path) as broker:
            http = broker.said["http"].rpartition("/")[2]
            return [
                await printed("bash", "-c", command.script.replace("localhost:7080", http), folder=tmp_path)
                for command in shown
            ]

    health, ready, explanation = run(scene())
    assert json.loads(health).keys() == json.loads(shown[0].shown).keys()
    assert json.loads(ready) == json.loads(shown[1].shown)
    assert {"verdict", "basis"} <= json.loads(explanation).keys()


def test_a_program_sends_and_receives_cloud_events_over_websocket_as_the_guide_shows(tmp_path: Path) -> None:
    [text] = texts("docs/guides/cloudevents.md", "python")

    async def scene() -> str:
        listen = ("--native", "127.0.0.1:0", "--mqtt", "", "--http", "127.0.0.1:0")
        async with serving(*listen, folder=tmp_path) as broker:
            program = text.replace("127.0.0.1:7080", broker.said["http"].rpartition("/")[2])
            return await printed(sys.executable, "-c", program, folder=tmp_path)

    assert json.loads(run(scene()))["type"] == "car.moved"


def test_a_team_is_founded_and_searched_as_the_reference_shows(tmp_path: Path) -> None:
    pytest.importorskip("lxml", reason="needs the extra godwit[teamwork]")
    opening, rights = texts("docs/reference/teamwork.md", "python")
    (tmp_path / "plan.pdf").write_bytes(b"%PDF-1.4\n")
    imports, block = re.split(r"^(?=new_team)", opening, flags=re.MULTILINE)
    program = (
        f"import asyncio\n{imports}from godwit.teamwork import Grant\n\nasync def main():\n"
        + textwrap.indent(block, "    ")
        + textwrap.indent(
            "document, = team.documents.all(bridges)\nother = team.communities.create('Tunnels')\n" + rights,
            "        ",
        )
        + "\nasyncio.run(main())\n"
    ).replace("127.0.0.1:7077", str(free_address()))
    assert program.count("keyword[. = 'bridge']\")") == 1
    program = program.replace("keyword[. = 'bridge']\")", "keyword[. = 'bridge']\", wait_s=0.1)")  # bob is offline
    (tmp_path / "program.py").write_text(program)
    assert "plan" in run(printed(sys.executable, "program.py", folder=tmp_path))


def test_messages_and_states_of_ones_own_are_registered_as_the_reference_shows(tmp_path: Path) -> None:
    [text] = texts("docs/reference/snapshots.md", "python")
    assert run(printed(sys.executable, "-c", text, folder=tmp_path)) == ""
