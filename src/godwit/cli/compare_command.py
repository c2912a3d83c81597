"""`godwit compare`: routing reductions side by side, your own among them."""

import json
import sys
from typing import TYPE_CHECKING, Annotated

from godwit.cli.own_modules import allow_modules_here
from godwit.cli.signatures import Argument, BadParameter, Exit, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Table

if TYPE_CHECKING:
    from godwit.reproduce.reduction_comparison import Row

__all__ = ["compare"]


def compare(
    reduction: Annotated[
        list[str] | None,
        Argument(metavar="REDUCTION", help="Your reductions: names of installed ones, or module:Class."),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        Option(
            metavar="NAME", help="Scenario name or TOML file; repeatable (default: city and roam, from the papers)."
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Set a key of all scenarios, as in clients.publishers=20."),
    ] = None,
    seed: Annotated[int, Option(metavar="N", help="Random seed, the same for all runs.", min=0)] = 1,
    only: Annotated[bool, Option("--only", help="Run only the named reductions, not the built-in ones.")] = False,
    out: Annotated[
        str | None, Option(metavar="DIR", help="Folder for comparison.json, comparison.png and comparison.svg.")
    ] = None,
) -> None:
    """Compare routing reductions in simulated networks. The result has messages, table sizes and deliveries.

    Runs each scenario once with each of flooding, simple, identity, covering and merging, and with yours. Exit status 1
    if a run violated a delivery guarantee.

    Example: godwit compare my_module:MyReduction --out results
    """
    from importlib.util import find_spec
    from pathlib import Path

    import msgspec

    from godwit.errors import GodwitError
    from godwit.reproduce import reduction_comparison as comparison

    if only and not reduction:
        raise BadParameter("--only needs the name of a reduction")
    if out is not None and find_spec("matplotlib") is None:
        raise GodwitError("--out draws a figure, which needs matplotlib: pip install 'godwit[plots]'")
    allow_modules_here()
    names = list(dict.fromkeys([*(() if only else comparison.REDUCTIONS), *(reduction or ())]))
    is_terminal = sys.stdout.isatty()

    def tell(number: int, total: int, name: str) -> None:
        if sys.stderr.isatty():
            echo(f"run {number} of {total}: {name}", err=True)

    rows = comparison.compare(names, scenario or comparison.PAPER_SCENARIOS, seed, changes or (), tell)
    data = [msgspec.to_builtins(row) for row in rows]
    if is_terminal:
        _show(rows)
    else:
        for row in data:
            echo(json.dumps(row))
    if out is not None:
        comparison.draw(rows, Path(out))
        Path(out, "comparison.json").write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    if not all(row.passed for row in rows):
        raise Exit(STATUS_NO)


def _show(rows: "list[Row]") -> None:
    import msgspec

    fields = [field for field in msgspec.to_builtins(rows[0]) if field not in {"bytes_sent", "seconds"}]
    table = Table(*[field.replace("_", " ") for field in fields])
    for row in rows:
        values = msgspec.to_builtins(row)
        table.add_row(
            *[
                f"{value:,}" if isinstance(value, int) and value is not True else str(value)
                for value in map(values.get, fields)
            ]
        )
    Console().print(table)
