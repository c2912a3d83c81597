"""The stored table of what each version of a state writes: fields and their types, with those of structs within it.

After a change of fields, raise the `version` of the state and run `python -m tests.conventions.state_layouts`.
"""

import json
import re
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec

from godwit.adhoc.holdings import HoldingsState
from godwit.baselines.hop_routing_state import HopState
from godwit.codec import STATES
from godwit.codec.type_registry import version_of

__all__ = ["layout_of", "present", "stored", "why_not"]

assert {HopState, HoldingsState} <= set(STATES)  # registered when they are imported
TABLE = Path(__file__).with_suffix(".json")

Layout = dict[str, dict[str, str]]
"""By struct, its fields and their types."""


def layout_of(kind: type[msgspec.Struct]) -> Layout:
    """The fields of a state and of the structs within it, but for states that have a version of their own."""
    found: Layout = {}
    _add(kind, found, {each for each in STATES if each is not kind})
    return found


def _add(kind: Any, found: Layout, versioned: set[Any]) -> None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        if kind in versioned or kind.__name__ in found:
            return
        hints = get_type_hints(kind)
        fields = found[kind.__name__] = {name: _text(hints[name]) for name in kind.__struct_fields__}
        for name in fields:
            _add(hints[name], found, versioned)
    for part in get_args(kind):
        _add(part, found, versioned)


def _text(hint: Any) -> str:
    text = hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)  # wherever a type lives


def present() -> dict[str, dict[str, Any]]:
    """By state, its version and layout now."""
    ours = [kind for kind in STATES if kind.__module__.startswith("godwit.")]  # tests register others
    return {kind.__name__: {"version": version_of(kind), "layout": layout_of(kind)} for kind in ours}


def stored() -> dict[str, dict[str, Any]]:
    """The same as it was stored."""
    return json.loads(TABLE.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def why_not(name: str, now: dict[str, Any], before: dict[str, Any] | None) -> str | None:
    """What is wrong with a state, if anything is."""
    store = "run python -m tests.conventions.state_layouts"
    if before is None:
        return f"{name} is not in the table: {store}"
    if now["version"] < before["version"]:
        return f"{name} has version {now['version']}, and had {before['version']}: versions only rise"
    if now["version"] > before["version"]:
        return f"{name} has version {now['version']}, and the table {before['version']}: {store}"
    changed = {
        struct
        for struct in now["layout"].keys() | before["layout"].keys()
        if now["layout"].get(struct) != before["layout"].get(struct)
    }
    if changed:
        return f"{name} has other fields and the same version ({', '.join(sorted(changed))}): raise it, then {store}"
    return None


if __name__ == "__main__":
    TABLE.write_text(json.dumps(present(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
