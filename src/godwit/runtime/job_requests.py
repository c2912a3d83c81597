"""Requests of the dashboard to start a job: the body of a request becomes files and a command.

*Theory.* A body is one line of JSON; for a plan the trace follows after it, byte for byte.

*Rules.*
1. File names are fixed. Nothing in a body becomes an option of a command, except numbers.
2. A scenario may name only files of its folder: those that come with Godwit are copied there.
"""

import csv
import io
import tomllib
from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from godwit.errors import BadValue
from godwit.runtime.http_requests import Problem

__all__ = ["Request", "request_of", "shipped_scenarios"]

SCENARIOS = "simulator/scenarios"
SUFFIX = ".toml"
FILE_KEYS = ("file", "positions", "graph", "model_file", "subscriptions_file", "events_file")
BROKERS_MAX = 1_000
TRACES = (".csv", ".parquet")


Asked = TypeVar("Asked", bound=msgspec.Struct)


class Request(NamedTuple):
    """A job: its files by name, and the words of its command."""

    files: dict[str, bytes]
    words: list[str]


class BrokerRow(msgspec.Struct, frozen=True):
    """A broker of a plan."""

    broker: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    lon: Annotated[float, msgspec.Meta(ge=-180, le=180)]
    lat: Annotated[float, msgspec.Meta(ge=-90, le=90)]
    radius_m: Annotated[float, msgspec.Meta(gt=0, le=1_000_000)]
    address: Annotated[str, msgspec.Meta(max_length=300)] = ""


class PlanRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of a plan, besides the trace."""

    name: str  # of the trace's file
    brokers: Annotated[tuple[BrokerRow, ...], msgspec.Meta(min_length=1, max_length=BROKERS_MAX)]
    rate: Annotated[float, msgspec.Meta(gt=0, le=10_000)] = 1.0
    wanted: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.1


class SimulateRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario as text, its name, and its seed."""

    scenario: Annotated[str, msgspec.Meta(max_length=100_000)]
    name: Annotated[str, msgspec.Meta(pattern="^[a-z0-9_-]{1,40}$")] = "scenario"
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 1


def request_of(kind: str, body: bytes) -> Request:
    """The job of a request body. Problem or GodwitError if it is invalid."""
    said, _, rest = body.partition(b"\n")
    match kind:
        case "plan":
            return _plan(_decoded(said, PlanRequest), rest)
        case "simulate":
            return _simulate(_decoded(said, SimulateRequest))
    raise Problem(404, f"there is no job {kind[:40]!r}: allowed is plan or simulate")


def _decoded(said: bytes, kind: type[Asked]) -> Asked:
    try:
        return msgspec.json.decode(said, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the first line is not valid for this job: {error}") from None


def _plan(asked: PlanRequest, trace: bytes) -> Request:
    suffix = next((each for each in TRACES if asked.name.lower().endswith(each)), "")
    if not suffix:
        raise Problem(400, f"{asked.name[:80]!r}: a trace is a file that ends in {' or '.join(TRACES)}")
    if not trace.strip():
        raise Problem(400, f"{asked.name[:80]!r} is empty: a trace has the columns time, id, lon and lat")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("broker", "lon", "lat", "radius_m", "address"))
    for row in asked.brokers:
        if "\n" in row.broker or "\r" in row.broker:
            raise BadValue(f"broker {row.broker!r}: a name must be on one line")
        writer.writerow((row.broker, row.lon, row.lat, row.radius_m, row.address))
    words = ["plan", f"trace{suffix}", "--brokers", "brokers.csv", "--out", "plan", "--engine", "local"]
    words += [f"--rate={asked.rate}", f"--wanted={asked.wanted}"]
    return Request({f"trace{suffix}": trace, "brokers.csv": text.getvalue().encode()}, words)


def _simulate(asked: SimulateRequest) -> Request:
    with suppress(ValueError, RecursionError):  # the command reports errors, with the line
        _check_files(tomllib.loads(asked.scenario))
    shipped = {name: data for name, data in _scenario_files().items() if not name.endswith(SUFFIX)}
    file = f"{asked.name}{SUFFIX}"
    words = ["simulate", file, f"--seed={asked.seed}", "--trace", "trace"]
    return Request({**shipped, file: asked.scenario.encode()}, words)


def _check_files(held: Any) -> None:
    """Raise Problem if a scenario names a file elsewhere. (rule 2)"""
    for key, value in held.items() if isinstance(held, dict) else ():
        if isinstance(value, dict):
            _check_files(value)
        elif key in FILE_KEYS and isinstance(value, str) and ("/" in value or "\\" in value):
            known = ", ".join(name for name in sorted(_scenario_files()) if not name.endswith(SUFFIX))
            raise Problem(
                400, f"{key} is {value[:80]!r}: in the dashboard, allowed are {known}; or use the command line"
            )


@cache
def _scenario_files() -> dict[str, bytes]:
    """The files of the scenarios that come with Godwit."""
    folder = files("godwit").joinpath(SCENARIOS)
    return {each.name: each.read_bytes() for each in folder.iterdir() if each.name.endswith((SUFFIX, ".csv"))}


def shipped_scenarios() -> dict[str, dict[str, str]]:
    """The scenarios that come with Godwit: texts by name, and the files that they use."""
    found = {name: data.decode() for name, data in sorted(_scenario_files().items())}
    return {
        "scenarios": {name.removesuffix(SUFFIX): text for name, text in found.items() if name.endswith(SUFFIX)},
        "files": {name: text for name, text in found.items() if not name.endswith(SUFFIX)},
    }
