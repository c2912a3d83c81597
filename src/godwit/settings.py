"""Settings files: data is checked and converted to frozen structs; errors name file, line, key and what is allowed.

*Theory.* The structs are the only description of the settings: names and types of their fields, `Literal` for a choice,
`Annotated[float, Meta(ge=0, le=1)]` for bounds, `| None` for optional values. `checked` compares data with types, and
makes a struct only if there is no error. `faults` returns all errors, `checked` raises the first.

*Rules.*
1. No key is ignored: an unknown one is an error, with the nearest known ones.
2. Numbers are finite. An int is allowed where a float is expected, a bool is not.
"""

import difflib
import math
import re
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, TypeVar, Union

import msgspec

from godwit.errors import ScenarioError

__all__ = ["Path", "Where", "checked", "faults", "has_form", "key_text", "line_of", "nearest"]

T = TypeVar("T")

Path = tuple[str | int, ...]
"""The path of a value: names of keys, and positions in lists."""

Where = Callable[[Path], str]
"""The file, line and key of a path: the beginning of every message."""

SHOWN_CHARS_MAX = 60
TABLE = re.compile(r"^\s*\[{1,2}\s*(?P<name>[^\[\]]+?)\s*\]{1,2}\s*(#.*)?$")
WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def checked(kind: type[T], data: Any, where: Where) -> T:
    """`data` as a `kind`, or a `ScenarioError` that begins with `where` of the invalid value's path."""
    for fault in faults(kind, data, where):
        raise ScenarioError(fault)
    return msgspec.convert(data, kind)


def faults(kind: Any, data: Any, where: Where) -> Iterator[str]:
    """Why `data` is not a valid `kind`: one message for each invalid value."""
    return _faults(data, kind, (), where)


def key_text(path: Path) -> str:
    """A path as people write it: `faults.crash[0].at_s`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def nearest(word: str, known: typing.Iterable[str]) -> str:
    """` (did you mean a or b?)`, or nothing when no known word is near."""
    found = difflib.get_close_matches(word, list(known), n=2, cutoff=0.6)
    return f" (did you mean {' or '.join(found)}?)" if found else ""


def line_of(text: str, path: Path) -> int | None:
    """The line of a TOML document that sets the key at `path`, or else the line of its table's header."""
    names = [part for part in path if isinstance(part, str)]
    wanted: dict[tuple[str, ...], int] = {}  # by name of an array of tables: the index that the path has
    for place, part in enumerate(path):
        if isinstance(part, int):
            wanted[tuple(each for each in path[:place] if isinstance(each, str))] = part + 1
    best: int | None = None
    best_depth = 0
    table: list[str] = []
    opened: dict[tuple[str, ...], int] = {}  # number of headers so far
    for number, line in enumerate(text.splitlines(), start=1):
        if heading := TABLE.match(line):
            table = [name.strip().strip("\"'") for name in heading["name"].split(".")]
            if line.lstrip().startswith("[[") and (array := tuple(table)) in wanted:
                opened = {known: count for known, count in opened.items() if known[: len(array)] != array} | {
                    array: opened.get(array, 0) + 1
                }
            depth = len(table)
        elif "=" in line and not line.lstrip().startswith("#"):
            keys = [name.strip().strip("\"'") for name in line.partition("=")[0].split(".")]
            depth = len(table) + len(keys)
            if [*table, *keys] != names[:depth]:
                continue
        else:
            continue
        if (
            table == names[: len(table)]
            and depth > best_depth
            and all(count == wanted[array] for array, count in opened.items())
        ):
            best, best_depth = number, depth
    return best


# ---------------------------------------------------------------- the walk


def _faults(value: Any, hint: Any, path: Path, where: Where) -> Iterator[str]:
    choices = [each for each in _choices(hint) if has_form(value, each)]
    if not choices:
        yield f"{where(path)} is {_shown(value)}: allowed is {_allowed(hint)}{_near_choice(value, hint)}"
        return
    hint = choices[0]
    if _is_struct(hint):
        yield from _struct_faults(value, hint, path, where)
    elif typing.get_origin(hint) is tuple:
        for place, each in enumerate(value):
            yield from _faults(each, typing.get_args(hint)[0], (*path, place), where)
    elif typing.get_origin(hint) is dict:
        for name, each in value.items():
            yield from _faults(each, typing.get_args(hint)[1], (*path, name), where)


