"""A tiny plug-in package is installed in a temporary folder, and a fresh interpreter finds its parts by name."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from godwit.broker.reductions import reduction_fault, reduction_of
from godwit.errors import ConfigurationError, ScenarioError
from godwit.languages import LANGUAGES
from godwit.simulator.scenario import named, with_changes
from tests.conventions.repository import ROOT

MODULE = """
from godwit.filters import parse
from godwit.languages import Query
from godwit.simulator.itineraries import Itinerary


def stay_home(roaming, space, homes):
    return {client: Itinerary(home) for client, home in homes.items()}


class NoIdea:
    def next_broker(self, client, here, visit, before=None):
        return None


class Present:
    name = "present"

    def parse(self, text, operators=None):
        return Query(self.name, text, parse(f"{text} IS NOT NULL"))


PRESENT = Present()
"""
ENTRY_POINTS = """
[godwit.reductions]
all or nothing = tiny_reduction:AllOrNothing
[godwit.movement_models]
stay home = tiny_parts:stay_home
[godwit.predictors]
no idea = tiny_parts:NoIdea
[godwit.languages]
present = tiny_parts:PRESENT
"""
PROGRAM = """
import json, sys
from godwit.languages import LANGUAGES
from godwit.mobility.predictors import PREDICTORS
from godwit.simulator.run import run
from godwit.simulator.scenario import named, with_changes

changes = ["routing.reduction=" + sys.argv[1], "clients.roaming.model=stay home", "clients.roaming.per_s=0",
           "run.duration_s=2", "clients.roaming.publishers.predictor=no idea"]
scenario = with_changes(named("roam"), changes)
summary = run(scenario, 1, lambda _: None, None)
print(json.dumps({"passed": summary.passed, "delivered": summary.delivered, "moves": summary.moves,
                  "predicted": PREDICTORS.part("no idea")().next_broker("c", "b", 1),
                  "language": LANGUAGES.part("present").parse("zip").language}))
"""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    (tmp_path / "tiny_parts.py").write_text(MODULE)
    source = (ROOT / "examples" / "extensions" / "all_or_nothing.py").read_text()
    (tmp_path / "tiny_reduction.py").write_text(
        source.replace('register_reduction("all or nothing", AllOrNothing)', "")
    )
    about = tmp_path / "tiny_plug_in-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-plug-in\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


@pytest.mark.parametrize("reduction", ["all or nothing", "tiny_reduction:AllOrNothing"])
def test_parts_of_an_installed_package_are_found_by_name(installed: Path, reduction: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, reduction], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["passed"]
    assert told["delivered"] > 0
    assert told["moves"] == 0
    assert (told["predicted"], told["language"]) == (None, "present")


def test_own_reduction_is_compared_with_others_and_drawn(installed: Path) -> None:
    words = ["compare", "covering", "tiny_reduction:AllOrNothing", "--only", "--scenario", "roam"]
    words += ["--set", "run.duration_s=2", "--out", str(installed / "results")]
    done = subprocess.run(  # in a process of its own: another test may have loaded the same reduction from its example
        [sys.executable, "-m", "godwit", *words],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["reduction"] for row in rows] == ["covering", "tiny_reduction:AllOrNothing"]
    assert rows[0]["delivered"] == rows[1]["delivered"] > 0
    assert rows[0]["event_messages"] < rows[1]["event_messages"]
    drawn = {path.name for path in (installed / "results").iterdir()}
    assert drawn == {"comparison.json", "comparison.png", "comparison.svg"}


def test_a_module_or_name_that_is_missing_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match="cannot import the reduction 'no_such_module:X': No module named"):
        reduction_of("no_such_module:X")
    assert "godwit.errors has no 'Nothing'" in str(reduction_fault("godwit.errors:Nothing"))
    with pytest.raises(ScenarioError, match=r"routing.reduction.* is 'no_such_module:X': cannot import"):
        with_changes(named("roam"), ["routing.reduction=no_such_module:X"])
    with pytest.raises(ScenarioError, match=r"clients.roaming.model.* is 'flying': allowed is .*'walk'"):
        with_changes(named("roam"), ["clients.roaming.model=flying"])


def test_a_language_is_not_imported_from_a_module_that_a_client_names() -> None:
    with pytest.raises(ConfigurationError, match=r"there is no language 'godwit.errors:GodwitError'"):
        LANGUAGES.part("godwit.errors:GodwitError")
