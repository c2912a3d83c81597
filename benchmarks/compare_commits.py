"""Two commits beside each other: `compare_commits.py OLD NEW BENCHMARK …`, or this file with `--help`.

Each commit gets a worktree in a temporary folder, and the benchmark of each runs in turn, round by round, so that
whatever else the machine does falls on both. The benchmark is that of the commit itself, with its own code; `.` is the
working tree as it is. A first round, in which functions are compiled, does not count. The ratio is that of the new
figure to the old one.

`content`: content filtering over sockets, CPU µs an event of the broker's process, by the number of subscriptions
(`--subscriptions`); every run has a new broker. Anything else names a file of `benchmarks/` that prints JSON lines, and
what follows is given to it:

    python benchmarks/compare_commits.py 851e68e . content --subscriptions 10000
    python benchmarks/compare_commits.py HEAD~1 HEAD matching.py --only W3 --quick
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import typer

ROOT = Path(__file__).resolve().parents[1]
CONTENT = """
import json, sys
sys.path.insert(0, ".")
from benchmarks.network import Bench
count, events = int(sys.argv[1]), int(sys.argv[2])
found = Bench(False).native("content", subscriptions=count, events=events, receivers=50, publishers=4)
for what, unit, figure in [
    ("content filtering", "CPU µs an event", found["cpu_s"] / found["events"] * 1e6),
    ("taking subscriptions in", "CPU µs each", found["subscribe_cpu_s"] / count * 1e6),
]:
    print(json.dumps({"what": f"{what}, {count:,} subscriptions", "unit": unit, "figure": figure}))
"""
Figures = dict[str, list[float]]


class Failed(Exception):
    """A benchmark that did not come to its end."""


@contextmanager
def checked_out(commit: str, folder: Path) -> Iterator[Path]:
    """A worktree of a commit while it is needed; of `.` the one that we are in."""
    if commit == ".":
        yield ROOT
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), commit], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def run(tree: Path, command: list[str]) -> list[dict[str, Any]]:
    """Run a benchmark in a worktree: the JSON lines that it has printed."""
    paths = os.pathsep.join([str(tree / "src"), str(tree)])
    environ = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *command], cwd=tree, env=environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Failed(f"{tree}: {(done.stderr.strip().splitlines() or ['it has failed'])[-1]}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def figures(lines: list[dict[str, Any]]) -> Iterator[tuple[str, float]]:
    """The figures in JSON lines, each with what it is: the figure itself, and what it has cost.

    A rate of a process that had a `share` of its core is what it would have been with all of it.
    """
    for line in lines:
        is_rate = line["unit"].endswith("/s")
        yield f"{line['what']} [{line['unit']}]", line["figure"] / (line.get("share", 1.0) if is_rate else 1.0)
        cost = (line.get("ours") or {}).get("cpu_us")
        if cost is not None:
            yield f"{line['what']} [CPU µs]", cost


def compared(what: str, old: list[float], new: list[float]) -> dict[str, Any]:
    """One row of the report."""
    row: dict[str, Any] = {"what": what, "rounds": min(len(old), len(new))}
    for name, of in (("min", min), ("median", median), ("max", max)):
        row[name] = {"old": of(old), "new": of(new), "ratio": of(new) / of(old) if of(old) else None}
    return row


def printed(row: dict[str, Any]) -> str:
    """That row for people."""
    parts = []
    for name in ("min", "median", "max"):
        each = row[name]
        ratio = "" if each["ratio"] is None else f" (× {each['ratio']:.3f})"
        parts.append(f"{name} {each['old']:,.1f} → {each['new']:,.1f}{ratio}")
    return f"{row['what']}, {row['rounds']} rounds: {'; '.join(parts)}"


def main(
    context: typer.Context,
    old: Annotated[str, typer.Argument(help="Commit to compare with.")],
    new: Annotated[str, typer.Argument(help="Commit to compare; `.`: the working tree.")],
    benchmark: Annotated[str, typer.Argument(help="`content`, or a file of benchmarks/ and its options.")],
    rounds: Annotated[int, typer.Option(min=1, help="Rounds that count (default: 7).")] = 7,
    subscriptions: Annotated[list[int] | None, typer.Option(help="For `content`; may be given several times.")] = None,
    events: Annotated[int, typer.Option(min=1_000, help="Events of a run, for `content`.")] = 20_000,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines, as on a pipe.")] = False,
) -> None:
    """Run a benchmark of two commits in turn. Prints a line a figure to a terminal and JSON lines to a pipe."""
    if benchmark == "content":
        counts = subscriptions or [100, 1_000, 10_000, 100_000]
        commands = [["-c", CONTENT, str(count), str(events)] for count in counts]
    else:
        commands = [[str(Path("benchmarks") / benchmark), "--json", *context.args]]
    found: dict[str, Figures] = {"old": {}, "new": {}}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="godwit-compare-")))
        trees = {
            name: stack.enter_context(checked_out(commit, folder / name))
            for name, commit in (("old", old), ("new", new))
        }
        for round in range(rounds + 1):
            for command in commands:
                for name in ("old", "new") if round % 2 else ("new", "old"):
                    print(f"round {round} of {rounds}, {name}", file=sys.stderr, flush=True)
                    try:
                        lines = run(trees[name], command)
                    except Failed as error:
                        print(error, file=sys.stderr)
                        raise typer.Exit(1) from None
                    for what, figure in figures(lines) if round else ():
                        found[name].setdefault(what, []).append(figure)
    for what, before in found["old"].items():
        if what in found["new"]:
            row = compared(what, before, found["new"][what])
            is_plain = as_json or not sys.stdout.isatty()
            print(json.dumps(row, ensure_ascii=False) if is_plain else printed(row))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(main)
    app()
