"""`godwit sessions`, `godwit routes`, `godwit trace`: look into a running broker, over HTTP."""

import json as json_form
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from godwit.cli.admin_client import HTTP, Http, office
from godwit.cli.broker_connection import CaFile, Password, Token, User, is_terminal
from godwit.cli.signatures import Argument, Exit, Option, echo
from godwit.cli.terminal import Console, Table, Text

__all__ = ["list_rows", "routes", "sessions", "trace"]

NUMBERS = {"queued", "subs", "advs", "outbox", "number"}
NOTHING: tuple[Any, ...] = (None, "", [], {})
TIMES = {"at", "since", "ends_at", "expires", "away_since", "published_at", "queued_at"}


def sessions(
    client: Annotated[str | None, Argument(metavar="CLIENT", help="Show the session of this client in full.")] = None,
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """List the sessions of a broker, and their queues. Shows which clients are connected and which are away.

    Example: godwit sessions ann
    """
    desk = office(http, token, user, password, ca)
    if client is None:
        list_rows("sessions", desk.ask("/sessions"), in_short)
    else:
        _tell(client, desk.ask(f"/sessions/{client}"))


def routes(
    links: Annotated[bool, Option("--links", help="List the links to neighbours instead.")] = False,
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """List the routing table of a broker. Each row is a filter and the neighbour or client that it leads to.

    Example: godwit routes --links
    """
    desk = office(http, token, user, password, ca)
    path = "/links" if links else "/routes"
    list_rows(path.strip("/"), desk.ask(path))


def trace(
    client: Annotated[str, Option(metavar="NAME", help="Show only records of this client.")] = "",
    event: Annotated[str, Option(metavar="PUBLISHER:NUMBER", help="Show only records of this event.")] = "",
    count: Annotated[
        int | None, Option("--count", "-C", metavar="COUNT", help="Stop after this number of records.", min=1)
    ] = None,
    http: Http = HTTP,
    token: Token = "",
    user: User = "",
    password: Password = "",
    ca: CaFile = "",
) -> None:
    """Print the trace records of a broker as they occur. Ctrl-C ends it.

    Example: godwit trace --client ann
    """
    desk = office(http, token, user, password, ca)
    shown = 0
    try:
        for record in desk.stream("/trace", client=client, event=event):
            _show_record(record)
            shown += 1
            if shown == count:
                return
    except KeyboardInterrupt:
        raise Exit from None


# ---------------------------------------------------------------- showing


def in_short(session: Mapping[str, Any]) -> dict[str, Any]:
    """A session as a row that fits on a screen."""
    ends_at = session.get("ends_at")
    state = "attached" if session.get("attached") else f"away, until {shown('ends_at', ends_at)}" if ends_at else "away"
    return {
        "client": session.get("client"),
        "state": state,
        "queued": session.get("queued"),
        "subs": session.get("subscriptions"),
        "suspended": session.get("suspended"),
        "advs": session.get("advertisements"),
        "mode": session.get("mode"),
        "session": session.get("session"),
    }


def list_rows(what: str, answer: Any, short: Callable[[Mapping[str, Any]], dict[str, Any]] = dict) -> None:
    """Rows: a table for people, JSON lines for a pipe."""
    rows = rows_in(what, answer)
    if not is_terminal():
        for row in rows:
            echo(json_form.dumps(row, ensure_ascii=False))
        return

    console = Console()
    if not rows:
        console.print(Text(f"no {what}", "dim"))
        return
    console.print(table_of([short(row) for row in rows]))
    more = answer.get("more") if isinstance(answer, Mapping) else 0
    is_cut = isinstance(answer, Mapping) and answer.get("is_cut")
    cut = f", and {more:,} more" if more else ", and more" if is_cut else ""
    console.print(Text(f"{len(rows):,} {what if len(rows) > 1 else what.removesuffix('s')}{cut}", "dim"))


def rows_in(what: str, answer: Any) -> list[dict[str, Any]]:
    """The rows of an answer: a list, or the list under the name of the request."""
    found = answer
    if isinstance(answer, Mapping):
        lists = [value for value in answer.values() if isinstance(value, list)]
        found = answer.get(what, lists[0] if lists else [answer])
    return [row if isinstance(row, dict) else {"what": row} for row in found]


def table_of(rows: Sequence[Mapping[str, Any]]) -> "Table":
    """A table with a column for each field that is not empty in all rows."""

    names = [
        name
        for name in dict.fromkeys(name for row in rows for name in row)
        if any(row.get(name) not in NOTHING for row in rows)
    ]
    table = Table()
    for place, name in enumerate(names):
        is_number = name in NUMBERS or all(type(row.get(name, 0)) in (int, float) for row in rows)
        style = "cyan" if place == 0 else ""
        table.add_column(
            name.replace("_", " "),
            justify="right" if is_number and name not in TIMES else "left",
            style=style,
            no_wrap=place == 0,
        )
    for row in rows:
        table.add_row(*[Text(shown(name, row.get(name))) for name in names])
    return table


def shown(name: str, value: Any) -> str:
    """A field of an answer in a cell."""
    from godwit.cli.event_display import safe

    if value in NOTHING:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name in TIMES and isinstance(value, int | float):
        return datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3g}"
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
        return safe(", ".join(map(str, value)))
    if isinstance(value, list):
        return f"{len(value):,}"
    if isinstance(value, dict):
        return "  ".join(f"{safe(each)}={shown(each, held)}" for each, held in value.items() if held not in NOTHING)
    return safe(json_form.dumps(value, ensure_ascii=False))


def _tell(title: str, answer: Any) -> None:
    """Print an object, one field a line."""
    if not is_terminal():
        echo(json_form.dumps(answer, ensure_ascii=False))
        return

    from godwit.cli.event_display import safe

    console = Console()
    console.print(Text(safe(title), style="bold cyan"))
    sides = answer.items() if isinstance(answer, Mapping) else [("answer", answer)]
    grid = Table(show_header=False)
    grid.add_column(style="dim")
    grid.add_column()
    below: list[tuple[str, Any]] = []
    for name, value in sides:
        if isinstance(value, list) and value and isinstance(value[0], Mapping):
            below.append((name, value))
        elif value not in NOTHING:
            grid.add_row(name.replace("_", " "), Text(shown(name, value)))
    console.print(grid)
    for name, rows in below:
        console.print(Text(f"\n{name.replace('_', ' ')}", "bold"))
        console.print(table_of(rows))


def _show_record(record: Any) -> None:
    if not is_terminal() or not isinstance(record, Mapping):
        sys.stdout.write(json_form.dumps(record, ensure_ascii=False) + "\n")
        sys.stdout.flush()
        return

    Console().print(_record_text(record, Text()), soft_wrap=True)


def _record_text(record: Mapping[str, Any], text: Any) -> Any:
    """A trace record as a line: time, kind, fields."""
    from godwit.cli.event_display import safe

    at = record.get("at", record.get("time"))
    if isinstance(at, int | float):
        text.append(datetime.fromtimestamp(at).strftime("%H:%M:%S.%f")[:-3] + "  ", style="dim")
    text.append(f"{safe(str(record.get('kind', '?'))):<14}", style="bold cyan")
    for name, value in _said(record):
        text.append(f" {safe(name)}=", style="dim").append(shown(name, value))
    return text


def _said(record: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The fields of a record without time and kind, with the event's id as one field."""
    apart = {"at", "time", "kind", "publisher", "sequence"}
    if record.get("publisher"):
        yield "event", f"{record['publisher']}:{record.get('sequence', '')}"
    for name, value in record.items():
        if name not in apart and value not in (*NOTHING, -1):
            yield name, value
