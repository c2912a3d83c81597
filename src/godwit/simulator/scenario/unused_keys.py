"""Unused keys of a scenario: those that change nothing because another key leaves them without effect.

*Rules.*
1. A key with its default is never unused: nobody has asked for anything.
2. Who changes a scenario (`--set`) and so leaves a key of the same table without effect need not take that key away;
   who sets an unused key gets an error.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import structs

from godwit.errors import ScenarioError
from godwit.settings import Path, Where

__all__ = ["check_unused_keys", "drop_unused_keys", "unused_keys"]


def unused_keys(scenario: Any) -> Iterator[tuple[Path, str]]:
    """Each key that is set and changes nothing, with the reason and what would be right."""
    routing, contexts, fire = scenario.routing, scenario.contexts, scenario.fire
    if (routing.family, routing.strategy) != ("graph", "spcf"):
        why = "only the family 'graph' with strategy 'spcf' summarises contexts"
        yield from _changed(routing, ("routing", "contexts_max"), why)
    if routing.family != "tree":
        why = "only the family 'tree' tells neighbours of open filters"
        yield from _changed(routing, ("routing", "open_filters"), why)
    for key, share, whose in (
        ("sender_selectivity", "sender_share", "no subscription has a filter on its sender"),
        ("to_selectivity", "to_share", "no event has a `to`"),
    ):
        if not getattr(contexts, share):
            yield from _changed(contexts, ("contexts", key), f"contexts.{share} is 0, so {whose}")
    if not fire.is_on:
        for field in structs.fields(fire):
            yield from _changed(fire, ("fire", field.name), "fire.floors is 0, so there is no building")


def _changed(table: Any, path: Path, why: str) -> Iterator[tuple[Path, str]]:
    value, default = (getattr(each, str(path[-1])) for each in (table, type(table)()))
    if value != default:
        yield path, f"is {value!r}: {why}; without that, it can only be {default!r}"


def check_unused_keys(scenario: Any, where: Where) -> None:
    """Raise `ScenarioError` when a key is set that changes nothing."""
    for path, why in unused_keys(scenario):
        raise ScenarioError(f"{where(path)} {why}")


def drop_unused_keys(scenario: Any, data: dict[str, Any], set_by: Iterable[Path]) -> bool:
    """Take those keys out of `data` that changes have left without effect; whether there were any. (rule 2)"""
    told = list(set_by)
    gone = [
        path
        for path, _ in unused_keys(scenario)
        if any(path[0] == each[0] for each in told) and not any(path[: len(each)] == each for each in told)
    ]
    for table, key in gone:
        del data[str(table)][key]
    return bool(gone)
