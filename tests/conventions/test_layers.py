"""A room imports only from rooms below it. The order of the rooms stands in pyproject.toml."""

from collections.abc import Iterable, Iterator

import pytest

from tests.conventions.repository import Module, modules, rooms

NO_SIMULATOR = ("runtime", "mqtt")  # they lie above it, and run in production
SEES_ONLY = {"pipeline": {"errors", "files", "locking", "trace", "filters", "event_log", "matching", "languages"}}


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


@pytest.mark.parametrize("room", ["runtime", "mqtt"])
def test_what_runs_in_production_may_not_see_the_simulator(room: str) -> None:
    planted = Module(f"{room}/planted.py", "from godwit.simulator import world\n")
    assert list(faults([planted], rooms())) == [f"{room}/planted.py:1: {room} must not import from simulator"]


def test_a_room_that_is_not_listed_and_a_relative_import_are_caught() -> None:
    [unlisted] = faults([Module("utils/planted.py", "")], rooms())
    assert "'utils' is not among the layers" in unlisted
    [relative] = faults([Module("filters/planted.py", "from ..matching import index\n")], rooms())
    assert "relative import" in relative
