"""Reading scenarios: from TOML files, from those that come with Godwit, and changed by `key=value`.

*Rules.*
1. `load`, `named` and `with_changes` return only scenarios that `check` accepts; `draw` draws no others.
2. An error is a `ScenarioError` that names file, line where it is known, key and what is allowed.
"""

import tomllib
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec

from godwit import settings
from godwit.errors import ScenarioError
from godwit.simulator.scenario.checks import check_all
from godwit.simulator.scenario.overlay_section import parameters_of_other_kinds
from godwit.simulator.scenario.scenario import Scenario
from godwit.simulator.scenario.unused_keys import drop_unused_keys
from godwit.simulator.scenario.walking_section import FILE_SUFFIXES

__all__ = ["SUFFIX", "load", "named", "names", "with_changes"]

FILES = (
    ("overlay", "file"),
    ("overlay", "positions"),
    ("clients", "roaming", "file"),
    ("clients", "roaming", "publishers", "model_file"),
    ("workload", "subscriptions_file"),
    ("workload", "events_file"),
)
"""Keys that name files beside the scenario."""

SUFFIX = ".toml"
NOTHING = "none"  # as a value of --set: take the key away


def load(path: str | Path, changes: Iterable[str] = ()) -> Scenario:
    """The scenario of a TOML file, with changes as in `with_changes`. Files that it names are looked for beside it."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {getattr(error, 'strerror', None) or 'is not UTF-8'}") from None
    changes = list(changes)
    scenario = _read(text, str(path), path.stem, path.parent, is_final=not changes)
    return with_changes(scenario, changes) if changes else scenario


def names() -> dict[str, str]:
    """The scenarios that come with Godwit, by name, and what each is about."""
    return {name: named(name).description for name in sorted(_shipped())}


def named(name: str) -> Scenario:
    """A scenario that comes with Godwit."""
    shipped = _shipped()
    if name not in shipped:
        raise ScenarioError(
            f"there is no scenario {name!r}{settings.nearest(name, shipped)}; "
            f"allowed are {', '.join(sorted(shipped))}, or a file that ends in {SUFFIX}"
        )
    return _read(shipped[name], f"{name}{SUFFIX}", name, Path(str(_folder())))


def with_changes(scenario: Scenario, changes: Iterable[str]) -> Scenario:
    """The scenario with some keys set, each as `key.path=value`; the value is TOML, and a bare word is a text.

    The value `none` takes a key away. A change of `overlay.kind` takes away the keys of the old kind, and a change that
    leaves other keys of its table without effect takes these away.
    """
    data = _plain(scenario)
    set_by: dict[settings.Path, str] = {}
    for change in changes:
        key, equals, text = change.partition("=")
        path = tuple(part.strip() for part in key.split("."))
        if not equals or not all(path):
            raise ScenarioError(f"--set {change}: allowed is key.path=value, such as clients.publishers=20")
        _set(data, path, _value(text.strip()), change)
        set_by[path] = change
        if path == ("overlay", "kind"):
            for name in parameters_of_other_kinds(data["overlay"].get("kind")):
                if ("overlay", name) not in set_by:
                    data["overlay"].pop(name, None)

    def where(path: settings.Path) -> str:
        change = next((set_by[path[:n]] for n in range(len(path), 0, -1) if path[:n] in set_by), None)
        return f"{scenario.name if change is None else f'--set {change}'}: {settings.key_text(path)}"

    changed = settings.checked(Scenario, data, where)
    if drop_unused_keys(changed, data, set_by):
        changed = settings.checked(Scenario, data, where)
    check_all(changed, where)
    return changed


def _folder() -> Traversable:
    return resources.files("godwit.simulator") / "scenarios"


def _shipped() -> dict[str, str]:
    return {
        each.name.removesuffix(SUFFIX): each.read_text(encoding="utf-8")
        for each in _folder().iterdir()
        if each.name.endswith(SUFFIX)
    }


def _read(text: str, file: str, name: str, folder: Path, *, is_final: bool = True) -> Scenario:
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for an int of 5,000 digits, and for 5,000 brackets
        raise ScenarioError(f"{file}: {error}") from None

    def where(path: settings.Path) -> str:
        line = settings.line_of(text, path)
        return f"{file}{f':{line}' if line else ''}: {settings.key_text(path)}"

    data = {"name": name, **data}
    for *tables, key in FILES:
        held: Any = data
        for table in tables:
            held = held.get(table) if isinstance(held, dict) else None
        if isinstance(held, dict) and isinstance(held.get(key), str) and held[key]:
            held[key] = str(folder / held[key])
    clients = data.get("clients")
    walking = clients.get("walking") if isinstance(clients, dict) else None
    if isinstance(walking, dict) and str(walking.get("graph", "")).endswith(FILE_SUFFIXES):
        walking["graph"] = str(folder / walking["graph"])
    scenario = settings.checked(Scenario, data, where)
    if is_final:
        check_all(scenario, where)
    return scenario


def _plain(scenario: Scenario) -> dict[str, Any]:
    """The scenario as it would stand in a file: without keys that have no value."""

    def without_none(held: Any) -> Any:
        if isinstance(held, dict):
            return {key: without_none(value) for key, value in held.items() if value is not None}
        return [without_none(value) for value in held] if isinstance(held, list | tuple) else held

    found: dict[str, Any] = without_none(msgspec.to_builtins(scenario))
    return found


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _set(data: dict[str, Any], path: tuple[str, ...], value: Any, change: str) -> None:
    table: Any = data
    for part in path[:-1]:
        table = table.setdefault(part, {})
        if not isinstance(table, dict):
            raise ScenarioError(f"--set {change}: {part} holds no keys")
    if value == NOTHING:
        table.pop(path[-1], None)
    else:
        table[path[-1]] = value
