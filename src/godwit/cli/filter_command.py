"""`godwit filter …`: check, explain and compare filters.

A filter is given as text or in its JSON form; a dash reads it from standard input. On a terminal the answers are
drawn for people, on a pipe each is one line of JSON.
"""

import json
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

from godwit.cli.query_options import NATIVE, LanguageName, OperatorModules, load_operators, read_query
from godwit.cli.signatures import Argument, BadParameter, Exit, Group, Option, echo
from godwit.cli.statuses import STATUS_NO
from godwit.cli.terminal import Console, Drawing, Stacked, Table, Text, Tree

if TYPE_CHECKING:
    from godwit.filters.events import Attributes
    from godwit.filters.filters import Filter
    from godwit.filters.reasons import CoveringExplanation, IntersectionExplanation

__all__ = ["app"]

CASES_SHOWN_MAX = 8
EXCESS_DIGITS = 4
STANDARD_INPUT = "-"

app = Group(
    help="Check, explain and compare filters.",
)

One = Annotated[str, Argument(metavar="FILTER", help="A filter, as text or JSON; - reads standard input.")]
Wide = Annotated[str, Argument(metavar="WIDE", help="Covering filter; - reads standard input.")]
Narrow = Annotated[str, Argument(metavar="NARROW", help="Covered filter; - reads standard input.")]
Left = Annotated[str, Argument(metavar="A", help="First filter; - reads standard input.")]
Right = Annotated[str, Argument(metavar="B", help="Second filter; - reads standard input.")]

Context = Annotated[
    list[str] | None,
    Option(metavar="NAME=VALUE", help="Subscriber's context: the values of my.x, such as limit=3; repeatable."),
]


@app.add()
def check(source: One, language: LanguageName = NATIVE, operators: OperatorModules = None) -> None:
    """Check the syntax of a filter or query. Shows the filter that brokers route a query by.

    Example: godwit filter check "cost < 3"
    """
    from godwit.filters.language import to_text
    from godwit.filters.references import references_of

    load_operators(operators)
    if language != NATIVE:
        answer = _routing(source, language)
        _answer(answer, lambda: _routed(answer))
        return
    filter = _read(source)
    names = [str(reference) for reference in references_of(filter)]
    answer = {"valid": True, "filter": to_text(filter), "references": names}
    _answer(answer, lambda: _said(True, "well formed", to_text(filter)))


@app.add()
def explain(source: One, context: Context = None) -> None:
    """Show the tree, normal form and negation of a filter. Conditions on the sender are shown separately.

    Example: godwit filter explain "cost < 3 OR NOT size = 'van'"
    """
    from godwit.filters.algebra import is_never, normal_form
    from godwit.filters.filters import all_of, attributes_of, negation
    from godwit.filters.language import to_text
    from godwit.filters.references import references_of

    filter = bound(_read(source), context)
    form = normal_form(filter)
    answer = {
        "filter": to_text(filter),
        "normal_form": [to_text(all_of(*conjunction)) for conjunction in form.conjunctions],
        "normal_form_is_exact": form.exact,
        "never_matches": is_never(filter),
        "attributes": list(attributes_of(filter)),
        "references": [str(reference) for reference in references_of(filter)],
        "size": filter.size,
        "depth": filter.depth,
        "not": to_text(negation(filter)),
        **_of_sender(filter),
    }
    _answer(answer, lambda: _explained(filter, answer))


@app.add()
def covers(wide: Wide, narrow: Narrow) -> None:
    """Test whether WIDE matches every event that NARROW matches. Prints the reason.

    Example: godwit filter covers "price < 10" "price < 5"
    """
    from godwit.filters.language import to_text
    from godwit.filters.reasons import why_covers

    f, g = _read_two(wide, narrow)
    found = why_covers(f, g)
    because = [
        {
            **({"when": " AND ".join(map(to_text, case.conjunction)) or "TRUE"} if len(found.cases) > 1 else {}),
            "wanted": to_text(step.wanted),
            "given": None if step.given is None else to_text(step.given),
        }
        for case in found.cases
        for step in case.steps
    ]
    answer = {"covers": found.answer, "because": because, **_example(found.example)}
    _answer(answer, lambda: _covering(f, g, found))
    _leave(found.answer)


@app.add()
def intersects(left: Left, right: Right) -> None:
    """Test whether some event can match both A and B. Prints the reason or an example.

    Example: godwit filter intersects "zip < 2000" "zip > 5000"
    """
    from godwit.filters.language import to_text
    from godwit.filters.reasons import why_intersects

    f, g = _read_two(left, right)
    found = why_intersects(f, g)
    clashes = [{"a": to_text(a), "b": to_text(b)} for a, b in found.clashes]
    answer = {"intersects": found.answer, **({} if found.answer else {"because": clashes}), **_example(found.example)}
    _answer(answer, lambda: _meeting(f, g, found))
    _leave(found.answer)


