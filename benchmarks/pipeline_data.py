"""What the pipeline is measured on: a table of events, and subscriptions as expressions, as filters, and for SQL.

A *work* is a folder with `events/` (a table as `godwit pipeline ingest` makes it), `expressions.jsonl` (a subscription
a line) and, for the rivals, `subscriptions.parquet`: a column for each kind of condition that occurs, `price >=` say,
with null where a subscription has no such condition, and `shape`, the number of the set of conditions that it has. The
quotes come from a folder that `--data` names, W3 from the `generate.py` in the one that `--workloads` names; neither is
kept. All of it is written before any clock starts.
"""

import bz2
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.own_workload import growing_subscriptions, growing_workload
from benchmarks.workloads import ROOT, Expression, shared_makers
from godwit.filters import Filter
from godwit.pipeline.columns import Form, arrow_type, column_of, form_of_values, joined, to_arrow
from godwit.pipeline.schemas import TABLES, About, write_about
from godwit.simulator.workload_files import filter_of_expression

SHARED_EVENTS = ROOT.parent / "shared" / "data" / "events"
QUOTES, QUOTE_FILTERS = Path("padres", "stockquotes.txt.bz2"), Path("padres", "scout", "ScoutTestAddDupChild2.txt")
QUOTES_ALL, QUOTE_FILTERS_ALL = 245_190, 10_000
QUOTE_PAIRS = 214_155_902  # of all 245,190 quotes with all 10,000 subscriptions: who finds other ones is wrong
SQL_MAX = 10_000  # subscriptions of the growing workload, for SQL
FILES = 4  # of a table: Spark makes a task of two, and a worker of ours takes row groups of any
ROWS_PER_GROUP = 16_384
PART = re.compile(r"\[(\w+),(?:(eq|neq|<>|<=|>=|<|>),)?('[^']*'|[^]]*)\]")
OPERATORS = {"eq": "=", "neq": "!=", "<>": "!="}


@dataclass(frozen=True, slots=True)
class Condition:
    """A kind of condition that subscriptions have on an attribute: a column of their table, null where one has none."""

    operator: str
    attribute: str
    several: bool  # whether an event may have several values of it

    @property
    def column(self) -> str:
        """The name of the column: `price >=`, which SQL takes in quotes."""
        return f"{self.attribute} {self.operator}"


@dataclass(frozen=True, slots=True)
class Work:
    """A folder with events and subscriptions."""

    folder: Path
    events: int
    subscriptions: int
    conditions: tuple[Condition, ...]
    shapes: tuple[tuple[int, ...], ...]  # the sets of conditions that occur, as places among `conditions`
    constants: dict[int, Any]  # conditions that have the same bound wherever they occur
    passing: dict[int, float]  # for conditions on numbers that every event has, a bound that all events pass
    keys: tuple[str, ...] = ()  # the attributes that SQL tuned by hand joins on
    pairs: int | None = None  # how many there are, where that is known

    @property
    def table(self) -> Path:
        """The events."""
        return self.folder / "events"

    @property
    def bounds(self) -> Path:
        """The subscriptions, for SQL."""
        return self.folder / "subscriptions.parquet"

    @property
    def attributes(self) -> list[str]:
        """Those that subscriptions name: no others are read."""
        return list(dict.fromkeys(each.attribute for each in self.conditions))

    def filters(self) -> Iterator[tuple[str, Filter]]:
        """The subscriptions, for us; ids are line numbers as text."""
        with (self.folder / "expressions.jsonl").open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                yield str(number), filter_of_expression(json.loads(line))

    def save(self) -> "Work":
        """Write down what the work is, for the processes that measure."""
        said = {**asdict(self), "folder": str(self.folder)}
        (self.folder / "work.json").write_text(json.dumps(said), encoding="utf-8")
        return self

    @staticmethod
    def load(folder: Path) -> "Work":
        """What `save` has written."""
        said = json.loads((folder / "work.json").read_text(encoding="utf-8"))
        said["conditions"] = tuple(Condition(**each) for each in said["conditions"])
        said["shapes"] = tuple(map(tuple, said["shapes"]))
        for name in ("constants", "passing"):
            said[name] = {int(place): value for place, value in said[name].items()}
        return Work(**{**said, "folder": folder, "keys": tuple(said["keys"])})


# ---------------------------------------------------------------- the works


