"""`python -m tests.mutants`: draw small changes of the pure rooms, and see whether a test fails for each.

Each change is tried on a copy of the package, first against the test files of its module: that takes seconds, and most
changes go no further. For those that survive, the tests of their rooms run once without a change, to see which of them
reach which place (`reaching.py`). Then each is tried against the tests that reach it, the quickest first. A place that
everybody reaches when a module is imported, and one in a compiled kernel, are tried against the tests that import the
module, then against the transcripts, and at last against all tests that use its room.

The first failure ends it: the change is caught, unless that test fails without the change, too. So it is by a run that
takes many times as long as without the change. What survives is printed; `argued.toml` has the changes that nobody
could notice, each with its reason. With `--outcomes` a run that was stopped goes on where it was.
"""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Annotated, NamedTuple

import typer
from rich.console import Console
from rich.progress import Progress

from tests.longest_first import STORED as FILE_SECONDS
from tests.longest_first import STORED_FROM_S
from tests.mutants import chosen_tests
from tests.mutants.mutations import Mutation, all_of, mutated
from tests.mutants.reaching import OPTIONS, OTHER_SUBJECTS, Place, Reached, environment_for, has_kernels, reach

ROOT = Path(__file__).parents[2]
ROOMS = ("filters", "matching", "broker", "mobility", "client", "mqtt", "codec", "adhoc")
BEGIN_CPU_S = 120  # of work: to import everything, and to compile the kernels; a busy machine makes no run longer
LONGER = 5  # times as much work as usual is a run that does not end
WAIT_S = 1_800.0  # of waiting for nothing
PASSED, FAILURES, NO_TESTS = 0, range(1, 5), 5  # what pytest returns
ENDLESS = "a run that does not end"
NEAR_S = 60.0
TARGET = 0.95
ARGUED = Path(__file__).with_name("argued.toml")


class Outcome(NamedTuple):
    """What happened to one change."""

    module: str
    mutation: Mutation
    caught_by: str | None  # "": nothing; None: no test of its own module, and others were not tried yet


def sources(rooms: tuple[str, ...]) -> dict[str, str]:
    """The modules of the rooms, by their names, with their texts."""
    src = ROOT / "src" / "godwit"
    found = [path for room in rooms for path in (src / room).rglob("*.py") if path.name != "__init__.py"]
    return {str(path.relative_to(src)): path.read_text() for path in found}


def own_files(module: str) -> list[str]:
    """The test files of a module, by their names."""
    room, name = Path(module).parts[0], Path(module).stem
    return [_short(path) for path in sorted((ROOT / "tests" / "unit" / room).rglob(f"test_{name}*.py"))]


def stages(module: str) -> Iterator[list[str]]:
    """Files of tests that concern a module by what they import, the nearest first."""
    room = Path(module).parts[0]
    yield own_files(module)
    dotted = "godwit." + module.removesuffix(".py").replace("/", ".")
    folders = [ROOT / "tests" / folder for folder in ("unit", "property", "paper")]
    tests = {
        _short(path): path.read_text()
        for folder in folders
        for path in sorted(folder.rglob("test_*.py"))
        if path.relative_to(ROOT / "tests").parts[1] not in OTHER_SUBJECTS
    }
    names = re.compile(rf"{re.escape(dotted)}\b|from godwit\.{room} import")
    yield [path for path, text in tests.items() if names.search(text)]
    yield [_short(path) for path in sorted((ROOT / "tests" / "transcripts").rglob("test_*.py"))]
    yield [path for path, text in tests.items() if f"tests/unit/{room}/" in path or f"godwit.{room}" in text]


def near_files(module: str, seconds: dict[str, float]) -> list[str]:
    """The test files of a module; where none has its name, those that import it, as far as they take little time."""
    if own := own_files(module):
        return own
    _, importing, *_ = stages(module)
    near: list[str] = []
    took_s = 0.0
    for file in sorted(importing, key=lambda file: seconds.get(file, 0.0)):
        took_s += seconds.get(file, STORED_FROM_S)
        if took_s > NEAR_S:
            break
        near.append(file)
    return near


def files_for(module: str) -> list[str]:
    """All files of tests that concern a module, the nearest first."""
    return list(dict.fromkeys(file for stage in stages(module) for file in stage))


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tests_for(place: Place, reached: Reached) -> list[str]:
    """The tests that a change is tried against, in their order."""
    chosen = reached.chosen(place)
    return chosen if chosen is not None else reached.in_files(files_for(place[0]))


