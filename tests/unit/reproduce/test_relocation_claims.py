from pathlib import Path
from typing import Any

import pytest

from godwit.reproduce import relocation_claims
from godwit.reproduce.claims import Setting
from godwit.simulator.scenario import Scenario


def test_runs_of_several_modes_share_the_twin_without_moves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def traced(scenario: Scenario, seed: int, folder: Path, progress: Any) -> tuple[Path, None]:
        ran.append(scenario.name)
        return folder / scenario.name, None

    monkeypatch.setattr(relocation_claims, "traced", traced)
    pairs = relocation_claims._beside_twin(Setting(folder=tmp_path), "simple", [], ("relocate", "junction"))
    assert ran == ["handoff-nobody-moves-simple", "handoff-relocate-simple", "handoff-junction-simple"]
    twin = tmp_path / ran[0]
    assert pairs == [(tmp_path / ran[1], twin), (tmp_path / ran[2], twin)]
