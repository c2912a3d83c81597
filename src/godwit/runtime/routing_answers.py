"""Routing tables for administrators: the target of each filter, and the filter that neighbours got for it.

*Theory.* An entry of one neighbour, or of a local client, is forwarded to the others as the reduction decides
(`broker/reductions.py`): unchanged, or not at all because another filter covers it, or merged with others. So each
entry is shown with the filter that represents it, by neighbour.

*Rules.*
1. Only shown entries are looked up: the cost of an answer depends on its length.
2. They are looked up in slices between the broker's other work (`slices.py`). What has gone meanwhile is told, too.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from godwit.filters.filters import Filter
from godwit.runtime.question_parts import SHOWN, shown
from godwit.runtime.slices import Slices

__all__ = ["WANTED", "entries_of", "told_routes"]

Entry = tuple[str, str, tuple[str, str], Filter]
"""Table, source ("": a client here), id and filter."""

TABLES = (("subscriptions", "in_subs", "out_subs"), ("advertisements", "in_ads", "out_ads"))  # of the tree family
FOLLOWED = "followed"
WANTED = ("subscriptions", FOLLOWED)
"""The tables that route events."""

NEIGHBOURS_SHOWN = 20


async def told_routes(machine: Any, limit: int = SHOWN, source: str | None = None) -> dict[str, Any]:
    """The routing tables of a broker; `source`: only entries of that neighbour, or with "" of local clients."""
    routing, config = machine.routing, machine.config
    wanted = (entry for entry in entries_of(routing) if source is None or entry[1] == source)
    rows = list(islice(wanted, limit + 1))
    slices, told = Slices(), list[dict[str, Any]]()
    for table, of, id, filter in rows[:limit]:
        if not await slices.more():
            break
        told.append(
            {
                "table": table,
                "from": of,
                "owner": id[0],
                "name": id[1],
                "filter": shown(filter),
                "told": list(islice(_told_to(routing, table, of, id, filter), NEIGHBOURS_SHOWN)),
            }
        )
    return {
        "broker": machine.name,
        "family": config.family,
        "reduction": config.reduction if config.family == "tree" else config.strategy,
        "settled": routing.is_settled(),
        "sizes": routing.sizes(),
        "entries": told,
        "is_cut": len(rows) > len(told),
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
    """The filter that each neighbour got for an entry: its own ("as it is"), or one that covers it."""
    outgoing = next((out for name, _, out in TABLES if name == table), "")
    for neighbour, told in getattr(routing, outgoing, {}).items():
        stands_for = getattr(told, "standing_for", None)  # a user-defined reduction may not know
        standing = None if stands_for is None else stands_for((source, id))
        if standing is not None:
            yield {"to": neighbour, "covered_by": None if standing == filter else shown(standing)}
