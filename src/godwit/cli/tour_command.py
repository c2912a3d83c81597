"""`godwit tour`: the filters at work on a small event stream, and brokers on a network that breaks."""

import sys
import time
from collections.abc import Iterator
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

from godwit.cli.terminal import Console, Table, Text

if TYPE_CHECKING:
    from godwit.filters.events import Event
    from godwit.filters.filters import Filter, Literal
    from godwit.matching import Matcher

__all__ = ["tour"]

WIDTH_ON_A_PIPE = 120
GENERATED_SUBSCRIPTIONS = 20_000
NAIVE_EVENTS = 10
ROUNDS = 2
EXCESS_MAX = 0.5  # largest share of a merged filter's matches that no subscriber wants


def tour() -> None:
    """See filters and brokers at work on a small event stream. Then links between brokers break.

    Example: godwit tour
    """

    from godwit.cli.match_command import matcher_named
    from godwit.cli.tour_moving import show_moving
    from godwit.cli.tour_network import show_network
    from godwit.cli.tour_story import SUBSCRIPTIONS, event_data
    from godwit.filters.events import event
    from godwit.filters.language import parse

    console = Console(width=None if sys.stdout.isatty() else WIDTH_ON_A_PIPE)
    filters = {name: parse(text) for name, _, text in SUBSCRIPTIONS}
    events = {name: event(data) for name, data in event_data()}
    matcher = matcher_named("index")
    matcher.add_many(filters.items())
    with console.status("building the index; the first run also compiles it"):
        receivers: dict[str, list[Any]] = {name: matcher.match(each) for name, each in events.items()}

    console.print(
        Text.assemble(
            ("A morning in Zürich", "bold"),
            f": six vans, parking spots and alerts ({len(events)} events), and who wants what.\n",
        )
    )
    _show_subscriptions(console, filters, receivers)
    _show_events(console, filters, events, receivers)
    _show_relations(console, filters)
    show_network(console)
    show_moving(console)
    _show_speed(console, list(events.values()))


def _show_subscriptions(console: "Console", filters: dict[str, "Filter"], receivers: dict[str, list[Any]]) -> None:
    from godwit.cli.tour_story import SUBSCRIPTIONS

    table = Table()
    table.add_column("who", style="bold cyan", no_wrap=True)
    table.add_column("wants", style="dim")
    table.add_column("filter")
    table.add_column("gets", justify="right", style="bold")
    for name, wants, text in SUBSCRIPTIONS:
        table.add_row(name, wants, text, str(sum(name in names for names in receivers.values())))
    console.print(table)
    console.print()


def _show_events(
    console: "Console", filters: dict[str, "Filter"], events: dict[str, "Event"], receivers: dict[str, list[Any]]
) -> None:
    from godwit.cli.tour_story import SHOWN

    console.print(Text("Some events, who gets them, and why\n", "bold"))
    for name in SHOWN:
        _print_beside(console, Text(f"{name} ", "bold yellow"), Text(_attributes_text(events[name]), "dim"))
        for receiver in sorted(receivers[name], key=list(filters).index):
            reasons = " and ".join(_reasons(filters[receiver], events[name]))
            _print_beside(console, Text.assemble("  → ", (f"{receiver:<10}", "bold cyan")), Text(reasons))
        console.print()


def _print_beside(console: "Console", left: "Text", right: "Text") -> None:
    """Two texts side by side; the second is wrapped below itself."""

    grid = Table.grid(gap=1)
    grid.add_column(no_wrap=True)
    grid.add_row(left, right)
    console.print(grid)


def _attributes_text(event: "Event") -> str:
    from godwit.filters.language.printing import value_text

    def shown(value: Any) -> str:
        return f"({', '.join(map(shown, value))})" if type(value) is tuple else value_text(value)

    return ", ".join(f"{name} {shown(value)}" for name, value in event.attributes.items())


def _reasons(filter: "Filter", event: "Event") -> Iterator[str]:
    """The literals that make a filter match."""
    from godwit.filters.filters import And, Or
    from godwit.filters.language import to_text

    if isinstance(filter, And):
        for part in filter.parts:
            yield from _reasons(part, event)
    elif isinstance(filter, Or):
        yield from _reasons(next(part for part in filter.parts if part.matches(event)), event)
    else:
        yield to_text(filter)


def _show_relations(console: "Console", filters: dict[str, "Filter"]) -> None:
    """Show which subscriptions a broker need not forward, and a merge of two."""

    from godwit.filters.language import to_text
    from godwit.filters.merging import merged

    console.print(Text("How brokers use these filters\n", "bold"))
    for wide, narrow in permutations(filters, 2):
        if filters[wide].covers(filters[narrow]):
            names = ("  ", (wide, "bold cyan"), " covers ", (narrow, "bold cyan"))
            console.print(Text.assemble(*names, ": forwarding the first serves both"))
    for one, other in combinations(filters, 2):
        found = merged(filters[one], filters[other], excess_max=EXCESS_MAX)
        if found is not None and found.filter not in filters.values():
            cost = " exactly" if found.perfect else f", with about {found.excess:.0%} further matches,"
            line = Text.assemble((one, "bold cyan"), " and ", (other, "bold cyan"), f" merge{cost} into ")
            _print_beside(console, Text(" "), line.append(to_text(found.filter), "green"))
    console.print()


def _show_speed(console: "Console", events: list["Event"]) -> None:
    from godwit.cli.match_command import matcher_named

    subscriptions = list(enumerate(_generated()))
    speeds = {}
    for name, some in (("naive", events[:: len(events) // NAIVE_EVENTS]), ("index", events)):
        with console.status(f"{len(subscriptions):,} subscriptions go into the {name} matcher"):
            matcher = matcher_named(name)
            matcher.add_many(subscriptions)
            for _ in range(ROUNDS):  # the first event includes deferred work
                speeds[name] = _events_per_second(matcher, some)
    console.print(
        Text.assemble(
            ("Speed", "bold"),
            f" with {len(subscriptions):,} subscriptions: naive {speeds['naive']:,.0f} events a second, index ",
            (f"{speeds['index']:,.0f}", "bold green"),
        )
    )


def _events_per_second(matcher: "Matcher", events: list["Event"]) -> float:
    started = time.perf_counter()
    for each in events:
        matcher.match(each)
    return len(events) / (time.perf_counter() - started)


def _generated() -> Iterator["Filter"]:
    """Many random subscriptions like those of the story."""
    from godwit.filters.filters import all_of, some
    from godwit.filters.regions import circle
    from godwit.filters.sets import at_least, less_than, one_of

    def kind(name: str) -> "Literal":
        return some("kind", one_of([name]))

    for n in range(GENERATED_SUBSCRIPTIONS):
        near = circle(8.48 + n % 97 * 0.001, 47.35 + n % 89 * 0.001, 100 + n % 7 * 100)
        match n % 4:
            case 0:
                yield all_of(kind("parking"), some("cost", less_than(1 + n % 31 / 10)), some("position", near))
            case 1:
                yield all_of(kind("van"), some("battery", less_than(n % 90)), some("number", one_of([n % 50])))
            case 2:
                yield all_of(kind("van"), some("position", near))
            case _:
                yield all_of(some("zip", one_of([8000 + n % 100])), some("severity", at_least(1 + n % 5)))
