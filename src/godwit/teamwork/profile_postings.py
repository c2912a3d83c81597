"""Which profiles may match a filter, as rows of an index: the filter's literals become ranges of keys.

*Theory.* The index has a row for each value of each profile (`profile_index.py`): the number of its path, a key, the
number of the profile. A literal is a selection of such rows: of one path, and of the keys that its values may have. AND
and OR are intersections and unions of selections. What cannot be said so is left out of an AND, and makes an OR of it
say nothing: more profiles are selected then, never fewer, and the query itself decides (`Query.matches`).

- The key of a number is the number. The key of a text is the text; a long one has its first characters as its key, with
  `LONG` in front, so that all long ones are a range.
- Two comparisons of one number, `size > 3 AND size < 5`, may be met by two different numbers of a profile. At paths
  where no profile has several numbers they are one range.
- `Only(S)` is selected as `Some(S)`, and `Missing` says nothing: rows tell what is there.
- `//name` is the union of the paths that end so. A text of more than 64 characters is held as '' there
  (`xml_texts.py`), which is said of long keys here if '' is asked for. Languages of documents need not be answered so:
  to them '' means *look into the document*, and the text itself, of which the key is made, says more.

*Rules.*
1. A profile whose attributes match a filter is in its selection, unless the selection says nothing (None).
2. A selection has a bounded number of parts (`PARTS_MAX`) and values.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from godwit.filters import And, Filter, Kind, Missing, Or, ValueSet
from godwit.filters.sets import Interval, Like, OneOf, Places, Prefix, Substring, Suffix
from godwit.languages.xml_names import ANYWHERE

__all__ = [
    "DOCUMENT_LANGUAGES",
    "AllOf",
    "AnyOf",
    "Rows",
    "Selection",
    "key_of",
    "says_all",
    "selection_of",
    "statement_of",
]

KEY_CHARS_MAX = 64
LONG = "\U0010ffff"
"""In front of the key of a long text."""
PARTS_MAX = 100
LISTED_MAX = 100  # values that are written one by one
DOCUMENT_LANGUAGES = frozenset({"xql", "xpath"})
"""Languages whose filters mean by '' to look into the document."""
SURROGATES = range(0xD800, 0xE000)

PathsOf = Callable[[str], Sequence[int]]
"""The numbers of the paths that an attribute stands for."""


class Rows(NamedTuple):
    """Rows of one table with one of these paths and a key that meets a condition."""

    table: str  # texts or numbers
    paths: tuple[int, ...]
    condition: str  # "" for all keys
    values: tuple[Any, ...] = ()
    scans: bool = False  # whether the condition must be tried on all rows of the paths
    finds: bool = False  # whether a row is found at once by path, key and profile


class AnyOf(NamedTuple):
    """A union. Without parts it is empty."""

    parts: tuple["Selection", ...]


class AllOf(NamedTuple):
    """An intersection of two or more."""

    parts: tuple["Selection", ...]


Selection = Rows | AnyOf | AllOf
NOTHING_SELECTED = AnyOf(())


def key_of(text: str) -> str:
    """The key of a text."""
    return text if len(text) <= KEY_CHARS_MAX else LONG + text[:KEY_CHARS_MAX]


# ---------------------------------------------------------------- filters


def selection_of(filter: Filter, paths_of: PathsOf, language: str, several: Collection[int]) -> Selection | None:
    """The rows of the profiles that may match a filter; None when that may be any profile. (rule 1)

    `several` are the paths at which a profile has several numbers.
    """
    match filter:
        case And(parts=parts):
            found = [selection_of(part, paths_of, language, several) for part in parts]
            said = _as_ranges([each for each in found if each is not None], several)
            if len(said) <= 1:
                return said[0] if said else None
            return NOTHING_SELECTED if NOTHING_SELECTED in said else AllOf(tuple(said[:PARTS_MAX]))
        case Or(parts=parts):
            found = [selection_of(part, paths_of, language, several) for part in parts]
            some = [each for each in found if each is not None and each != NOTHING_SELECTED]
            if None in found or len(some) > PARTS_MAX:
                return None
            return some[0] if len(some) == 1 else AnyOf(tuple(some))
        case Missing():
            return None
    paths = tuple(paths_of(filter.attribute))
    if not paths:
        return NOTHING_SELECTED
    rows = list(_rows(filter.values, paths))
    if filter.attribute.startswith(ANYWHERE) and language not in DOCUMENT_LANGUAGES and filter.values.contains(""):
        rows.append(Rows("texts", paths, "key >= ?", (LONG,)))
    return rows[0] if len(rows) == 1 else AnyOf(tuple(rows))


def _as_ranges(said: list[Selection], several: Collection[int]) -> list[Selection]:
    """The same parts of an AND; those about the only number of a path are one."""
    ranges: dict[tuple[int, ...], Rows] = {}
    others: list[Selection] = []
    for part in said:
        if not isinstance(part, Rows) or part.table != "numbers" or len(part.paths) > 1 or part.paths[0] in several:
            others.append(part)
        elif part.paths not in ranges:
            ranges[part.paths] = part
        else:
            known = ranges[part.paths]
            conditions = [each for each in (known.condition, part.condition) if each]
            ranges[part.paths] = Rows(
                "numbers", part.paths, " AND ".join(conditions), known.values + part.values,
                finds=known.finds and part.finds,
            )  # fmt: skip
    return [*others, *ranges.values()]


def _rows(values: ValueSet, paths: tuple[int, ...]) -> Iterator[Rows]:
    """The rows whose value may lie in a set."""
    kinds = values.kinds
    if kinds & Kind.TEXT:
        for condition, constants, *traits in _texts(values):
            yield Rows("texts", paths, condition, tuple(constants), **dict.fromkeys(traits, True))
    if kinds & Kind.NUMBER:
        for condition, constants, *traits in _numbers(values):
            yield Rows("numbers", paths, condition, tuple(constants), **dict.fromkeys(traits, True))


# ---------------------------------------------------------------- sets of values, as conditions on keys

Condition = tuple[Any, ...]
"""An SQL condition on `key`, its constants, and which of `scans` and `finds` are true of it."""


def _texts(values: ValueSet) -> Iterator[Condition]:
    match values:
        case OneOf():
            yield _listed(key_of(each) for each in values.values if type(each) is str)
        case Places():
            yield _listed(key_of(each) for each in values.names)
        case Prefix(text=text):
            yield from _prefixed(text)
        case Interval(low=low, high=high):
            yield from _between(low, high)  # type: ignore[arg-type]
        case Substring(text=text):
            yield f"(instr(key, ?) > 0 OR key >= '{LONG}')", [text], "scans"
        case Suffix(text=text):
            yield f"(substr(key, -{len(text)}) = ? OR key >= '{LONG}')", [text], "scans"
        case Like():
            yield from _like(values)
        case _:
            yield "", []


def _numbers(values: ValueSet) -> Iterator[Condition]:
    match values:
        case OneOf():
            numbers = [each for each in values.values if type(each) in (int, float)]
            yield _listed(float(each) for each in numbers)  # type: ignore[arg-type]
        case Interval():
            ends = [
                (f"key {sign}{'' if is_open and float(end) == end else '='} ?", float(end))  # type: ignore[arg-type]
                for sign, end, is_open in ((">", values.low, values.low_open), ("<", values.high, values.high_open))
                if end is not None
            ]
            yield " AND ".join(condition for condition, _ in ends), [end for _, end in ends]
        case _:
            yield "", []


def _listed(keys: Iterable[Any]) -> Condition:
    found = list(dict.fromkeys(keys))
    if len(found) == 1:
        return "key = ?", found, "finds"
    if len(found) <= LISTED_MAX:
        return f"key IN ({', '.join('?' * len(found))})", found, "finds"
    if isinstance(found[0], float):  # SQLite reads a number in a text with an error of its own
        return "key BETWEEN ? AND ?", [min(found), max(found)]
    return "key IN (SELECT value FROM json_each(?))", [json.dumps(found, ensure_ascii=False)], "finds"


def _prefixed(text: str) -> Iterator[Condition]:
    """Texts that begin so, short and long."""
    for start in (text, LONG + text[:KEY_CHARS_MAX]):
        end = _after(start)
        yield ("key >= ? AND key < ?", [start, end]) if end else ("key >= ?", [start])


def _after(start: str) -> str:
    """The least text that is greater than all which begin with `start`; '' when there is none."""
    while start:
        code = ord(start[-1]) + 1
        if code in SURROGATES:
            code = SURROGATES.stop
        if code <= ord(LONG):
            return start[:-1] + chr(code)
        start = start[:-1]
    return ""


def _between(low: str | None, high: str | None) -> Iterator[Condition]:
    """Texts from one to another, short and long; both ends with them, which is more than may be asked."""
    if high is None:
        if low is None:
            yield "", []
        else:
            yield "key >= ?", [low]  # all long keys are greater than any short text
        return
    yield ("key BETWEEN ? AND ?", [low, high]) if low else ("key <= ?", [high])
    end = _after(LONG + high[:KEY_CHARS_MAX])
    start = LONG + (low or "")[:KEY_CHARS_MAX]
    yield ("key >= ? AND key < ?", [start, end]) if end else ("key >= ?", [start])


def _like(values: Like) -> Iterator[Condition]:
    """The start of a pattern is a range; without one, its longest literal is looked for in all keys."""
    first = values.segments[0]
    start = "".join(first[: first.index(None)] if None in first else first)  # type: ignore[arg-type]
    if start:
        yield from _prefixed(start)
        return
    literals = ["".join(segment) for segment in values.segments if None not in segment]  # type: ignore[arg-type]
    longest = max(literals, key=len, default="")
    if longest:
        yield f"(instr(key, ?) > 0 OR key >= '{LONG}')", [longest], "scans"
    else:
        yield "", []


# ---------------------------------------------------------------- statements


def says_all(selection: Selection) -> bool:
    """Whether it asks for a path and nothing more."""
    if isinstance(selection, Rows):
        return not selection.condition
    return isinstance(selection, AnyOf) and any(says_all(part) for part in selection.parts)


def statement_of(selection: Selection) -> tuple[str, list[Any]]:
    """The question for the numbers of the selected profiles, with its values. Numbers may come twice."""
    if isinstance(selection, Rows):
        paths = f"path = {selection.paths[0]}" if len(selection.paths) == 1 else f"path IN {selection.paths}"
        condition = f"{paths} AND {selection.condition}" if selection.condition else paths
        return f"SELECT profile FROM {selection.table} WHERE {condition}", list(selection.values)
    if not selection.parts:
        return "SELECT 0 AS profile WHERE 0", []
    parts = [statement_of(part) for part in selection.parts]
    between = " UNION ALL " if isinstance(selection, AnyOf) else " INTERSECT "
    joined = between.join(f"SELECT profile FROM ({statement})" for statement, _ in parts)
    return joined, [value for _, values in parts for value in values]
