"""Commands from the warm process are as others are: files, folder, environment, status; and none outlives its test."""

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.network import warm
from tests.network.serving import ANY_PORT, fails, running, serving


@pytest.mark.parametrize("words", [("--version",), ("--no-such-option",), ("check-config", "gone.toml")])
def test_a_warm_command_says_what_a_cold_one_says(tmp_path: Path, words: tuple[str, ...]) -> None:
    async def said(cold: bool) -> tuple[bytes, bytes, int | None]:
        async with running(*words, folder=tmp_path, environment={"COLUMNS": "100"}, cold=cold) as process:
            return *await process.communicate(), process.returncode

    assert asyncio.run(said(cold=False)) == asyncio.run(said(cold=True))


def test_a_warm_command_has_its_own_folder_environment_and_process(tmp_path: Path) -> None:
    async def scene() -> None:
        async with serving(*ANY_PORT, folder=tmp_path, environment={"GODWIT_BROKER__NAME": "here"}) as broker:
            assert broker.said["broker"] == "here"
            assert (tmp_path / "godwit-data" / "here").is_dir()
            _, errors = await fails("serve", *ANY_PORT, "--name", "here", folder=tmp_path)
            assert f"(process {broker.process.pid})" in errors
            assert await broker.stop(signal.SIGKILL) == -signal.SIGKILL

    asyncio.run(asyncio.wait_for(scene(), 60))


def test_a_command_whose_test_has_gone_is_killed(tmp_path: Path) -> None:
    said, its_output = os.pipe()
    _, told = warm.start_here(("serve", *ANY_PORT), its_output, its_output, tmp_path)
    os.close(its_output)
    with open(said, "rb") as lines:  # noqa: PTH123 (it is open already)
        assert lines.readline()
        told.close()
        assert b"stopping" not in lines.read()  # to the end, which is when it has gone


def test_a_process_and_a_status_that_come_at_once_are_two_lines() -> None:
    told, guard = socket.socketpair()
    with told, guard:
        guard.sendall(b"20096\n0\n")
        assert [warm.line(told), warm.line(told)] == [b"20096", b"0"]
        guard.close()
        assert warm.line(told) == b""


def test_a_shell_has_it_as_a_program(tmp_path: Path) -> None:
    async def scene() -> None:
        shell = await asyncio.create_subprocess_exec(
            *("sh", "-c", 'printf \'[neighbours]\\nb2 = 1\\n\' > it; "$0" check-config it | cat; "$0" filter json -'),
            str(warm.program(tmp_path)),
            cwd=tmp_path,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        printed, _ = await shell.communicate(b"n < 3")
        first, second = printed.splitlines()
        assert b"neighbours.b2" in first
        assert second.startswith(b"{")
        assert shell.returncode == 0

    asyncio.run(asyncio.wait_for(scene(), 60))