@app.add()
def merge(
    left: Left,
    right: Right,
    excess: Annotated[
        float,
        Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Largest allowed share of the merged filter's matches that match neither A nor B, as an estimate.",
        ),
    ] = 0.0,
) -> None:
    """Merge A and B into one filter, if possible.

    Example: godwit filter merge "sym = 'A'" "sym = 'B'"
    """
    from godwit.filters.language import to_text
    from godwit.filters.merging import merged

    f, g = _read_two(left, right)
    found = merged(f, g, excess_max=excess)
    if found is None:
        _answer({"merged": None}, lambda: _said(False, "they cannot be merged", ""))
        raise Exit(STATUS_NO)
    text = to_text(found.filter)
    cost = "exactly" if found.perfect else f"with about {found.excess:.0%} further matches"
    answer = {"merged": text, "perfect": found.perfect, "excess": round(found.excess, EXCESS_DIGITS)}
    _answer(answer, lambda: _said(True, f"merged {cost}", text))


@app.add("json")
def json_form(source: One) -> None:
    """Print a filter in its JSON form.

    Example: godwit filter json "cost < 3"
    """
    from godwit.filters.language import to_json

    data = to_json(_read(source))
    _answer(data, lambda: json.dumps(data, ensure_ascii=False, indent=2))


@app.add("format")
def format_text(
    source: One,
    width: Annotated[int, Option(metavar="CHARS", min=1, help="Line width in characters.")] = 100,
    context: Context = None,
) -> None:
    """Print a filter as text, on several lines where it is long.

    Example: godwit filter format "cost<3 and size='van'"
    """
    from godwit.filters.language import pretty

    echo(pretty(bound(_read(source), context), width))


# ---------------------------------------------------------------- in and out


def _routing(source: str, language: str) -> dict[str, Any]:
    """A query of another language: its printed form, its routable filter, and whether it has an exact test."""
    from godwit.filters.language import to_text

    query = read_query(_text(source), language)
    return {
        "valid": True,
        "language": query.language,
        "query": query.text,
        "routable": to_text(query.routable),
        "has_exact_part": query.test is not None,
        "never_matches": query.is_impossible,
    }


def _read(source: str) -> "Filter":
    from godwit.filters.language import read

    return read(_text(source))


