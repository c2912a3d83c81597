"""The scenarios of a team that the simulator plays, played with processes and judged by the same laws."""

from pathlib import Path

import pytest

from tests.network.real_team import played
from tests.network.waiting import run
from tests.seeds import few
from tests.simulation.team_laws import LAWS
from tests.simulation.team_scenarios import drawn

ROUNDS = 6
LIMIT_S = 500.0


@pytest.mark.parametrize("seed", few(range(8), 1))
def test_the_laws_of_a_team_hold_whatever_happens_to_its_processes(tmp_path: Path, seed: int) -> None:
    async def scene() -> None:
        async with played(tmp_path, drawn(seed, ROUNDS)) as outcome:
            for law in LAWS:
                law(outcome)

    run(scene())
