"""Which tests reach the place of a change: only these can notice it.

*Theory.* Tests are run once on a copy of the package in which each place that is to be changed notes that it was
reached. A change is then tried against the tests that reached it, those of its own module first, then the quickest.
Some places have no note: what runs when a module is imported concerns everybody, and compiled kernels cannot take
notes. There the tests are chosen by what they import.

*Rules.*
1. To leave tests out can only make a change survive that a test would notice. It never makes one look caught.
2. A test that fails without any change proves nothing, and is not run.
3. What is reached while a fixture is made concerns all tests of the file: they may share the fixture.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutants import chosen_tests, probe
from tests.mutants.mutations import Mutation

ROOT = Path(__file__).parents[2]
OTHER_SUBJECTS = ("benchmarks", "dashboard", "pipeline", "planning", "reproduce", "teamwork")  # of unit tests
SELECTED = "not slow and not spark"
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "tests.mutants.chosen_tests", "-m", SELECTED, "--no-header", "--tb=no")
FILES_AT_ONCE = 40  # of tests, in one process
COMPILED = {"compiled", "inlined"}  # decorators of kernels

Place = tuple[str, Mutation]  # a module and a change of it


@dataclass
class Reached:
    """What a run of all tests without a change has shown."""

    seconds: dict[str, float] = field(default_factory=dict)  # of each test that passed
    tests: dict[Place, set[str]] = field(default_factory=dict)  # a place that is missing concerns everybody

    def chosen(self, place: Place) -> list[str] | None:
        """Tests for a change in their order; None where the place took no notes."""
        if place not in self.tests:
            return None
        room, name = Path(place[0]).parts[0], Path(place[0]).stem
        own = f"tests/unit/{room}/test_{name}"
        found = [test for test in self.tests[place] if test in self.seconds]
        return sorted(found, key=lambda test: (not test.startswith(own), self.seconds[test], test))

    def in_files(self, files: Iterable[str]) -> list[str]:
        """The tests of some files that passed, those of the first file first."""
        rank = {file: at for at, file in enumerate(files)}
        found = [test for test in self.seconds if test.partition("::")[0] in rank]
        return sorted(found, key=lambda test: (rank[test.partition("::")[0]], self.seconds[test], test))

    def store(self, file: Path) -> None:
        places = [
            {"module": module, "mutation": mutation._asdict(), "tests": sorted(tests)}
            for (module, mutation), tests in self.tests.items()
        ]
        file.write_text(json.dumps({"seconds": self.seconds, "places": places}), encoding="utf-8")

    @classmethod
    def stored(cls, file: Path) -> "Reached":
        found = json.loads(file.read_text(encoding="utf-8"))
        tests = {(each["module"], Mutation(**each["mutation"])): set(each["tests"]) for each in found["places"]}
        return cls(found["seconds"], tests)


def takes_notes(tree: ast.Module, mutation: Mutation) -> bool:
    """Whether the place of a change can tell that it was reached: it lies in a function that is not compiled."""
    inside = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body[0].lineno <= mutation.line <= mutation.end_line <= (node.end_lineno or 0)
    ]
    names = {ast.unparse(decorator) for node in inside for decorator in node.decorator_list}
    return bool(inside) and not names & COMPILED


def has_kernels(text: str) -> bool:
    """Whether a module has compiled kernels, or what they are made of."""
    return re.search(r"^\s*@(compiled|inlined)\b", text, re.MULTILINE) is not None


def with_notes(text: str, places: dict[int, Mutation]) -> str:
    """A module in which places note by their numbers that they were reached."""
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    added: list[tuple[int, int, int, bytes]] = []  # where; ends before beginnings; the outer one of two outside
    for number, each in places.items():
        begin = starts[each.line - 1] + each.column
        end = starts[each.end_line - 1] + each.end_column
        note = f"__import__('mutant_probe').at({number})"
        if each.kind == "dropped call":
            added.append((begin, 1, -end - 1, f"{note}; ".encode()))
        else:
            added.append((begin, 1, -end, f"({note}, (".encode()))
            added.append((end, 0, -begin, b"))[1]"))
    noted = text.encode()
    for at, _, _, piece in sorted(added, reverse=True):
        noted = noted[:at] + piece + noted[at:]
    return noted.decode()


def reach(
    copy: Path, texts: dict[str, str], drawn: list[Place], files: list[str], workers: int, prefix: list[str]
) -> Reached:
    """Run files of tests on the copy, with notes at the places of these changes; the copy is as before afterwards."""
    trees = {module: ast.parse(texts[module]) for module, _ in drawn}
    numbered = {
        number: place for number, place in enumerate(drawn) if takes_notes(trees[place[0]], place[1])
    }  # fmt: skip
    by_module: defaultdict[str, dict[int, Mutation]] = defaultdict(dict)
    for number, (module, mutation) in numbered.items():
        by_module[module][number] = mutation
    notes, times = copy / "reached", copy / "times"
    notes.mkdir()
    shutil.copy(probe.__file__, copy / "mutant_probe.py")
    for module, places in by_module.items():
        (copy / "godwit" / module).write_text(with_notes(texts[module], places))
    environment = {**environment_for(copy), probe.FOLDER: str(notes), chosen_tests.TIMES: str(times)}
    at_once = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else ["-p", "no:xdist"]
    found: list[dict[str, Any]] = []
    for first in range(0, len(files), FILES_AT_ONCE):
        some = files[first : first + FILES_AT_ONCE]
        command = [*prefix, sys.executable, "-m", "pytest", *OPTIONS, *at_once, *some]
        times.unlink(missing_ok=True)
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=False)
        found += [json.loads(line) for line in times.read_text(encoding="utf-8").splitlines()]
    for module in by_module:
        (copy / "godwit" / module).write_text(texts[module])
    reached = Reached({each["test"]: each["seconds"] for each in found if each["passed"]})
    by_number: defaultdict[int, set[str]] = defaultdict(set)
    for file in notes.iterdir():
        for line in file.read_text(encoding="utf-8").splitlines():
            note, _, test = line.partition(" ")
            by_number[int(note)].add(test)
    for number, place in numbered.items():
        if "" not in by_number[number]:  # outside of any test, as when a module is imported: it concerns everybody
            reached.tests[place] = noted_tests(by_number[number], reached.seconds)
    return reached


def noted_tests(noted: set[str], known: Iterable[str]) -> set[str]:
    """Ids of tests, from what pytest says of them with the phase in parentheses. (rule 3)"""
    found: set[str] = set()
    files: set[str] = set()
    for each in noted:
        test, _, phase = each.rpartition(" (")
        found.add(test)
        if phase == "setup)":
            files.add(test.partition("::")[0])
    return found | {test for test in known if test.partition("::")[0] in files}


def environment_for(copy: Path) -> dict[str, str]:
    """Variables with which tests use the copy."""
    return {**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(copy / "numba")}
