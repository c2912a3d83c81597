"""Routing tables as administrators see them: which filter leads where, and by which filter others know of it.

*Theory.* An entry that came from one neighbour, or from a client here, is told to the others as the reduction decides
(`broker/reductions.py`): as it is, or not at all because another filter covers it, or merged with others into one.
So beside each entry stands, by neighbour, the filter that stands for it there.

*Rules.*
1. Only what is shown is looked up: an answer costs as much as it is long.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from godwit.filters.filters import Filter
from godwit.runtime.question_parts import SHOWN, shown

__all__ = ["WANTED", "entries_of", "told_routes"]

Entry = tuple[str, str, tuple[str, str], Filter]
"""Table, source ("": a client here), id and filter."""

TABLES = (("subscriptions", "in_subs", "out_subs"), ("advertisements", "in_ads", "out_ads"))  # of the tree family
FOLLOWED = "followed"
WANTED = ("subscriptions", FOLLOWED)
"""The tables that events go by."""

NEIGHBOURS_SHOWN = 20


def told_routes(machine: Any, limit: int = SHOWN, source: str | None = None) -> dict[str, Any]:
    """The routing tables of a broker; `source`: only what came from that neighbour, or with "" from clients here."""
    routing, config = machine.routing, machine.config
    wanted = (entry for entry in entries_of(routing) if source is None or entry[1] == source)
    rows = list(islice(wanted, limit + 1))
    return {
        "broker": machine.name,
        "family": config.family,
        "reduction": config.reduction if config.family == "tree" else config.strategy,
        "settled": routing.is_settled(),
        "sizes": routing.sizes(),
        "entries": [
            {
                "table": table,
                "from": source,
                "owner": id[0],
                "name": id[1],
                "filter": shown(filter),
                "told": list(islice(_told_to(routing, table, source, id, filter), NEIGHBOURS_SHOWN)),
            }
            for table, source, id, filter in rows[:limit]
        ],
        "is_cut": len(rows) > limit,
    }


def entries_of(routing: Any) -> Iterable[Entry]:
    """The entries of a routing family's tables."""
    for table, name, _ in TABLES:
        for source, entries in getattr(routing, name, {}).items():
            for id, filter in entries.items():
                yield table, source, id, filter
    followed: Any = getattr(getattr(routing, "further", None), "followed", {})  # on clients' contexts, as they are now
    for source, entries in followed.items():
        for id, entry in entries.items():
            yield FOLLOWED, source, id, entry.loosened
    local = getattr(routing, "local", {})  # the graph family
    for id, filter in local.items():
        yield "subscriptions", "", id, filter
    for source, entries in getattr(routing, "remote", {}).items():
        for id, filter in entries.items():
            if isinstance(filter, Filter):
                yield "subscriptions", source, id, filter


def _told_to(routing: Any, table: str, source: str, id: tuple[str, str], filter: Filter) -> Iterator[dict[str, Any]]:
    """By which filter each neighbour knows of an entry: its own ("as it is"), or one that covers it."""
    outgoing = next((out for name, _, out in TABLES if name == table), "")
    for neighbour, told in getattr(routing, outgoing, {}).items():
        stands_for = getattr(told, "standing_for", None)  # a reduction of somebody else may not know
        standing = None if stands_for is None else stands_for((source, id))
        if standing is not None:
            yield {"to": neighbour, "covered_by": None if standing == filter else shown(standing)}
