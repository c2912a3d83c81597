"""How `godwit team` shows answers: tables and short texts on a terminal, a line of JSON for each on a pipe.

Text of other users cannot control the terminal: a character that does not print is written as its number.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from godwit.cli.broker_connection import is_terminal
from godwit.cli.event_display import safe
from godwit.cli.signatures import echo
from godwit.cli.terminal import Console, Table, Text

__all__ = ["HISTORY", "note", "show_answer", "show_facts", "show_rows", "shown", "write_line"]

TIMES = {"time", "chosen", "delivered", "read", "expires", "since", "until", "times", "modified"}
HISTORY = {
    "time": "time",
    "user": "user",
    "device": "device",
    "of": "record",
    "set": "fields",
    "lost": "lost",
    "refused": "refused",
}
"""Columns of a history."""
SIZES = {"size", "bytes", "bytes_used"}


def show_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    nothing: str,
    short: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
) -> None:
    """Print a table. `columns`: the key of a row by heading. `nothing`: the text if there are no rows.

    `short` converts an answer to a row.
    """
    if not is_terminal():
        for row in rows:
            write_line(row)
        return

    if not rows:
        echo(nothing)
        return
    table = Table()
    for heading, key in columns.items():
        table.add_column(heading, justify="right" if key in SIZES else "left")
    for row in map(short, rows):
        table.add_row(*(Text(shown(key, row.get(key))) for key in columns.values()))
    Console().print(table)


def show_facts(answer: Mapping[str, Any]) -> None:
    """Print an object, one field a line."""
    if not is_terminal():
        write_line(answer)
        return

    table = Table.grid(gap=2)
    for key, value in answer.items():
        if value not in (None, "", [], {}, ()):
            table.add_row(Text(key.replace("_", " "), style="bold cyan"), Text(shown(key, value)))
    Console().print(table)


def show_answer(answer: Mapping[str, Any], text: str) -> None:
    """Print the result as a sentence."""
    if is_terminal():
        echo(safe(text))
    else:
        write_line(answer)


def note(text: str) -> None:
    """Print a remark on standard error if it is a terminal."""
    if sys.stderr.isatty():
        echo(f"· {safe(text)}", err=True)


def shown(key: str, value: Any) -> str:
    """A value as people read it."""
    if value in (None, "", [], {}, ()):
        return ""
    if isinstance(value, Mapping):
        return ", ".join(f"{safe(str(name))}: {shown(str(name), each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown(key, each) for each in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key in TIMES and isinstance(value, int | float):
        return datetime.fromtimestamp(value).strftime("%Y-%m-%d %H:%M")
    if isinstance(value, int):
        return f"{value:,}" if key in SIZES else str(value)
    return f"{value:g}" if isinstance(value, float) else safe(str(value))


def write_line(answer: Any) -> None:
    """Print an answer as JSON, for a pipe."""
    sys.stdout.write(json.dumps(answer, ensure_ascii=False) + "\n")
    sys.stdout.flush()
