"""A tiny plug-in package is installed in a temporary folder, and a fresh interpreter finds its parts by name.

It has one part of each kind that docs/guides/extend.md lists: a test compares the two.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def loud(text):
    return text.isupper()
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
[godwit.components]
roll call = tiny_component:RollCall
[godwit.attach_policies]
send home = tiny_policy:POLICY
[godwit.sources]
diary = tiny_pipeline:Diary
[godwit.sinks]
json lines = tiny_pipeline:JsonLines
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
BROKER_PROGRAM = """
import json
from godwit.broker.messages import Attach
from godwit.testing import machines

net = machines("a-b", components=("roll call",), attach_policies=("send home",))
import tiny_component  # its messages are known now
net.say("a", "c1", Attach("anna"))
net.say("a", "c1", tiny_component.WhoIsHere())
net.say("b", "c2", Attach("bruno", mode="send home", session="a/1/1", home="a", attempt=2))
net.run()
told = [each.message for each in net.told]
print(json.dumps({"here": [each.clients for each in told if type(each).__name__ == "Connected"],
                  "bye": [each.reason for each in told if type(each).__name__ == "Bye"]}))
"""
PIPELINE_PROGRAM = """
import io, json
from godwit.pipeline.formats.file_source import importable, source_of
from godwit.pipeline.match_sink import sink_of

rows = list(source_of("diary").read(io.BytesIO(b"kind=parking cost=2\\nnonsense\\n"), "x"))
print(json.dumps({"rows": rows, "worker": importable("diary"), "file": str(sink_of("json lines", {"file": "m"}).path)}))
"""
COPIED = {
    "tiny_reduction": ("all_or_nothing", 'register_reduction("all or nothing", AllOrNothing)'),
    "tiny_component": ("roll_call", 'register_component("roll call", RollCall)'),
    "tiny_policy": ("send_home", 'register_attach_policy("send home", POLICY)'),
    "tiny_pipeline": ("diary", ""),
}
"""Modules of the package: the examples of the guide, without the line that registers them."""


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    (tmp_path / "tiny_parts.py").write_text(MODULE)
    for module, (example, line) in COPIED.items():
        source = (ROOT / "examples" / "extensions" / f"{example}.py").read_text()
        assert line in source
        (tmp_path / f"{module}.py").write_text(source.replace(line, "") if line else source)
    about = tmp_path / "tiny_plug_in-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-plug-in\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(ENTRY_POINTS)
    return tmp_path


def answer(installed: Path, *words: str) -> Any:
    """What a program prints, run by a fresh interpreter that has the package."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_components_and_attach_policies_of_an_installed_package_are_found(installed: Path) -> None:
    told = answer(installed, "-c", BROKER_PROGRAM)
    assert told["here"] == [["anna"]]
    assert told["bye"] == ["your session is at a: connect there"]


def test_sources_and_sinks_of_an_installed_package_are_found(installed: Path) -> None:
    told = answer(installed, "-c", PIPELINE_PROGRAM)
    assert told["rows"][0] == {"kind": "parking", "cost": 2.0}
    assert told["rows"][1][1] == "no diary: a pair has no '='"
    assert (told["worker"], told["file"]) == ("tiny_pipeline:Diary", "m")


def test_an_operator_of_an_installed_package_is_used_by_its_name(installed: Path) -> None:
    (installed / "wishes.jsonl").write_text('{"id": "a", "language": "cesql", "filter": "loud(word)"}\n')
    (installed / "events.jsonl").write_text('{"id": 1, "attributes": {"word": "HELP"}}\n')
    words = ["--subscriptions", str(installed / "wishes.jsonl"), "--events", str(installed / "events.jsonl")]
    told = answer(installed, "-m", "godwit", "match", *words, "--operators", "tiny_parts:loud")
    assert told == {"event": 1, "subscriptions": ["a"]}


def test_the_package_has_a_part_of_every_kind_that_the_guide_lists() -> None:
    guide = (ROOT / "docs" / "guides" / "extend.md").read_text()
    named = set(re.findall(r'entry-points."(godwit\.\w+)"', guide))
    assert named == set(re.findall(r"\[(godwit\.\w+)\]", ENTRY_POINTS))


@pytest.mark.parametrize("reduction", ["all or nothing", "tiny_reduction:AllOrNothing"])
def test_parts_of_an_installed_package_are_found_by_name(installed: Path, reduction: str) -> None:
    told = answer(installed, "-c", PROGRAM, reduction)
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