def _text(source: str) -> str:
    from godwit.errors import FilterError

    if source != STANDARD_INPUT:
        return source
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise FilterError(
            f"standard input is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None


def bound(filter: "Filter", context: list[str] | None) -> "Filter":
    """The filter of a subscriber with this context; unchanged without a context."""
    from godwit.cli.broker_connection import assigned
    from godwit.errors import BadValue, GodwitError
    from godwit.filters.contexts import checked_context
    from godwit.filters.references import bind

    if not context:
        return filter
    try:
        return bind(filter, checked_context(assigned(context)))
    except GodwitError as error:
        raise BadValue(f"--context: {error}") from None


def _of_sender(filter: "Filter") -> dict[str, str]:
    """The conditions on the sender's context and those on the event; None if there are no conditions on the sender."""
    from godwit.filters.contexts import SENDER, content_part, sender_part
    from godwit.filters.filters import attributes_of
    from godwit.filters.language import to_text

    if not any(name.startswith(SENDER) for name in attributes_of(filter)):
        return {}
    return {"of_the_sender": to_text(sender_part(filter)), "of_the_event": to_text(content_part(filter))}


def _read_two(one: str, other: str) -> tuple["Filter", "Filter"]:
    if one == other == STANDARD_INPUT:
        raise BadParameter("only one of the two filters can be standard input")
    return _read(one), _read(other)


def _answer(data: Any, draw: Callable[[], Drawing | str]) -> None:
    """Print one line of JSON, or on a terminal the result of `draw`; markup in a string is not interpreted."""

    console = Console()
    if not console.is_terminal:
        echo(json.dumps(data, ensure_ascii=False))
    elif isinstance(drawn := draw(), str):
        echo(drawn)
    else:
        console.print(drawn)


def _leave(answer: bool) -> None:
    if not answer:
        raise Exit(STATUS_NO)


def _event_data(attributes: "Attributes") -> dict[str, Any]:
    from godwit.filters.language.json_form import value_to_json

    return {
        name: [value_to_json(each) for each in held] if isinstance(held, tuple) else value_to_json(held)
        for name, held in attributes.items()
    }


def _example(attributes: "Attributes | None") -> dict[str, Any]:
    return {} if attributes is None else {"example": _event_data(attributes)}


# ---------------------------------------------------------------- drawn for people


def _said(answer: bool, words: str, text: str) -> Drawing:
    return Text.assemble(
        (("✓ " if answer else "✗ ") + words, "bold green" if answer else "bold red"), "  " if text else "", text
    )


def _routed(answer: dict[str, Any]) -> Drawing:
    rest = "the client, or its border broker, tests the query itself" if answer["has_exact_part"] else "nothing more"
    rows = {
        "query": answer["query"],
        "brokers route by": answer["routable"],
        "exact part": rest,
        **({"note": "no event can match it"} if answer["never_matches"] else {}),
    }
    table = Table.grid(gap=3)
    for name, shown in rows.items():
        table.add_row(Text(name, style="bold"), Text(shown))
    return _stacked([_said(True, "well formed", answer["language"]), table])


def _stacked(pieces: Iterable[Drawing]) -> Drawing:
    return Stacked(*pieces)


def _covering(f: "Filter", g: "Filter", found: "CoveringExplanation") -> Drawing:
    from godwit.filters.filters import all_of
    from godwit.filters.language import to_text

    lines: list[Drawing] = [_said(found.answer, "covers" if found.answer else "does not cover", "")]
    lines.append(Text.assemble("  ", (to_text(f), "cyan"), "  over  ", (to_text(g), "cyan")))
    if f == g:
        lines.append(Text("  the two are the same filter"))
    elif not found.cases:
        lines.append(Text("  no event can match the second"))
    for case in sorted(found.cases, key=lambda case: case.holds)[:CASES_SHOWN_MAX]:
        if len(found.cases) > 1:
            lines.append(Text.assemble("\n  when ", (to_text(all_of(*case.conjunction)), "cyan")))
        table = Table.grid(gap=2)
        for step in case.steps:
            given = "nothing" if step.given is None else to_text(step.given)
            mark = Text("✗", style="red") if step.given is None else Text("✓", style="green")
            table.add_row("", mark, Text(to_text(step.wanted)), Text("is implied by", style="dim"), Text(given))
        lines.append(table)
    if len(found.cases) > CASES_SHOWN_MAX:
        lines.append(Text(f"  … and {len(found.cases) - CASES_SHOWN_MAX} cases more", style="dim"))
    lines += _shown_event("only the second matches", found.example)
    return _stacked(lines)


def _meeting(f: "Filter", g: "Filter", found: "IntersectionExplanation") -> Drawing:
    from godwit.filters.language import to_text

    lines: list[Drawing] = [_said(found.answer, "they intersect" if found.answer else "they do not intersect", "")]
    lines.append(Text.assemble("  ", (to_text(f), "cyan"), "  and  ", (to_text(g), "cyan")))
    lines += [
        Text.assemble("  ", ("✗ ", "red"), to_text(a), ("  excludes  ", "dim"), to_text(b))
        for a, b in found.clashes[:CASES_SHOWN_MAX]
    ]
    lines += _shown_event("both match", found.example)
    return _stacked(lines)


def _shown_event(words: str, attributes: "Attributes | None") -> list[Drawing]:
    if attributes is None:
        return []
    return [Text.assemble((f"  {words}: ", "dim"), json.dumps(_event_data(attributes), ensure_ascii=False))]


def _explained(filter: "Filter", answer: dict[str, Any]) -> Drawing:
    ways = answer["normal_form"]
    left_out = [f"… {len(ways) - CASES_SHOWN_MAX} more"] if len(ways) > CASES_SHOWN_MAX else []
    weakened = [] if answer["normal_form_is_exact"] else ["… weakened, because in full it would be too long"]
    rows = {
        "matches when": "\nor ".join([*ways[:CASES_SHOWN_MAX], *left_out, *weakened]) or "never",
        "attributes": ", ".join(answer["attributes"]) or "none",
        "references": ", ".join(answer["references"]) or "none",
        "size": f"{answer['size']} literals, {answer['depth']} deep",
        "not": answer["not"],
        **{part.replace("_", " "): answer[part] for part in ("of_the_sender", "of_the_event") if part in answer},
    }
    table = Table.grid(gap=3)
    for name, shown in rows.items():
        table.add_row(Text(name, style="bold"), Text(shown))
    return _stacked([_tree(filter), Text(), table])


def _tree(filter: "Filter") -> Drawing:
    from godwit.filters.filters import And, Or
    from godwit.filters.language import to_text

    def grow(node: "Filter", onto: Tree | None) -> Tree:
        is_group = isinstance(node, And | Or) and bool(node.parts)
        label = Text("AND" if isinstance(node, And) else "OR", style="bold") if is_group else Text(to_text(node))
        branch = Tree(label) if onto is None else onto.add(label)
        for part in node.parts if isinstance(node, And | Or) else ():
            grow(part, branch)
        return branch

    return grow(filter, None)
