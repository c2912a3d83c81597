"""The output of the demonstration: a live table on a terminal, JSON lines on a pipe, and the final figures."""

import sys
from time import perf_counter
from types import TracebackType
from typing import Any, Self

import msgspec

from godwit.cli.fleet.cars import MqttMember
from godwit.cli.fleet.demo_run import Fleet, percentile
from godwit.cli.fleet.fleet_ledger import FleetVerdict
from godwit.cli.fleet.town_map import History, sparkline, town_map
from godwit.cli.terminal import Beside, Console, Drawing, Framed, Live, Stacked, Table, Text

__all__ = ["Screen", "account", "show_account"]

LINE_EVERY_S = 5.0  # on a pipe
NEWS = 4
LOOKS, LOOK_EVERY_S = 48, 0.5
"""The number of bars of a sparkline, and the seconds per bar."""
FAULTS = ("lost", "duplicated", "out of order", "received by others")


class Screen:
    """The live table."""

    def __init__(self, console: Console) -> None:
        self._drawing: Drawing = Text("five brokers start; the first time, their matcher is compiled", "italic")
        self._live = Live(console, lambda at: self._drawing, transient=False) if console.is_terminal else None
        self._written_at = 0.0
        self._history = History(LOOKS)
        self._looked_at = 0.0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def tick(self, fleet: Fleet) -> None:
        """Show the present state."""
        if self._live is not None:
            if perf_counter() - self._looked_at >= LOOK_EVERY_S:
                self._looked_at = perf_counter()
                self._history.look(_totals(fleet))
            self._drawing = _picture(fleet, self._history)
        elif perf_counter() - self._written_at > LINE_EVERY_S:
            self._written_at = perf_counter()
            said = {"phase": fleet.phase, "map": fleet.map_address, "clock_s": round(fleet.time)}
            _write({**said, **_totals(fleet), "at": _at(fleet)})


def _at(fleet: Fleet) -> dict[str, int]:
    return {name: sum(car.at == name for car in fleet.cars.values()) for name in fleet.brokers}


def _totals(fleet: Fleet) -> dict[str, int]:
    ledger = fleet.ledger
    return {
        "published": len(ledger.published),
        "delivered": sum(len(reader.came) for reader in ledger.readers),
        "under_way": ledger.missing(),
        "hand_overs": len(fleet.hand_overs_ms()),
    }


def _picture(fleet: Fleet, history: History) -> Drawing:
    table = Table()
    table.add_column("broker")
    table.add_column("", min_width=6)
    table.add_column("cars: native", justify="right")
    table.add_column("MQTT", justify="right")
    table.add_column("in transit", justify="right")
    for name, process in fleet.brokers.items():
        here = [car for car in fleet.cars.values() if car.at == name and car.name not in fleet.moving]
        mqtt = sum(isinstance(car, MqttMember) for car in here)
        coming = sum(1 for to in fleet.going.values() if to == name)
        state = Text("up", "green") if process.is_up else Text("killed", "bold red")
        table.add_row(name, state, str(len(here) - mqtt), str(mqtt), str(coming or ""))
    totals = _totals(fleet)
    clock = f"{int(fleet.time // 60):02}:{int(fleet.time % 60):02}"
    line = Text(f"{clock} of 20:00 driven   ", "bold")
    line.append(
        f"{totals['published']:,} published   {totals['delivered']:,} delivered   {totals['under_way']:,} under way   "
        f"{totals['hand_overs']} hand-overs"
    )
    news = [Text(f"  {each}", "yellow") for each in fleet.news[-NEWS:]]
    address = Text.assemble("map: ", (fleet.map_address, "bold cyan"))
    town = town_map([(car.place, fleet.going.get(car.name, car.at)) for car in fleet.cars.values()], fleet.dead)
    beside = Beside(Framed(town, title="town"), Stacked(table, "", *_sparklines(history)))
    return Stacked(Text(fleet.phase, "italic"), address, line, "", beside, "", *news)


def _sparklines(history: History) -> list[Text]:
    shown = []
    for name in ("published", "delivered"):
        growth = history.growth.get(name)
        if growth:
            rate = f"  {growth[-1] / LOOK_EVERY_S:,.0f}/s"
            shown.append(Text.assemble(f"{name:<10}", (sparkline(growth), "green"), rate))
    return shown


# ------------------------------------------------------------ the end


def account(fleet: Fleet, verdict: FleetVerdict) -> dict[str, Any]:
    """The final figures."""
    taken = fleet.hand_overs_ms()
    return {
        "published": verdict.published,
        "delivered": verdict.delivered,
        "lost": verdict.lost,
        "duplicated": verdict.doubled,
        "out of order": verdict.disordered,
        "received by others": verdict.strange,
        **fleet.receipts(),
        "hand-overs": len(taken),
        "hand-over ms, median": round(percentile(taken, 50), 1) if taken else None,
        "hand-over ms, 99th percentile": round(percentile(taken, 99), 1) if taken else None,
        "hand-overs while a broker was down": len(fleet.waited),
    }


def show_account(console: Console, said: dict[str, Any]) -> None:
    """A table on a terminal, a JSON line on a pipe."""
    if not console.is_terminal:
        _write(said)
        return
    console.print()
    console.print(_table(said))


def _table(said: dict[str, Any]) -> Table:
    table = Table(show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in said.items():
        is_wrong = name in FAULTS and value
        is_right = name in FAULTS and not value
        style = "bold red" if is_wrong else "bold green" if is_right else ""
        table.add_row(name, f"{value:,}" if isinstance(value, int | float) else str(value), style=style)
    return table


def _write(said: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(said).decode() + "\n")
    sys.stdout.flush()
