"""`python -m tests.mutants`: draw small changes of the pure rooms, and see whether a test fails for each.

First all tests run once without a change, to see which of them reach which place (`reaching.py`). Then each change is
tried on a copy of the package, against the tests that reach it, those of its module first. A place that everybody
reaches when a module is imported, and one in a compiled kernel, are tried against the tests that import the module,
then against the transcripts, and at last against all tests that use its room.

The first failure ends it: the change is caught. So it is by a run that takes many times as long as without the change.
What survives is printed; `argued.toml` has the changes that nobody could notice, each with its reason. With
`--outcomes` a run that was stopped goes on where it was.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress

from tests.mutants import chosen_tests
from tests.mutants.mutations import Mutation, all_of, mutated
from tests.mutants.reaching import OPTIONS, Place, Reached, environment_for, has_kernels, reach

ROOT = Path(__file__).parents[2]
ROOMS = ("filters", "matching", "broker", "mobility", "client", "mqtt", "codec", "adhoc")
BEGIN_CPU_S = 120  # of work: to import everything, and to compile the kernels; a busy machine makes no run longer
LONGER = 5  # times as much work as usual is a run that does not end
WAIT_S = 1_800.0  # of waiting for nothing
PASSED, FAILURES, NO_TESTS = 0, range(1, 5), 5  # what pytest returns
TARGET = 0.95
ARGUED = Path(__file__).with_name("argued.toml")


class Outcome(NamedTuple):
    """What happened to one change."""

    module: str
    mutation: Mutation
    caught_by: str  # "": nothing


def sources(rooms: tuple[str, ...]) -> dict[str, str]:
    """The modules of the rooms, by their names, with their texts."""
    src = ROOT / "src" / "godwit"
    found = [path for room in rooms for path in (src / room).rglob("*.py") if path.name != "__init__.py"]
    return {str(path.relative_to(src)): path.read_text() for path in found}


def stages(module: str) -> Iterator[list[str]]:
    """Files of tests that concern a module by what they import, the nearest first."""
    room, name = Path(module).parts[0], Path(module).stem
    own = sorted((ROOT / "tests" / "unit" / room).rglob(f"test_{name}*.py"))
    yield [_short(path) for path in own]
    dotted = "godwit." + module.removesuffix(".py").replace("/", ".")
    folders = [ROOT / "tests" / folder for folder in ("unit", "property", "paper")]
    tests = sorted(path for folder in folders for path in folder.rglob("test_*.py") if path not in own)
    names = re.compile(rf"{re.escape(dotted)}\b|from godwit\.{room} import")
    yield [_short(path) for path in tests if names.search(path.read_text())]
    yield [_short(path) for path in sorted((ROOT / "tests" / "transcripts").rglob("test_*.py"))]
    yield [_short(path) for path in tests if f"tests/unit/{room}/" in str(path) or f"godwit.{room}" in path.read_text()]


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tests_for(place: Place, reached: Reached) -> list[str]:
    """The tests that a change is tried against, in their order."""
    chosen = reached.chosen(place)
    if chosen is not None:
        return chosen
    files = dict.fromkeys(file for stage in stages(place[0]) for file in stage)
    return reached.in_files(files)


def caught_by(copy: Path, tests: list[str], usual_s: float) -> str:
    """The first of the tests that fails with the package as it is in the copy. They usually take so long."""
    if not tests:
        return ""
    chosen = copy / "chosen"
    chosen.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
    files = sorted({test.partition("::")[0] for test in tests})
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:xdist", *OPTIONS, *files]
    work_s = int(BEGIN_CPU_S + LONGER * usual_s)
    try:
        ran = subprocess.run(
            ["sh", "-c", f'ulimit -t {work_s}; exec "$@"', "sh", *command],
            cwd=ROOT, env={**environment_for(copy), chosen_tests.CHOSEN: str(chosen)}, capture_output=True, text=True,
            timeout=WAIT_S + LONGER * work_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return "a run that does not end"
    if ran.returncode in (PASSED, NO_TESTS):
        return ""
    if ran.returncode not in FAILURES:  # it ended by a signal: its work was too long, or it crashed
        return "a run that does not end"
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
    return failed[1] if failed else "a run that cannot begin"


def argued() -> list[dict[str, str]]:
    """Changes that nothing can notice, with the reason."""
    return list(tomllib.loads(ARGUED.read_text()).get("change", [])) if ARGUED.exists() else []


def is_argued(outcome: Outcome, known: list[dict[str, str]]) -> bool:
    said = {
        "module": outcome.module,
        "function": outcome.mutation.function,
        "before": outcome.mutation.before,
        "after": outcome.mutation.after,
    }
    return any(all(each[key] == value for key, value in said.items()) for each in known)


def outcomes_in(file: Path | None) -> dict[tuple[str, Mutation], Outcome]:
    """What an earlier run has found, by module and change."""
    if file is None or not file.exists():
        return {}
    found = (json.loads(line) for line in file.read_text().splitlines())
    known = (Outcome(each["module"], Mutation(**each["mutation"]), each["caught_by"]) for each in found)
    return {(each.module, each.mutation): each for each in known}


def append(file: Path, outcome: Outcome) -> None:
    """Keep an outcome for a later run."""
    record = {**outcome._asdict(), "mutation": outcome.mutation._asdict()}
    with file.open("a") as lines:
        lines.write(json.dumps(record) + "\n")


def main(
    count: Annotated[int, typer.Option(help="How many changes to draw.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="What they are drawn from.")] = 1,
    room: Annotated[
        list[str] | None, typer.Option(help="Only changes of these rooms or modules, as in broker/tree.py.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Changes that are tried at once.", min=1)] = 2,
    outcomes_file: Annotated[
        Path | None,
        typer.Option("--outcomes", help="File of outcomes: each is added to it, and what it has is not tried again."),
    ] = None,
) -> None:
    """Draw small changes of the pure rooms; for each, some test should fail."""
    chosen = {
        name: text for name, text in sources(ROOMS).items() if not room or any(name.startswith(each) for each in room)
    }
    every = list(all_of(chosen))
    if not every:
        raise typer.BadParameter(f"no module begins with {room}: rooms are {', '.join(ROOMS)}")
    drawn = Random(seed).sample(every, min(count, len(every)))
    earlier = outcomes_in(outcomes_file)
    outcomes = [earlier[each] for each in drawn if each in earlier]
    drawn = [each for each in drawn if each not in earlier]
    with (
        tempfile.TemporaryDirectory(prefix="godwit-mutants-") as folder,
        Progress(console=Console(stderr=True)) as progress,
    ):
        task = progress.add_task("changes", total=len(drawn))
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            copy = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)
        stored = outcomes_file.with_suffix(".reached") if outcomes_file is not None else None
        reached = Reached.stored(stored) if stored is not None and stored.exists() else None
        if drawn and reached is None:
            copy = copies.get()
            reached = reach(copy, chosen, drawn, workers)
            copies.put(copy)
            if stored is not None:
                reached.store(stored)

        def tried(each: Place) -> Outcome:
            module, mutation = each
            assert reached is not None
            tests = tests_for(each, reached)
            copy = copies.get()
            file = copy / "godwit" / module
            try:
                file.write_text(mutated(chosen[module], mutation))
                if has_kernels(chosen[module]):  # Numba does not see that a kernel which another one calls has changed
                    shutil.rmtree(copy / "numba", ignore_errors=True)
                return Outcome(module, mutation, caught_by(copy, tests, sum(reached.seconds[test] for test in tests)))
            finally:
                file.write_text(chosen[module])
                if has_kernels(chosen[module]):
                    shutil.rmtree(copy / "numba", ignore_errors=True)
                copies.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            for running in as_completed([pool.submit(tried, each) for each in drawn]):
                outcome = running.result()
                outcomes.append(outcome)
                if outcomes_file is not None:
                    append(outcomes_file, outcome)
                progress.advance(task)
                if not outcome.caught_by:
                    print(f"survived: {outcome.module}: {outcome.mutation}", flush=True)
    known = argued()
    survived = [each for each in outcomes if not each.caught_by and not is_argued(each, known)]
    caught = sum(bool(each.caught_by) for each in outcomes)
    summary = {
        "drawn": len(outcomes),
        "caught": caught,
        "argued": len(outcomes) - caught - len(survived),
        "survived": len(survived),
    }
    print(json.dumps(summary))
    raise typer.Exit(0 if len(outcomes) - len(survived) >= TARGET * len(outcomes) else 1)


if __name__ == "__main__":
    typer.run(main)
