"""The scenarios of a team that the simulator plays, played with processes and judged by the same laws."""

import asyncio
import json
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.conventions.repository import ROOT
from tests.network.real_team import played
from tests.network.team_peers import TeamPeer
from tests.network.waiting import LIMIT_S, run
from tests.seeds import slow
from tests.simulation.team_laws import LAWS, check_acknowledged, check_searches
from tests.simulation.team_scenarios import ANN, BOB, AddPrivate, Describe, Kill, Leave, TeamScenario, drawn

SHORT, LONG = 8, 40
SEEDS = (18, 3, 6, 14, 17, 29, 46, 54, 57)
"""Those of which eight rounds have kills of peers and brokers, absences, searches and changes. The first is quick."""
HOMES = ("b1", "b2", "b3", "b4", "b1", "b2")


@pytest.mark.parametrize(
    ("rounds", "seed"),
    [(SHORT, SEEDS[0]), *(slow(SHORT, seed) for seed in SEEDS[1:]), *(slow(LONG, seed) for seed in (0, 1, 2))],
)
def test_the_laws_of_a_team_hold_whatever_happens_to_its_processes(tmp_path: Path, rounds: int, seed: int) -> None:
    async def scene() -> None:
        async with played(tmp_path, drawn(seed, rounds)) as outcome:
            for law in LAWS:
                law(outcome)

    run(scene(), LIMIT_S)


# ------------------------------------------------------------ planted faults


class ForgetfulDisk:
    """A disk that is as it was after the first kill, after each further one."""

    def __init__(self, copy: Path) -> None:
        self._copy = copy

    def __call__(self, folder: Path) -> None:
        if self._copy.exists():
            shutil.rmtree(folder)
            shutil.copytree(self._copy, folder)
        else:
            shutil.copytree(folder, self._copy)


@pytest.mark.slow
def test_a_peer_that_forgets_what_it_acknowledged_is_caught(tmp_path: Path) -> None:
    steps = (Leave(ANN), Kill(ANN), Describe(ANN, 0, "report that is lost"), Kill(ANN))

    async def scene() -> None:
        scenario = TeamScenario(0, "tree", HOMES, steps)
        async with played(tmp_path, scenario, after_kill=ForgetfulDisk(tmp_path / "copy")) as outcome:
            with pytest.raises(AssertionError, match="report that is lost"):
                check_acknowledged(outcome)

    run(scene(), LIMIT_S)


@asynccontextmanager
async def showing_everything(folder: Path, broker: str) -> AsyncIterator[TeamPeer]:
    """A peer that does not ask for rights."""
    words = ("team", "serve", str(folder), "--pages", "", "--broker", broker)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.network.planted_peer", *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield TeamPeer(process, folder, json.loads(await process.stdout.readline()))
    finally:
        process.kill()
        await process.communicate()


@pytest.mark.slow
def test_a_peer_that_shows_everybody_all_that_it_has_is_caught(tmp_path: Path) -> None:
    steps = (AddPrivate(BOB, "report that ann may not see", is_shown=False),)

    async def scene() -> None:
        async with played(tmp_path, TeamScenario(0, "tree", HOMES, steps), start={BOB: showing_everything}) as outcome:
            with pytest.raises(AssertionError):
                check_searches(outcome)

    run(scene(), LIMIT_S)
