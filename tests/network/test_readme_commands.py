"""The README's program and the tutorial's network, run against real brokers. (Commands: `test_page_commands.py`.)

Only the ports differ: a test takes any free one.
"""

import asyncio
import json
import shlex
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from tests.conventions.repository import ROOT
from tests.conventions.test_docs import blocks
from tests.network.serving import ANY_PORT, Process, free_address, running, serving
from tests.network.waiting import run

README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")


def first_commands() -> tuple[str, str, str]:
    [block] = [each for each in blocks(README, "sh") if each.startswith("godwit serve\n")]
    serve, subscribe, publish = block.splitlines()
    return serve, subscribe, publish


def program() -> str:
    [block] = [each for each in blocks(README, "python") if "godwit.connect" in each]
    return block


async def first_line(reader: Process, publish: str, folder: Path, environment: dict[str, str]) -> str:
    """What the reader prints first, while the event is published again and again: it may not have subscribed yet."""
    assert reader.stdout is not None
    came = asyncio.ensure_future(reader.stdout.readline())
    while not came.done():
        async with running(*shlex.split(publish)[1:], folder=folder, environment=environment) as publisher:
            await publisher.communicate()
            assert publisher.returncode == 0
    return (await came).decode()


def test_the_python_program_of_the_readme_prints_the_event(tmp_path: Path) -> None:
    async def scene() -> str:
        async with serving(*ANY_PORT, folder=tmp_path) as broker:
            text = program().replace("127.0.0.1:7077", str(broker.native))
            reader = await asyncio.create_subprocess_exec(
                *(sys.executable, "-u", "-c", text), stdout=asyncio.subprocess.PIPE
            )
            try:
                return await first_line(reader, first_commands()[2], tmp_path, {"GODWIT_BROKER": str(broker.native)})
            finally:
                reader.kill()
                await reader.communicate()

    assert "'cost': 2.5" in run(scene())


def test_the_tutorial_begins_with_the_commands_of_the_readme() -> None:
    assert all(any(command in block for block in blocks(TUTORIAL, "sh")) for command in first_commands())


def test_a_client_moves_between_the_three_brokers_of_the_tutorial_beside_the_broker_of_its_first_step(
    tmp_path: Path,
) -> None:
    shown = [block for block in blocks(TUTORIAL, "sh") if "127.0.0.1:7172" in block]
    ports = {f"127.0.0.1:{port}": str(free_address()) for port in (7171, 7172, 7173)}
    assert len(set(ports.values())) == len(ports)
    for written, free in ports.items():
        shown = [block.replace(written, free) for block in shown]
    brokers = [line.removesuffix(" &") for line in shown[0].splitlines()]
    before, publish, after = shown[1].splitlines()

    async def scene() -> str:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(serving(*ANY_PORT, folder=tmp_path))
            for broker in brokers:
                await stack.enter_async_context(serving(*shlex.split(broker)[2:], folder=tmp_path))
            async with running(*shlex.split(before)[1:], folder=tmp_path) as subscriber:
                await subscriber.communicate()
                assert subscriber.returncode == 0
            async with running(*shlex.split(after)[1:], folder=tmp_path) as subscriber:
                return await first_line(subscriber, publish, tmp_path, {})

    assert json.loads(run(scene()))["attributes"] == {"kind": "parking", "cost": 2}
