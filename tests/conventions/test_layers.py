"""A room imports only from rooms below it. The order of the rooms stands in pyproject.toml."""

from collections.abc import Iterable, Iterator

import pytest

from tests.conventions.repository import Module, modules, rooms

NO_SIMULATOR = ("runtime", "mqtt")  # they lie above it, and run in production
SEES_ONLY = {
    "pipeline": {"errors", "files", "locking", "registry", "trace", "filters", "event_log", "matching", "languages"}
}

BELOW_TEAMWORK = {"errors", "files", "locking", "registry", "settings", "trace", "webhook_post", "filters", "languages"}
TEAMWORK_SEES = {
    *(
        "runtime.connecting",
        "runtime.network_client",
        "runtime.pending_requests",
    ),  # the client: the only way to brokers
    "broker.client_rights",  # what a grant leaves of a query, decided as brokers decide it
    *("runtime.clock", "runtime.configuration", "runtime.tcp", "runtime.users"),
    *("runtime.http_listener", "runtime.http_protocols", "runtime.http_requests", "runtime.server_sent_events"),
    *("runtime.dashboard_files", "runtime.static_files"),
    *("runtime.memory_account", "runtime.pacing", "runtime.rate_limits"),
}
"""Modules of rooms that know brokers: all that teamwork may import of them. See docs/papers.md, motion §2."""


def teamwork_faults(modules: Iterable[Module]) -> Iterator[str]:
    """Imports of teamwork beyond the client of brokers and what the list names."""
    for module in modules:
        if module.room != "teamwork":
            continue
        for line, name in module.imports:
            package, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if package != "godwit" or room not in rooms() or room in BELOW_TEAMWORK | {"teamwork"}:
                continue
            if ".".join(rest.split(".")[:2]) not in TEAMWORK_SEES:
                yield f"{module.name}:{line}: teamwork must not import {name}"


def faults(modules: Iterable[Module], rooms: list[str]) -> Iterator[str]:
    for module in modules:
        if module.room in ("__init__", "__main__"):
            continue
        if module.room not in rooms:
            yield f"{module.name}: room {module.room!r} is not among the layers in pyproject.toml"
            continue
        below = rooms[: rooms.index(module.room)]
        allowed = SEES_ONLY.get(module.room, set(below)) | {module.room}
        if module.room in NO_SIMULATOR:
            allowed -= {"simulator"}
        for line, name in module.imports:
            package, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if name.startswith("."):
                yield f"{module.name}:{line}: relative import {name}"
            elif package == "godwit" and room in rooms and room not in allowed:
                yield f"{module.name}:{line}: {module.room} must not import from {room}"


def test_each_room_imports_only_from_rooms_below_it() -> None:
    assert list(faults(modules(), rooms())) == []


def test_the_order_of_the_rooms_is_that_of_the_design() -> None:
    order = rooms()
    assert order[0] == "errors"
    assert order[-1] == "cli"
    assert order.index("filters") < order.index("matching") < order.index("broker") < order.index("runtime")


def test_an_upward_import_is_caught_even_inside_a_function() -> None:
    planted = Module("filters/planted.py", "def f():\n    from godwit.matching import index\n")
    assert list(faults([planted], rooms())) == ["filters/planted.py:2: filters must not import from matching"]
    planted = Module("filters/planted.py", "from godwit import cli\n")
    assert list(faults([planted], rooms())) == ["filters/planted.py:1: filters must not import from cli"]


def test_a_downward_import_and_one_within_the_room_are_allowed() -> None:
    text = "import godwit.filters.sets\nfrom godwit.errors import BadValue\nfrom godwit.matching import Naive\n"
    assert list(faults([Module("matching/planted.py", text)], rooms())) == []


def test_the_pipeline_may_not_see_the_broker_although_it_lies_lower() -> None:
    planted = Module("pipeline/planted.py", "import godwit.filters\nimport godwit.broker.tables\n")
    assert list(faults([planted], rooms())) == ["pipeline/planted.py:2: pipeline must not import from broker"]


def test_teamwork_reaches_brokers_by_the_client_alone() -> None:
    assert list(teamwork_faults(modules())) == []


def test_teamwork_that_reaches_around_the_client_is_caught() -> None:
    text = "from godwit.runtime.connecting import connect\nfrom godwit.runtime.node import Node\n"
    text += "import godwit.broker\n"
    assert list(teamwork_faults([Module("teamwork/planted.py", text)])) == [
        "teamwork/planted.py:2: teamwork must not import godwit.runtime.node.Node",
        "teamwork/planted.py:3: teamwork must not import godwit.broker",
    ]
    assert list(teamwork_faults([Module("cli/planted.py", text)])) == []


def test_everything_that_teamwork_may_import_is_imported() -> None:
    imported = {name for module in modules() if module.room == "teamwork" for _, name in module.imports}
    assert {each for each in TEAMWORK_SEES if not any(f"godwit.{each}." in f"{name}." for name in imported)} == set()


@pytest.mark.parametrize("room", ["runtime", "mqtt"])
def test_what_runs_in_production_may_not_see_the_simulator(room: str) -> None:
    planted = Module(f"{room}/planted.py", "from godwit.simulator import world\n")
    assert list(faults([planted], rooms())) == [f"{room}/planted.py:1: {room} must not import from simulator"]


def test_a_room_that_is_not_listed_and_a_relative_import_are_caught() -> None:
    [unlisted] = faults([Module("utils/planted.py", "")], rooms())
    assert "'utils' is not among the layers" in unlisted
    [relative] = faults([Module("filters/planted.py", "from ..matching import index\n")], rooms())
    assert "relative import" in relative
