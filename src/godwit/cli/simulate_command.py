"""`godwit simulate`: run a scenario, or a swarm of random ones, and report whether every law held.

The simulator runs the production machines of brokers and clients on virtual time, from one seed. A run that breaks a
law prints the command that replays it.
"""

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.simulator.scenario import Scenario
    from godwit.simulator.summary import Summary

__all__ = ["simulate"]

SEED_DEFAULT = 1
VIOLATIONS_SHOWN_MAX = 10
GROUPS = {
    "deliveries": (
        *("published", "owed", "delivered", "lost", "duplicated", "out_of_order", "unwanted", "allowed", "excused"),
        *("purged", "expired", "quenched", "out_of_context", "not_addressed"),
    ),
    "delays": ("latency_p50_ms", "latency_p99_ms", "caught_up", "catch_up_p50_ms", "catch_up_p99_ms"),
    "movement": ("moves", "walked", "context_changes", "receipts", "islands"),
    "traffic": ("messages_sent", "bytes_sent", "messages", "packets"),
    "tables and queues": ("table_entries", "entries_left", "queue_max"),
    "faults": ("faults",),
    "the run": ("simulated_s", "wall_s", "messages_per_second"),
}
"""The result on a terminal: headings, and the fields below each."""

USED = (
    *("caught_up", "moves", "walked", "out_of_context", "context_changes", "not_addressed"),
    *("purged", "expired", "quenched"),
)
"""Fields that are shown on a terminal only if they are not 0."""
TOTALS = ("published", "owed", "delivered", "lost", "duplicated", "out_of_order", "unwanted", "allowed", "excused")
EXERCISED = ("moves", "walked", "context_changes")


def simulate(
    scenario: Annotated[
        str | None, Argument(metavar="SCENARIO", help="Scenario: a TOML file, or a name from --list.")
    ] = None,
    seed: Annotated[int, Option(metavar="N", help="Random seed.", min=0)] = SEED_DEFAULT,
    trace: Annotated[str | None, Option(metavar="DIR", help="Write the trace of the run to DIR/trace.parquet.")] = None,
    is_opened: Annotated[
        bool, Option("--open", help="Show the run in a browser, from a server on this machine, until Ctrl-C.")
    ] = False,
    changes: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Set a scenario key, as in clients.publishers=20; repeatable."),
    ] = None,
    listed: Annotated[bool, Option("--list", help="List the scenarios that come with Godwit.")] = False,
    swarm: Annotated[
        int | None, Option(metavar="N", help="Run N small random scenarios, derived from the seed.", min=1)
    ] = None,
    swarm_number: Annotated[
        int | None, Option(metavar="K", help="Run only scenario K of the swarm, counted from 0.", min=0)
    ] = None,
) -> None:
    """Simulate a network of brokers, and check every delivery.

    Exit status 0 means that no delivery guarantee was violated (modes of clients differ in what they guarantee), and
    that no state was left over. Otherwise the status is 1, and the command that repeats the run is printed.

    Example: godwit simulate city --seed 1
    """
    if sum((scenario is not None, listed, swarm is not None, swarm_number is not None)) != 1:
        raise BadParameter("give one of: a scenario, --list, --swarm or --swarm-number")
    if is_opened and (listed or swarm is not None):
        raise BadParameter("--open shows one run: give a scenario or --swarm-number")
    if listed:
        _show_list()
    elif swarm is not None:
        if trace is not None:
            raise BadParameter("--trace cannot be used with --swarm: replay one run with --swarm-number")
        _run_swarm(swarm, seed, changes or [])
    else:
        with nullcontext(trace) if trace or not is_opened else TemporaryDirectory() as folder:
            status = _run_one(scenario, swarm_number, seed, changes or [], folder)
            if is_opened and folder is not None:
                _open(folder)
        if status:
            raise Exit(status)