def _struct_faults(value: dict[str, Any], kind: Any, path: Path, where: Where) -> Iterator[str]:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {each.encode_name: hints[each.name] for each in msgspec.structs.fields(kind)}
    for name in value:
        if name not in fields:
            yield f"{where((*path, name))} is not known{nearest(str(name), fields)}; allowed are {', '.join(fields)}"
    for each in msgspec.structs.fields(kind):
        if each.encode_name in value:
            yield from _faults(value[each.encode_name], fields[each.encode_name], (*path, each.encode_name), where)
        elif each.required:
            yield f"{where((*path, each.encode_name))} is missing: it must be {_allowed(fields[each.encode_name])}"


def _choices(hint: Any) -> list[Any]:
    """The members of a union, or the type itself."""
    if typing.get_origin(hint) in (Union, types.UnionType):
        return list(typing.get_args(hint))
    return [hint]


def _is_struct(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _bounds(hint: Any) -> tuple[Any, msgspec.Meta]:
    if typing.get_origin(hint) is Annotated:
        base, meta = typing.get_args(hint)
        return base, meta
    return hint, msgspec.Meta()


def has_form(value: Any, hint: Any) -> bool:
    """Whether a value is of that type (not a union), without checking its elements."""
    if hint is type(None):
        return value is None
    if _is_struct(hint):
        return isinstance(value, dict)
    base, meta = _bounds(hint)
    match typing.get_origin(base) or base:
        case types.NoneType:
            return value is None
        case typing.Literal:
            return type(value) is str and value in typing.get_args(base)
        case builtin if builtin is tuple:
            return isinstance(value, list | tuple)
        case builtin if builtin is dict:
            return isinstance(value, dict)
        case builtin if builtin in (int, float):
            if type(value) is bool or not isinstance(value, int if builtin is int else int | float):
                return False
            return _is_within(value, meta)
        case builtin if builtin is str:
            return isinstance(value, str) and len(value) >= (meta.min_length or 0)
        case builtin:
            return type(value) is builtin


def _is_within(value: Any, meta: msgspec.Meta) -> bool:
    if isinstance(value, float) and not math.isfinite(value):  # an int may be too large for this test
        return False
    return (
        (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    )


# ---------------------------------------------------------------- words


def _allowed(hint: Any) -> str:
    """A description of the allowed values."""
    return " or ".join(_words(each) for each in _choices(hint) if each is not type(None))


def _words(hint: Any) -> str:
    if _is_struct(hint):
        return f"a table with {', '.join(each.encode_name for each in msgspec.structs.fields(hint))}"
    base, meta = _bounds(hint)
    if typing.get_origin(base) is Literal:
        choices = ", ".join(map(repr, typing.get_args(base)))
        return choices if meta.description is None else f"{choices} ({meta.description})"
    if typing.get_origin(base) is tuple:
        return f"a list, each {_allowed(typing.get_args(base)[0])}"
    if typing.get_origin(base) is dict:
        return f"a table, with each name {_allowed(typing.get_args(base)[1])}"
    words = WORDS[base]
    if meta.ge is not None:
        words += f" from {_number(meta.ge)}"
    if meta.gt is not None:
        words += f" above {_number(meta.gt)}"
    if meta.le is not None:
        words += f" up to {_number(meta.le)}" if meta.ge is None else f" to {_number(meta.le)}"
    return f"{words} that is not empty" if meta.min_length else words


def _number(value: float) -> str:
    return f"{value:,.10g}"


def _near_choice(value: Any, hint: Any) -> str:
    words = [word for each in _choices(hint) for word in typing.get_args(_bounds(each)[0]) if isinstance(word, str)]
    return nearest(value, words) if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    try:
        text = str(value).lower() if type(value) is bool else repr(value)
    except ValueError:  # Python does not write out an int of more than 4,300 digits
        text = "a number of very many digits"
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