def quotes(data: Path, folder: Path, subscriptions: int, events: int, repeated: int = 1) -> Work:
    """Real stock quotes and PADRES's own subscriptions over them; the quotes `repeated` over and over.

    Of fewer than all, every so-manyeth is taken, for quotes of a symbol stand together.
    """
    with bz2.open(data / QUOTES, "rt", encoding="utf-8") as lines:
        attributes = [parsed_quote(line) for line in islice(lines, 0, None, max(1, QUOTES_ALL // events))]
    with (data / QUOTE_FILTERS).open(encoding="utf-8") as lines:
        step = max(1, QUOTE_FILTERS_ALL // subscriptions)
        expressions = [parsed_filter(line) for line in islice(lines, 0, None, step)]
    is_whole = (len(attributes), len(expressions)) == (QUOTES_ALL, QUOTE_FILTERS_ALL)
    pairs = QUOTE_PAIRS * repeated if is_whole else None
    return work(folder, expressions, attributes, ("symbol",), "stockquotes", repeated, pairs)


def w3(workloads: Path, folder: Path, subscriptions: int, events: int) -> Work:
    """Stocks, parking and fleets, with strings, boxes and OR."""
    makers = shared_makers(workloads)
    assert makers is not None
    made = makers["W3"](subscriptions, events)
    return work(folder, made.expressions, made.attributes, ("sym", "city", "fleet"), "w3")


def growing(folder: Path, subscriptions: int, events: int) -> Work:
    """As many matches of an event however many subscriptions there are."""
    made = growing_workload(subscriptions, events)
    expressions = growing_subscriptions(subscriptions)
    return work(folder, expressions, made.attributes, ("stock",), "growing", for_sql=subscriptions <= SQL_MAX)


def work(
    folder: Path,
    expressions: Iterable[Expression],
    attributes: Sequence[Mapping[str, Any]],
    keys: tuple[str, ...] = (),
    publisher: str = "generated",
    repeated: int = 1,
    pairs: int | None = None,
    for_sql: bool = True,
) -> Work:
    """Write a work into a folder; the subscriptions `for_sql` too, where a nested loop could ever take them."""
    folder.mkdir(parents=True)
    forms = forms_of(attributes)
    write_events(folder / "events", attributes, forms, publisher, repeated)
    bounds = Bounds({name for name, form in forms.items() if form.several})
    with (folder / "expressions.jsonl").open("w", encoding="utf-8") as lines:
        for expression in expressions:
            lines.write(json.dumps(expression, ensure_ascii=False) + "\n")
            if for_sql:
                bounds.add(expression)
            else:
                bounds.count += 1
    if for_sql:
        bounds.write(folder / "subscriptions.parquet", forms)
    return Work(
        folder, len(attributes) * repeated, bounds.count, tuple(bounds.columns), tuple(bounds.shapes),
        bounds.constants(), bounds.passing(attributes), keys, pairs,
    ).save()  # fmt: skip


def parsed_quote(line: str) -> dict[str, Any]:
    """`[class,'STOCK'],[open,63.30]` as attributes."""
    return {name: _value(text) for name, _, text in PART.findall(line)}


def parsed_filter(line: str) -> Expression:
    """`[class,eq,'STOCK'],[high,>,20.5]` as an expression."""
    return ["and", *([OPERATORS.get(op, op), name, _value(text)] for name, op, text in PART.findall(line))]


def _value(text: str) -> Any:
    if text.startswith("'"):
        return text[1:-1]
    return float(text) if "." in text else int(text)


# ---------------------------------------------------------------- events


def forms_of(attributes: Iterable[Mapping[str, Any]]) -> dict[str, Form]:
    """The form of each attribute, from one value of each type that it has: quicker than from all, and enough here."""
    examples: dict[str, dict[type, Any]] = {}
    for each in attributes:
        for name, held in each.items():
            examples.setdefault(name, {}).setdefault(type(held), held)
    forms: dict[str, Form] = {}
    for name, by_type in examples.items():
        for held in by_type.values():
            form = form_of_values(_held(held))
            forms[name] = joined(forms[name], form) if name in forms else form
    return forms


def write_events(
    folder: Path, attributes: Sequence[Mapping[str, Any]], forms: Mapping[str, Form], publisher: str, repeated: int = 1
) -> None:
    """A table of events without times, numbered from 1."""
    day = folder / "day=__HIVE_DEFAULT_PARTITION__"
    day.mkdir(parents=True)
    own = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary(), "timestamp": pa.timestamp("us", "UTC")}
    columns = {
        column_of(name): to_arrow(form, [_held(each.get(name)) for each in attributes]) for name, form in forms.items()
    }
    rows, size = len(attributes), -(-len(attributes) // FILES)
    held = pa.table(columns) if columns else None
    for number in range(FILES * repeated):
        part = number % FILES
        start, length = part * size, max(0, min(size, rows - part * size))
        first = number // FILES * rows + start + 1
        fixed: dict[str, Any] = {
            "publisher": pa.array([publisher] * length, pa.string()),
            "sequence": pa.array(range(first, first + length), pa.int64()),
        }
        for name, type in TABLES["events"].items():
            if name not in (*fixed, "day"):
                fixed[name] = pa.nulls(length, own[type])
        sliced = {name: held.column(name).slice(start, length) for name in columns} if held is not None else {}
        table = pa.table({**fixed, **sliced})
        pq.write_table(table, day / f"part-{number:04}.parquet", row_group_size=ROWS_PER_GROUP, compression="zstd")
    write_about(folder, About("events", attributes=dict(forms)))


def _held(value: Any) -> Any:
    return tuple(value) if type(value) is list else value


# ---------------------------------------------------------------- subscriptions for SQL


class Bounds:
    """Subscriptions as rows of nullable bounds: conjunctions, as SQL has them in a table."""

    def __init__(self, several: set[str]) -> None:
        self.several, self.count = several, 0
        self.columns: dict[Condition, dict[int, Any]] = {}
        self.places: dict[Condition, int] = {}
        self.shapes: dict[tuple[int, ...], int] = {}
        self.shape_of: list[int] = []

    def add(self, expression: Expression) -> None:
        """One more subscription."""
        shape = []
        for operator, attribute, value in conditions_of(expression):
            condition = Condition(operator, attribute, attribute in self.several)
            cells = self.columns.setdefault(condition, {})
            if self.count in cells:
                raise ValueError(f"two conditions {condition.column} in {expression}: no table of bounds holds these")
            cells[self.count] = value
            shape.append(self.places.setdefault(condition, len(self.places)))
        self.shape_of.append(self.shapes.setdefault(tuple(sorted(shape)), len(self.shapes)))
        self.count += 1

    def constants(self) -> dict[int, Any]:
        """Equalities with one and the same value, by place."""
        return {
            self.places[condition]: next(iter(cells.values()))
            for condition, cells in self.columns.items()
            if condition.operator == "=" and len(set(cells.values())) == 1
        }

    def passing(self, attributes: Sequence[Mapping[str, Any]]) -> dict[int, float]:
        """For `<` and the like on numbers that every event has, by place: a bound that all events pass."""
        found = {}
        for condition, place in self.places.items():
            if condition.operator not in ("<", "<=", ">", ">="):
                continue
            values: list[Any] = [each.get(condition.attribute) for each in attributes]
            if all(type(value) in (int, float) for value in values):
                found[place] = min(values) - 1 if condition.operator.startswith(">") else max(values) + 1
        return found

    def write(self, file: Path, forms: Mapping[str, Form]) -> None:
        """The table."""
        columns: dict[str, Any] = {
            "id": pa.array(range(self.count), pa.int64()),
            "shape": pa.array(self.shape_of, pa.int32()),
        }
        for condition, cells in self.columns.items():
            values = [cells.get(number) for number in range(self.count)]
            columns[condition.column] = pa.array(values, _bound_type(condition, forms, cells.values()))
        pq.write_table(pa.table(columns), file, compression="zstd")


def _bound_type(condition: Condition, forms: Mapping[str, Form], bounds: Iterable[Any]) -> Any:
    if condition.operator == "exists":
        return pa.bool_()
    kind = forms[condition.attribute].kind if condition.attribute in forms else "text"
    if any(type(bound) is float for bound in bounds):  # whole numbers may well be compared with others
        kind = "float"
    plain = arrow_type(Form(kind))
    return pa.list_(plain) if condition.operator.endswith("in") else plain


def conditions_of(expression: Expression) -> Iterator[tuple[str, str, Any]]:
    """The conditions of a conjunction, each an operator, an attribute and a bound."""
    match expression:
        case ["and", *parts]:
            for part in parts:
                yield from conditions_of(part)
        case ["between", attribute, low, high]:
            yield ">=", attribute, low
            yield "<=", attribute, high
        case ["or", [">", attribute, high], ["<", other, low]] if attribute == other and low == -high:
            yield "beyond", attribute, high
        case ["not", ["in", attribute, values]]:
            yield "not in", attribute, values
        case ["exists", attribute]:
            yield "exists", attribute, True
        case [operator, str(attribute), value] if operator not in ("or", "not"):
            yield operator, attribute, value
        case _:
            raise ValueError(f"no table of bounds holds {expression}")
