"""Reading traces: rows of one kind, and what the experiments of several papers ask of them.

All of it takes the folder of a trace and gives plain Python data; whatever reads the same Parquet file could do it too.
"""

from collections import Counter
from pathlib import Path
from typing import Any

from godwit import trace
from godwit.mobility import messages

__all__ = ["CONTROL", "arrivals", "deliveries", "hops", "ids", "overtaken", "rows"]

CONTROL: tuple[str, ...] = (
    *("Advertise", "Unadvertise", "Subscribe", "Unsubscribe"),
    *(name for name in messages.__all__ if name not in ("Brokers", "MoveOut", "Strike")),
)
"""Messages between brokers that build, take down and move trees and sessions; events and acknowledgements are none, nor
what brokers say to get acquainted. In the graph family they travel in packets, whose rows do not name them."""

Row = tuple[Any, ...]
EventId = tuple[str, int]


def rows(folder: Path, kind: str, *columns: str) -> list[Row]:
    """Those columns of all records of a kind, in the order in which they happened."""
    import pyarrow.compute as pc

    table = trace.read(folder)
    table = table.filter(pc.equal(table["kind"], kind)).select(columns)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def ids(folder: Path, kind: str) -> set[EventId]:
    """The events that records of a kind name."""
    return set(rows(folder, kind, "publisher", "sequence"))


def deliveries(folder: Path) -> dict[str, list[EventId]]:
    """By client, the events that it was given, in order."""
    found: dict[str, list[EventId]] = {}
    for node, publisher, sequence in rows(folder, "delivered", "node", "publisher", "sequence"):
        found.setdefault(node, []).append((publisher, sequence))
    return found


def hops(folder: Path, *messages: str) -> Counter[EventId]:
    """How many hops between brokers messages of these types have made, by the event they bear (("", -1): none).

    Clients speak to brokers in messages of their own, so that a type tells where it was handled.
    """
    columns = ("message", "publisher", "sequence")
    return Counter((who, number) for kind, who, number in rows(folder, "handled", *columns) if kind in messages)


def arrivals(folder: Path) -> dict[str, list[tuple[float, str, str]]]:
    """By client, when it connected to another broker than the one before, which one that was, and the new one."""
    found: dict[str, list[tuple[float, str, str]]] = {}
    last: dict[str, str] = {}
    clients = {node for node, message in rows(folder, "handled", "node", "message") if message == "Attached"}
    clients |= set(deliveries(folder))
    for at, node, peer in rows(folder, "link_up", "at", "node", "peer"):
        if node in clients:
            if node in last and last[node] != peer:
                found.setdefault(node, []).append((at, last[node], peer))
            last[node] = peer
    return found


def overtaken(events: list[EventId]) -> int:
    """How many events came first after a later one of the same publisher."""
    highest: dict[str, int] = {}
    seen: set[EventId] = set()
    found = 0
    for publisher, number in events:
        if (publisher, number) not in seen:
            found += number < highest.get(publisher, 0)
            highest[publisher] = max(number, highest.get(publisher, 0))
        seen.add((publisher, number))
    return found
