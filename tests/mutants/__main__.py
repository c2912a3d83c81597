"""`python -m tests.mutants`: draw small changes of the pure rooms, and see whether a test fails for each.

A change is tried on a copy of the package, first against the unit tests of its module, then against other tests that
import the module, then against the transcripts, and at last against all tests that use its room. The first failure ends
it: it is caught. A run that does not come to its end is caught, too. What survives is printed; `argued.toml` has the
changes that nobody could notice, each with its reason. With `--outcomes` a run that was stopped goes on where it was.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress

from tests.mutants.mutations import Mutation, all_of, mutated

ROOT = Path(__file__).parents[2]
ROOMS = ("filters", "matching", "broker", "mobility", "client", "mqtt", "codec", "adhoc")
STAGE_CPU_S = 300  # of work: a busy machine makes no run longer
STAGE_S = 1_800.0  # of waiting for nothing
TARGET = 0.95
ARGUED = Path(__file__).with_name("argued.toml")


class Outcome(NamedTuple):
    """What became of one change."""

    module: str
    mutation: Mutation
    caught_by: str  # "": nothing


def sources(rooms: tuple[str, ...]) -> dict[str, str]:
    """The modules of the rooms, by their names, with their texts."""
    src = ROOT / "src" / "godwit"
    found = [path for room in rooms for path in (src / room).rglob("*.py") if path.name != "__init__.py"]
    return {str(path.relative_to(src)): path.read_text() for path in found}


def stages(module: str) -> Iterator[list[str]]:
    """Files of tests that concern a module, the nearest first."""
    room, name = Path(module).parts[0], Path(module).stem
    own = sorted((ROOT / "tests" / "unit" / room).rglob(f"test_{name}*.py"))
    yield [str(path) for path in own]
    dotted = "godwit." + module.removesuffix(".py").replace("/", ".")
    folders = [ROOT / "tests" / folder for folder in ("unit", "property", "paper")]
    tests = sorted(path for folder in folders for path in folder.rglob("test_*.py") if path not in own)
    names = re.compile(rf"{re.escape(dotted)}\b|from godwit\.{room} import")
    yield [str(path) for path in tests if names.search(path.read_text())]
    yield [str(ROOT / "tests" / "transcripts")]
    yield [str(path) for path in tests if f"tests/unit/{room}/" in str(path) or f"godwit.{room}" in path.read_text()]


def caught_by(copy: Path, module: str) -> str:
    """The first test that fails with the package as it is in the copy."""
    environment = {**os.environ, "PYTHONPATH": str(copy), "NUMBA_CACHE_DIR": str(copy / "numba")}
    options = (
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not slow and not spark",
        "--no-header",
        "--tb=no",
    )
    seen: set[str] = set()
    for files in stages(module):
        files = [file for file in files if file not in seen]
        seen.update(files)
        if not files:
            continue
        command = [sys.executable, "-m", "pytest", *options, *files]
        try:
            ran = subprocess.run(
                ["sh", "-c", f'ulimit -t {STAGE_CPU_S}; exec "$@"', "sh", *command],
                cwd=ROOT, env=environment, capture_output=True, text=True, timeout=STAGE_S, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "a run that does not end"
        if ran.returncode < 0:  # by a signal: its work was too long, or it crashed
            return "a run that does not end"
        if ran.returncode in (1, 2, 3, 4):
            failed = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
            return failed[1] if failed else "a run that cannot begin"
    return ""


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

        def tried(each: tuple[str, Mutation]) -> Outcome:
            module, mutation = each
            copy = copies.get()
            file = copy / "godwit" / module
            try:
                file.write_text(mutated(chosen[module], mutation))
                return Outcome(module, mutation, caught_by(copy, module))
            finally:
                file.write_text(chosen[module])
                copies.put(copy)

        with ThreadPoolExecutor(workers) as pool:
            for outcome in pool.map(tried, drawn):
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