def _show_list() -> None:
    from godwit.simulator.scenario import names

    described = names()
    if not sys.stdout.isatty():
        for name, description in described.items():
            echo(json.dumps({"name": name, "description": description}, ensure_ascii=False))
        return

    table = Table.grid(gap=2)
    for name, description in described.items():
        table.add_row(Text(name, style="bold cyan"), Text(description))
    Console().print(table)


# ---------------------------------------------------------------- one run


def _open(folder: str) -> None:
    """Serve the dashboard with a trace, open a browser, and wait for Ctrl-C."""
    from importlib.util import find_spec

    from godwit.errors import GodwitError

    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise GodwitError("--open needs starlette and uvicorn, which are not installed: pip install godwit")
    from godwit.cli.trace_viewer import serve_trace

    serve_trace(folder)


def _run_one(scenario: str | None, number: int | None, seed: int, changes: list[str], trace: str | None) -> int:
    chosen, run_seed = _drawn(seed, number, changes) if scenario is None else (_chosen(scenario, changes), seed)
    replay = _command(scenario, number, seed, changes)
    with _progress(chosen.name, total=1.0) as advance_to:
        summary = _outcome(chosen, run_seed, replay, advance_to, trace)
    _answer({**summary.to_data(), "replay": replay}, lambda: _show(summary))
    if not summary.passed:
        _report(summary, seed, replay)
    return 0 if summary.passed else STATUS_NO


def _chosen(scenario: str, changes: list[str]) -> "Scenario":
    from godwit.simulator.scenario import SUFFIX, load, named, with_changes

    if scenario.endswith(SUFFIX):
        return load(scenario, changes)
    return with_changes(named(scenario), changes) if changes else named(scenario)


def _drawn(seed: int, number: int | None, changes: list[str]) -> "tuple[Scenario, int]":
    from godwit.simulator.rare_draws import widely_drawn
    from godwit.simulator.scenario import with_changes

    found, run_seed = widely_drawn(seed, number or 0)
    return (with_changes(found, changes) if changes else found), run_seed


def _command(scenario: str | None, number: int | None, seed: int, changes: list[str]) -> str:
    """The command that replays this run."""
    words = ["godwit", "simulate", *(["--swarm-number", str(number)] if scenario is None else [scenario])]
    words += ["--seed", str(seed)]
    for change in changes:
        words += ["--set", change]
    return shlex.join(words)


def _outcome(
    scenario: "Scenario", seed: int, replay: str, advance_to: Callable[[float], None], trace: str | None = None
) -> "Summary":
    """Run a scenario; if the simulator itself fails, print the command that replays it."""
    import msgspec

    from godwit.simulator.run import run
    from godwit.simulator.run_map import map_of
    from godwit.trace import TraceWriter

    about: dict[str, Any] = {}
    if trace is not None:
        about = {"scenario": msgspec.to_builtins(scenario), "seed": seed, "map": map_of(scenario, seed)}
    with nullcontext(None) if trace is None else TraceWriter(trace, about) as sink:
        try:
            return run(scenario, seed, advance_to, sink)
        except Exception:
            echo(f"the simulator failed; replay the run with\n  {replay}", err=True)
            raise


# ---------------------------------------------------------------- a swarm


def _run_swarm(size: int, seed: int, changes: list[str]) -> None:
    totals: dict[str, Any] = dict.fromkeys((*TOTALS, *EXERCISED), 0)
    totals |= {"messages_sent": 0, "simulated_s": 0.0, "wall_s": 0.0}
    broken: tuple[Summary, str] | None = None
    number = 0
    with _progress(f"run 1 of {size}", total=float(size)) as advance_to:
        for number in range(size):
            scenario, run_seed = _drawn(seed, number, changes)
            replay = _command(None, number, seed, changes)
            summary = _outcome(scenario, run_seed, replay, lambda _: None)
            for field in totals:
                totals[field] += getattr(summary, field)
            advance_to(number + 1.0, f"run {min(number + 2, size)} of {size}")
            if not summary.passed:
                broken = summary, replay
                break
    rounded = {field: round(total, 3) if isinstance(total, float) else total for field, total in totals.items()}
    data = {"passed": broken is None, "swarm": size, "seed": seed, "runs": number + 1, **rounded}
    if broken is not None:
        data["broken"] = {**broken[0].to_data(), "replay": broken[1]}
    rows = {name: value for name, value in data.items() if name != "broken"}
    _answer(data, lambda: _show_groups(f"swarm of {size}, seed {seed}", {"": rows}))
    if broken is not None:
        _report(broken[0], seed, broken[1])
        raise Exit(STATUS_NO)