class Pytest:
    """Runs tests with the package as it is in a copy."""

    def __init__(self, prefix: list[str]) -> None:
        self._prefix = prefix  # words before the command

    def failed(self, copy: Path, files: list[str], usual_s: float, tests: list[str] | None = None) -> str:
        """The first of the files' tests, or of just these, that fails; "" if none does. They usually take so long."""
        if not files:
            return ""
        environment = environment_for(copy)
        if tests is not None:
            chosen = copy / "chosen"
            chosen.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
            environment[chosen_tests.CHOSEN] = str(chosen)
        command = [*self._prefix, sys.executable, "-m", "pytest", "-x", "-p", "no:xdist", *OPTIONS, *files]
        work_s = int(BEGIN_CPU_S + LONGER * usual_s)
        try:
            ran = subprocess.run(
                ["sh", "-c", f'ulimit -t {work_s}; exec "$@"', "sh", *command],
                cwd=ROOT, env=environment, capture_output=True, text=True,
                timeout=WAIT_S + LONGER * work_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return ENDLESS
        if ran.returncode in (PASSED, NO_TESTS):
            return ""
        if ran.returncode not in FAILURES:  # it ended by a signal: its work was too long, or it crashed
            return ENDLESS
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", ran.stdout, re.MULTILINE)
        return failed[1] if failed else "a run that cannot begin"


class Copies:
    """Copies of the package; a change is made in one of them, tried and taken back."""

    def __init__(self, folder: Path, count: int, texts: dict[str, str]) -> None:
        self.free: SimpleQueue[Path] = SimpleQueue()
        self._texts = texts
        for number in range(count):
            copy = folder / str(number)
            shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__"))
            self.free.put(copy)

    def tried(self, place: Place, failed: Callable[[Path], str]) -> Outcome:
        """What fails in a copy with that change."""
        module, mutation = place
        text = self._texts[module]
        copy = self.free.get()
        file = copy / "godwit" / module
        try:
            file.write_text(mutated(text, mutation))
            self._forget_kernels(copy, text)
            return Outcome(module, mutation, failed(copy))
        finally:
            file.write_text(text)
            self._forget_kernels(copy, text)
            self.free.put(copy)

    def _forget_kernels(self, copy: Path, text: str) -> None:
        if has_kernels(text):  # Numba does not see that a kernel which another one calls has changed
            shutil.rmtree(copy / "numba", ignore_errors=True)


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


def reached_by(
    places: list[Place], copies: Copies, texts: dict[str, str], workers: int, prefix: list[str], outcomes: Path | None
) -> Reached:
    """Which tests reach these places. It is stored beside the outcomes, for a run that goes on."""
    stored = outcomes.with_suffix(".reached") if outcomes is not None else None
    if stored is not None and stored.exists():
        return Reached.stored(stored)
    files = dict.fromkeys(file for module, _ in places for file in files_for(module))
    copy = copies.free.get()
    reached = reach(copy, texts, places, list(files), workers, prefix)
    copies.free.put(copy)
    if stored is not None:
        reached.store(stored)
    return reached


def _as_done(
    pool: ThreadPoolExecutor, tried: Callable[[Place], Outcome], places: list[Place], progress: Progress, what: str
) -> Iterable[Outcome]:
    task = progress.add_task(what, total=len(places))
    for running in as_completed([pool.submit(tried, each) for each in places]):
        yield running.result()
        progress.advance(task)


def main(
    count: Annotated[int, typer.Option(help="How many changes to draw.", min=1)] = 100,
    seed: Annotated[int, typer.Option(help="What they are drawn from.")] = 1,
    room: Annotated[
        list[str] | None, typer.Option(help="Only changes of these rooms or modules, as in broker/tree.py.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Changes that are tried at once.", min=1)] = 2,
    prefix: Annotated[str, typer.Option(help="Words before each command that runs tests, as in 'nice -n 19'.")] = "",
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
    outcomes = [earlier[each] for each in drawn if each in earlier and earlier[each].caught_by is not None]
    survivors = [each for each in drawn if each in earlier and earlier[each].caught_by is None]
    pytest = Pytest(shlex.split(prefix))
    seconds = json.loads(FILE_SECONDS.read_text())

    def cost(place: Place) -> tuple[bool, float]:  # kernels are compiled again for each change
        near = near_files(place[0], seconds)
        return has_kernels(chosen[place[0]]), sum(seconds.get(file, STORED_FROM_S) for file in near)

    left = sorted((each for each in drawn if each not in earlier), key=cost)  # so that a run that is stopped has many

    def keep(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if outcomes_file is not None:
            append(outcomes_file, outcome)

    with (
        tempfile.TemporaryDirectory(prefix="godwit-mutants-") as folder,
        Progress(console=Console(stderr=True)) as progress,
        ThreadPoolExecutor(workers) as pool,
    ):
        copies = Copies(Path(folder), workers, chosen)

        def by_own_files(place: Place) -> Outcome:
            files = near_files(place[0], seconds)
            _, usual_s = cost(place)
            return copies.tried(place, lambda copy: pytest.failed(copy, files, usual_s))

        def by_reaching(place: Place) -> Outcome:
            tests = tests_for(place, reached)
            files = list(dict.fromkeys(test.partition("::")[0] for test in tests))
            usual_s = sum(reached.seconds[test] for test in tests)
            return copies.tried(place, lambda copy: pytest.failed(copy, files, usual_s, tests))

        unsound: dict[str, bool] = {}  # tests that caught a change, and whether they fail without one
        for outcome in _as_done(pool, by_own_files, left, progress, "changes, by the tests of their modules"):
            test = outcome.caught_by
            assert test is not None
            if "::" in test and test not in unsound:
                copy = copies.free.get()
                unsound[test] = bool(pytest.failed(copy, [test.partition("::")[0]], 0.0, [test]))
                copies.free.put(copy)
            if test and not unsound.get(test):
                keep(outcome)
            else:
                survivors.append((outcome.module, outcome.mutation))
                if outcomes_file is not None:
                    append(outcomes_file, outcome._replace(caught_by=None))
        if survivors:
            reached = reached_by(survivors, copies, chosen, workers, shlex.split(prefix), outcomes_file)
            for outcome in _as_done(pool, by_reaching, survivors, progress, "changes, by the tests that reach them"):
                keep(outcome)
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