# ---------------------------------------------------------------- showing


@contextmanager
def _progress(description: str, total: float) -> Iterator[Callable[..., None]]:
    """A function to call with the progress, and perhaps another description: a bar on standard error, on a terminal."""
    from godwit.cli.match_command import progress

    with progress() as bar:
        task = bar.add_task(description, total=total)
        yield lambda done, what=description: bar.update(task, completed=done, description=what)


def _answer(data: dict[str, Any], show: Callable[[], None]) -> None:
    """Print a table on a terminal, one line of JSON on a pipe."""
    if sys.stdout.isatty():
        show()
    else:
        echo(json.dumps(data, ensure_ascii=False))


def _report(summary: "Summary", seed: int, replay: str) -> None:
    """Print the broken laws and the replay command."""
    for violation in summary.violations[:VIOLATIONS_SHOWN_MAX]:
        place = f" at {violation.node}" if violation.node else ""
        echo(f"broken: {violation.law} at {violation.at:.6f} s{place}: {violation.text}", err=True)
    if len(summary.violations) > VIOLATIONS_SHOWN_MAX:
        echo(f"… and {len(summary.violations) - VIOLATIONS_SHOWN_MAX} more", err=True)
    echo(f"seed {seed}; replay it with\n  {replay}", err=True)


def _show(summary: "Summary") -> None:
    data = summary.to_data()
    groups: dict[str, dict[str, Any]] = {"": {"passed": data["passed"]}, "building on fire": _fire_rows(data["fire"])}
    for title, fields in GROUPS.items():
        rows = groups.setdefault(title, {})
        for name in fields:
            value = data[name]
            if isinstance(value, dict):
                rows |= {f"{key} ({name})": each for key, each in value.items() if each or name != "receipts"}
            elif value is not None and (value or name not in USED):
                rows[name] = value
    _show_groups(f"{summary.scenario}, seed {summary.seed}", groups)


def _fire_rows(fire: dict[str, Any]) -> dict[str, Any]:
    """The outcome of the fire in a scenario with a burning building; empty otherwise."""
    if not fire:
        return {}
    return {
        "all devices acted correctly": fire["all_correct"],
        "devices judged": f"{fire['judged']:,}, unsure of {fire['unsure']:,}",
        "alerts and orders": f"{fire['alerts']:,} and {fire['orders']:,}",
        "sprinklers that went on": f"{fire['sprinklers_on']:,} of {fire['sprinklers']:,}",
        f"orders that {fire['signals']:,} signals got": (
            f"{fire['switched_left']:,} to the left, {fire['switched_right']:,} to the right"
        ),
    }


def _show_groups(title: str, groups: dict[str, dict[str, Any]]) -> None:
    table = Table(show_header=False, title=title)
    table.add_column(style="cyan")
    table.add_column(justify="right", style="bold")
    for heading, rows in groups.items():
        if rows and heading:
            table.add_section()
            table.add_row(Text(heading, style="bold"), "")
        for name, value in rows.items():
            if isinstance(value, bool):
                shown = Text("yes" if value else "NO", style="bold green" if value else "bold red")
            else:
                is_bad = name in ("lost", "duplicated", "out_of_order", "unwanted", "entries_left") and value
                shown = Text(value if isinstance(value, str) else f"{value:,}", style="bold red" if is_bad else "bold")
            label = "every law held" if name == "passed" else name.replace("_", " ")
            table.add_row(Text(f"  {label}" if heading else label), shown)
    Console().print(table)
